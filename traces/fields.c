/* Decimals are read by hand: exact, and the same in every locale. */
#include "traces/fields.h"
#include "traces/trace.h"

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

Field field_whole(Field field) {
  int n = field.length;
  while (n > 2 && field.text[n - 1] == '0')
    n--;
  if (n > 1 && n < field.length && field.text[n - 1] == '.') field.length = n - 1;
  return field;
}

int field_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens, Diag *diag) {
  int64_t tokens = 0;
  if (!field_decimal(field_whole(field), 0, &tokens) || tokens < 1 || tokens > TRACE_TOKENS_MAX)
    return field_error(line, field, name, "a whole number from 1 to 10000000", diag);
  *ret_tokens = (int32_t)tokens;
  return 0;
}

bool field_is_none(Field field) {
  int64_t tokens = 1;
  return field.length == 0 || (field_decimal(field_whole(field), 0, &tokens) && tokens == 0);
}

int field_row_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens,
                     Diag *diag) {
  if (field_tokens(line, field, name, ret_tokens, diag) == 0) return 0;
  if (field_is_none(field))
    diag_hint(diag, "a failed request has none: remove its row from the file");
  return -1;
}

bool field_seconds(Field field, TraceTime *ret_time) {
  double seconds = 0;
  if (!field_number(field, 9e6, &seconds)) return false;
  Tick ticks = tick_from_seconds(seconds);
  *ret_time = (TraceTime){ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND};
  return true;
}
