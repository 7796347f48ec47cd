/* See json.h. */
#include "sim/base/json.h"
#include <string.h>

JsonScanner json_scanner(const Line *line, Field field, Diag *diag) {
  if (!field.text) field = (Field){line->text, line->length};
  return (JsonScanner){
      .line = line, .next = field.text, .end = field.text + field.length, .diag = diag};
}

static void skip_space(JsonScanner *self) {
  while (self->next < self->end && (*self->next == ' ' || *self->next == '\t'))
    self->next++;
}

static int expected(const JsonScanner *self, const char *what) {
  bool inside = self->next < self->end;
  Field here = {self->next, inside ? 1 : 0};
  if (!self->diag) return -1;
  return diag_error(self->diag, line_place(self->line, here), "expected %s%s", what,
                    inside ? "" : " before the end of the line");
}

/* Steps over white space and `c`. */
static bool accept(JsonScanner *self, char c) {
  skip_space(self);
  if (self->next == self->end || *self->next != c) return false;
  self->next++;
  return true;
}

/* The inside of a string. */
static int scan_string(JsonScanner *self, Field *ret_field) {
  if (!accept(self, '"')) return expected(self, "a string");
  const char *start = self->next;
  while (self->next < self->end && *self->next != '"')
    self->next += *self->next == '\\' && self->next + 1 < self->end ? 2 : 1;
  if (self->next == self->end) return expected(self, "'\"'");
  *ret_field = (Field){start, (int)(self->next - start)};
  self->next++;
  return 0;
}

/* Steps over a list or map by counting brackets outside strings. */
static int skip_nested(JsonScanner *self) {
  int depth = 0;
  do {
    char c = *self->next;
    Field ignored;
    if (c == '"') {
      if (scan_string(self, &ignored)) return -1;
      continue;
    }
    if (c == '[' || c == '{') depth++;
    if (c == ']' || c == '}') depth--;
    self->next++;
  } while (depth > 0 && self->next < self->end);
  return depth == 0 ? 0 : expected(self, "']' or '}'");
}

static int scan_value(JsonScanner *self, Field *ret_field) {
  skip_space(self);
  *ret_field = (Field){self->next, 0};
  if (self->next == self->end) return expected(self, "a value");
  if (*self->next == '"') {
    Field text;
    if (scan_string(self, &text)) return -1;
  } else if (*self->next == '[' || *self->next == '{') {
    if (skip_nested(self)) return -1;
  } else {
    while (self->next < self->end && !strchr(",}] \t", *self->next))
      self->next++;
    if (self->next == ret_field->text) return expected(self, "a value");
  }
  ret_field->length = (int)(self->next - ret_field->text);
  return 0;
}

/* Steps into what `open` begins, or over the comma: 1 before an element, 0 past the end. */
static int step(JsonScanner *self, const char *open, char close, const char *comma_or_close) {
  if (self->inside) {
    if (accept(self, close)) return 0;
    return accept(self, ',') ? 1 : expected(self, comma_or_close);
  }
  if (!accept(self, open[1])) return expected(self, open);
  self->inside = true;
  return !accept(self, close);
}

/* The next key of an object and its value, as json_element. */
static int next_member(JsonScanner *self, Field *ret_key, Field *ret_value) {
  int status = step(self, "'{'", '}', "',' or '}'");
  if (status <= 0) return status;
  if (scan_string(self, ret_key)) return -1;
  if (!accept(self, ':')) return expected(self, "':'");
  return scan_value(self, ret_value) ? -1 : 1;
}

int json_element(JsonScanner *self, Field *ret_value) {
  int status = step(self, "'['", ']', "',' or ']'");
  if (status <= 0) return status;
  return scan_value(self, ret_value) ? -1 : 1;
}

int json_object(JsonScanner *self, const char *const *keys, int n_keys, Field *ret_values) {
  Field key, value;
  int status = 1;
  while ((status = next_member(self, &key, &value)) > 0) {
    for (int i = 0; i < n_keys; i++) {
      if (!field_is(key, keys[i])) continue;
      if (ret_values[i].text)
        return diag_error(self->diag, line_place(self->line, key), "duplicate key '%s'", keys[i]);
      ret_values[i] = value;
    }
  }
  if (status < 0) return -1;
  skip_space(self);
  return self->next == self->end ? 0 : expected(self, "nothing after '}'");
}

bool json_line_has(const Line *line, const char *wanted) {
  JsonScanner scanner = json_scanner(line, (Field){0}, NULL);
  Field key, value;
  if (!wanted) return line->length > 0 && line->text[0] == '{';
  while (next_member(&scanner, &key, &value) > 0)
    if (field_is(key, wanted)) return true;
  return false;
}
