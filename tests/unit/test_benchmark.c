/* What benchmark clients measured: figures from totals or from requests, and what is refused. */
#include "experiments/benchmark/benchmark.h"
#include "tests/unit/testing.h"

TestSuite(benchmark, .init = setup_folder, .fini = teardown_folder);

static Benchmark *runs;
static size_t n_runs;

static int load(const char *text) {
  const char *file = in_folder("bench.json");
  write_file(file, text);
  return benchmark_load(file, &runs, &n_runs, &arena, &diag);
}

static double figure(const Benchmark *run, const char *name, const char *statistic) {
  for (int i = 0; i < run->run.n_figures; i++)
    if (strcmp(run->run.figures[i].name, name) == 0 &&
        strcmp(run->run.figures[i].statistic, statistic) == 0)
      return run->run.figures[i].value;
  for (int i = 0; i < run->run.n_latencies; i++)
    for (int k = 0; k < REPORT_STATISTICS; k++)
      if (strcmp(run->run.latencies[i].name, name) == 0 &&
          strcmp(report_statistics[k], statistic) == 0)
        return run->run.latencies[i].values[k];
  cr_assert_fail("no %s of %s", statistic, name);
  return 0;
}

#define TOTALS                                                                                     \
  "\"model_id\": \"m\", \"duration\": 20.5, \"num_prompts\": 3, \"completed\": 2, \"failed\": 1, " \
  "\"request_throughput\": 0.25, "

/* Of a result without details, the client's own statistics, in seconds. */
Test(benchmark, totals) {
  cr_assert_eq(load("{" TOTALS "\"request_rate\": \"inf\", \"mean_ttft_ms\": 81.5, "
                    "\"median_ttft_ms\": 80, \"p99_itl_ms\": 12.5, \"std_ttft_ms\": 3}\n"),
               0);
  cr_assert_eq(n_runs, 1u);
  cr_assert_float_eq(figure(runs, "duration_s", "value"), 20.5, 1e-12);
  cr_assert_float_eq(figure(runs, "ttft_s", "mean"), 0.0815, 1e-12);
  cr_assert_float_eq(figure(runs, "ttft_s", "p50"), 0.08, 1e-12);
  cr_assert_float_eq(figure(runs, "tbt_s", "p99"), 0.0125, 1e-12);
  cr_assert_float_eq(figure(runs, "rejected", "value"), 1, 0);
  cr_assert_str_eq(runs->run.text, "measured: {by: vllm bench serve, model_id: \"m\", "
                                   "request_rate: \"inf\"}");
}

/* With details they are those of the requests: two that were served, of TTFT 0.1 s and 0.3 s, gaps
 * of 10 and 20 ms and of 50 ms; one that failed counts in none. */
Test(benchmark, details) {
  cr_assert_eq(load("{" TOTALS "\"mean_ttft_ms\": 999,\n \"input_lens\": [10, 20, 30],\n"
                    "\"output_lens\": [3, 2, 0], \"ttfts\": [0.1, 0.3, 0.0], "
                    "\"itls\": [[0.01, 0.02], [0.05], []], \"start_times\": [100.5, 101, 100], "
                    "\"errors\": [\"\", \"\", \"boom\"]}"),
               0);
  cr_assert_float_eq(figure(runs, "ttft_s", "mean"), 0.2, 1e-9);
  cr_assert_float_eq(figure(runs, "e2e_s", "max"), 0.35, 1e-9);
  cr_assert_float_eq(figure(runs, "tpot_s", "mean"), (0.015 + 0.05) / 2, 1e-9);
  cr_assert_float_eq(figure(runs, "tbt_s", "mean"), 0.08 / 3, 1e-9);
  cr_assert_eq(runs->n_requests, 3u);
  cr_assert_eq(runs->requests[0].sent, TICKS_PER_SECOND / 2);
  cr_assert_eq(runs->requests[2].sent, 0);
  cr_assert(runs->requests[2].failed && !runs->requests[1].failed);
}

/* --append-result leaves one object after the other. */
Test(benchmark, several) {
  cr_assert_eq(load("{" TOTALS "\"mean_ttft_ms\": 1}\n{" TOTALS "\"mean_ttft_ms\": 2}\n"), 0);
  cr_assert_eq(n_runs, 2u);
  cr_assert_float_eq(figure(&runs[1], "ttft_s", "mean"), 0.002, 1e-12);
}

/* It is a run of the database, which never is stale, with its requests. */
Test(benchmark, stored) {
  Results results;
  int64_t n = 0;
  cr_assert_eq(load("{" TOTALS "\"input_lens\": [10], \"output_lens\": [3], \"ttfts\": [0.1], "
                    "\"itls\": [[0.01, 0.02]], \"start_times\": [5]}"),
               0);
  cr_assert_eq(results_open(&results, in_folder("r.db"), getenv("TANDEM_DATA"), &arena, &diag), 0);
  cr_assert_eq(benchmark_store(runs, &results, &arena, &diag), 0);
  cr_assert_eq(results_ask(&results,
                           "SELECT count(*) FROM run JOIN metric ON metric.run_id = run.id "
                           "JOIN request ON request.run_id = run.id WHERE epoch = 'measured' AND "
                           "NOT is_stale(epoch) AND metric.name = 'e2e_s' AND statistic = 'p99' "
                           "AND abs(value - 0.13) < 1e-9 AND abs(last_token_s - 0.13) < 1e-9",
                           NULL, 0, &n, &diag),
               1);
  cr_assert_eq(n, 1);
  results_close(&results);
}

Test(benchmark, refused) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"", "empty"},
      {"ttft,tpot\n1,2\n", "expected '{'"},
      {"{\"model_id\": \"m\"}", "not a result of 'vllm bench serve'"},
      {"{" TOTALS "\"mean_ttft_ms\": -1}", "a number from 0"},
      {"{" TOTALS "\"mean_ttft_ms\": 1", "before the end of the line"},
      {"{" TOTALS "\"input_lens\": [1, 2], \"output_lens\": [1], \"ttfts\": [1, 1], "
       "\"itls\": [[], []]}",
       "differ in the number of requests"},
      {"{" TOTALS "\"input_lens\": [1.5], \"output_lens\": [1], \"ttfts\": [1], \"itls\": [[]]}",
       "a number of tokens"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_assert_eq(load(bad[i].text), -1, "%s", bad[i].text);
    cr_expect(diag.n_entries > 0 && strstr(diag.entries[0].message, bad[i].says), "%s: %s",
              bad[i].text, diag.entries[0].message);
    diag_done(&diag);
    diag_init(&diag);
  }
}
