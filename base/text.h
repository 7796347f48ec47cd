/* Text from outside, which may hold anything, on its way to a terminal, a table or a file.
 *
 * Plain text is UTF-8 (RFC 3629) without control characters: those below a space, DEL, and U+0080
 * to U+009F, which some terminals obey as they do escapes. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The character that text[0..length), not empty, begins with: its bytes, and its code in *ret_code.
 * 0 bytes when it is no UTF-8. */
int text_decode(const char *text, size_t length, uint32_t *ret_code);
/* Whether all of it is plain. */
bool text_is_plain(const char *text);
/* Writes text[0..length) with `mark` for each control character and each byte that is no UTF-8. */
void text_put(FILE *out, const char *text, size_t length, char mark);
/* `text` itself when it is plain, else a copy with '?' for what is not. */
const char *text_shown(const char *text, Arena *arena);
/* Characters that text_put writes of it. */
int text_width(const char *text);
/* Whether it is one of `names`, NULL-terminated. */
bool text_is_one(const char *text, const char *const *names);
/* Whether it is longer than `end` and ends with it. */
bool text_ends_with(const char *text, const char *end);
/* Bytes of the first `count` characters of UTF-8 text, or all of it if it has fewer. */
int text_span(const char *text, int length, int count);
/* The greatest length, at most `length`, at which text[0..length) can be cut between characters. */
size_t text_cut(const char *text, size_t length);
/* Text in lines of at most 100 columns, where words are not longer, each indented. */
void text_print_wrapped(const char *text, int indent, FILE *out);
#endif
