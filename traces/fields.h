/* Numbers of traces, read with messages that point at them. */
#ifndef TRACES_FIELDS_H
#define TRACES_FIELDS_H
#include "base/lines.h"
#include "base/units.h"

/* A point in time of a file's own clock. Seconds and the rest are apart because picoseconds since
 * 1970 do not fit in a Tick. */
typedef struct TraceTime {
  int64_t seconds;
  Tick fraction; // 0 … TICKS_PER_SECOND - 1
} TraceTime;

/* A token count: a whole number from 1 to TRACE_TOKENS_MAX. `name` is the column or key. */
int field_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens, Diag *diag);
/* Whether it is empty, or 0. */
bool field_is_none(Field field);
/* As field_tokens, of a request, with a hint about those that have none. */
int field_row_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens,
                     Diag *diag);
/* A plain decimal (digits, and a point with digits) as an exact count of 10^-places units. False
 * if it is something else, has more than `places` decimals, or does not fit. */
bool field_decimal(Field field, int places, int64_t *ret_units);
/* Without the point and zeroes of a whole number that was written as a double: 374.0. */
Field field_whole(Field field);
/* Seconds, 0 to 9e6, in decimal or scientific notation: the double nearest to the text. */
bool field_seconds(Field field, TraceTime *ret_time);
#define FIELD_SECONDS_IS "a number of seconds from 0 to 9e6"
#endif
