/* Numbers of traces, read with messages that point at them. */
#ifndef TRACES_FIELDS_H
#define TRACES_FIELDS_H
#include "sim/base/lines.h"
#include "sim/base/units.h"

/* Splits at commas into exactly `count` fields. */
int fields_split(const Line *line, Field *ret_fields, int count, Diag *diag);
/* A token count: a whole number from 1 to TRACE_TOKENS_MAX. `name` is the column or key. */
int field_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens, Diag *diag);
/* A plain decimal (digits, and a point with digits) as an exact count of 10^-places units. False
 * if it is something else, has more than `places` decimals, or does not fit. */
bool field_decimal(Field field, int places, int64_t *ret_units);
#endif
