/* Rows of keys say all that the page of keys has of them, and what they take comes back from the
 * text that a database keeps. */
#include "experiments/keys/keys.h"
#include "sim/policies.h"
#include "sim/policy.h"
#include "tests/unit/testing.h"
#include <ctype.h>

TestSuite(keys, .init = setup, .fini = teardown);

/* Whether the text is the key again, whatever its case, with spaces for underscores. */
static bool is_copy(const char *text, const char *key) {
  for (; *key && *text; key++, text++)
    if (tolower((unsigned char)*text) != tolower((unsigned char)*key) &&
        !(*text == ' ' && *key == '_'))
      return false;
  return !*key && !text[strspn(text, ".")];
}

/* What is wrong with a text that should be a noun phrase or a sentence, or several; NULL: nothing.
 * `key` is what it explains. */
static const char *wrong_style(const char *text, const char *key) {
  static const char *const openings[] = {"Of ",    "What ", "Who ", "Which ",
                                         "Whose ", "How ",  "See "};
  if (!text || !*text) return "there is none";
  if (!isupper((unsigned char)*text)) return "it begins without a capital letter";
  if (text[strlen(text) - 1] != '.') return "it ends without a full stop";
  for (size_t i = 0; i < sizeof openings / sizeof *openings; i++)
    if (strncmp(text, openings[i], strlen(openings[i])) == 0) return "it begins as a fragment";
  if (strstr(text, "see below")) return "it points below, where nothing need stand";
  return is_copy(text, key) ? "it is the key again" : NULL;
}

Test(keys, a_text_that_is_no_sentence_is_told_from_one) {
  static const struct {
    const char *text, *wrong;
  } cases[] = {{NULL, "there is none"},
               {"", "there is none"},
               {"of the queue.", "it begins without a capital letter"},
               {"Number of instances", "it ends without a full stop"},
               {"Of the queue.", "it begins as a fragment"},
               {"What its machines do.", "it begins as a fragment"},
               {"Who may join.", "it begins as a fragment"},
               {"Which machine.", "it begins as a fragment"},
               {"A map, see below.", "it points below, where nothing need stand"},
               {"Block size.", "it is the key again"},
               {"Block_size.", "it is the key again"},
               {"Block size in tokens.", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *wrong = wrong_style(cases[i].text, "block_size");
    cr_expect(wrong == cases[i].wrong ||
                  (wrong && cases[i].wrong && !strcmp(wrong, cases[i].wrong)),
              "of '%s' it says: %s", cases[i].text ? cases[i].text : "", wrong ? wrong : "nothing");
  }
}

static void expect_sentence(const char *text, const char *key) {
  const char *wrong = wrong_style(text, key);
  cr_expect_null(wrong, "the text of '%s', '%s': %s", key, text ? text : "", wrong);
}

Test(keys, each_says_what_it_is_and_what_holds_without_it) {
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  cr_assert_gt(n, 40);
  for (size_t i = 0; i < n; i++) {
    expect_sentence(blocks[i].help, *blocks[i].place ? blocks[i].place : "the top level");
    for (const OptionSpec *spec = blocks[i].specs; spec && spec->key; spec++) {
      const char *name = keys_name(&blocks[i], spec, &arena);
      const char *wrong = wrong_style(spec->help, spec->key);
      cr_expect_null(wrong, "the text of '%s', '%s': %s", name, spec->help, wrong);
      cr_expect_not_null(option_default(spec), "'%s' has neither fallback nor absent", name);
    }
  }
}

Test(keys, each_policy_says_what_it_does) {
  for (PolicyKind kind = 0; kind < POLICY_KINDS; kind++)
    for (const Policy *const *policy = policy_list(kind); *policy; policy++)
      expect_sentence((*policy)->help, (*policy)->name);
}

Test(keys, those_that_the_page_begins_with_are_keys) {
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  for (int f = 0; keys_first[f]; f++) {
    bool found = false;
    for (size_t i = 0; i < n; i++)
      for (const OptionSpec *spec = blocks[i].specs; spec && spec->key; spec++)
        found |= strcmp(keys_name(&blocks[i], spec, &arena), keys_first[f]) == 0;
    cr_expect(found, "there is no key '%s'", keys_first[f]);
  }
}

Test(keys, those_of_policies_are_there_with_their_defaults) {
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(blocks[i].place, "policies.router") != 0 || strcmp(blocks[i].which, "llm_d") != 0)
      continue;
    cr_assert_str_eq(keys_name(&blocks[i], blocks[i].specs, &arena),
                     "policies.router.queue_weight");
    cr_assert_str_eq(option_default(blocks[i].specs), "2");
    cr_assert_str_eq(option_values(blocks[i].specs, &arena), "number, 0 to 1000000");
    return;
  }
  cr_assert_fail("no block of llm_d");
}

/* ---- What a value is once it is stored ---- */

typedef union Field {
  int64_t whole;
  double real;
  bool flag;
  int choice;
  const char *text;
  const Node *node;
} Field;

static bool is_same(const OptionSpec *spec, const Field *a, const Field *b) {
  if (spec->type == OPTION_STRING) return strcmp(a->text, b->text) == 0;
  if (spec->type != OPTION_NODE) return memcmp(a, b, sizeof *a) == 0;
  if (node_is_null(a->node)) return node_is_null(b->node);
  return a->node->kind == b->node->kind && strcmp(a->node->text, b->node->text) == 0;
}

/* Whether the row takes `value`, as it stands behind "a: "; then it must be the same once its
 * canonical text has been read. */
static bool comes_back(const OptionSpec *spec, const char *value) {
  Arena made;
  Diag said;
  Field given = {0}, stored = {0};
  OptionSpec row = *spec;
  row.offset = 0;
  arena_init(&made);
  diag_init(&said);
  const char *text = arena_printf(&made, "a: %s\n", value);
  const Node *root = yaml_parse("given", text, strlen(text), &made, &said);
  const bool taken = root && option_bind_one(&row, root->first, &given, &said) == 0;
  if (taken) {
    const char *kept = node_text(root, &made);
    const Node *again = yaml_parse("stored", kept, strlen(kept), &made, &said);
    cr_assert_not_null(again, "'%s' is not read", kept);
    cr_expect(option_bind_one(&row, again->first, &stored, &said) == 0 &&
                  is_same(spec, &given, &stored),
              "'%s': %s is not %s", spec->key, value, kept);
    cr_expect_str_eq(node_text(again, &made), kept);
  }
  diag_done(&said);
  arena_done(&made);
  return taken;
}

/* Numbers of the unit, with prefixes, however they are written. */
static int numbers_come_back(const OptionSpec *spec, const char *unit) {
  static const char *const numbers[] = {"0",  "1",  "2.5", "007",    ".5", "1e3",
                                        "+3", "-1", "99",  "1.5E-3", "4.", "8192"};
  static const char *const prefixes[] = {"", "Gi"};
  static const char *const gaps[] = {"", " ", " \t ", "\n   "};
  int n = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
      for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
        char value[64];
        const char *gap = *unit || *prefixes[p] ? gaps[g] : "";
        snprintf(value, sizeof value, "%s%s%s%s", numbers[i], gap, prefixes[p], unit);
        n += comes_back(spec, value);
      }
  return n;
}

static int quantities_come_back(const OptionSpec *spec) {
  char list[160], *rest = NULL;
  units_list(list, sizeof list, option_dimension(spec));
  char *prefixes = strstr(list, ", alone or after ");
  if (prefixes) *prefixes = '\0';
  int n = spec->word && comes_back(spec, spec->word);
  for (char *unit = strtok_r(list, ",", &rest); unit; unit = strtok_r(NULL, ",", &rest))
    n += numbers_come_back(spec, strcmp(unit, "none") == 0 ? "" : unit + strspn(unit, " "));
  return n;
}

static int texts_come_back(const OptionSpec *spec) {
  static const char *const values[] = {"plain",
                                       "two words",
                                       "'90%'",
                                       "90%",
                                       "'007'",
                                       "1e3",
                                       "'null'",
                                       "'~'",
                                       "''",
                                       "'true'",
                                       "true",
                                       "2026-05-01",
                                       "12:30",
                                       "'12:30:00'",
                                       "a, b",
                                       "'a: b'",
                                       "'# no'",
                                       "a#b",
                                       "1..9",
                                       "\"1..9\"",
                                       "'[x]'",
                                       "'{x: 1}'",
                                       "caf\u00e9",
                                       "\"\\u20ac\"",
                                       "'- x'",
                                       "-",
                                       "'%x'",
                                       "'@x'",
                                       "'`x'",
                                       "'!x'",
                                       "'&x'",
                                       "'*x'",
                                       "a & b * c!",
                                       "it's",
                                       "'it''s'",
                                       "\"q\\\"q\"",
                                       "'a\\b'",
                                       "one\n  two",
                                       "' x '",
                                       "'---'",
                                       "'...'",
                                       "?x",
                                       "http://x",
                                       "../trace.csv",
                                       "$HOME/x",
                                       "<<",
                                       "=",
                                       "5 \xc2\xb5s",
                                       "x  y",
                                       "\xe2\x80\xa8",
                                       "\xef\xbb\xbf",
                                       "\xf0\x9f\x98\x80"};
  int n = 0;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    n += comes_back(spec, values[i]);
  return n;
}

static int values_come_back(const OptionSpec *spec) {
  static const char *const blocks[] = {"|\n  one\n  two", ">\n  one\n  two", "~", "", "null"};
  int n = 0;
  switch (spec->type) {
  case OPTION_BOOL:
    return comes_back(spec, "true") + comes_back(spec, "false");
  case OPTION_CHOICE:
    for (int i = 0; spec->choices[i]; i++)
      n += comes_back(spec, spec->choices[i]);
    return n;
  case OPTION_NODE:
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
      n += comes_back(spec, blocks[i]);
    return n + texts_come_back(spec);
  case OPTION_STRING:
    return texts_come_back(spec);
  default:
    return quantities_come_back(spec);
  }
}

Test(keys, every_value_that_one_takes_comes_back_from_a_database) {
  size_t n = 0, n_percent = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  for (size_t i = 0; i < n; i++)
    for (const OptionSpec *spec = blocks[i].specs; spec && spec->key; spec++) {
      cr_expect_gt(values_come_back(spec), 0, "'%s' takes none of the values",
                   keys_name(&blocks[i], spec, &arena));
      n_percent += spec->type == OPTION_REAL && comes_back(spec, "50%");
    }
  cr_expect_gt(n_percent, 20);
}
