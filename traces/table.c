/* Tables with any separator. Fields are as RFC 4180 has them, but within one line: in quotes, they
 * may hold the separator, and quotes twice. */
#include "traces/table.h"
#include <string.h>

/* The quote that closes the one at `start`; NULL when none does. */
static const char *closing_quote(const char *start, const char *end) {
  const char *at = start + 1;
  while (at < end && (at = memchr(at, '"', (size_t)(end - at)))) {
    if (at + 1 == end || at[1] != '"') return at;
    at += 2;
  }
  return NULL;
}

Field table_take(const Line *line, const char **at, char separator) {
  const char *end = line->text + line->length, *start = *at;
  while (start < end && *start == ' ')
    start++;
  const char *close = start < end && *start == '"' ? closing_quote(start, end) : NULL;
  const char *from = close ? close + 1 : start;
  const char *stop = memchr(from, separator, (size_t)(end - from));
  if (!stop) stop = end;
  *at = stop < end ? stop + 1 : NULL;
  const Field rest = field_trim((Field){from, (int)(stop - from)});
  if (close && rest.length == 0) return (Field){start + 1, (int)(close - start - 1)};
  return field_trim((Field){start, (int)(stop - start)});
}

int table_count(const Line *line, char separator) {
  int n = 0;
  for (const char *at = line->text; at; n++)
    table_take(line, &at, separator);
  return n;
}

char table_separator(const Line *header) {
  static const char separators[] = "\t;,";
  char best = ',';
  int most = 1;
  for (int i = 0; separators[i]; i++) {
    const int n = table_count(header, separators[i]);
    if (n <= most) continue;
    most = n;
    best = separators[i];
  }
  return best;
}

int table_column(const Line *header, char separator, const char *name) {
  int i = 0;
  for (const char *at = header->text; at; i++)
    if (field_is(table_take(header, &at, separator), name)) return i;
  return -1;
}

Field table_field(const Line *line, char separator, int column) {
  int i = 0;
  for (const char *at = line->text; at; i++) {
    const Field field = table_take(line, &at, separator);
    if (i == column) return field;
  }
  return (Field){0};
}
