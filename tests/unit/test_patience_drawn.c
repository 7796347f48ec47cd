/* Patience drawn for rows: who has any and how long it is; that a row that was put back, or comes
 * from another source, meets the same client; where messages point. What a client does that gives
 * up is in test_patience. */
#include "base/yaml.h"
#include "tests/array_trace.h"
#include "tests/unit/testing.h"
#include "traces/patience.h"

#define S TICKS_PER_SECOND

TestSuite(patience_drawn, .init = setup, .fini = teardown);

static int bind(const char *text, PatienceConfig *config) {
  const Node *node = yaml_parse("w", text, strlen(text), &arena, &diag);
  cr_assert_not_null(node, "%s", text);
  return patience_bind(config, node, &diag);
}

enum { ROWS = 4000 };

static ArrayTrace trace;

/* Patience over ROWS rows. */
static TraceSource *open_rows(const char *text, uint64_t seed) {
  PatienceConfig *config = ARENA_NEW(&arena, PatienceConfig);
  cr_assert_eq(bind(text, config), 0, "%s", text);
  array_trace_init(&trace, ARENA_ARRAY(&arena, TraceRow, ROWS), ROWS);
  return patience_open(config, &trace.source, seed, &arena);
}

Test(patience_drawn, a_time_alone_is_everybodys) {
  TraceSource *source = open_rows("{ttft: 2 s, e2e: {constant: 3 s}}", 1);
  TraceRow row;
  int n = 0;
  for (; trace_next(source, &row, &diag) > 0; n++)
    cr_assert(row.first_token_patience == 2 * S && row.patience == 3 * S);
  cr_expect_eq(n, ROWS);
}

/* Means and shares within four standard errors. */
Test(patience_drawn, some_have_more_than_others) {
  TraceSource *source = open_rows("{e2e: {exponential: {mean: 8 s}}, share: 25%}", 7);
  TraceRow row;
  double sum = 0, n_impatient = 0;
  while (trace_next(source, &row, &diag) > 0) {
    cr_assert_eq(row.first_token_patience, 0);
    n_impatient += row.patience > 0;
    sum += tick_seconds(row.patience);
  }
  cr_expect_float_eq(n_impatient / ROWS, 0.25, 4 * 0.0069);
  cr_expect_float_eq(sum / n_impatient, 8, 4 * 8 / 31.6);
}

static void keep(TraceSource *source, const TraceRow *row) {
  (void)row;
  ((ArrayTrace *)source)->next--;
}

static void hear(TraceSource *source, const TraceEnd *end) {
  (void)source, (void)end;
}

Test(patience_drawn, a_row_put_back_meets_the_same_client) {
  const char *text = "{ttft: {lognormal: {mean: 5 s, sigma: 1}}, e2e: {exponential: {mean: 9 s}}}";
  TraceSource *plain = open_rows(text, 3);
  Tick want[10];
  TraceRow row;
  for (int i = 0; i < 10; i++)
    want[i] = trace_next(plain, &row, &diag) > 0 ? row.patience : 0;
  PatienceConfig config;
  cr_assert_eq(bind(text, &config), 0);
  array_trace_init(&trace, trace.rows, ROWS);
  trace.source.put_back = keep;
  trace.source.ended = hear;
  TraceSource *source = patience_open(&config, &trace.source, 3, &arena);
  for (int i = 0; i < 10; i++) {
    for (int again = 0; again < 2; again++) {
      cr_assert_eq(trace_next(source, &row, &diag), 1);
      cr_expect_eq(row.patience, want[i], "row %d", i);
      if (!again) source->put_back(source, &row);
    }
  }
}

Test(patience_drawn, wrong_blocks_are_located) {
  static const struct {
    const char *text, *message;
    int column;
  } cases[] = {
      {"{share: 50%}", "'patience' needs 'ttft' or 'e2e', the time for which clients wait", 1},
      {"{ttft: 0 s}", NULL, 8},
      {"{ttft: 1 s, e2e: {gamma: 1 s}}", "unknown distribution 'gamma'", 19},
      {"{e2e: 3 s, share: 2}", NULL, 19},
      {"{e2e: 3 s, tfft: 2 s}", "unknown key 'tfft'", 12},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    PatienceConfig config;
    diag.n_entries = 0;
    cr_expect_eq(bind(cases[i].text, &config), -1, "%s", cases[i].text);
    cr_assert_eq(diag.n_entries, 1, "%s", cases[i].text);
    cr_expect_eq(diag.entries[0].at.column, cases[i].column, "%s: %d", cases[i].text,
                 diag.entries[0].at.column);
    if (cases[i].message) cr_expect_str_eq(diag.entries[0].message, cases[i].message);
  }
}
