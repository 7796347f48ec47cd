/* Pinned: the printed form to the character, near-miss hints, the limit on entries, exit codes, and
 * that text is copied. Not pinned: wide characters in a source line, which take two columns. */
#include "base/diag.h"
#include <criterion/criterion.h>
#include <string.h>

static const char *print_to(char *text, size_t size, const Diag *diag) {
  FILE *out = fmemopen(text, size, "w");
  cr_assert_not_null(out);
  diag_print(diag, out);
  fclose(out);
  return text;
}

static Place place(int line, int column, int width, const char *source) {
  return (Place){.path = "a.yaml",
                 .line = line,
                 .column = column,
                 .width = width,
                 .source = source,
                 .source_length = source ? (int)strlen(source) : 0};
}

Test(diag, an_error_shows_place_source_underline_and_hint) {
  static const char *const ROUTERS[] = {"random", "jsq", "least_kv", NULL};
  char text[1024];
  Diag diag;
  diag_init(&diag);
  Place at = place(12, 9, 4, "router: jsqq");
  at.path = "experiments/examples/a.yaml";
  cr_assert_eq(diag_error(&diag, at, "unknown router '%s'", "jsqq"), -1);
  diag_hint_near(&diag, "jsqq", ROUTERS);
  cr_assert_str_eq(print_to(text, sizeof text, &diag),
                   "experiments/examples/a.yaml:12:9: error: unknown router 'jsqq'\n"
                   "  12 |   router: jsqq\n"
                   "     |           ^~~~\n"
                   "  hint: did you mean 'jsq'?\n");
  diag_done(&diag);
}

Test(diag, less_is_printed_of_a_place_that_knows_less) {
  static const struct {
    Place at;
    const char *printed;
  } CASES[] = {
      {{0}, "error: bad\n"},
      {{.path = "a.csv"}, "a.csv: error: bad\n"},
      {{.path = "a.csv", .line = 7}, "a.csv:7: error: bad\n"},
      {{.path = "a.csv", .line = 7, .source = "1,2", .source_length = 3},
       "a.csv:7: error: bad\n   7 |   1,2\n"},
      {{.path = "a.csv", .line = 7, .column = 3}, "a.csv:7:3: error: bad\n"},
      {{.path = "a.csv",
        .line = 123456,
        .column = 3,
        .width = 1,
        .source = "1,2\n3",
        .source_length = 3},
       "a.csv:123456:3: error: bad\n123456 |   1,2\n       |     ^\n"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    char text[256];
    Diag diag;
    diag_init(&diag);
    diag_error(&diag, CASES[i].at, "bad");
    cr_assert_str_eq(print_to(text, sizeof text, &diag), CASES[i].printed);
    diag_done(&diag);
  }
}

Test(diag, the_caret_stands_under_its_column_after_tabs_and_multibyte_characters) {
  char text[256];
  Diag diag;
  diag_init(&diag);
  diag_error(&diag, place(1, 7, 2, "\t\xc3\xa9\xe2\x82\xac: ab"), "bad");
  cr_assert_str_eq(print_to(text, sizeof text, &diag), "a.yaml:1:7: error: bad\n"
                                                       "   1 |    \xc3\xa9\xe2\x82\xac: ab\n"
                                                       "     |         ^~\n");
  diag_done(&diag);
}

Test(diag, control_characters_of_the_input_are_not_printed) {
  char text[256];
  Diag diag;
  diag_init(&diag);
  Place at = place(1, 1, 1, "\x1b[2Jx\xff\xc2\x9by");
  at.path = "a\n\x1b.yaml";
  diag_error(&diag, at, "bad '%s'", "a\tb\x1b\xff\xc2\x9b");
  diag_hint(&diag, "not '%s'", "\x7f");
  cr_assert_str_eq(print_to(text, sizeof text, &diag), "a??.yaml:1:1: error: bad 'a?b??"
                                                       "?'\n   1 |    [2Jx  y\n     |   ^\n"
                                                       "  hint: not '?'\n");
  diag_done(&diag);
}

Test(diag, a_message_quotes_one_line_of_the_input_and_not_much_of_it) {
  char text[1024], large[100001];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  Diag diag;
  diag_init(&diag);
  diag_error(&diag, place(0, 0, 0, NULL), "bad '%s', not 'c'", "a\nb\r\nsecret");
  cr_expect_str_eq(print_to(text, sizeof text, &diag), "a.yaml: error: bad 'a…'\n");
  diag_error(&diag, place(0, 0, 0, NULL), "bad '%s' here", large);
  const char *message = diag.entries[1].message;
  cr_expect_leq(strlen(message), 410);
  cr_expect(strncmp(message, "bad 'xxx", 8) == 0);
  cr_expect_str_eq(message + strlen(message) - strlen("xxx' here"), "xxx' here");
  diag_error(&diag, place(0, 0, 0, NULL), "%.400s", large);
  cr_expect_eq(strlen(diag.entries[2].message), 400, "whole");
  diag_error(&diag, place(0, 0, 0, NULL), "%.401s", large);
  cr_expect_not_null(strstr(diag.entries[3].message, "x…x"));
  memset(large, '\xc3', sizeof large - 1);
  for (size_t i = 1; i < sizeof large; i += 2)
    large[i] = '\xa9'; // characters of two bytes, cut between them
  large[sizeof large - 1] = '\0';
  diag_error(&diag, place(0, 0, 0, NULL), "%s", large);
  diag_error(&diag, place(0, 0, 0, NULL), "x%s", large);
  for (int i = 4; i < 6; i++)
    cr_expect_null(strchr(diag.entries[i].message, '?'));
  diag_done(&diag);
}

Test(diag, a_long_line_is_cut_around_the_column) {
  char source[4001], text[1024];
  for (int column = 1; column <= 4000; column += 7) {
    memset(source, '.', 4000);
    source[4000] = '\0';
    source[column - 1] = 'X';
    Diag diag;
    diag_init(&diag);
    diag_error(&diag, place(3, column, 4000, source), "bad");
    print_to(text, sizeof text, &diag);
    const char *line = strchr(text, '\n') + 1, *under = strchr(line, '\n') + 1;
    cr_assert_leq(under - line, 110);
    cr_assert_leq(strlen(under), 110);
    cr_assert_eq(strchr(line, 'X') - line, strchr(under, '^') - under, "column %d", column);
    diag_done(&diag);
  }
}

Test(diag, hints_offer_the_nearest_name_or_list_a_few) {
  static const char *const FEW[] = {"prefill", "decode", "mixed", NULL};
  static const char *const ONE[] = {"count", NULL};
  static const char *const NONE[] = {NULL};
  static const char *const MANY[] = {"aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg",
                                     "hhhh", "iiii", "jjjj", "kkkk", "llll", "mmmm", NULL};
  static const char *const MACHINES[] = {"a10-x4",    "a100",       "dgx-h100-capped", "dgx-h100",
                                         "dgx-v100",  "gb200-nvl4", "h100-x8",         "l4-x8",
                                         "mi300x-x8", NULL};
  static const char *const SIX[] = {"bb", "cc", "dd", "ee", "ff", "gg", NULL};
  static const char LONG[] = "a_word_that_is_longer_than_any_name_that_the_tables_will_ever_have";
  static const struct {
    const char *word;
    const char *const *names;
    const char *hint;
  } CASES[] = {
      {"prefil", FEW, "did you mean 'prefill'?"},
      {"deocde", FEW, "did you mean 'decode'?"},
      {"MIXED", FEW, "did you mean 'mixed'?"},
      {"mixde", FEW, "did you mean 'mixed'?"},
      {"decoding", FEW, "choose from 'prefill', 'decode', 'mixed'"},
      {"x", FEW, "choose from 'prefill', 'decode', 'mixed'"},
      {"", FEW, "choose from 'prefill', 'decode', 'mixed'"},
      {LONG, FEW, "choose from 'prefill', 'decode', 'mixed'"},
      {"zzz", ONE, "the only choice is 'count'"},
      {"aaab", MANY, "did you mean 'aaaa'?"},
      {"zz", SIX, "choose from 'bb', 'cc', 'dd', 'ee', 'ff' and 1 more"},
      {"zzzz", MANY, "choose from 'aaaa', 'bbbb', 'cccc', 'dddd', 'eeee' and 8 more"},
      {"h100", MACHINES,
       "choose from 'h100-x8', 'dgx-h100', 'dgx-h100-capped', 'a100', 'a10-x4' "
       "and 4 more"},
      {"capped", MACHINES, "did you mean 'dgx-h100-capped'?"},
      {"zzzz", NONE, NULL},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    Diag diag;
    diag_init(&diag);
    diag_error(&diag, (Place){0}, "bad");
    diag_hint_near(&diag, CASES[i].word, CASES[i].names);
    const char *hint = diag.entries[0].hint;
    if (CASES[i].hint) {
      cr_assert_not_null(hint, "'%s' gets no hint", CASES[i].word);
      cr_assert_str_eq(hint, CASES[i].hint);
    } else {
      cr_assert_null(hint, "'%s' gets the hint '%s'", CASES[i].word, hint);
    }
    diag_done(&diag);
  }
}

Test(diag, entries_past_the_limit_are_counted_and_take_no_hint) {
  char text[4096];
  Diag diag;
  diag_init(&diag);
  diag_hint(&diag, "no entry to attach this to");
  for (int i = 0; i < DIAG_MAX; i++)
    diag_error(&diag, (Place){0}, "problem %d", i);
  diag_hint(&diag, "the first");
  diag_hint(&diag, "the last wins");
  for (int i = 0; i < 3; i++)
    diag_error(&diag, place_of_file("a"), "dropped");
  diag_hint(&diag, "for a dropped one");
  cr_assert_eq(diag.n_entries, DIAG_MAX);
  cr_assert_eq(diag.n_dropped, 3);
  print_to(text, sizeof text, &diag);
  cr_assert_not_null(strstr(text, "error: problem 19\n  hint: the last wins\n3 more not shown\n"));
  diag_done(&diag);
}

Test(diag, input_errors_outrank_environment_errors_in_the_exit_code) {
  Diag diag;
  diag_init(&diag);
  cr_assert_eq(diag_exit_code(&diag), 0);
  cr_assert_eq(diag_environment(&diag, place_of_file("/x"), "cannot open"), -1);
  cr_assert_eq(diag_exit_code(&diag), 4);
  diag_error(&diag, place_of_file("/x"), "bad");
  cr_assert_eq(diag_exit_code(&diag), 3);
  diag_done(&diag);
}

Test(diag, an_interruption_outranks_all_and_is_told_by_the_command) {
  Diag diag, other;
  char text[256] = "";
  diag_init(&diag);
  diag_init(&other);
  diag_error(&diag, place_of_file("/x"), "bad");
  cr_assert_eq(diag_interrupted(&other), -1);
  for (int i = 0; i < 2 * DIAG_MAX; i++)
    diag_append(&diag, &other);
  cr_assert_eq(diag_exit_code(&diag), 130);
  print_to(text, sizeof text, &diag);
  cr_assert_str_eq(text, "/x: error: bad\n");
  diag_done(&other);
  diag_done(&diag);
}

Test(diag, text_is_copied) {
  char path[] = "a.yaml", source[] = "key: 1", word[] = "key", text[256];
  Diag diag;
  diag_init(&diag);
  Place at = place(1, 1, 3, source);
  at.path = path;
  diag_error(&diag, at, "unknown key '%s'", word);
  diag_hint(&diag, "not '%s'", word);
  memset(path, '#', sizeof path - 1);
  memset(source, '#', sizeof source - 1);
  memset(word, '#', sizeof word - 1);
  print_to(text, sizeof text, &diag);
  cr_assert_null(strchr(text, '#'), "%s", text);
  diag_done(&diag);
}

Test(diag, entries_of_another_are_copied) {
  char text[256];
  Diag diag, other;
  diag_init(&diag);
  diag_init(&other);
  diag_error(&diag, place_of_file("a"), "one");
  diag_environment(&other, place_of_file("b"), "two");
  diag_error(&other, place(1, 1, 3, "key: 1"), "three");
  diag_hint(&other, "four");
  diag_append(&diag, &other);
  diag_done(&other);
  print_to(text, sizeof text, &diag);
  cr_assert_eq(diag.n_entries, 3);
  cr_assert_eq(diag.entries[1].kind, DIAG_ENVIRONMENT);
  cr_assert(strstr(text, "b: error: two\n") && strstr(text, "three\n") && strstr(text, "key: 1") &&
                strstr(text, "hint: four\n"),
            "%s", text);
  diag_done(&diag);
}
