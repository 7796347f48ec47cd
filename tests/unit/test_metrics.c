/* What users felt. Pinned: the definition of each latency and each slowdown, worked out by hand
 * from the time stamps of a request. TBT over tokens is booked by the engine (test_engine). */
#include "tests/unit/sim_testing.h"

static Metrics metrics;

TestSuite(metrics, .init = setup, .fini = teardown);

static RequestRecord record(Tick arrived, Tick began, Tick first, Tick last, int32_t output) {
  return (RequestRecord){.prompt_tokens = 90,
                         .output_tokens = output,
                         .arrived_at = arrived,
                         .prefill_began_at = began,
                         .first_token_at = first,
                         .decode_began_at = output > 1 ? first : -1,
                         .last_token_at = last,
                         .computing_ticks = (last - arrived) / 4 * 3};
}

/* The histogram holds `n` values whose largest is `max`. */
static void expect(const Histogram *histogram, uint64_t n, int64_t max, const char *what) {
  cr_expect_eq(histogram->total, n, "%s: %llu values", what, (unsigned long long)histogram->total);
  cr_expect_eq(histogram->max, max, "%s: %lld", what, (long long)histogram->max);
}

Test(metrics, latencies_are_counted_from_the_arrival) {
  metrics_init(&metrics, &arena);
  const RequestRecord done = record(100 * MS, 130 * MS, 200 * MS, 500 * MS, 4);
  metrics_complete(&metrics, &done, NULL, NULL);
  expect(&metrics.queue, 1, 30 * MS, "queue");
  expect(&metrics.ttft, 1, 100 * MS, "TTFT");
  expect(&metrics.e2e, 1, 400 * MS, "E2E");
  expect(&metrics.tpot, 1, 100 * MS, "TPOT: 300 ms over three gaps");
  expect(&metrics.compute_token, 1, 75 * MS, "three quarters of 400 ms over four tokens");
  expect(&metrics.queue_token, 1, 25 * MS, "and the rest");
  expect(&metrics.slowdown_ttft, 0, -1, "no reference, no slowdown");
  cr_expect_eq(metrics.completed, 1u);
  cr_expect_eq(metrics.prompt_tokens, 90u);
  cr_expect_eq(metrics.output_tokens, 4u);
}

Test(metrics, one_token_alone_has_no_time_per_output_token) {
  metrics_init(&metrics, &arena);
  const RequestRecord done = record(0, 0, 80 * MS, 80 * MS, 1);
  metrics_complete(&metrics, &done, NULL, NULL);
  expect(&metrics.tpot, 0, -1, "TPOT");
  expect(&metrics.ttft, 1, 80 * MS, "TTFT");
  expect(&metrics.e2e, 1, 80 * MS, "E2E");
}

Test(metrics, slowdowns_are_relative_to_the_request_alone) {
  metrics_init(&metrics, &arena);
  // alone: 90 tokens in 100 ms, a step of one sequence over 90 tokens in 11.9 ms
  const RequestRecord done = record(0, 0, 150 * MS, 150 * MS + 119 * MS, 5);
  metrics_complete(&metrics, &done, NULL, plain_model(&arena));
  expect(&metrics.slowdown_ttft, 1, 1500000, "TTFT: 150 / 100");
  expect(&metrics.slowdown_tbt, 1, 2000000, "TBT: 119 ms / 5 tokens / 11.9 ms");
  // 269 ms / (100 + 4 · 11.9) ms
  expect(&metrics.slowdown_e2e, 1, 1822493, "E2E");
}

Test(metrics, the_released_notebooks_look_the_step_up_at_the_prompt) {
  static const PwlKnot prefill[] = {{0, 0.1}, {100, 0.1}}, decode[] = {{0, 0}, {100, 0.1}};
  PerfModel model = {.form = PERF_SPLITWISE_SIM, .mixed_factor = 1.1};
  pwl_init(&model.linear, prefill, COUNT(prefill), true, &arena);
  pwl_init(&model.head, decode, COUNT(decode), true, &arena);
  perfmodel_compile(&model, &(CurveTable){0}, 4, &arena);
  metrics_init(&metrics, &arena);
  const RequestRecord done = record(0, 0, 100 * MS, 550 * MS, 5);
  metrics_complete(&metrics, &done, NULL, &model);
  expect(&metrics.slowdown_tbt, 1, 1000000, "450 ms / 5 tokens / 90 ms");
  expect(&metrics.slowdown_e2e, 1, 1195652, "550 ms / (100 + 4 · 90) ms");
}

Test(metrics, a_good_request_keeps_every_limit_to_the_tick) {
  // 100 ms to the first token, 100 ms per token after it, 400 ms in all
  const RequestRecord done = record(100 * MS, 130 * MS, 200 * MS, 500 * MS, 4);
  static const struct {
    GoodputLimits limits;
    uint64_t good;
  } rows[] = {
      {{0, 0, 0, 0}, 1},
      {{100 * MS, 100 * MS, 400 * MS, 0}, 1},
      {{100 * MS - 1, 0, 0, 0}, 0},
      {{0, 100 * MS - 1, 0, 0}, 0},
      {{0, 0, 400 * MS - 1, 0}, 0},
      {{1000 * MS, 1000 * MS, 399 * MS, 0}, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    metrics_init(&metrics, &arena);
    metrics.good_limits = rows[i].limits;
    metrics_complete(&metrics, &done, NULL, NULL);
    cr_expect_eq(metrics.good, rows[i].good, "row %zu", i);
  }
  const RequestRecord single = record(0, 0, 80 * MS, 80 * MS, 1);
  metrics_init(&metrics, &arena);
  metrics.good_limits.tpot = 1;
  metrics_complete(&metrics, &single, NULL, NULL);
  cr_expect_eq(metrics.good, 1, "one token has no gap that could be too long");
}

/* Of two in the first hour one is late, in the third none is; nobody came in the second. */
Test(metrics, an_hour_is_missed_in_which_too_few_that_arrived_were_good) {
  static const struct {
    Tick arrived_at, ttft;
  } requests[] = {{0, 10 * MS}, {HOUR - 1, 20 * MS}, {2 * HOUR, 10 * MS}, {3 * HOUR - 1, 10 * MS}};
  metrics_init(&metrics, &arena);
  metrics.good_limits = (GoodputLimits){.ttft = 10 * MS, .share = 0.75};
  for (int i = 0; i < 4; i++)
    hours_arrive(&metrics.hours, requests[i].arrived_at);
  for (int i = 3; i >= 0; i--) { // whenever they end
    const Tick at = requests[i].arrived_at, first = at + requests[i].ttft;
    const RequestRecord done = record(at, at + MS, first, first + HOUR, 2);
    metrics_complete(&metrics, &done, NULL, NULL);
  }
  cr_expect_eq(hours_asked(&metrics.hours), 2);
  cr_expect_eq(hours_missed(&metrics.hours, 0.75), 1);
  cr_expect_eq(hours_missed(&metrics.hours, 0.5), 0);
}

Test(metrics, demand_counts_requests_gaps_and_those_that_have_a_pace) {
  Demand demand = {0};
  static const int32_t outputs[] = {1, 2, 7, 1};
  for (int i = 0; i < 4; i++)
    demand_add(&demand, outputs[i]);
  cr_expect_eq(demand.requests, 4);
  cr_expect_eq(demand.gaps, 7);
  cr_expect_eq(demand.paced, 2);
}

/* A million machines that are busy, and copy a byte a tick, for all of simulated time. */
Test(metrics, totals_hold_what_a_million_machines_do_in_all_of_simulated_time) {
  enum { MACHINES = 1000000 };
  const InstanceTotals one = {.prefill_ticks = TICK_MAX,
                              .mixed_ticks = TICK_MAX,
                              .decode_ticks = TICK_MAX,
                              .extrapolated_ticks = {TICK_MAX, TICK_MAX, TICK_MAX},
                              .stall_ticks = TICK_MAX,
                              .swapped_in_bytes = INT64_MAX,
                              .swapped_out_bytes = INT64_MAX};
  InstanceTotals all = {0};
  for (int i = 0; i < MACHINES; i++)
    instance_totals_add(&all, &one);
  const Total sum = (Total)TICK_MAX * MACHINES;
  cr_expect_eq(instance_busy_ticks(&all), 2 * sum);
  cr_expect_eq(all.mixed_ticks, sum);
  for (int e = 0; e < 3; e++)
    cr_expect_eq(all.extrapolated_ticks[e], sum);
  cr_expect_eq(all.stall_ticks, sum);
  cr_expect_eq(all.swapped_in_bytes, sum);
  cr_expect_eq(all.swapped_out_bytes, sum);
  const double days = total_seconds(all.decode_ticks) / 86400;
  cr_expect_float_eq(days, 106.7519911 * MACHINES, 1);
}

Test(metrics, replicas_add_up_but_for_what_one_holds_at_most) {
  GroupTotals sum = {0};
  const GroupTotals replicas[] = {
      {.ticks = {1, 2, 3, 4, 5}, .turns = 6, .copied_bytes = {7, 8}, .most_stored_blocks = 9},
      {.ticks = {10, 20, 30, 40, 50}, .turns = 60, .copied_bytes = {70, 80}},
  };
  for (size_t i = 0; i < COUNT(replicas); i++)
    group_totals_add(&sum, &replicas[i]);
  for (int i = 0; i < GROUP_ACTIVITIES; i++)
    cr_expect_eq(sum.ticks[i], 11 * (i + 1));
  cr_expect_eq(sum.turns, 66);
  cr_expect(sum.copied_bytes[COPY_OUT] == 77 && sum.copied_bytes[COPY_IN] == 88);
  cr_expect_eq(sum.most_stored_blocks, 9);
}

Test(metrics, time_away_falls_into_its_hours) {
  Hours hours = {.arena = &arena};
  hours_spend(&hours, HOURS_DOWN, HOUR / 2, 2 * HOUR + HOUR / 4, 2); // one lane of two
  hours_spend(&hours, HOURS_OFF, HOUR, 2 * HOUR, 1);
  hours_spend(&hours, HOURS_OFF, HOUR, HOUR, 1);
  cr_assert_eq(hours.n, 3u);
  const Tick down[] = {HOUR / 4, HOUR / 2, HOUR / 8}, off[] = {0, HOUR, 0};
  for (int h = 0; h < 3; h++)
    cr_expect(hours.of[h].away[HOURS_DOWN] == down[h] && hours.of[h].away[HOURS_OFF] == off[h],
              "hour %d", h);
  cr_expect_eq(hours_asked(&hours), 0u, "nobody came");
}
