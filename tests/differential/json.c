/* See json.h. */
#include "tests/differential/json.h"
#include <stdbool.h>
#include <string.h>

static int expected(const Json *self, const char *what) {
  const bool inside = self->next < self->end;
  return diag_error(self->diag, line_place(self->line, (Field){self->next, inside}),
                    "expected %s%s", what, inside ? "" : " before the end of the line");
}

/* The next character that is no space; 0 at the end. */
static char peek(Json *self) {
  while (self->next < self->end && (*self->next == ' ' || *self->next == '\t'))
    self->next++;
  return self->next < self->end ? *self->next : 0;
}

static int string(Json *self, Field *ret_inside) {
  if (peek(self) != '"') return expected(self, "a string");
  const char *start = ++self->next;
  while (self->next < self->end && *self->next != '"')
    self->next += *self->next == '\\' && self->next + 1 < self->end ? 2 : 1;
  if (self->next == self->end) return expected(self, "'\"'");
  *ret_inside = (Field){start, (int)(self->next++ - start)};
  return 0;
}

/* Steps over what opens a list or object, or over a comma; or over what closes it. */
static int step_in(Json *self, char open, char close) {
  const char c = peek(self);
  if (c == open || c == ',') {
    self->next++;
    if (peek(self) != close) return 1;
  }
  if (peek(self) != close) return expected(self, open == '{' ? "an object" : "a list");
  self->next++;
  return 0;
}

int json_key(Json *self, Field *ret_key) {
  const int rc = step_in(self, '{', '}');
  if (rc <= 0) return rc;
  if (string(self, ret_key) < 0) return -1;
  if (peek(self) != ':') return expected(self, "':'");
  self->next++;
  return 1;
}

int json_item(Json *self) {
  return step_in(self, '[', ']');
}

/* Brackets are counted, those in strings left out. */
static int nested(Json *self) {
  int depth = 0;
  do {
    const char c = peek(self);
    Field ignored;
    if (c == 0) return expected(self, "']' or '}'");
    if (c == '"') {
      if (string(self, &ignored) < 0) return -1;
      continue;
    }
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    self->next++;
  } while (depth > 0);
  return 0;
}

int json_value(Json *self, Field *ret_value) {
  const char c = peek(self);
  if (c == '"') return string(self, ret_value);
  *ret_value = (Field){self->next, 0};
  if (c == '[' || c == '{') {
    if (nested(self) < 0) return -1;
  } else {
    while (self->next < self->end && !strchr(",]} \t", *self->next))
      self->next++;
  }
  ret_value->length = (int)(self->next - ret_value->text);
  return ret_value->length > 0 ? 0 : expected(self, "a value");
}

int json_int(Json *self, int64_t *ret_value) {
  Field text;
  if (json_value(self, &text) < 0) return -1;
  const bool negative = text.text[0] == '-';
  int64_t value = 0;
  bool fits = text.length > negative;
  for (int i = negative; i < text.length && fits; i++) {
    const char c = text.text[i];
    fits = c >= '0' && c <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
           !__builtin_add_overflow(value, c - '0', &value);
  }
  if (!fits) return diag_error(self->diag, line_place(self->line, text), "expected a whole number");
  *ret_value = negative ? -value : value;
  return 0;
}
