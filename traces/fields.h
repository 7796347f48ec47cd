/* Pieces of a line, and reading them with messages that point at the piece. */
#ifndef TRACES_FIELDS_H
#define TRACES_FIELDS_H
#include "sim/base/units.h"
#include "traces/line_reader.h"

typedef struct Field {
  const char *text; // inside the line it came from
  int length;
} Field;

bool line_is(const Line *line, const char *text);
bool field_is(Field field, const char *text);
/* The place of a field of this line; of the whole line when `field.text` is NULL. */
Place line_place(const Line *line, Field field);

/* Splits at commas into exactly `count` fields; `header` names them in the message. */
int line_split(const Line *line, const char *header, Field *ret_fields, int count, Diag *diag);
/* A token count: a whole number from 1 to TRACE_TOKENS_MAX. `name` is the column or key. */
int field_tokens(const Line *line, Field field, const char *name, int32_t *ret_tokens, Diag *diag);
/* A plain decimal (digits, and a point with digits) as an exact count of 10^-places units. False
 * if it is something else, has more than `places` decimals, or does not fit. */
bool field_decimal(Field field, int places, int64_t *ret_units);
/* "field is not X" at the field, with its text. Returns -1. */
int field_error(const Line *line, Field field, const char *name, const char *expected, Diag *diag);
#endif
