/* Drawn requests: arrival processes, lengths, and which stream decides what.
 *
 * Pinned: means and coefficients of variation within five standard errors; counts and times of
 * fixed arrivals exactly; rank correlation; that streams do not disturb each other. Not pinned: the
 * numbers of any one seed. */
#include "tests/unit/testing.h"
#include "traces/summary.h"
#include "traces/workload.h"
#include <math.h>

static WorkloadConfig uniform_lengths(ArrivalProcess process, double rate) {
  const LengthDistribution of = {.kind = LENGTH_UNIFORM, .low = 1, .high = 1000000};
  return (WorkloadConfig){
      .arrivals = process, .rate = rate, .prompt = of, .output = of, .seed = -1};
}

/* Pulls all rows into a summary; returns how the source ended. */
static int summarize(const WorkloadConfig *config, uint64_t run_seed, TraceSummary *ret) {
  TraceSource *source = workload_open(config, run_seed, &arena, &diag);
  TraceRow row;
  int status = 1;
  summary_init(ret, &arena);
  while ((status = trace_next(source, &row, &diag)) > 0) {
    cr_assert(row.at >= ret->last && row.prompt_tokens >= 1 && row.output_tokens >= 1);
    cr_assert_null(row.place.path);
    summary_add(ret, &row);
  }
  trace_close(source);
  return status;
}

/* Ranks 1.5, 1.5, 3, 4 of prompts and 2, 1, 3.5, 3.5 of outputs: about their mean 4 / 4.5. */
Test(synthetic, equal_lengths_share_a_rank) {
  static const int32_t lengths[][2] = {{5, 8}, {5, 7}, {6, 9}, {7, 9}};
  setup();
  TraceSummary summary;
  summary_init(&summary, &arena);
  for (int i = 0; i < 4; i++)
    summary_add(&summary,
                &(TraceRow){.prompt_tokens = lengths[i][0], .output_tokens = lengths[i][1]});
  cr_expect_float_eq(summary_correlation(&summary), 4 / 4.5, 1e-12);
  teardown();
}

Test(synthetic, gaps_have_the_rate_and_variation_asked_for) {
  static const struct {
    ArrivalProcess process;
    double cv, kurtosis; // of the gaps, for the error of their variance
  } cases[] = {{ARRIVAL_POISSON, 1, 9}, {ARRIVAL_GAMMA, 0.5, 4.5}, {ARRIVAL_GAMMA, 3, 57}};
  enum { N = 400000 };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    WorkloadConfig config = uniform_lengths(cases[i].process, 70);
    config.cv = cases[i].cv;
    config.requests = N;
    TraceSummary summary;
    cr_expect_eq(summarize(&config, 1, &summary), 0);
    cr_expect_eq(summary.rows, N);
    double cv = cases[i].cv, error_of_rate = 70 * cv / sqrt(N);
    /* The standard error of a variance is σ² √((kurtosis - 1) / n), that of σ half as much. */
    double error_of_cv = cv * sqrt((cases[i].kurtosis - 1) / N) / 2;
    cr_expect_float_eq(summary_rate(&summary), 70, 5 * error_of_rate, "case %zu: rate %g", i,
                       summary_rate(&summary));
    cr_expect_float_eq(summary_gap_cv(&summary), cv, 5 * error_of_cv, "case %zu: cv %g", i,
                       summary_gap_cv(&summary));
    teardown();
  }
}

Test(synthetic, fixed_arrivals_do_not_drift) {
  static const struct {
    double rate, duration_s;
    int64_t rows;
  } cases[] = {{70, 120, 8400}, {3, 10, 30}, {0.5, 1, 1}, {1, 3, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    WorkloadConfig config = uniform_lengths(ARRIVAL_FIXED, cases[i].rate);
    config.duration = tick_from_seconds(cases[i].duration_s);
    TraceSummary summary;
    cr_expect_eq(summarize(&config, 1, &summary), 0);
    cr_expect_eq(summary.rows, cases[i].rows);
    cr_expect_eq(summary.first, 0);
    cr_expect_eq(summary.last, tick_from_seconds((double)(cases[i].rows - 1) / cases[i].rate));
    teardown();
  }
}

Test(synthetic, the_first_limit_ends_the_source) {
  static const struct {
    ArrivalProcess process;
    Tick duration;
    int64_t requests, rows;
  } cases[] = {{ARRIVAL_AT_ONCE, 0, 17, 17},
               {ARRIVAL_FIXED, 10 * TICKS_PER_SECOND, 7, 7},
               {ARRIVAL_FIXED, 5 * TICKS_PER_SECOND, 7, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    WorkloadConfig config = uniform_lengths(cases[i].process, 1);
    config.duration = cases[i].duration;
    config.requests = cases[i].requests;
    TraceSummary summary;
    cr_expect_eq(summarize(&config, 1, &summary), 0);
    cr_expect_eq(summary.rows, cases[i].rows);
    if (cases[i].process == ARRIVAL_AT_ONCE) cr_expect_eq(summary.last, 0);
    teardown();
  }
}

Test(synthetic, time_past_its_range_is_an_error_unless_a_duration_ends_it) {
  static const ArrivalProcess processes[] = {ARRIVAL_POISSON, ARRIVAL_GAMMA, ARRIVAL_FIXED};
  for (int i = 0; i < 6; i++) {
    setup();
    WorkloadConfig config = uniform_lengths(processes[i / 2], 1e-6);
    bool has_duration = i % 2;
    config.cv = 1;
    config.requests = 1000;
    config.duration = has_duration ? tick_from_seconds(8e6) : 0;
    TraceSummary summary;
    cr_expect_eq(summarize(&config, 1, &summary), has_duration ? 0 : -1);
    cr_expect_eq(diag.n_entries, has_duration ? 0 : 1);
    teardown();
  }
}

Test(synthetic, ranks_correlate_as_asked) {
  static const double correlations[] = {0, 0.3, -0.6, 0.95, -0.999};
  for (size_t i = 0; i < sizeof correlations / sizeof *correlations; i++) {
    setup();
    WorkloadConfig config = uniform_lengths(ARRIVAL_AT_ONCE, 0);
    config.requests = SUMMARY_SAMPLE;
    config.correlation = correlations[i];
    TraceSummary summary;
    cr_expect_eq(summarize(&config, 1, &summary), 0);
    double error = 5 / sqrt(SUMMARY_SAMPLE), mean_error = 5 * 1e6 / sqrt(12.0 * SUMMARY_SAMPLE);
    cr_expect_float_eq(summary_correlation(&summary), correlations[i], error, "%g, not %g",
                       summary_correlation(&summary), correlations[i]);
    /* The coupling leaves each distribution as it was. */
    cr_expect_float_eq(histogram_mean(&summary.prompt_tokens), 500000.5, mean_error);
    cr_expect_float_eq(histogram_mean(&summary.output_tokens), 500000.5, mean_error);
    teardown();
  }
}

typedef struct Streams {
  Tick at[100];
  int32_t prompt[100], output[100];
} Streams;

static Streams draw(const WorkloadConfig *config, uint64_t run_seed) {
  setup();
  TraceSource *source = workload_open(config, run_seed, &arena, &diag);
  Streams drawn;
  memset(&drawn, 0, sizeof drawn);
  for (int i = 0; i < 100; i++) {
    TraceRow row;
    cr_assert_eq(trace_next(source, &row, &diag), 1);
    drawn.at[i] = row.at;
    drawn.prompt[i] = row.prompt_tokens;
    drawn.output[i] = row.output_tokens;
  }
  trace_close(source);
  teardown();
  return drawn;
}

#define SAME(a, b, field) (memcmp((a).field, (b).field, sizeof(a).field) == 0)

Test(synthetic, streams_do_not_disturb_each_other) {
  WorkloadConfig base = uniform_lengths(ARRIVAL_POISSON, 70);
  base.requests = 100;
  WorkloadConfig gamma = base, coupled = base, seeded = base;
  gamma.arrivals = ARRIVAL_GAMMA;
  gamma.cv = 3;
  coupled.correlation = 0.5;
  seeded.seed = 5;
  Streams first = draw(&base, 5), again = draw(&base, 5), other = draw(&base, 6);
  Streams bursty = draw(&gamma, 5), joint = draw(&coupled, 5), own = draw(&seeded, 6);
  cr_expect(SAME(first, again, at) && SAME(first, again, prompt) && SAME(first, again, output));
  cr_expect(!SAME(first, other, at) && !SAME(first, other, prompt) && !SAME(first, other, output));
  cr_expect(!SAME(first, bursty, at) && SAME(first, bursty, prompt) && SAME(first, bursty, output));
  cr_expect(SAME(first, joint, at) && SAME(first, joint, prompt) && !SAME(first, joint, output));
  cr_expect(SAME(first, own, at) && SAME(first, own, prompt), "the block's seed wins");
  cr_expect(memcmp(first.prompt, first.output, sizeof first.prompt) != 0);
}

Test(synthetic, a_summary_samples_what_it_cannot_keep) {
  setup();
  WorkloadConfig config = uniform_lengths(ARRIVAL_AT_ONCE, 0);
  config.requests = 5 * SUMMARY_SAMPLE;
  config.correlation = 0.7;
  TraceSummary summary;
  cr_expect_eq(summarize(&config, 1, &summary), 0);
  cr_expect_float_eq(summary_correlation(&summary), 0.7, 5 / sqrt(SUMMARY_SAMPLE));
  cr_expect(isnan(summary_rate(&summary)) && isnan(summary_gap_cv(&summary)));
  teardown();
}

Test(synthetic, a_models_context_ends_prompts_and_outputs) {
  setup();
  WorkloadConfig config = uniform_lengths(ARRIVAL_POISSON, 1);
  config.prompt.high = config.output.high = 100;
  config.requests = 20000;
  WorkloadConfig limited = config;
  limited.max_model_len = 80;
  TraceSource *all = workload_open(&config, 1, &arena, &diag);
  TraceSource *some = workload_open(&limited, 1, &arena, &diag);
  TraceRow whole, row;
  int n_whole = 0, n_prompts = 0;
  while (trace_next(all, &whole, &diag) > 0) {
    cr_assert_gt(trace_next(some, &row, &diag), 0);
    const int32_t prompt = whole.prompt_tokens < 79 ? whole.prompt_tokens : 79;
    const int32_t room = 80 - prompt;
    cr_assert_eq(row.at, whole.at);
    cr_assert_eq(row.prompt_tokens, prompt);
    cr_assert_eq(row.output_tokens, whole.output_tokens < room ? whole.output_tokens : room);
    n_whole += row.prompt_tokens + row.output_tokens < 80;
    n_prompts += whole.prompt_tokens > 79;
  }
  cr_expect_gt(n_whole, 0);
  cr_expect_gt(n_prompts, 0);
  trace_close(all);
  trace_close(some);
  teardown();
}
