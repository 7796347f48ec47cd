/* Pinned: what each type accepts and stores, every refusal with its words and place, defaults, and
 * the printed table. Not pinned: near-miss distances (test_diag.c) and units (test_units.c). */
#include "base/option.h"
#include "base/units.h"
#include "tests/unit/testing.h"
#include <math.h>

typedef struct Target {
  int64_t count;
  double share, rate, power, price;
  bool strict;
  const char *name;
  int router;
  Tick latency;
  int64_t memory, bandwidth;
  const Node *extra;
} Target;

static const char *const ROUTERS[] = {"random", "jsq", "least_kv", NULL};

#define FIELD(name) offsetof(Target, name)
static const OptionSpec SPECS[] = {
    {"count", OPTION_INT, FIELD(count), .fallback = "4", .min = 1, .max = 40,
     .also = "machines n_machines", .help = "machines"},
    {"share", OPTION_REAL, FIELD(share), .fallback = "0.9", .max = 1, .help = "share of memory"},
    {"rate", OPTION_RATE, FIELD(rate), .fallback = "70 /s", .max = INFINITY, .help = "requests"},
    {"power", OPTION_POWER, FIELD(power), .help = "cap"},
    {"price", OPTION_MONEY, FIELD(price), .help = "price"},
    {"strict", OPTION_BOOL, FIELD(strict), .fallback = "true", .help = "no extrapolation"},
    {"name", OPTION_STRING, FIELD(name), .fallback = "x y", .help = "label"},
    {"router", OPTION_CHOICE, FIELD(router), .fallback = "jsq", .choices = ROUTERS,
     .help = "placement"},
    {"latency", OPTION_TICKS, FIELD(latency), .fallback = "5 us", .max = 0.01, .help = "one way"},
    {"memory", OPTION_BYTES, FIELD(memory), .fallback = "80 GiB", .min = 1, .max = INFINITY,
     .help = "HBM"},
    {"bandwidth", OPTION_BANDWIDTH, FIELD(bandwidth), .help = "NIC"},
    {"extra", OPTION_NODE, FIELD(extra), .help = "subtree"},
    {0},
};

static Target target;

TestSuite(option, .init = setup, .fini = teardown);

static int bind(const char *text) {
  const Node *map = yaml_parse("a.yaml", text, strlen(text), &arena, &diag);
  cr_assert_not_null(map);
  memset(&target, 0, sizeof target);
  return option_bind(SPECS, map, NULL, place_of_file("a.yaml"), &target, &diag);
}

static void check_defaults(void) {
  cr_assert_eq(target.count, 4);
  cr_assert_eq(target.share, 0.9);
  cr_assert_eq(target.rate, 70);
  cr_assert(target.strict);
  cr_assert_str_eq(target.name, "x y");
  cr_assert_eq(target.router, 1);
  cr_assert_eq(target.latency, 5000000);
  cr_assert_eq(target.memory, INT64_C(80) << 30);
}

Test(option, defaults_fill_the_fields_that_have_one) {
  memset(&target, 0, sizeof target);
  target.power = 700;
  option_defaults(SPECS, &target);
  check_defaults();
  cr_assert_eq(target.power, 700, "a field without a default was touched");
  memset(&target, 0, sizeof target);
  cr_assert_eq(option_bind(SPECS, NULL, NULL, place_of_file("a"), &target, &diag), 0);
  check_defaults();
}

Test(option, every_type_is_stored_in_its_base_unit) {
  cr_assert_eq(bind("count: 2e1\nshare: 0.25\nrate: 120 /min\npower: 10.2 kW\nprice: 2.5 $/h\n"
                    "strict: false\nname: 'quoted'\nrouter: least_kv\nlatency: 1.5 ms\n"
                    "memory: 1.5 GiB\nbandwidth: 200 Gbps\nextra: {a: [1]}\n"),
               0);
  cr_assert_eq(target.count, 20);
  cr_assert_eq(target.share, 0.25);
  cr_assert_eq(target.rate, 2);
  cr_assert_eq(target.power, 10200);
  cr_assert_eq(target.price, 2.5);
  cr_assert_not(target.strict);
  cr_assert_str_eq(target.name, "quoted");
  cr_assert_eq(target.router, 2);
  cr_assert_eq(target.latency, TICKS_PER_SECOND * 15 / 10000);
  cr_assert_eq(target.memory, INT64_C(3) << 29);
  cr_assert_eq(target.bandwidth, INT64_C(25000000000));
  cr_assert_str_eq(target.extra->key, "extra");
  cr_assert_eq(diag.n_entries, 0);
}

Test(option, whole_numbers_are_exact) {
  static const struct {
    const char *text;
    int64_t value;
  } CASES[] = {
      {"1e6", 1000000},
      {"2k", 2000},
      {"1.5k", 1500},
      {"2 Ki", 2048},
      {"-7", -7},
      {"+7", 7},
      {"9007199254740993", INT64_C(9007199254740993)},
      {"-9007199254740993", INT64_C(-9007199254740993)},
  };
  static const OptionSpec SEED = {.key = "seed", .type = OPTION_INT};
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    Node value = {.kind = NODE_SCALAR, .text = CASES[i].text};
    int64_t whole = 0;
    cr_assert_eq(option_bind_one(&SEED, &value, &whole, &diag), 0);
    cr_assert_eq(whole, CASES[i].value, "'%s' became %lld", CASES[i].text, (long long)whole);
  }
}

Test(option, a_bad_value_is_refused_in_words_that_say_what_is_wanted) {
  static const struct {
    const char *text, *message;
    int column;
  } CASES[] = {
      {"count: 1.5", "'count' must be a whole number such as '8192', not '1.5'", 8},
      {"count: many", "'count' must be a whole number such as '8192', not 'many'", 8},
      {"count: '3'", "'count' must be a whole number such as '8192', not the quoted text '3'", 8},
      {"count: [3]", "'count' must be a whole number such as '8192', not a list", 8},
      {"count:", "'count' must be a whole number such as '8192', but has no value", 7},
      {"count: 0", "'count' must be from 1 to 40, not '0'", 8},
      {"count: 41", "'count' must be from 1 to 40, not '41'", 8},
      {"count: 1e30", "'count' must be from 1 to 40, not '1e30'", 8},
      {"share: x", "'share' must be a number such as '0.9', not 'x'", 8},
      {"share: 1.01", "'share' must be from 0 to 1, not '1.01'", 8},
      {"rate: 70 s", "'rate' must be a rate such as '70 /s', not '70 s'", 7},
      {"rate: 70", "'rate' must be a rate such as '70 /s', not '70'", 7},
      {"rate: -1 /s", "'rate' must be at least 0 /s, not '-1 /s'", 7},
      {"strict: yes", "'strict' must be true or false, not 'yes'", 9},
      {"strict: 'true'", "'strict' must be true or false, not the quoted text 'true'", 9},
      {"name: ~", "'name' must be text, but has no value", 7},
      {"name: {a: 1}", "'name' must be text, not a map", 7},
      {"router: jsqq", "unknown router 'jsqq'", 9},
      {"router: [jsq]", "'router' must be a name, not a list", 9},
      {"latency: 1 s", "'latency' must be from 0 s to 10 ms, not '1 s'", 10},
      {"latency: 5", "'latency' must be a time such as '120 s', not '5'", 10},
      {"memory: 0 B", "'memory' must be at least 1 B, not '0 B'", 9},
      {"memory: 1e10 TB", "'memory' must be at least 1 B", 9},
      {"bandwidth: 5 GB", "'bandwidth' must be a bandwidth such as '200 Gbps', not '5 GB'", 12},
      {"power: 5 V", "'power' must be a power such as '700 W', not '5 V'", 8},
      {"price: 5", "'price' must be a price such as '2.5 $/h', not '5'", 8},
      {"Count: 5", "unknown key 'Count'", 1},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    cr_assert_eq(bind(CASES[i].text), -1, "'%s' is accepted", CASES[i].text);
    cr_assert_eq(diag.n_entries, 1);
    const DiagEntry *entry = &diag.entries[0];
    cr_assert_eq(strncmp(entry->message, CASES[i].message, strlen(CASES[i].message)), 0,
                 "'%s' says: %s", CASES[i].text, entry->message);
    cr_assert_eq(entry->at.column, CASES[i].column, "'%s' at column %d", CASES[i].text,
                 entry->at.column);
    teardown();
    setup();
  }
}

Test(option, near_misses_of_keys_and_choices_are_offered) {
  static const struct {
    const char *text, *hint;
  } CASES[] = {
      {"conut: 3", "did you mean 'count'?"},
      {"router: jqs", "did you mean 'jsq'?"},
      {"router: fastest", "choose from 'random', 'jsq', 'least_kv'"},
      {"sede: 3", "did you mean 'seed'?"},
      {"count: '3'", "remove the quotes"},
      {"n_machines: 3", "did you mean 'count'?"},
      {"latency: 10m", "the units are s, ps, ns, us, ms, min, h, d"},
      {"bandwidth: 5 GB", "the units are B/s, bps, alone or after k, M, G, T, Ki, Mi, Gi, Ti"},
  };
  static const char *const EXTRA[] = {"seed", NULL};
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    const char *text = CASES[i].text;
    const Node *map = yaml_parse("a.yaml", text, strlen(text), &arena, &diag);
    cr_assert_eq(option_bind(SPECS, map, EXTRA, map->at, &target, &diag), -1);
    cr_assert_not_null(diag.entries[0].hint, "'%s' gets no hint", text);
    cr_assert_str_eq(diag.entries[0].hint, CASES[i].hint);
    teardown();
    setup();
  }
  const Node *map = yaml_parse("a.yaml", "seed: 3", 7, &arena, &diag);
  cr_assert_eq(option_bind(SPECS, map, EXTRA, map->at, &target, &diag), 0, "extra key refused");
}

Test(option, all_problems_are_reported_at_once_in_the_order_of_the_file) {
  cr_assert_eq(bind("count: 0\nrate: 1\nfoo: 1\nlatency: 1 ms\nrouter: x\n"), -1);
  cr_assert_eq(diag.n_entries, 4);
  static const int LINES[] = {1, 2, 3, 5};
  for (int i = 0; i < 4; i++)
    cr_assert_eq(diag.entries[i].at.line, LINES[i]);
  cr_assert_eq(target.latency, TICKS_PER_SECOND / 1000);
}

Test(option, a_missing_key_is_reported_at_the_map_or_its_owner) {
  static const OptionSpec NEEDED[] = {
      {.key = "model", .type = OPTION_STRING, .required = true},
      {.key = "count", .type = OPTION_INT, .offset = 8, .required = true},
      {0},
  };
  const char *text = "a: 1\npools:\n  count: 3\n";
  const Node *root = yaml_parse("a.yaml", text, strlen(text), &arena, &diag);
  const Node *pools = node_find(root, "pools");
  Place owner = {.path = "a.yaml", .line = 9};
  cr_assert_eq(option_bind(NEEDED, pools, NULL, owner, &target, &diag), -1);
  cr_assert_eq(diag.n_entries, 1);
  cr_assert_str_eq(diag.entries[0].message, "missing key 'model' (text)");
  cr_assert_eq(diag.entries[0].at.line, 2);
  cr_assert_eq(option_bind(NEEDED, NULL, NULL, owner, &target, &diag), -1);
  cr_assert_eq(diag.n_entries, 3);
  cr_assert_str_eq(diag.entries[2].message, "missing key 'count' (a whole number such as '8192')");
  cr_assert_eq(diag.entries[2].at.line, 9);
}

Test(option, a_scalar_or_list_where_options_belong_is_refused) {
  const Node *root = yaml_parse("a.yaml", "pools: 3\n", 9, &arena, &diag);
  cr_assert_eq(option_bind(SPECS, root->first, NULL, root->at, &target, &diag), -1);
  cr_assert_str_eq(diag.entries[0].message, "'pools' must be a map, not '3'");
  const Node *list = yaml_parse("a.yaml", "[1]", 3, &arena, &diag);
  cr_assert_eq(option_bind(SPECS, list, NULL, list->at, &target, &diag), -1);
  cr_assert_str_eq(diag.entries[1].message, "'a.yaml' must be a map, not a list");
}

Test(option, a_row_prints_as_key_values_and_default_above_its_help) {
  static const OptionSpec TABLE[] = {
      {.key = "router",
       .type = OPTION_CHOICE,
       .fallback = "jsq",
       .choices = ROUTERS,
       .help = "Choice of an instance."},
      {.key = "cap",
       .type = OPTION_POWER,
       .min = 1,
       .max = INFINITY,
       .absent = "no limit",
       .help = "Limit on the power of all instances that are in a cluster of this size. A limit "
               "that binds is named."},
      {.key = "model",
       .type = OPTION_STRING,
       .required = true,
       .help = "Name.",
       .listed = "models"},
      {0},
  };
  char text[512] = "";
  FILE *out = fmemopen(text, sizeof text, "w");
  option_print(TABLE, 2, out);
  fclose(out);
  cr_assert_str_eq(
      text, "  router (random, jsq, least_kv; default: jsq)\n"
            "      Choice of an instance.\n"
            "  cap (power, at least 1 W; default: no limit)\n"
            "      Limit on the power of all instances that are in a cluster of this size. A "
            "limit that binds is\n"
            "      named.\n"
            "  model (text, see 'tandem list models'; required)\n"
            "      Name.\n");
}
