/* Decoding as Unicode's table 3-7 has it: no overlong forms, no surrogates. */
#include "base/text.h"
#include <string.h>

enum { CODE_MAX = 0x10ffff };

int text_decode(const char *text, size_t length, uint32_t *ret_code) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; // by bytes
  const unsigned char lead = (unsigned char)text[0];
  const int size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (size == 0 || lead > 0xf4 || (size_t)size > length) return 0;
  uint32_t code = size == 1 ? lead : lead & (0x7fu >> size);
  for (int i = 1; i < size; i++) {
    if (((unsigned char)text[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | ((unsigned char)text[i] & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < least[size] || code > CODE_MAX || surrogate) return 0;
  *ret_code = code;
  return size;
}

/* Bytes of the plain character that the text begins with; 0 when it is none, with the bytes to pass
 * over in *ret_skip. */
static int plain_bytes(const char *text, size_t length, int *ret_skip) {
  uint32_t code = 0;
  const int size = text_decode(text, length, &code);
  const bool control = code < ' ' || (code >= 0x7f && code < 0xa0);
  *ret_skip = size > 0 ? size : 1;
  return control ? 0 : size;
}

bool text_is_plain(const char *text) {
  int skip = 0;
  for (size_t length = strlen(text); length > 0; text += skip, length -= (size_t)skip)
    if (plain_bytes(text, length, &skip) == 0) return false;
  return true;
}

void text_put(FILE *out, const char *text, size_t length, char mark) {
  int skip = 0;
  for (; length > 0; text += skip, length -= (size_t)skip) {
    const int size = plain_bytes(text, length, &skip);
    if (size == 0)
      putc(mark, out);
    else
      fwrite(text, 1, (size_t)size, out);
  }
}

const char *text_shown(const char *text, Arena *arena) {
  if (text_is_plain(text)) return text;
  size_t length = strlen(text);
  char *shown = arena_copy(arena, text, length), *to = shown;
  int skip = 0;
  for (; length > 0; text += skip, length -= (size_t)skip) {
    const int size = plain_bytes(text, length, &skip);
    memcpy(to, size == 0 ? "?" : text, size == 0 ? 1 : (size_t)size);
    to += size == 0 ? 1 : size;
  }
  *to = '\0';
  return shown;
}

int text_width(const char *text) {
  int width = 0, skip = 0;
  for (size_t length = strlen(text); length > 0; text += skip, length -= (size_t)skip, width++)
    plain_bytes(text, length, &skip);
  return width;
}

bool text_is_one(const char *text, const char *const *names) {
  while (*names && strcmp(text, *names) != 0)
    names++;
  return *names;
}

bool text_ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), n = strlen(end);
  return length > n && strcmp(text + length - n, end) == 0;
}

int text_span(const char *text, int length, int count) {
  int at = 0;
  for (; at < length; at++) {
    bool starts_character = ((unsigned char)text[at] & 0xc0) != 0x80;
    if (starts_character && count-- == 0) break;
  }
  return at;
}

size_t text_cut(const char *text, size_t length) {
  while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
    length--;
  return length;
}

void text_print_wrapped(const char *text, int indent, FILE *out) {
  int column = fprintf(out, "%*s", indent, "");
  for (int length; *text; text += length) {
    text += strspn(text, " ");
    length = (int)strcspn(text, " ");
    if (column > indent && column + 1 + length > 100)
      column = fprintf(out, "\n%*s", indent, "") - 1;
    column += fprintf(out, column > indent ? " %.*s" : "%.*s", length, text);
  }
  putc('\n', out);
}
