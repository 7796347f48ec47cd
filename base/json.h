/* JSON of one line, scanned in place: nothing is copied, and values that are not asked for are
 * stepped over by counting brackets, however deep they are. A value is the field of the line that
 * it stands in; strings keep their quotes and escapes. */
#ifndef BASE_JSON_H
#define BASE_JSON_H
#include "base/lines.h"

typedef struct JsonScanner {
  const Line *line;
  const char *next, *end;
  bool inside; // of the list or object, past its opening bracket
  Diag *diag;  // NULL: what is wrong is not said
} JsonScanner;

/* Scans `field` of the line; all of it when `field.text` is NULL. */
JsonScanner json_scanner(const Line *line, Field field, Diag *diag);
/* An object, and nothing after it. Gives the values of `keys`; those that are absent are left as
 * they were. A key that is asked for and comes twice is an error. `diag` must be there. */
int json_object(JsonScanner *self, const char *const *keys, int n_keys, Field *ret_values);
/* The next element of a list: 1 and its value, 0 at the end, -1 with an entry. */
int json_element(JsonScanner *self, Field *ret_value);
/* The next member of an object, its key without quotes, as json_element. */
int json_member(JsonScanner *self, Field *ret_key, Field *ret_value);
/* Whether nothing stands after the object or list; -1 with an entry. */
int json_end(JsonScanner *self);
/* Of a string what is between its quotes, escapes and all; else the value. */
Field json_unquoted(Field value);
/* The text of a string value, without quotes and escapes, with a NUL; false when it is no string,
 * has an escape that JSON has not, or takes more than `room` bytes. */
bool json_text(Field value, char *ret_text, size_t room);
/* Whether the line is an object that has this key, as far as it is well-formed; any if NULL. */
bool json_line_has(const Line *line, const char *wanted);
#endif
