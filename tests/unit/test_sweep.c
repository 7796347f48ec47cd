/* Axes: what is written to which values, the order of points, shards, and what is refused. */
#include "experiments/sweep/axes.h"
#include "tests/unit/testing.h"

TestSuite(sweep, .init = setup, .fini = teardown);

static int bind(Sweep *sweep, const char *text) {
  const Node *block = yaml_parse("sweep.yaml", text, strlen(text), &arena, &diag);
  cr_assert_not_null(block, "%s", text);
  return sweep_bind(sweep, block, &arena, &diag);
}

/* The values of the first axis, "1|2|3". */
static const char *labels(const Sweep *sweep) {
  const char *joined = "";
  for (int i = 0; i < sweep->axes[0].n_choices; i++)
    joined = arena_printf(&arena, "%s%s%s", joined, i ? "|" : "", sweep->axes[0].choices[i].label);
  return joined;
}

Test(sweep, values_of_an_axis) {
  static const struct {
    const char *text, *labels;
  } rows[] = {
      {"{a: 1..4}", "1|2|3|4"},
      {"{a: 1..10 step 4}", "1|5|9"},
      {"{a: 1..9 step 4}", "1|5|9"},
      {"{a: 5..5}", "5"},
      {"{a: 3..1 step -1}", "3|2|1"},
      {"{a: -1..1}", "-1|0|1"},
      {"{a: 0.1..0.5 step 0.1}", "0.1|0.2|0.3|0.4|0.5"},
      {"{a: 1.5..3}", "1.5|2.5"},
      {"{a: 1e3..3e3 step 1e3}", "1000|2000|3000"},
      {"{a: 10..30 step 10 /s}", "10 /s|20 /s|30 /s"},
      {"{a: 10 /s .. 30 /s step 20 /s}", "10 /s|30 /s"},
      {"{a: 40 GiB..80 step 40}", "40 GiB|80 GiB"},
      {"{a: [70 /s, 100 /s]}", "70 /s|100 /s"},
      {"{a: [1..3, 10, 20..30 step 10]}", "1|2|3|10|20|30"},
      {"{a: x}", "x"},
      {"{a: ../trace.csv}", "../trace.csv"},
      {"{a: b..c}", "b..c"},
      {"{a: '1..3'}", "1..3"},
      {"{a: [{name: mixed}, jsq]}", "{name: mixed}|jsq"},
      {"{a: {b: 1..3, c: [x, y, z]}}", "1, x|2, y|3, z"},
      {"{a: {small: {b: 1}, none: {}, large: {b: 2, c: [1, 2]}}}", "small|none|large"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Sweep sweep;
    cr_assert_eq(bind(&sweep, rows[i].text), 0, "%s", rows[i].text);
    cr_assert_str_eq(labels(&sweep), rows[i].labels, "%s: %s", rows[i].text, labels(&sweep));
  }
}

Test(sweep, bad_axes) {
  static const struct {
    const char *text, *message;
    int column;
  } rows[] = {
      {"[a]", "'sweep' must be a map of keys to their values", 1},
      {"{}", "'sweep' must be a map of keys to their values", 1},
      {"{a: []}", "'a' has no values", 5},
      {"{a: {}}", "'a' has no values", 5},
      {"{a: {b: {}, c: 1}}", "'a' mixes designs, which are maps, with values", 5},
      {"{a: 4..1}", "range '4..1' is empty", 5},
      {"{a: 1..4 step 0}", "range '1..4 step 0' is empty", 5},
      {"{a: 1..4 step -1}", "range '1..4 step -1' is empty", 5},
      {"{a: 1..x}", "range '1..x' has no number at one end", 5},
      {"{a: 1..4 step}", "range '1..4 step' has no number at one end", 5},
      {"{a: 1 /s..4 s}", "range '1 /s..4 s' has two units", 5},
      {"{a: 1..1e9}", "an axis has more than 100000 values", 5},
      {"{a: 1..9999, b: 1..9999}", "the axes make more than 10000000 points", 1},
      {"{a: [1, 2, 1]}", "'a' lists '1' twice", 5},
      {"{a: {x: {b: 1}, y: {c: 1}, z: {b: 1}}}", "designs 'x' and 'z' are the same", 5},
      {"{a: {b: 1..3, c: [1, 2]}}", "'c' has 2 values, but 'b', which moves with it, has 3", 15},
      {"{b.c: 1..3, d: {b: 1..3, e: 1..3}}", "axes 'b.c' and 'd' both move 'b'", 17},
      {"{b.c: 1..3, d: {x: {b.c: 4}, y: {}}}", "axes 'b.c' and 'd' both move 'b.c'", 21},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Sweep sweep;
    diag_done(&diag);
    diag_init(&diag);
    cr_assert_eq(bind(&sweep, rows[i].text), -1, "%s", rows[i].text);
    cr_assert_str_eq(diag.entries[0].message, rows[i].message, "%s: %s", rows[i].text,
                     diag.entries[0].message);
    cr_assert_eq(diag.entries[0].at.column, rows[i].column, "%s: column %d", rows[i].text,
                 diag.entries[0].at.column);
  }
}

Test(sweep, keys_that_only_look_alike_may_both_move) {
  Sweep sweep;
  cr_assert_eq(bind(&sweep, "{pools.a.count: 1..2, pools.ab.count: 1..2}"), 0);
  cr_assert_eq(sweep.n_points, 4);
}

Test(sweep, points_are_numbered_with_the_last_axis_fastest) {
  Sweep sweep;
  cr_assert_eq(bind(&sweep, "{a: 1..2, b: {c: [x, y], d: [1, 2]}, e: {f: {}, g: {h: 1}}}"), 0);
  cr_assert_eq(sweep.n_points, 8);
  cr_assert_eq(sweep.n_settings_max, 4);
  cr_assert_str_eq(sweep_label(&sweep, 0, &arena), "a=1 b=x, 1 e=f");
  cr_assert_str_eq(sweep_label(&sweep, 1, &arena), "a=1 b=x, 1 e=g");
  cr_assert_str_eq(sweep_label(&sweep, 6, &arena), "a=2 b=y, 2 e=f");
  Setting settings[4];
  cr_assert_eq(sweep_settings(&sweep, 6, settings), 3);
  cr_assert_eq(sweep_settings(&sweep, 7, settings), 4);
  static const char *const expected[][2] = {{"a", "2"}, {"c", "y"}, {"d", "2"}, {"h", "1"}};
  for (int i = 0; i < 4; i++) {
    cr_assert_str_eq(settings[i].key, expected[i][0]);
    cr_assert_str_eq(settings[i].value->text, expected[i][1]);
  }
}

Test(sweep, shards_have_each_point_once) {
  Sweep sweep;
  cr_assert_eq(bind(&sweep, "{a: 1..23}"), 0);
  for (int64_t n_shards = 1; n_shards <= 30; n_shards++) {
    int seen[23] = {0};
    for (int64_t shard = 1; shard <= n_shards; shard++) {
      const int64_t n = sweep_shard_points(&sweep, shard, n_shards);
      for (int64_t i = 0; i < n; i++) {
        const int64_t point = sweep_shard_point(shard, n_shards, i);
        cr_assert(point >= 0 && point < 23);
        seen[point]++;
      }
    }
    for (int point = 0; point < 23; point++)
      cr_assert_eq(seen[point], 1, "point %d of %d shards", point, (int)n_shards);
  }
}
