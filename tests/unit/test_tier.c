/* KV tiers in the engine. Pinned by timelines worked out by hand, the same with --step: what a tier
 * adds to iterations, a run cut while its copies are waited for, capacity that grows and that
 * shrinks while all of it is in use, time in and outside iterations; then FlexGen's costs, padded
 * batches, and Pie where nobody waits, which is a larger memory and nothing else. */
#include "sim/core/tier.h"
#include "sim/run.h"
#include "tests/unit/scene_testing.h"

TestSuite(tier, .init = setup_scene, .fini = teardown);

/* --- a tier that does as it is told */

typedef struct Script {
  Tick stall;                   // of every iteration
  int64_t holds;                // iterations that it plans for at once
  int64_t change_after, blocks; // it wants so many from the end of that iteration on
} Script;

typedef struct Progress {
  int64_t iterations, blocks;
} Progress;

static int64_t start(const void *state, void *machine_state, const PoolSpec *pool,
                     int64_t *ret_least) {
  const Script *script = state;
  ((Progress *)machine_state)->blocks = pool->kv_blocks;
  *ret_least = script->blocks < pool->kv_blocks ? script->blocks : pool->kv_blocks;
  return pool->kv_blocks;
}

static TierSpan plan(const void *state, void *machine_state, const TierLoad *load, Series compute,
                     int64_t count) {
  const Script *script = state;
  const int64_t left = script->change_after - ((Progress *)machine_state)->iterations;
  cr_assert_eq(load->kv_blocks > 0 && load->done >= 0, true);
  if (count > script->holds) count = script->holds;
  if (left > 0 && count > left) count = left;
  compute.first += script->stall;
  return (TierSpan){.series = compute, .count = count};
}

static int64_t advance(const void *state, void *machine_state, const TierWork *work,
                       TierTraffic *traffic) {
  const Script *script = state;
  Progress *self = machine_state;
  self->iterations += work->count;
  if (self->iterations == script->change_after) self->blocks = script->blocks;
  traffic->in += 3 * work->count;
  traffic->out += 2 * work->count;
  return self->blocks;
}

static int64_t cpu_blocks(const void *state, const void *machine_state, const Instance *machine) {
  (void)state, (void)machine_state;
  return machine->kv_blocks > 2 ? machine->kv_blocks - 2 : 0;
}

static const KvTier scripted = {
    .policy = {.name = "scripted", .state_size = sizeof(Script)},
    .pick = kvtier_newest,
    .instance_state_size = sizeof(Progress),
    .start = start,
    .plan = plan,
    .advance = advance,
    .cpu_blocks = cpu_blocks,
};

/* Runs both ways; `check` after each. */
static void run_both(const TraceRow *rows, size_t n_rows, void (*check)(void)) {
  uint64_t digests[2];
  for (int step = 0; step < 2; step++) {
    scene.config.step = step;
    cr_assert_eq(scene_run(&scene, rows, n_rows), 0);
    check();
    digests[step] = scene.result.digest;
  }
  cr_assert_eq(digests[0], digests[1]);
}

static void use_script(Script script) {
  Script *state = ARENA_NEW(&arena, Script);
  *state = script;
  scene.config.policies[POLICY_KVTIER] = (PolicyChoice){&scripted.policy, state};
}

/* Prefill of 10 tokens: 20 ms. Decodes with 11, 12 and 13 tokens of context: 11.11, 11.12, 11.13
 * ms. Each 5 ms more. */
static void check_stalls(void) {
  const RequestRecord *record = &scene.records[0];
  cr_expect_eq(record->first_token_at, 25 * MS);
  cr_expect_eq(record->last_token_at, 73360 * US);
  cr_expect_eq(record->computing_ticks, record->last_token_at);
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect_eq(totals->stall_ticks, 20 * MS);
  cr_expect(totals->swapped_in_bytes == 12 && totals->swapped_out_bytes == 8);
  cr_expect_eq(totals->prefill_ticks + totals->decode_ticks, 73360 * US);
  cr_expect_eq(totals->extrapolated_ticks[0], 53360 * US); // compute alone
}

Test(tier, its_work_lengthens_iterations) {
  const TraceRow rows[] = {row(0, 10, 4)};
  for (int64_t holds = 1; holds <= 4; holds++) {
    use_script((Script){.stall = 5 * MS, .holds = holds, .blocks = 1000});
    run_both(rows, COUNT(rows), check_stalls);
  }
}

/* The second request comes 14 ms into the second decode iteration, which lasts 16.12 ms, 5 of them
 * waiting; it begins at its end, at 25 + 16.11 + 16.12. */
static void check_cut(void) {
  cr_expect_eq(scene.records[1].prefill_began_at, 57230 * US);
  cr_expect_eq(scene.records[1].first_token_at, (57230 + 25000) * US);
}

Test(tier, a_run_is_cut_while_it_waits_for_copies) {
  const TraceRow rows[] = {row(0, 10, 9), row(55110 * US, 10, 1)};
  for (int64_t holds = 1; holds <= 9; holds++) {
    use_script((Script){.stall = 5 * MS, .holds = holds, .blocks = 1000});
    run_both(rows, COUNT(rows), check_cut);
  }
}

/* Two blocks, both with the first request: 30 ms of prefill, 11.21 and 11.22 of decodes; then there
 * are four, and the second begins. */
static void check_growth(void) {
  cr_expect_eq(scene.records[1].prefill_began_at, 52430 * US);
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect(totals->expansions == 1 && totals->contractions == 0);
  cr_expect(totals->max_kv_blocks == 4 && totals->max_cpu_blocks == 2);
  const double span = tick_seconds(scene.result.span);
  cr_expect_float_eq(totals->kv_block_seconds, 2 * 0.05243 + 4 * (span - 0.05243), 1e-9);
  cr_expect_float_eq(scene.result.pools[0].mean_expansion, totals->kv_block_seconds / (2 * span),
                     1e-12);
  cr_expect_float_eq(scene.result.pools[0].max_expansion, 2, 1e-12);
  /* all but the wait before prefill was in iterations */
  const RequestRecord *second = &scene.records[1];
  cr_expect_eq(second->last_token_at - second->arrived_at - second->computing_ticks, 52430 * US);
  cr_expect_eq(scene.result.metrics.queue_token.max, 52430 * US / 5);
}

Test(tier, growth_admits_who_waited) {
  const TraceRow rows[] = {row(0, 20, 10), row(0, 20, 5)};
  scene.pools[0].kv_blocks = 2;
  use_script((Script){.holds = 100, .change_after = 3, .blocks = 4});
  run_both(rows, COUNT(rows), check_growth);
}

/* Four blocks, two each with the first two requests, which are prefilled in 50 ms; from the end of
 * the first decode on two are wanted. Decodes last 12.42, 12.44, 12.46 and 12.48 ms; the first
 * request ends, its blocks go. The second is alone, 11.25 to 11.31 ms, and the third has to wait
 * for its blocks. */
static void check_shrink(void) {
  cr_expect_eq(scene.records[0].last_token_at, 99800 * US);
  cr_expect_eq(scene.records[1].last_token_at, 178760 * US);
  cr_expect_eq(scene.records[2].prefill_began_at, 178760 * US);
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect(totals->expansions == 0 && totals->contractions == 1);
  cr_expect_eq(scene.result.metrics.recomputes, 0u);
  const double span = tick_seconds(scene.result.span);
  cr_expect_float_eq(totals->kv_block_seconds, 4 * 0.0998 + 2 * (span - 0.0998), 1e-9);
}

Test(tier, a_shrink_waits_for_blocks_in_use) {
  const TraceRow rows[] = {row(0, 20, 5), row(0, 20, 12), row(60 * MS, 20, 2)};
  scene.pools[0].kv_blocks = 4;
  use_script((Script){.holds = 100, .change_after = 2, .blocks = 2});
  run_both(rows, COUNT(rows), check_shrink);
}

/* As above, but the second request outgrows its two blocks while nothing is free; whoever is
 * evicted loses them to the shrink, and all get through. */
static void check_pressed(void) {
  cr_expect_eq(scene.result.metrics.completed, 2u);
  cr_expect_gt(scene.result.metrics.recomputes, 0u);
  cr_expect_eq(scene.result.totals.contractions, 1);
}

Test(tier, a_shrink_takes_what_is_evicted) {
  const TraceRow rows[] = {row(0, 20, 28), row(0, 20, 28)};
  scene.pools[0].kv_blocks = 4;
  use_script((Script){.holds = 100, .change_after = 2, .blocks = 3});
  run_both(rows, COUNT(rows), check_pressed);
}

/* As when KV has moved to another machine in the middle of a run: the tier is to know at the end of
 * the iteration. */
Test(tier, a_shrink_that_completes_in_a_run_ends_it) {
  const TraceRow rows[] = {row(0, 20, 10)};
  array_trace_init(&scene.trace, rows, COUNT(rows));
  scene.config.trace = &scene.trace.source;
  scene.config.audit = false;
  use_script((Script){.holds = 100, .blocks = 2});
  Simulation *engine = ARENA_NEW(&arena, Simulation);
  sim_init(engine, &scene.config, &arena, &diag);
  Instance *machine = &engine->instances[0];
  while (machine->activity != ACTIVITY_DECODE)
    cr_assert(sim_step(engine));
  cr_assert(machine->run.part == 9 && !machine->run.ends_soon);
  machine->wanted_blocks = 10; // 998 are free, all but 990 of them stay
  sim_withhold_blocks(engine, machine);
  sim_settle(engine);
  cr_expect(machine->kv_blocks == 10 && machine->free_blocks == 8);
  cr_expect(machine->withheld_blocks == 0 && machine->totals.contractions == 1);
  cr_expect(machine->run.part == 1 && machine->run.ends_soon);
}

Test(tier, room_is_what_there_always_will_be) {
  const TraceRow rows[] = {row(0, 20, 10), row(0, 40, 10)};
  scene.pools[0].kv_blocks = 2;
  use_script((Script){.holds = 100, .change_after = 1, .blocks = 8});
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect(!scene.records[0].rejected && scene.records[1].rejected);
}

/* --- FlexGen */

static void use_host(int64_t to_gpu, int64_t to_cpu) {
  PoolSpec *pool = &scene.pools[0];
  pool->kv_block_bytes = pool->block_size * pool->kv_bytes_per_token;
  pool->cpu_kv_blocks = 4 * pool->kv_blocks;
  pool->num_hidden_layers = 10;
  pool->weight_bytes = 10000000;
  pool->host_link = (HostLink){.options = {.to_gpu = to_gpu, .to_cpu = to_cpu, .efficiency = 1}};
}

/* 10 MB of weights take 10 ms; a token of KV is 1 MB: 1 ms in, 2 ms out. Prefill 20 + 10 + 10·2;
 * decodes with 11 and 12 tokens 11.11 + 10 + 11 + 2 and 11.12 + 10 + 12 + 2. */
static void check_flexgen(void) {
  cr_expect_eq(scene.records[0].first_token_at, 50 * MS);
  cr_expect_eq(scene.records[0].last_token_at, (50000 + 34110 + 35120) * US);
  cr_expect_eq(scene.result.totals.swapped_in_bytes, 3 * 10000000 + (11 + 12) * 1000000);
  cr_expect_eq(scene.result.totals.swapped_out_bytes, (10 + 2) * 1000000);
}

Test(tier, flexgen_waits_for_every_copy) {
  const TraceRow rows[] = {row(0, 10, 3)};
  use_host(1000000000, 500000000);
  scene_choose(&scene, POLICY_KVTIER, "flexgen", "{kv_on_cpu: 1}");
  run_both(rows, COUNT(rows), check_flexgen);
  cr_expect_eq(scene.result.totals.max_kv_blocks, 3999); // CPU memory less the weights
}

/* Halves of weights and KV: 5 ms; 0.5 ms in, 1 ms out. */
static void check_halves(void) {
  cr_expect_eq(scene.records[0].first_token_at, (20 + 5 + 10) * MS);
  cr_expect_eq(scene.records[0].last_token_at, (35000 + 11110 + 5000 + 5500 + 1000) * US);
}

Test(tier, flexgen_moves_the_shares_that_are_on_the_cpu) {
  const TraceRow rows[] = {row(0, 10, 2)};
  use_host(1000000000, 500000000);
  scene_choose(&scene, POLICY_KVTIER, "flexgen", "{weights_on_cpu: 0.5, kv_on_cpu: 0.5}");
  run_both(rows, COUNT(rows), check_halves);
}

/* As in flexgen_waits_for_every_copy, with a third decode of 13 tokens: 11.13 + 10 + 13 + 2 ms.
 * Background traffic takes half of the link, so that an iteration that begins with it copies for
 * twice as long, to its end: 35.12 ms are 59.12, and 36.13 are 61.13. */
static Tick background_ends_at;

static void check_flexgen_background(void) {
  cr_expect_eq(scene.records[0].first_token_at, 50 * MS);
  cr_expect_eq(scene.records[0].last_token_at, background_ends_at);
}

Test(tier, flexgen_iterations_copy_at_the_rate_with_which_they_begin) {
  static const struct {
    Tick from, to, ends_at;
  } cases[] = {
      {84110 * US - 1, 143230 * US, (84110 + 59120 + 36130) * US}, // the second decode
      {84110 * US, 84110 * US + 1, (84110 + 59120 + 36130) * US},
      {84110 * US, 143230 * US + 1, (84110 + 59120 + 61130) * US}, // and the third
      {84110 * US + 1, 119230 * US, (84110 + 35120 + 36130) * US}, // none: they begin apart
      {84110 * US + 1, 119230 * US + 1, (84110 + 35120 + 61130) * US},
  };
  const TraceRow rows[] = {row(0, 10, 4)};
  use_host(1000000000, 500000000);
  scene_choose(&scene, POLICY_KVTIER, "flexgen", "{kv_on_cpu: 1}");
  for (size_t i = 0; i < COUNT(cases); i++) {
    BackgroundTraffic traffic = {.from = cases[i].from, .to = cases[i].to, .share = 0.5};
    scene.pools[0].host_link.background = &traffic;
    scene.pools[0].host_link.n_background = 1;
    background_ends_at = cases[i].ends_at;
    run_both(rows, COUNT(rows), check_flexgen_background);
  }
}

/* FlexGen's own max(): of 20 ms to prefill 10 tokens, 10 to copy the weights in and 20 to copy
 * their KV out, none is more than the 20; of decodes of 11 and 12 tokens, in 11.11 and 11.12 ms, 21
 * and 22 ms to copy weights and KV in. */
static void check_overlap(void) {
  cr_expect_eq(scene.records[0].first_token_at, 20 * MS);
  cr_expect_eq(scene.records[0].last_token_at, (20 + 21 + 22) * MS);
}

/* KV alone: 1 ms a token in. A decode computes for 11.1 ms and 10 us a token, so copies take longer
 * from the twelfth token on. */
static void check_overlap_ends(void) {
  cr_expect_eq(scene.records[0].last_token_at, (20000 + 11110) * US + (12 + 13 + 14) * MS);
}

Test(tier, flexgen_copies_beside_compute_where_it_overlaps) {
  const TraceRow rows[] = {row(0, 10, 3)}, longer[] = {row(0, 10, 5)};
  use_host(1000000000, 500000000);
  scene_choose(&scene, POLICY_KVTIER, "flexgen", "{kv_on_cpu: 1, overlap: true}");
  run_both(rows, COUNT(rows), check_overlap);
  scene_choose(&scene, POLICY_KVTIER, "flexgen",
               "{weights_on_cpu: 0, kv_on_cpu: 1, overlap: true}");
  run_both(longer, COUNT(longer), check_overlap_ends);
}

/* Each copy of ten layers costs 100 kB more: 1 ms in, 2 ms out, of what is copied at all. */
static Tick small_copies;

static void check_flexgen_small_copies(void) {
  cr_expect_eq(scene.records[0].last_token_at - (20000 + 11110) * US, small_copies);
}

Test(tier, flexgen_pays_for_small_copies_only_where_it_copies) {
  static const struct {
    const char *options;
    Tick copies;
  } cases[] = {
      {"{weights_on_cpu: 0}", 0},
      {NULL, (11 + 11) * MS},                                      // weights, twice
      {"{weights_on_cpu: 0, kv_on_cpu: 1}", (22 + (12 + 4)) * MS}, // 10 out; 11 in and 1 out
  };
  const TraceRow rows[] = {row(0, 10, 2)};
  use_host(1000000000, 500000000);
  scene.pools[0].host_link.options.half_size = 100000;
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_KVTIER, "flexgen", cases[i].options);
    small_copies = cases[i].copies;
    run_both(rows, COUNT(rows), check_flexgen_small_copies);
  }
}

/* Prompts of 10 and 20 are prefilled as two of 20: 50 ms. Then two sequences of 21 tokens, of 22:
 * 12.42 and 12.44 ms, though the first ends after one of them. */
static void check_padded(void) {
  cr_expect_eq(scene.records[0].last_token_at, 62420 * US);
  cr_expect_eq(scene.records[1].last_token_at, 74860 * US);
  cr_expect_eq(scene.result.totals.padding_tokens, 10 + 1);
  cr_expect_eq(scene.result.totals.decode_tokens, 3);
}

Test(tier, padded_batches_are_as_long_as_their_longest) {
  const TraceRow rows[] = {row(0, 10, 2), row(0, 20, 3)};
  scene_choose(&scene, POLICY_KVTIER, "splitwise_sim", NULL);
  scene_choose(&scene, POLICY_BATCHER, "request_level", "{padded: true}");
  run_both(rows, COUNT(rows), check_padded);
}

/* --- Pie */

/* Many requests for little memory. */
static size_t crowd(TraceRow *rows) {
  for (int i = 0; i < 40; i++)
    rows[i] = row(i * 3 * MS, 20 + 7 * i % 60, 5 + 11 * i % 70);
  return 40;
}

static void check_all_served(void) {
  cr_expect_eq(scene.result.metrics.completed, 40u);
}

Test(tier, pie_with_a_fast_link_is_a_larger_memory) {
  TraceRow rows[SCENE_REQUESTS];
  const size_t n = crowd(rows);
  scene.pools[0].kv_blocks = 60;
  run_both(rows, n, check_all_served);
  const uint64_t digest = scene.result.digest;
  scene.pools[0].kv_blocks = 30;
  use_host(INT64_C(1000000000000000), INT64_C(1000000000000000));
  scene_choose(&scene, POLICY_KVTIER, "pie", "{expansion: 2}");
  run_both(rows, n, check_all_served);
  cr_expect_eq(scene.result.digest, digest);
  cr_expect_eq(scene.result.totals.stall_ticks, 0);
  cr_expect_gt(scene.result.totals.swapped_in_bytes, 0);
  cr_expect_eq(scene.result.totals.max_kv_blocks, 60);
}

static void check_waited(void) {
  cr_expect_gt(scene.result.totals.stall_ticks, 0);
  cr_expect_eq(scene.result.metrics.completed, 40u);
}

Test(tier, pie_with_a_slow_link_waits_to_the_tick_as_its_layers_do) {
  TraceRow rows[SCENE_REQUESTS];
  const size_t n = crowd(rows);
  scene.pools[0].kv_blocks = 30;
  use_host(INT64_C(12000000000), INT64_C(10000000000));
  scene_choose(&scene, POLICY_KVTIER, "pie", "{expansion: 2}");
  run_both(rows, n, check_waited);
  const uint64_t digest = scene.result.digest;
  scene_choose(&scene, POLICY_KVTIER, "pie", "{expansion: 2, layers: true}");
  run_both(rows, n, check_waited);
  cr_expect_eq(scene.result.digest, digest);
}

/* A model of 20 ms outside its layers, whose layers take `linear` altogether. */
static const PerfModel *empty_layers(Tick linear) {
  PerfModel *model = ARENA_NEW(&arena, PerfModel);
  const PwlKnot knots[] = {{1, tick_seconds(linear)}, {1000, tick_seconds(linear)}};
  *model = (PerfModel){.name = "empty", .form = PERF_COMPOSED, .overhead = 20 * MS};
  pwl_init(&model->linear, knots, COUNT(knots), false, &arena);
  perfmodel_compile(model, &(CurveTable){0}, 256, &arena);
  return model;
}

/* Layers without time of their own are those of next to none: what waits for its copies has the
 * overhead to hide them in neither way. */
Test(tier, pies_waits_do_not_jump_where_layers_begin_to_take_time) {
  const TraceRow rows[] = {row(0, 10, 9)};
  Tick first_token_at[3];
  use_host(INT64_C(12000000000), INT64_C(10000000000));
  scene.pools[0].kv_blocks = 30;
  scene_choose(&scene, POLICY_KVTIER, "pie", "{expansion: 2}");
  for (int i = 0; i < 3; i++) {
    scene.pools[0].perfmodel = empty_layers(i); // ticks
    scene_run_both(&scene, rows, COUNT(rows));
    first_token_at[i] = scene.records[0].first_token_at;
  }
  cr_expect_gt(first_token_at[0], 20 * MS);
  cr_expect_leq(first_token_at[1] - first_token_at[0], 1);
  cr_expect_leq(first_token_at[2] - first_token_at[1], 1);
}

static void check_adapted(void) {
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect_gt(totals->expansions, 0);
  cr_expect(totals->max_kv_blocks > 30 && totals->max_cpu_blocks <= 120);
}

/* Waits make it smaller again only where there are any. */
Test(tier, pie_adapts_to_the_link) {
  static const char options[] = "{window: 4, wait_steps: 2, wait_horizon: 4, probe_every: 40}";
  TraceRow rows[SCENE_REQUESTS];
  const size_t n = crowd(rows);
  scene.pools[0].kv_blocks = 30;
  use_host(INT64_C(1000000000000000), INT64_C(1000000000000000));
  scene_choose(&scene, POLICY_KVTIER, "pie", options);
  run_both(rows, n, check_adapted);
  const int64_t fast = scene.result.totals.max_kv_blocks;
  use_host(INT64_C(25000000000), INT64_C(25000000000));
  run_both(rows, n, check_adapted);
  cr_expect_gt(scene.result.totals.contractions, 0);
  cr_expect_lt(scene.result.totals.max_kv_blocks, fast);
}

/* Background traffic that takes nearly all of the link for a second, in the middle of runs. */
static void check_background(void) {
  cr_expect_gt(scene.result.totals.stall_ticks, 0);
}

Test(tier, pie_feels_background_traffic_while_it_lasts) {
  TraceRow rows[SCENE_REQUESTS];
  const size_t n = crowd(rows);
  scene.pools[0].kv_blocks = 30;
  use_host(INT64_C(1000000000000), INT64_C(1000000000000));
  scene_choose(&scene, POLICY_KVTIER, "pie", "{expansion: 2}");
  cr_assert_eq(scene_run(&scene, rows, n), 0);
  cr_assert_eq(scene.result.totals.stall_ticks, 0);
  BackgroundTraffic traffic = {.from = 333 * MS, .to = 1333 * MS, .share = 0.99};
  scene.pools[0].host_link.background = &traffic;
  scene.pools[0].host_link.n_background = 1;
  run_both(rows, n, check_background);
}

/* --- what cannot be */

static void expect_refusal(const char *name, const char *options, const char *words) {
  const PolicyChoice choice = choose_policy(POLICY_KVTIER, name, options, &arena);
  const KvTier *tier = (const KvTier *)choice.policy;
  const int n = diag.n_entries;
  cr_expect_eq(tier->check(choice.state, &scene.pools[0], place_of_file("x"), &diag), -1);
  cr_assert_eq(diag.n_entries, n + 1, "%s", words);
  cr_expect(strstr(diag.entries[n].message, words), "'%s'", diag.entries[n].message);
}

Test(tier, pools_that_cannot_have_a_tier_are_refused) {
  use_host(1000000000, 1000000000);
  const PoolSpec good = scene.pools[0];
  PoolSpec *pool = &scene.pools[0];
  expect_refusal("pie", "{expansion: 9}", "more layers than the model allows");
  pool->cpu_kv_blocks = 1000;
  expect_refusal("pie", "{expansion: 2}", "1400 blocks of KV in CPU memory, which holds 1000");
  *pool = good;
  pool->num_hidden_layers = 2;
  expect_refusal("pie", NULL, "models with 3 to 256");
  *pool = good;
  pool->cpu_kv_blocks = 0;
  expect_refusal("pie", NULL, "has none for KV");
  expect_refusal("flexgen", NULL, "of weights in CPU memory");
  *pool = good;
  pool->host_link.options.to_cpu = 0;
  expect_refusal("pie", NULL, "a bandwidth above 0");
  expect_refusal("flexgen", NULL, "a bandwidth above 0");
  *pool = good;
  pool->host_link.options.to_gpu = 1000;
  expect_refusal("pie", NULL, "a faster link");
}
