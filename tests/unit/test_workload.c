/* The workload block, and replaying a trace through it.
 *
 * Pinned: the arithmetic of crop, rate, loop and requests to the tick; which keys exclude or need
 * which; where the messages point. Not pinned: reading of files (test_trace_file) and drawing
 * (test_synthetic). */
#include "base/yaml.h"
#include "tests/unit/testing.h"
#include "traces/workload.h"

#define S TICKS_PER_SECOND

/* Rows at 0, 1, 2, 4 and 10 s; the prompt is the row's number from 1. */
static const char five_rows[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                "2023-12-31 23:59:58,1,9\n2023-12-31 23:59:59,2,9\n"
                                "2024-01-01 00:00:00,3,9\n2024-01-01 00:00:02,4,9\n"
                                "2024-01-01 00:00:08,5,9\n";

/* Binds a block written in flow form. */
static int bind(const char *text, WorkloadConfig *config) {
  const Node *node = yaml_parse("w", text, strlen(text), &arena, &diag);
  cr_assert_not_null(node, "%s", text);
  const char *root = getenv("TANDEM_SOURCE_DIR");
  cr_assert_not_null(root);
  return workload_bind(config, node, root, NULL, &arena, &diag);
}

/* Binds a block with `trace: path` and `rest`, and opens it. */
static TraceSource *open_replay(const char *path, const char *rest, WorkloadConfig *config) {
  const char *text = arena_printf(&arena, "{trace: %s%s}", path, rest);
  if (bind(text, config)) return NULL;
  return workload_open(config, 1, &arena, &diag);
}

/* Rows of 9 output tokens. A mix fills in what each of its components says. */
Test(workload, what_clients_allow_is_of_the_row_else_of_the_workload) {
  static const struct {
    const char *path, *keys;
    int32_t output_tokens, max_tokens;
  } cases[] = {
      {"five", "", 9, INT32_MAX},
      {"five", ", max_tokens: 100", 9, 100},
      {"five", ", max_tokens: 4", 4, 4},
      {"five", ", ignore_eos: true", 9, 9},
      {"allowed", "", 9, 12},
      {"allowed", ", max_tokens: 100", 9, 12},
      {"allowed", ", ignore_eos: true", 9, 9},
      {"allowed", ", ignore_eos: true, priorities: {values: [{priority: 1, share: 1}]}", 9, 9},
  };
  const char *five = temp_file(five_rows, strlen(five_rows), &arena);
  const char text_allowed[] = "ts,prompt_tokens,output_tokens,max_tokens\n0,5,9,12\n";
  const char *allowed = temp_file(text_allowed, strlen(text_allowed), &arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *path = *cases[i].path == 'f' ? five : allowed;
    const char *text = arena_printf(&arena, "{trace: %s%s}", path, cases[i].keys);
    const char *mix = arena_printf(&arena, "{mix: [{name: a, trace: %s%s}]}", path, cases[i].keys);
    for (int mixed = 0; mixed < 2; mixed++) {
      WorkloadConfig config;
      TraceRow row;
      cr_assert_eq(bind(mixed ? mix : text, &config), 0, "%s", cases[i].keys);
      TraceSource *source = workload_open(&config, 1, &arena, &diag);
      cr_assert_not_null(source);
      cr_assert_eq(trace_next(source, &row, &diag), 1);
      cr_expect(row.output_tokens == cases[i].output_tokens &&
                    row.max_tokens == cases[i].max_tokens,
                "%s%s: %d of %d", cases[i].path, cases[i].keys, row.output_tokens, row.max_tokens);
      trace_close(source);
    }
  }
}

Test(workload, replay_crops_scales_loops_and_stops) {
  static const struct {
    const char *keys;
    int n;
    struct {
      double at_s;
      int prompt;
    } rows[12];
  } cases[] = {
      {"", 5, {{0, 1}, {1, 2}, {2, 3}, {4, 4}, {10, 5}}},
      {", format: azure, requests: 3", 3, {{0, 1}, {1, 2}, {2, 3}}},
      {", start: 1 s", 4, {{0, 2}, {1, 3}, {3, 4}, {9, 5}}},
      {", start: 1500 ms, duration: 8500 ms", 2, {{0.5, 3}, {2.5, 4}}},
      {", rate_scale: 4", 5, {{0, 1}, {0.25, 2}, {0.5, 3}, {1, 4}, {2.5, 5}}},
      // mean rate 4 rows in 10 s
      {", rate: 0.8 /s", 5, {{0, 1}, {0.5, 2}, {1, 3}, {2, 4}, {5, 5}}},
      // the crop has 2 gaps in 3 s
      {", start: 1 s, duration: 4 s, rate: 2 /s", 3, {{0, 2}, {1 / 3.0, 3}, {1, 4}}},
      // period 10 s and one mean gap of 2.5 s
      {", loop: 2, requests: 8",
       8,
       {{0, 1}, {1, 2}, {2, 3}, {4, 4}, {10, 5}, {12.5, 1}, {13.5, 2}, {14.5, 3}}},
      {", duration: 3 s, loop: 3, rate_scale: 2",
       9,
       {{0, 1}, {.5, 2}, {1, 3}, {1.5, 1}, {2, 2}, {2.5, 3}, {3, 1}, {3.5, 2}, {4, 3}}},
      {", start: 2 s, duration: 3 s, loop: 2", 4, {{0, 3}, {2, 4}, {4, 3}, {6, 4}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    const char *path = temp_file(five_rows, strlen(five_rows), &arena);
    WorkloadConfig config;
    TraceSource *source = open_replay(path, cases[i].keys, &config);
    cr_assert_not_null(source, "%s", cases[i].keys);
    TraceRow row;
    int n = 0;
    while (trace_next(source, &row, &diag) > 0) {
      cr_assert_lt(n, cases[i].n, "%s", cases[i].keys);
      Tick want = tick_from_seconds(cases[i].rows[n].at_s);
      cr_expect(row.at == want && row.prompt_tokens == cases[i].rows[n].prompt,
                "row %d of '%s': %lld ps, not %lld; prompt %d", n, cases[i].keys, (long long)row.at,
                (long long)want, row.prompt_tokens);
      n++;
    }
    cr_expect_eq(n, cases[i].n, "%s", cases[i].keys);
    cr_expect_eq(trace_next(source, &row, &diag), 0, "the end is final");
    cr_expect_eq(diag.n_entries, 0);
    trace_close(source);
    unlink(path);
    teardown();
  }
}

Test(workload, a_replay_that_cannot_be_is_an_error) {
  static const struct {
    const char *keys, *part;
    bool at_open;
  } cases[] = {
      {", start: 11 s", "no row of", false},
      {", start: 11 s, loop: 2", "no row of", true},
      {", start: 10 s, rate: 1 /s", "it has one row", true},
      {", duration: 1 s, loop: 2", "it has one row", true},
      {", rate: 0.00000101 /s, loop: 100", "is longer than 106 days, the limit of the simulator",
       false},
      {", loop: 1000000", "is longer than 106 days, the limit of the simulator", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    const char *path = temp_file(five_rows, strlen(five_rows), &arena);
    WorkloadConfig config;
    TraceSource *source = open_replay(path, cases[i].keys, &config);
    cr_assert_eq(source == NULL, cases[i].at_open, "%s", cases[i].keys);
    TraceRow row;
    int status = source ? 1 : -1;
    while (status > 0)
      status = trace_next(source, &row, &diag);
    cr_expect_eq(status, -1, "%s", cases[i].keys);
    if (source) cr_expect_eq(trace_next(source, &row, &diag), -1, "the error is final");
    cr_assert_eq(diag.n_entries, 1);
    cr_expect(strstr(diag.entries[0].message, cases[i].part), "%s", diag.entries[0].message);
    if (source) trace_close(source);
    unlink(path);
    teardown();
  }
}

Test(workload, rows_that_arrive_together_can_loop_but_not_have_a_rate) {
  static const char text[] = "{\"timestamp\": 5, \"input_length\": 1, \"output_length\": 1}\n"
                             "{\"timestamp\": 5, \"input_length\": 2, \"output_length\": 1}\n";
  setup();
  const char *path = temp_file(text, strlen(text), &arena);
  WorkloadConfig config;
  TraceSource *source = open_replay(path, ", loop: 2", &config);
  cr_assert_not_null(source);
  TraceRow row;
  for (int i = 0; i < 4; i++) {
    cr_assert_eq(trace_next(source, &row, &diag), 1);
    cr_expect_eq(row.at, 5 * (S / 1000));
    cr_expect_eq(row.prompt_tokens, 1 + i % 2);
  }
  cr_expect_eq(trace_next(source, &row, &diag), 0);
  trace_close(source);
  cr_expect_null(open_replay(path, ", rate: 1 /s", &config));
  expect_entry(&diag, 0, 1, 1, "have the same time", "rate");
  unlink(path);
  teardown();
}

Test(workload, a_row_knows_its_place) {
  setup();
  const char *path = temp_file(five_rows, strlen(five_rows), &arena);
  WorkloadConfig config;
  TraceSource *source = open_replay(path, "", &config);
  TraceRow row;
  cr_assert_eq(trace_next(source, &row, &diag), 1);
  cr_assert_eq(trace_next(source, &row, &diag), 1);
  cr_expect_str_eq(row.place.path, path);
  cr_expect_eq(row.place.line, 3);
  cr_expect_eq(row.place.source_length, (int)strlen("2023-12-31 23:59:59,2,9"));
  trace_close(source);
  unlink(path);
  teardown();
}

Test(workload, relative_paths_are_tried_beside_the_configuration) {
  setup();
  const char *path = temp_file("x", 1, &arena);
  char *dir = arena_copy(&arena, path, strlen(path));
  char *name = strrchr(dir, '/') + 1;
  name[-1] = '\0';
  cr_expect_str_eq(path_resolve(name, dir, &arena), path);
  cr_expect_str_eq(path_resolve(name, NULL, &arena), name);
  cr_expect_str_eq(path_resolve(name, arena_printf(&arena, "%s/", dir), &arena), path);
  cr_expect_str_eq(path_resolve("nowhere.csv", dir, &arena), "nowhere.csv");
  cr_expect_str_eq(path_resolve(path, dir, &arena), path);
  unlink(path);
  teardown();
}

Test(workload, keys_are_bound) {
  setup();
  WorkloadConfig config;
  cr_assert_eq(bind("{trace: a.gz, format: mooncake, start: 2 s, duration: 1 min, rate: 60 /min,"
                    " loop: 3, requests: 2k}",
                    &config),
               0);
  cr_expect_str_eq(config.trace, "a.gz");
  cr_expect_str_eq(config.reading.format->name, "mooncake");
  cr_expect(config.start == 2 * S && config.duration == 60 * S && config.rate == 1);
  cr_expect(config.rate_scale == 1 && config.loop == 3 && config.requests == 2000);
  cr_expect_eq(config.seed, -1);
  cr_assert_eq(bind("{lengths: azure-conv-2023, arrivals: {process: gamma, rate: 70 /s, cv: 2},"
                    " duration: 120 s, seed: 7, correlation: -0.3}",
                    &config),
               0);
  cr_expect_null(config.trace);
  cr_expect(config.arrivals == ARRIVAL_GAMMA && config.rate == 70 && config.cv == 2);
  cr_expect(config.duration == 120 * S && config.seed == 7 && config.correlation == -0.3);
  cr_expect(config.prompt.kind == LENGTH_TABLE && config.output.n_quantiles > 100);
  teardown();
}

Test(workload, wrong_blocks_are_located) {
  static const struct {
    const char *text;
    int column;
    const char *part;
  } cases[] = {
      {"[1]", 1, "must be a map"},
      {"{requests: 3}", 1, "needs 'trace' (a file) or 'lengths'"},
      {"{trace: a, lengths: b}", 12, "exclude each other"},
      {"{trace: a, ignore_eos: true, max_tokens: 3}", 30, "exclude each other"},
      {"{trace: a, seed: 3}", 12, "'seed' cannot be used with 'trace'"},
      {"{trace: a, arrivals: {rate: 1 /s}}", 12, "'arrivals' cannot be used with 'trace'"},
      {"{trace: a, rate: 1 /s, rate_scale: 2}", 24, "exclude each other"},
      {"{trace: a, format: burst}", 20, "burst"},
      {"{trace: a, start: -1 s}", 19, "start"},
      {"{trace: a, rate: 0 /s}", 18, "rate"},
      {"{trace: a, loop: 0}", 18, "loop"},
      {"{trace: a, requests: 0}", 22, "requests"},
      {"{trace: a, request: 1}", 12, "request"},
      {"{lengths: sharegpt, duration: 1 s}", 1, "arrivals"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}}", 1, "never end"},
      {"{lengths: sharegpt, arrivals: {process: at_once}, duration: 1 s}", 1, "need 'requests'"},
      {"{lengths: sharegpt, arrivals: {process: gamma, rate: 1 /s}, requests: 1}", 31,
       "process 'gamma' needs 'cv'"},
      {"{lengths: sharegpt, arrivals: {process: fixed}, requests: 1}", 31,
       "process 'fixed' needs 'rate'"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s, cv: 2}, requests: 1}", 44,
       "'cv' cannot be used with process 'poisson'"},
      {"{lengths: sharegpt, arrivals: {process: at_once, rate: 1 /s}, requests: 1}", 50,
       "'rate' cannot be used with process 'at_once'"},
      {"{lengths: sharegpt, arrivals: {process: gamma, rate: 1 /s, cv: 0}, requests: 1}", 64, "cv"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1, correlation: 1}", 71,
       "correlation"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1, loop: 2}", 58,
       "'loop' goes with 'trace' only"},
      {"{trace: a, documents: {count: 1}}", 12, "'documents' cannot be used with 'trace'"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1, documents: 3}", 69,
       "must be a map"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1, documents: {count: 3}}", 58,
       "tokens"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1,"
       " system_prompts: {count: 0, tokens: {constant: 9}}}",
       82, "count"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1,"
       " system_prompts: {count: 2, tokens: 9}}",
       93, "'tokens' must be a map with one distribution"},
      {"{lengths: sharegpt, arrivals: {rate: 1 /s}, requests: 1,"
       " system_prompts: {count: 2, tokens: {constant: 9}, zipf: -1}}",
       114, "zipf"},
      {"{lengths: sharegpd, arrivals: {rate: 1 /s}, requests: 1}", 11,
       "unknown table of lengths 'sharegpd'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    WorkloadConfig config;
    cr_expect_eq(bind(cases[i].text, &config), -1, "%s", cases[i].text);
    expect_entry(&diag, 0, 1, cases[i].column, cases[i].part, cases[i].text);
    cr_expect_eq(diag.n_entries, 1, "%s", cases[i].text);
    cr_expect_eq(diag_exit_code(&diag), 3);
    teardown();
  }
}
