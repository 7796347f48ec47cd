/* Pinned: what UTF-8 is, what plain is, and what is shown of all else. */
#include "base/text.h"
#include <criterion/criterion.h>
#include <string.h>

Test(text, utf_8_is_decoded_and_nothing_else_is) {
  static const struct {
    const char *text;
    int bytes;
    uint32_t code;
  } cases[] = {{"a", 1, 'a'},
               {"\x7f", 1, 0x7f},
               {"\xc2\x80", 2, 0x80},
               {"\xdf\xbf", 2, 0x7ff},
               {"\xe0\xa0\x80", 3, 0x800},
               {"\xef\xbf\xbd", 3, 0xfffd},
               {"\xf0\x90\x80\x80", 4, 0x10000},
               {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
               {"\x80", 0, 0},
               {"\xc1\xbf", 0, 0},         // overlong
               {"\xe0\x9f\xbf", 0, 0},     // overlong
               {"\xf0\x8f\xbf\xbf", 0, 0}, // overlong
               {"\xed\xa0\x80", 0, 0},     // a surrogate
               {"\xf4\x90\x80\x80", 0, 0}, // beyond Unicode
               {"\xf5\x80\x80\x80", 0, 0},
               {"\xe2\x82", 0, 0}, // cut short
               {"\xe2x\xac", 0, 0},
               {"\xff", 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint32_t code = 0;
    cr_expect_eq(text_decode(cases[i].text, strlen(cases[i].text), &code), cases[i].bytes, "%zu",
                 i);
    cr_expect_eq(code, cases[i].code, "%zu", i);
  }
}

Test(text, what_is_not_plain_is_shown_as_question_marks) {
  static const struct {
    const char *text, *shown;
  } cases[] = {{"", ""},
               {"caf\xc3\xa9 \xe2\x82\xac", "caf\xc3\xa9 \xe2\x82\xac"},
               {"\x1b[2J", "?[2J"},
               {"a\nb\tc\r", "a?b?c?"},
               {"\x7f", "?"},
               {"\xc2\x9b", "?"},
               {"\xe2\x82", "??"},
               {"\xff"
                "a",
                "?a"}};
  Arena arena;
  arena_init(&arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *shown = text_shown(cases[i].text, &arena);
    cr_expect_str_eq(shown, cases[i].shown);
    cr_expect(text_is_plain(shown));
    cr_expect_eq(text_is_plain(cases[i].text), strcmp(cases[i].text, cases[i].shown) == 0);
    int width = 0;
    for (const char *c = shown; *c; c++)
      width += ((unsigned char)*c & 0xc0) != 0x80;
    cr_expect_eq(text_width(cases[i].text), width);
  }
  arena_done(&arena);
}
