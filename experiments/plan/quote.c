/* See quote.h. */
#include "experiments/plan/quote.h"
#include "base/text.h"
#include <string.h>

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";

static bool is_plain_word(const char *text) {
  return *text && text[strspn(text, PLAIN)] == '\0';
}

const char *quote_shell(const char *text, Arena *arena) {
  if (is_plain_word(text)) return text;
  const char *quoted = "'";
  for (const char *rest = text_shown(text, arena); *rest;) {
    const size_t length = strcspn(rest, "'");
    quoted =
        arena_printf(arena, "%s%.*s%s", quoted, (int)length, rest, rest[length] ? "'\\''" : "");
    rest += length + (rest[length] == '\'');
  }
  return arena_printf(arena, "%s'", quoted);
}

const char *quote_yaml_text(const char *text, Arena *arena) {
  const char *quoted = "\"";
  for (const char *rest = text_shown(text, arena); *rest;) {
    const size_t length = strcspn(rest, "\"\\");
    quoted = arena_printf(arena, "%s%.*s", quoted, (int)length, rest);
    rest += length;
    if (*rest) quoted = arena_printf(arena, "%s\\%c", quoted, *rest++);
  }
  return arena_printf(arena, "%s\"", quoted);
}

/* Words that YAML 1.1 reads as something else than text. */
static bool is_word_of_yaml(const char *text) {
  static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off",
                                      "Null", "True", "False", "Yes", "No", "On", "Off",
                                      "NULL", "TRUE", "FALSE", "YES", "NO", "ON", "OFF",
                                      "y",    "n",    "Y",     "N"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(text, words[i]) == 0) return true;
  return false;
}

const char *quote_yaml(const char *text, Arena *arena) {
  const bool plain = is_plain_word(text) && strchr(LETTERS, *text) && !is_word_of_yaml(text);
  return plain ? text : quote_yaml_text(text, arena);
}
