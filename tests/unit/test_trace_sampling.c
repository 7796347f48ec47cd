/* Samples of long traces. Pinned: which windows are drawn; the estimate and its variance over all
 * samples of a small trace, which theory has exactly; windows of a replay; and that the interval
 * of a sample has what a run of the whole trace has, on most seeds. */
#include "base/rng.h"
#include "experiments/base/student.h"
#include "experiments/campaign/trial.h"
#include "experiments/plan/sampled.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(trace_sampling, .init = setup_folder, .fini = teardown_folder);

#define S TICKS_PER_SECOND

/* A trace in which the k-th window of 10 s has rows[k] rows. */
static const char *write_windows(const int *rows, int n) {
  const char *name = in_folder("trace.csv");
  FILE *file = fopen(name, "w");
  fputs("timestamp,prompt_tokens,completion_tokens\n", file);
  for (int k = 0; k < n; k++)
    for (int i = 0; i < rows[k]; i++)
      fprintf(file, "%.3f,%d,%d\n", 10 * k + 9.0 * i / rows[k], k + 1, i + 1);
  fclose(file);
  return name;
}

static TraceSample choose(const char *trace, Tick length, int wanted, uint64_t seed) {
  TraceSample sample;
  cr_assert_eq(sample_choose(&sample, trace, NULL, length, wanted, seed, &arena, &diag), 0);
  return sample;
}

/* Windows with 1 to 20 rows, in no order, and one with 60: two strata of ten, six of each. */
Test(trace_sampling, the_busiest_and_six_of_each_stratum) {
  enum { ALL = 21, BUSIEST = 60, SEEDS = 200 };
  int rows[ALL], sum = BUSIEST;
  for (int i = 0; i < ALL; i++) {
    rows[i] = i == 13 ? BUSIEST : 1 + i * 7 % 20 + (i == 20 ? 13 * 7 % 20 : 0);
    if (i != 13) sum += rows[i];
  }
  const char *trace = write_windows(rows, ALL);
  int seen[ALL] = {0};
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    const TraceSample sample = choose(trace, 10 * S, 13, seed);
    double weight = 0;
    int in_stratum[3] = {0};
    cr_assert(sample.n == 13 && sample.n_strata == 3 && sample.n_all == ALL);
    cr_expect(sample.rows_all == sum && sample.sizes[0] == 1 && sample.sizes[1] == 10);
    for (int w = 0; w < sample.n; w++) {
      const SampleWindow *one = &sample.windows[w];
      const int place = (int)(one->start / (10 * S));
      cr_assert(w == 0 || sample.windows[w - 1].start < one->start);
      cr_expect_eq(one->rows, rows[place]);
      cr_expect_eq(one->stratum, rows[place] == BUSIEST ? 0 : rows[place] <= 10 ? 1 : 2);
      in_stratum[one->stratum]++;
      weight += one->weight;
      seen[place]++;
    }
    cr_expect(in_stratum[0] == 1 && in_stratum[1] == 6 && in_stratum[2] == 6);
    cr_expect_float_eq(weight, ALL, 1e-12);
  }
  for (int i = 0; i < ALL; i++) // six of ten: 120 of 200, with a deviation of 7
    cr_expect(i == 13 ? seen[i] == SEEDS : seen[i] > 90 && seen[i] < 150, "%d", seen[i]);
  const TraceSample whole = choose(trace, 10 * S, ALL, 1);
  cr_expect(whole.n == whole.n_all && whole.rows == whole.rows_all);
  for (int w = 0; w < whole.n; w++)
    cr_expect_eq(whole.windows[w].weight, 1);
}

/* Of windows of equal size the estimate and the estimate of its variance are unbiased: their means
 * over all samples are the mean, and the variance of the estimates (Cochran, theorem 5.3). */
Test(trace_sampling, theory_of_all_samples_of_a_small_trace) {
  enum { M = 5, ROWS = 3 };
  static const double values[M + 1][ROWS] = {{1, 2, 6}, {0, 4, 8}, {3, 3, 0},
                                             {7, 1, 1}, {9, 2, 4}, {20, 21, 25}};
  double mean = 0, sum = 0, squares = 0, variances = 0;
  int n = 0;
  for (int w = 0; w <= M; w++)
    for (int i = 0; i < ROWS; i++)
      mean += values[w][i] / (ROWS * (M + 1));
  int64_t sizes[] = {1, M};
  for (int a = 0; a < M; a++)
    for (int b = a + 1; b < M; b++, n++) {
      SampleWindow windows[] = {
          {.stratum = 1, .weight = M / 2.0}, {.stratum = 1, .weight = M / 2.0}, {.weight = 1}};
      const TraceSample sample = {.windows = windows, .n = 3, .n_strata = 2, .sizes = sizes};
      const SampleSeen seen[] = {{values[a], ROWS}, {values[b], ROWS}, {values[M], ROWS}};
      const SampleEstimate of = sample_mean(&sample, seen, &arena);
      const double half = (of.high - of.low) / 2 / student_quantile(1);
      sum += of.value;
      squares += (of.value - mean) * (of.value - mean);
      variances += half * half;
    }
  cr_expect_float_eq(sum / n, mean, 1e-12);
  cr_expect_float_eq(variances / n, squares / n, 1e-12);
}

Test(trace_sampling, quantiles_are_of_weighted_rows) {
  static const double few[] = {1, 2}, many[] = {3, INFINITY};
  int64_t sizes[] = {1, 1};
  SampleWindow windows[] = {{.stratum = 1, .weight = 8}, {.weight = 1}};
  const TraceSample sample = {.windows = windows, .n = 2, .n_strata = 2, .sizes = sizes};
  const SampleSeen seen[] = {{few, 2}, {many, 2}};
  static const struct {
    double q, value;
  } rows[] = {{0.4, 1}, {8.0 / 18, 1}, {0.5, 2}, {16.0 / 18, 2}, {0.9, 3}, {1, INFINITY}};
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(sample_quantile(&sample, seen, rows[i].q, &arena).value, rows[i].value, "%g",
                 rows[i].q);
  cr_expect(isnan(sample_quantile(&sample, (SampleSeen[2]){{0}}, 0.5, &arena).value));
  cr_expect(isinf(sample_mean(&sample, seen, &arena).value));
}

/* --- with a cluster */

static const char text[] = "model: llama3.1-8b\nengine: vllm-0.33\nworkload: {trace: %s%s}\n"
                           "pools: {serve: {role: mixed, machine: dgx-h100, "
                           "tensor_parallel_size: 1}}\nslo: none\n";

static int bind(Config *config, const char *trace, const char *more) {
  const char *yaml = arena_printf(&arena, text, trace, more);
  Node *root = yaml_parse("config", yaml, strlen(yaml), &arena, &diag);
  cr_assert_not_null(root);
  return config_bind(config, "config", root, NULL, NULL, &arena, &diag);
}

/* The windows of a replay follow one another: rows of 10..20 s and 30..40 s at 0..20 s. */
Test(trace_sampling, windows_of_a_replay) {
  static const int rows[] = {2, 3, 4, 5, 6};
  const char *trace = write_windows(rows, COUNT(rows));
  Config config;
  TraceRow row;
  int n = 0;
  cr_assert_eq(bind(&config, trace, ", windows: [10 s, 30 s], window: 10 s, loop: 2"), 0);
  TraceSource *source = workload_open(&config.workload, 1, &arena, &diag);
  cr_assert_not_null(source);
  for (; trace_next(source, &row, &diag) > 0 && n < 8; n++) {
    const bool first = n < 3;
    const double at = first ? 9.0 * n / 3 : 10 + 9.0 * (n - 3) / 5;
    cr_expect_eq(row.prompt_tokens, first ? 2 : 4);
    cr_expect_float_eq(tick_seconds(row.at), at, 0.002, "row %d", n);
  }
  cr_expect_eq(n, 8); // and then the second pass
  cr_expect_eq(row.prompt_tokens, 2);
  trace_close(source);
  static const char *const wrong[][2] = {
      {", windows: [10 s]", "'windows' needs 'window'"},
      {", window: 10 s", "'window' needs 'windows'"},
      {", windows: [10 s, 15 s], window: 10 s", "before the end of the one before it"},
      {", windows: [10], window: 10 s", "a window must begin at a time from 0"},
      {", windows: [], window: 10 s", "must be a list of 1 to 10000 times"},
      {", windows: [1 s], window: 10 s, start: 5 s", "'windows' excludes 'start' and 'duration'"}};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    diag_done(&diag);
    diag_init(&diag);
    cr_expect_eq(bind(&config, trace, wrong[i][0]), -1, "%s", wrong[i][0]);
    cr_assert(diag.n_entries > 0 && strstr(diag.entries[0].message, wrong[i][1]), "%s: %s",
              wrong[i][0], diag.n_entries > 0 ? diag.entries[0].message : "");
  }
}

enum { WINDOWS = 60, WINDOW_S = 120 };

/* Two hours in which the rate swings between 0.4 and 3.6 requests/s, with bursts. */
static const char *write_hours(void) {
  const char *name = in_folder("hours.csv");
  FILE *file = fopen(name, "w");
  Rng rng;
  rng_init(&rng, 1, "hours");
  fputs("timestamp,prompt_tokens,completion_tokens\n0,100,10\n", file);
  for (double t = 0; t < WINDOWS * WINDOW_S;) {
    const double swing = 1 + 0.8 * sin(2 * 3.14159265 * t / (WINDOWS * WINDOW_S));
    const double burst = (int)(t / 300) % 7 == 3 ? 1.5 : 1;
    t -= log(1 - rng_uniform(&rng)) / (2 * swing * burst);
    const double prompt = exp(5 + 3 * rng_uniform(&rng)), output = exp(3 + 2 * rng_uniform(&rng));
    fprintf(file, "%.3f,%.0f,%.0f\n", fmin(t, WINDOWS * WINDOW_S - 0.001), prompt, output);
  }
  fclose(file);
  return name;
}

typedef struct Truth {
  const char *what;
  int figure;
  double quantile; // 0: the mean
  const char *column, *statistic;
} Truth;

static const Truth truths[] = {{"mean TTFT", SAMPLED_TTFT, 0, "ttft_s", "mean"},
                               {"TTFT p90", SAMPLED_TTFT, 0.9, "ttft_s", "p90"},
                               {"TTFT p99", SAMPLED_TTFT, 0.99, "ttft_s", "p99"},
                               {"mean TPOT", SAMPLED_TPOT, 0, "tpot_s", "mean"},
                               {"TPOT p99", SAMPLED_TPOT, 0.99, "tpot_s", "p99"},
                               {"E2E p90", SAMPLED_E2E, 0.9, "e2e_s", "p90"}};

static SampleEstimate estimate(const TraceSample *sample, SampleSeen seen[][SAMPLED_FIGURES],
                               const Truth *of) {
  SampleSeen values[WINDOWS];
  for (int w = 0; w < sample->n; w++)
    values[w] = seen[sample->windows[w].start / (WINDOW_S * S)][of->figure];
  return of->quantile > 0 ? sample_quantile(sample, values, of->quantile, &arena)
                          : sample_mean(sample, values, &arena);
}

/* Of one run, without the bins of a histogram. */
static double value_of(const SampleSeen *seen, double quantile) {
  int64_t size = 1;
  SampleWindow window = {.weight = 1};
  const TraceSample all = {.windows = &window, .n = 1, .n_strata = 1, .sizes = &size};
  return quantile > 0 ? sample_quantile(&all, seen, quantile, &arena).value
                      : sample_mean(&all, seen, &arena).value;
}

/* All windows, each a run of its own, give what one run of the trace gives to within 2%; and the
 * 95% interval of 13 windows has that on at least 180 of 200 seeds. */
Test(trace_sampling, an_interval_has_what_the_whole_trace_gives, STATISTICS) {
  enum { SEEDS = 200, WANTED = 13, COVERED = 180 };
  const char *trace = write_hours();
  static SampleSeen seen[WINDOWS][SAMPLED_FIGURES], one_run[SAMPLED_FIGURES];
  Config config;
  Trial whole;
  trial_init(&whole);
  cr_assert_eq(bind(&config, trace, ""), 0, "%s", diag.entries[0].message);
  cr_assert_eq(config_bind(&whole.config, "config", node_copy(config.root, &whole.arena), NULL,
                           config.cache, &whole.arena, &whole.diag),
               0);
  cr_assert_eq(trial_run(&whole), 0);
  for (int w = 0; w < WINDOWS; w++)
    cr_assert_eq(sampled_window(seen[w], w * WINDOW_S * S, WINDOW_S * S, &config, &arena, &diag),
                 0);
  cr_assert_eq(sampled_window(one_run, 0, WINDOWS * WINDOW_S * S, &config, &arena, &diag), 0);
  const TraceSample all = choose(trace, WINDOW_S * S, WINDOWS, 1);
  cr_assert_eq(all.n, WINDOWS);
  double values[COUNT(truths)];
  int covered[COUNT(truths)] = {0};
  for (size_t i = 0; i < COUNT(truths); i++) {
    const Truth *truth = &truths[i];
    const double told = report_latency(&whole.report, truth->column, truth->statistic);
    const double census = estimate(&all, seen, truth).value;
    values[i] = value_of(&one_run[truth->figure], truth->quantile);
    cr_expect_float_eq(values[i] / told, 1, 0.02, "%s: %g of %g", truth->what, values[i], told);
    cr_expect_float_eq(census / values[i], 1, 0.02, "%s: %g", truth->what, census);
  }
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    const TraceSample sample = choose(trace, WINDOW_S * S, WANTED, seed);
    for (size_t i = 0; i < COUNT(truths); i++) {
      const SampleEstimate of = estimate(&sample, seen, &truths[i]);
      covered[i] += of.low <= values[i] && values[i] <= of.high;
    }
  }
  for (size_t i = 0; i < COUNT(truths); i++)
    cr_expect_geq(covered[i], COVERED, "%s: %d", truths[i].what, covered[i]);
  trial_done(&whole);
}
