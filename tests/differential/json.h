/* Reads JSON that stands on one line, from left to right.
 *
 * The reader stands before a value. Objects and lists are gone through with a loop of json_key
 * or json_item, whose body takes the value. What is wrong is an entry in `diag` at its place and a
 * negative answer; after it nothing more may be read. */
#ifndef TESTS_DIFFERENTIAL_JSON_H
#define TESTS_DIFFERENTIAL_JSON_H
#include "base/lines.h"
#include <stdint.h>

typedef struct Json {
  const Line *line;
  const char *next, *end;
  Diag *diag;
} Json;

static inline Json json_open(const Line *line, Diag *diag) {
  return (Json){line, line->text, line->text + line->length, diag};
}
/* Into an object, or on to its next member: 1 and its key without quotes, 0 after the last. */
int json_key(Json *self, Field *ret_key);
/* Into a list, or on to its next item: 1 before it, 0 after the last. */
int json_item(Json *self);
/* A value: what stands between the quotes of a string, all of anything else. */
int json_value(Json *self, Field *ret_value);
/* A whole number, perhaps in quotes. */
int json_int(Json *self, int64_t *ret_value);
#endif
