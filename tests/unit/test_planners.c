/* The planners dynamo_planner_modes and llm_d_wva on cases computed by hand. With the plain model a
 * prompt of P tokens with n decodes of C tokens of context in all takes 10 + P + n + C/100 ms. */
#include "sim/policies.h"
#include "sim/scaling/arima.h"
#include "sim/scaling/scaler.h"
#include "tests/unit/sim_testing.h"

#define S TICKS_PER_SECOND

TestSuite(planners, .init = setup, .fini = teardown);

/* --- ARIMA(p, d, 0) */

static double next_of(const double *values, size_t n) {
  Arima series;
  arima_init(&series, &arena);
  for (size_t i = 0; i < n; i++)
    arima_add(&series, values[i]);
  return arima_next(&series);
}

Test(planners, arima_continues_what_a_model_says_exactly) {
  static const double few[] = {0, 0, 3, 9, 4, 7};
  cr_expect_float_eq(next_of(few, COUNT(few)), 7, 0, "four values, after zeros: the last");
  static const double constant[] = {5, 5, 5, 5, 5, 5};
  cr_expect_float_eq(next_of(constant, COUNT(constant)), 5, 1e-9);
  static const double trend[] = {10, 20, 30, 40, 50, 60, 70};
  cr_expect_float_eq(next_of(trend, COUNT(trend)), 80, 1e-9);
  static const double halves[] = {64, 32, 16, 8, 4, 2, 1};
  cr_expect_float_eq(next_of(halves, COUNT(halves)), 0.5, 1e-9);
  static const double down[] = {70, 60, 50, 40, 30, 20, 10, 0};
  cr_expect_float_eq(next_of(down, COUNT(down)), 0, 1e-9, "never below 0");
}

/* --- pools that a planner looks at */

enum { POOLS = 2, ENGINES = 4 };
typedef struct Planned {
  const Scaler *scaler;
  void *state;
  PoolSpec specs[POOLS];
  PoolLoad loads[POOLS];
  EngineLoad engines[POOLS][ENGINES];
  ScalingView view;
} Planned;

static void begin(Planned *self, const char *name, const char *options, const Role *roles,
                  uint32_t n) {
  *self = (Planned){.scaler = (const Scaler *)policy_find(POLICY_SCALER, name),
                    .state = policy_state(POLICY_SCALER, name, options, &arena)};
  for (uint32_t p = 0; p < n; p++) {
    self->specs[p] = (PoolSpec){.role = roles[p],
                                .perfmodel = plain_model(&arena),
                                .kv_blocks = 1000,
                                .block_size = 16,
                                .scaling = {.min = 1, .max = 100, .start = 1}};
    self->loads[p] = (PoolLoad){
        .spec = &self->specs[p], .n_machines = 1, .n_engines = 1, .engines = self->engines[p]};
  }
  self->view = (ScalingView){
      .now = 0, .interval = 5 * S, .max_model_len = 1000, .pools = self->loads, .n_pools = n};
  if (self->scaler->start) self->scaler->start(self->state, &self->view, &arena);
}

/* At `seconds`, since when so many requests of 100 prompt and 10 output tokens have come and gone.
 */
static void expect(Planned *self, int64_t seconds, uint64_t requests, double first, double second) {
  double machines[POOLS];
  for (uint32_t p = 0; p < self->view.n_pools; p++)
    machines[p] = self->loads[p].n_machines;
  self->view.now = seconds * S;
  self->view.arrivals = self->view.completed = requests;
  self->view.prompt_tokens = 100 * (int64_t)requests;
  self->view.output_tokens = 10 * (int64_t)requests;
  self->scaler->plan(self->state, &self->view, machines);
  cr_expect_float_eq(machines[0], first, 0, "at %d s: %g, not %g", (int)seconds, machines[0],
                     first);
  if (self->view.n_pools > 1)
    cr_expect_float_eq(machines[1], second, 0, "at %d s: %g, not %g", (int)seconds, machines[1],
                       second);
}

static const Role split[] = {ROLE_PREFILL, ROLE_DECODE};
static const Role mixed[] = {ROLE_MIXED, ROLE_MIXED};

/* --- Dynamo 1.6, by throughput */

/* 200 requests/s. A prompt takes 110 ms: 22 machines, 8 more at a time. A step of 19 sequences with
 * 105 tokens each takes 48.95 ms and serves 38.8 requests/s of 10 tokens: 6 machines. */
Test(planners, dynamo_1_6_plans_each_180_s_for_the_predicted_rate) {
  Planned it;
  begin(&it, "dynamo_planner_modes", "{tpot: 50 ms, ttft: 500 ms}", split, 2);
  expect(&it, 90, 18000, 1, 1);
  expect(&it, 180, 18000, 9, 6);
  it.loads[0].n_machines = 9;
  it.loads[1].n_machines = 5; // one has failed
  expect(&it, 185, 1000, 9, 6);
  expect(&it, 360, 35000, 17, 6);
  it.loads[0].n_machines = 17;
  expect(&it, 540, 36000, 22, 6);
}

/* At 1/s one machine would do, but its prompt takes 2.2 times the TTFT. */
Test(planners, dynamo_1_6_adds_machines_where_a_prompt_is_too_late) {
  Planned it;
  begin(&it, "dynamo_planner_modes", "{ttft: 50 ms}", split, 2);
  expect(&it, 180, 180, 3, 1);
}

/* Three sequences with 10 prompt tokens each step take 10 + 30 + 3 + 3.15 ms, four take 58.2: so an
 * engine serves 3 / 46.15 ms / 10 = 6.5 requests/s, and 200/s need 31. */
Test(planners, dynamo_1_6_plans_engines_of_both_phases) {
  Planned it;
  begin(&it, "dynamo_planner_modes", "{max_step: 100}", mixed, 1);
  expect(&it, 180, 36000, 31, 0);
}

/* --- Dynamo 1.6, by load */

static void load_prefill(Planned *self, int64_t first, int64_t second) {
  self->loads[0].n_machines = self->loads[0].n_engines = 2;
  self->engines[0][0].prefill_tokens = first;
  self->engines[0][1].prefill_tokens = second;
}

static void load_decode(Planned *self, int64_t first, int64_t second) {
  self->loads[1].n_machines = self->loads[1].n_engines = 2;
  self->engines[1][0] = (EngineLoad){.kv_tokens = 105 * first, .n_decodes = first};
  self->engines[1][1] = (EngineLoad){.kv_tokens = 105 * second, .n_decodes = second};
}

/* TTFT behind q tokens is (q/100 + 1)·110 ms: 550 ms behind 400. With all queues on one machine,
 * q/100·220 ms must be below 0.8·(500 − 110) = 312. ITL of n + 1 sequences is 10 + 2.05·(n + 1) ms:
 * above 50 from 19 on; with twice as many on one machine it must be below 40: 13, not 15. */
Test(planners, dynamo_1_6_grows_when_all_are_late_and_shrinks_when_one_fewer_is_in_time) {
  Planned it;
  begin(&it, "dynamo_planner_modes", "{load_scaling: true, throughput_scaling: false}", split, 2);
  load_prefill(&it, 400, 400);
  load_decode(&it, 19, 19);
  expect(&it, 5, 100, 3, 3);
  load_prefill(&it, 400, 300);
  load_decode(&it, 19, 18);
  expect(&it, 10, 100, 2, 2);
  load_prefill(&it, 100, 140);
  load_decode(&it, 6, 5);
  expect(&it, 15, 100, 1, 1);
  load_prefill(&it, 100, 142);
  load_decode(&it, 7, 5);
  expect(&it, 20, 100, 2, 2);
  load_prefill(&it, 400, 400);
  it.loads[0].n_starting = 1;
  expect(&it, 25, 100, 2, 2);
}

/* The floor of 200 requests/s is 22 and 6; the load alone would have one machine fewer. */
Test(planners, dynamo_1_6_does_not_shrink_below_the_predicted_number) {
  Planned it;
  begin(&it, "dynamo_planner_modes", "{load_scaling: true, max_step: 100}", split, 2);
  expect(&it, 180, 36000, 22, 6);
  load_prefill(&it, 0, 0);
  load_decode(&it, 1, 1);
  it.loads[0].n_machines = 30;
  it.loads[1].n_machines = 6;
  expect(&it, 185, 1000, 29, 6);
}

/* Of a context of 1,000 and 16,000 tokens of KV: throughput grows from a queue of 1,000 or a use
 * above 1, and shrinks below 100 and 0.6; latency from 100 and 0.4, at 0 and below 0.1. */
Test(planners, dynamo_1_6_goes_by_thresholds) {
  Planned it;
  begin(&it, "dynamo_planner_modes", "{optimization_target: throughput}", split, 2);
  load_prefill(&it, 1000, 0);
  load_decode(&it, 153, 0);
  expect(&it, 5, 100, 3, 3);
  load_prefill(&it, 999, 0);
  load_decode(&it, 152, 0);
  expect(&it, 10, 100, 2, 2);
  load_prefill(&it, 99, 99);
  load_decode(&it, 91, 91);
  expect(&it, 15, 100, 1, 1);
  begin(&it, "dynamo_planner_modes", "{optimization_target: latency}", split, 2);
  load_prefill(&it, 0, 100);
  load_decode(&it, 0, 61);
  expect(&it, 5, 100, 3, 3);
  load_prefill(&it, 0, 1);
  load_decode(&it, 60, 0);
  expect(&it, 10, 100, 2, 2);
  load_prefill(&it, 0, 0);
  load_decode(&it, 15, 15);
  expect(&it, 15, 100, 1, 1);
}

/* --- llm-d's WVA, by saturation V2 */

/* Its documentation's variants, an A100 for 20 $/h and an H100 for 15 $/h. Capacities are 0.8 of
 * 16,000 tokens, what 256 sequences of 105 tokens would take being more. */
static void begin_variants(Planned *self, const char *options, uint32_t first, uint32_t second,
                           int64_t tokens) {
  begin(self, "llm_d_wva", options, mixed, 2);
  const uint32_t machines[] = {first, second};
  for (int p = 0; p < POOLS; p++) {
    self->specs[p].cost_per_hour = p == 0 ? 20 : 15;
    self->specs[p].count = ENGINES;
    self->loads[p].n_machines = self->loads[p].n_engines = machines[p];
    for (uint32_t i = 0; i < machines[p]; i++)
      self->engines[p][i].kv_tokens = tokens;
  }
  self->scaler->start(self->state, &self->view, &arena);
}

/* 60,000 / 0.85 − 64,000 are 6,588 tokens: one of the cheaper. */
Test(planners, wva_starts_the_cheaper_variant) {
  Planned it;
  begin_variants(&it, NULL, 2, 3, 12000);
  expect(&it, 60, 1000, 2, 4);
  it.loads[1].n_machines = 4;
  it.loads[1].n_starting = 1;
  expect(&it, 120, 1000, 2, 4);
}

/* 20 $/h for 25,600 tokens are less than 15 $/h for 12,800. Of 115,200 tokens that are held by
 * three, 135,529 are required and 64,000 there: three of the first, of which there may be two, and
 * then two of the second. */
Test(planners, wva_counts_cost_by_capacity) {
  Planned it;
  begin_variants(&it, NULL, 2, 1, 38400);
  it.specs[0].kv_blocks = 2000;
  it.specs[0].scaling.max = 4;
  expect(&it, 60, 1000, 4, 3);
}

/* 64,000 − 20,000 / 0.7 are 35,429 tokens: two machines of the dearer, of which one must stay, and
 * then one of the cheaper. */
Test(planners, wva_stops_the_dearer_variant_first) {
  Planned it;
  begin_variants(&it, NULL, 2, 3, 4000);
  expect(&it, 60, 1000, 1, 2);
  begin_variants(&it, NULL, 2, 3, 4000);
  it.specs[0].scaling.min = it.specs[1].scaling.min = 0;
  expect(&it, 60, 1000, 0, 3);
  begin_variants(&it, NULL, 2, 3, 0);
  it.specs[0].scaling.min = it.specs[1].scaling.min = 0;
  expect(&it, 60, 1000, 0, 1);
}

/* A queue of five says that 8,000 tokens are all that an engine computes, and so the others:
 * (24,000 + 550) / 0.85 − 3 · 8,000 are 4,882 tokens, one machine. Then the median of 6,000 and
 * twice 7,000, the mean of what was observed, is what each computes: 22,660 / 0.85 −
 * 21,000 are 5,659. Without queues 18,000 / 0.85 − 21,000 are 176. */
Test(planners, wva_learns_what_an_engine_computes) {
  Planned it;
  begin_variants(&it, NULL, 0, 3, 8000);
  it.specs[0].scaling.max = 0;
  it.engines[1][0].n_waiting = 5;
  expect(&it, 60, 1000, 0, 4);
  it.engines[1][0].n_waiting = 6;
  it.engines[1][0].kv_tokens = 6000;
  expect(&it, 120, 1000, 0, 4);
  it.engines[1][0] = it.engines[1][1] = it.engines[1][2] = (EngineLoad){.kv_tokens = 6000};
  expect(&it, 180, 1000, 0, 4);
}
