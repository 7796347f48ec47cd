/* Fields of comma-separated and JSON lines. Numbers are read by hand: exact, and the same in every
 * locale. */
#include "traces/fields.h"
#include "traces/trace.h"
#include <string.h>

enum { SHOWN_MAX = 60 }; // of a field in a message

bool field_is(Field field, const char *text) {
  return (size_t)field.length == strlen(text) && memcmp(field.text, text, strlen(text)) == 0;
}

bool line_is(const Line *line, const char *text) {
  return field_is((Field){line->text, line->length}, text);
}

Place line_place(const Line *line, Field field) {
  if (!field.text) field = (Field){line->text, line->length};
  return (Place){
      .path = line->path,
      .line = line->number,
      .column = (int)(field.text - line->text) + 1,
      .width = field.length > 0 ? field.length : 1,
      .source = line->text,
      .source_length = line->length,
  };
}

int field_error(const Line *line, Field field, const char *name, const char *expected, Diag *diag) {
  int length = field.length < SHOWN_MAX ? field.length : SHOWN_MAX;
  return diag_error(diag, line_place(line, field), "'%s' must be %s, not '%.*s'", name, expected,
                    length, field.text);
}

int line_split(const Line *line, const char *header, Field *ret_fields, int count, Diag *diag) {
  const char *start = line->text, *end = line->text + line->length;
  int found = 0;
  for (; start <= end; found++) {
    const char *comma = memchr(start, ',', (size_t)(end - start));
    const char *stop = comma ? comma : end;
    if (found < count) ret_fields[found] = (Field){start, (int)(stop - start)};
    start = stop + 1;
  }
  if (found == count) return 0;
  return diag_error(diag, line_place(line, (Field){0}), "expected %d fields (%s), found %d", count,
                    header, found);
}

bool field_decimal(Field field, int places, int64_t *ret_units) {
  int64_t units = 0;
  int i = 0, whole = 0, decimals = -1; // decimals: -1 before the point
  for (; i < field.length; i++) {
    char c = field.text[i];
    if (c == '.' && decimals < 0 && whole > 0) {
      decimals = 0;
      continue;
    }
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(units, 10, &units) || __builtin_add_overflow(units, c - '0', &units))
      return false;
    if (decimals < 0)
      whole++;
    else
      decimals++;
  }
  if (whole == 0 || decimals == 0 || decimals > places) return false;
  for (int have = decimals > 0 ? decimals : 0; have < places; have++)
    if (__builtin_mul_overflow(units, 10, &units)) return false;
  *ret_units = units;
  return true;
}

int field_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens, Diag *diag) {
  int64_t tokens = 0;
  if (!field_decimal(field, 0, &tokens) || tokens < 1 || tokens > TRACE_TOKENS_MAX)
    return field_error(line, field, name, "a whole number from 1 to 10000000", diag);
  *ret_tokens = (int32_t)tokens;
  return 0;
}
