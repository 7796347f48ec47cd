/* See json.h. */
#include "base/json.h"
#include <stdint.h>
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

/* Whether an odd number of backslashes stands before `at`. */
static bool is_escaped(const char *start, const char *at) {
  const char *from = at;
  while (from > start && from[-1] == '\\')
    from--;
  return (at - from) % 2 != 0;
}

/* The inside of a string. */
static int scan_string(JsonScanner *self, Field *ret_field) {
  if (!accept(self, '"')) return expected(self, "a string");
  const char *start = self->next;
  for (;; self->next++) {
    const char *quote = memchr(self->next, '"', (size_t)(self->end - self->next));
    self->next = quote ? quote : self->end;
    if (!quote || !is_escaped(start, quote)) break;
  }
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

int json_member(JsonScanner *self, Field *ret_key, Field *ret_value) {
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
  while ((status = json_member(self, &key, &value)) > 0) {
    for (int i = 0; i < n_keys; i++) {
      if (!field_is(key, keys[i])) continue;
      if (ret_values[i].text)
        return diag_error(self->diag, line_place(self->line, key), "duplicate key '%s'", keys[i]);
      ret_values[i] = value;
    }
  }
  return status < 0 ? -1 : json_end(self);
}

int json_end(JsonScanner *self) {
  skip_space(self);
  return self->next == self->end ? 0 : expected(self, "the end of the line");
}

bool json_line_has(const Line *line, const char *wanted) {
  JsonScanner scanner = json_scanner(line, (Field){0}, NULL);
  Field key, value;
  if (!wanted) return line->length > 0 && line->text[0] == '{';
  while (json_member(&scanner, &key, &value) > 0)
    if (field_is(key, wanted)) return true;
  return false;
}

/* ---- Strings ---- */

Field json_unquoted(Field value) {
  const bool quoted = value.length >= 2 && *value.text == '"';
  return quoted ? (Field){value.text + 1, value.length - 2} : value;
}

/* Four hexadecimal digits; -1 when they are none. */
static int32_t read_hex(const char *text, const char *end) {
  int32_t code = 0;
  if (end - text < 4) return -1;
  for (int i = 0; i < 4; i++) {
    const char *digits = "0123456789abcdef";
    const char c = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + ('a' - 'A') : text[i]);
    const char *digit = c ? strchr(digits, c) : NULL;
    if (!digit) return -1;
    code = code * 16 + (int32_t)(digit - digits);
  }
  return code;
}

/* What stands behind "\u", in one half or two; -1 when it is no character. Moves on. */
static int32_t read_code(const char **at, const char *end) {
  int32_t code = read_hex(*at, end);
  *at += code < 0 ? 0 : 4;
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u') return -1;
  const int32_t low = read_hex(*at + 2, end);
  if (low < 0xdc00 || low > 0xdfff) return -1;
  *at += 6;
  return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

/* UTF-8 of a character; returns its bytes. */
static size_t put_code(char *to, int32_t code) {
  const size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const int32_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = size; i-- > 1; code >>= 6)
    to[i] = (char)(0x80 | (code & 0x3f));
  to[0] = (char)(lead[size] | code);
  return size;
}

bool json_text(Field value, char *ret_text, size_t room) {
  static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
  if (room == 0 || value.length < 2 || value.text[0] != '"') return false;
  const char *at = value.text + 1, *end = value.text + value.length - 1;
  size_t n = 0;
  while (at < end) {
    if (*at != '\\') {
      if (n + 1 >= room) return false;
      ret_text[n++] = *at++;
      continue;
    }
    const char *name = ++at < end && *at ? strchr(names, *at) : NULL;
    const bool is_code = at < end && *at++ == 'u';
    const int32_t code = is_code ? read_code(&at, end) : name ? codes[name - names] : -1;
    char utf8[4];
    const size_t size = code > 0 ? put_code(utf8, code) : room; // NUL would end the text
    if (n + size >= room) return false;
    memcpy(ret_text + n, utf8, size);
    n += size;
  }
  ret_text[n] = '\0';
  return true;
}
