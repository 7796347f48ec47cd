/* Ranks of an instance that fail alone, where the others go on. Referees: times worked out by hand
 * from the plain model (sim_testing.h), and the share of time in which k of n ranks are without
 * faults. */
#include "sim/core/expert_balance.h"
#include "tests/unit/scene_testing.h"
#include <gsl/gsl_randist.h>

TestSuite(rank_failures, .init = setup_scene, .fini = teardown);

enum { RANKS_MOST = 6 };

static ExpertSpec spec;
static PerfModel model;
static FaultSource sources[RANKS_MOST];
static FaultSpan spans[RANKS_MOST];

/* Ranks of a GPU each, with `places` for the experts of a layer; experts of 1 MB each over links of
 * 1 GB/s take 1 ms, and their tokens 1 ms each. */
static void give_ranks(uint32_t n, int32_t n_experts, int32_t places) {
  static const double equal[RANKS_MOST] = {1, 1, 1, 1, 1, 1};
  static const PwlKnot knots[] = {{0, 0}, {1000, 1}};
  spec = (ExpertSpec){
      .load = {.n_layers = 1, .n_experts = n_experts, .measured = equal, .n_measured = 1},
      .shape = {n_experts, places * (int32_t)n, (int32_t)n, 1, 1},
      .window_size = 1000,
      .expert_bytes = 1000000,
      .node_rate = 1000000000,
      .wide_rate = 1000000};
  model = *plain_model(&arena);
  pwl_init(&model.experts, knots, 2, false, &arena);
  model.busiest = 1;
  PoolSpec *pool = &scene.pools[0];
  pool->ranks = pool->count = pool->lanes = n;
  pool->perfmodel = &model;
  pool->experts = &spec;
  pool->shrinks = true;
  pool->rank_recovery = 100 * MS;
  scene.config.retry.limit = 1;
  scene.config.faults = sources;
  scene_choose(&scene, POLICY_BATCHER, "sglang", "{enable_overlap_schedule: false}");
}

/* Rank `i` is without a GPU for that time, in ms. */
static void fail_rank(uint32_t i, Tick from, Tick until) {
  const uint32_t k = scene.config.n_faults++;
  spans[k] = (FaultSpan){from * MS, until * MS};
  sources[k] = (FaultSource){.first = i, .n_instances = 1, .spans = &spans[k], .n_spans = 1};
}

/* Both ranks prefill 10 tokens until 20 ms, and make a token in 11.11 ms. Rank 1 fails in that.
 * Rank 0 has all experts too, so that it waits 100 ms and no more, and then has twice the tokens of
 * the mean: 1 ms more for a decode, 10 ms for the prompt of the lost request. When rank 1 is back,
 * it gets the two that EPLB has there, and both are as fast as at first. */
Test(rank_failures, the_others_go_on_and_take_over_the_experts) {
  const TraceRow rows[] = {row(0, 10, 3), row(0, 10, 3), row(2000 * MS, 10, 1),
                           row(2000 * MS, 10, 1)};
  give_ranks(2, 4, 4);
  fail_rank(1, 25, 1000);
  run(rows, COUNT(rows));
  const Tick third = 125000 + 12120, prefilled = third + 30000;
  expect_at(scene.records[0].last_token_at, third, "it decodes after the wait");
  expect_at(scene.records[1].last_token_at, prefilled + 12110 + 12120, "the lost one");
  cr_expect_eq(scene.records[1].decode_instance, 0u);
  expect_at(scene.records[2].first_token_at, 2020000, "with both");
  expect_at(scene.records[3].first_token_at, 2020000, "with both");
  cr_expect_eq(scene.result.metrics.losses, 1u);
  cr_expect_eq(scene.result.metrics.experts.rearrangements, 2u);
  cr_expect(scene.result.metrics.experts.moved_bytes == 2000000);
  cr_expect(scene.result.metrics.experts.move_ticks == 2 * MS);
  expect_at((Tick)scene.result.instances[1].down_ticks / US * US, 975000, "of rank 1");
  expect_at((Tick)scene.result.pools[0].up_ticks[0], 0, "the instance serves all the time");
}

/* Experts 2 and 3 are on rank 1 alone: 2 MB at 100 MB/s. The two ranks that are left have 3/2 of
 * the mean, which rounds one token up to two. */
Test(rank_failures, experts_that_nobody_has_are_loaded) {
  const TraceRow rows[] = {row(0, 10, 3)};
  give_ranks(3, 4, 2);
  scene.pools[0].start_up.bandwidth = 100000000;
  fail_rank(1, 30, 100000);
  run(rows, COUNT(rows));
  expect_at(scene.records[0].last_token_at, 150000 + 12120, "after 100 and 20 ms");
  cr_expect(scene.result.metrics.experts.moved_bytes == 2000000);
  cr_expect(scene.result.metrics.experts.move_ticks == 20 * MS);
}

/* Without places for all experts the instance stops, and all of it starts again. */
Test(rank_failures, too_few_ranks_stop) {
  const TraceRow rows[] = {row(0, 10, 3), row(0, 10, 3)};
  give_ranks(2, 4, 2);
  scene.config.detection = 50 * MS;
  fail_rank(1, 25, 1000);
  run(rows, COUNT(rows));
  for (int i = 0; i < 2; i++)
    expect_at(scene.records[i].last_token_at / US * US, 1020000 + 11110 + 11120, "from anew");
  cr_expect_eq(scene.result.metrics.losses, 2u);
  cr_expect_eq(scene.result.totals.failures, 1, "one rank has failed");
  expect_at((Tick)scene.result.pools[0].up_ticks[0] / US * US, 975000, "nothing is up");
}

/* Ranks 0 and 1 of three fail, of which two are enough; rank 0 is back at 500 ms, with which there
 * are two again, and rank 1 joins them at 700 ms: 7 ms later, and with the time of the experts. */
Test(rank_failures, as_many_as_are_enough_start_and_others_join) {
  const TraceRow rows[] = {row(0, 10, 2), row(695 * MS, 10, 3)};
  give_ranks(3, 4, 2);
  fail_rank(0, 60, 500);
  fail_rank(1, 300, 700);
  scene.pools[0].rank_rejoin = 7 * MS;
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.losses, 0u, "its second token came by then");
  const InstanceIx at = scene.records[1].decode_instance;
  cr_expect(at == 0 || at == 2);
  expect_at(scene.records[1].first_token_at, 695000 + 26000, "11 tokens are as 17 then");
  const Tick two = scene.records[1].last_token_at - scene.records[1].first_token_at;
  const Tick moves = two - (7000 + 11110 + 11120) * US;
  cr_expect(moves >= MS && moves <= 4 * MS && moves % MS == 0, "%f ms", (double)moves / MS);
}

/* The prompt takes until 20 ms, a decode until 31.11 ms, and then experts move for 100 ms. In that
 * all ranks fail, which is found out at 560 ms: the decode that has been decided does not begin.
 * All is made again, with the wait. */
Test(rank_failures, what_waits_for_experts_does_not_begin_on_ranks_that_failed) {
  const TraceRow rows[] = {row(0, 10, 4)};
  give_ranks(2, 4, 4);
  spec.step_interval = spec.first_step = 2;
  spec.rearrange_time = 100 * MS;
  scene.pools[0].shrinks = false;
  scene.config.detection = 500 * MS;
  fail_rank(0, 60, 1000);
  sources[0].n_instances = 2;
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.losses, 1u);
  cr_expect_eq(scene.result.totals.prefill_tokens, 20);
  cr_expect_eq(scene.result.totals.decode_tokens, 1 + 3);
  expect_at(scene.records[0].last_token_at / US * US, 1131110 + 11120 + 11130, "from anew");
}

/* --- the share of time in which k of n are without faults */

/* Mean and standard error over seeds of the share of time that the instance is up. */
static double up_share(int32_t n_experts, double *ret_error) {
  enum { SEEDS = 20, CYCLES = 60 };
  const Tick span = CYCLES * 125 * TICKS_PER_SECOND;
  const TraceRow rows[] = {row(0, 1, 1), row(span, 1, 1)}; // from the first to the last
  double sum = 0, squares = 0;
  for (uint32_t seed = 1; seed <= SEEDS; seed++) {
    scene_init(&scene, &arena, &diag);
    give_ranks(RANKS_MOST, n_experts, 1);
    scene.pools[0].rank_recovery = 0;
    scene.config.seed = seed;
    scene.config.n_faults = RANKS_MOST;
    for (uint32_t i = 0; i < RANKS_MOST; i++)
      sources[i] = (FaultSource){.first = i,
                                 .n_instances = 1,
                                 .up = {LIFETIME_EXPONENTIAL, 100, 0},
                                 .down = {LIFETIME_EXPONENTIAL, 25, 0}};
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
    const Total *up = scene.result.pools[0].up_ticks;
    const double share = (double)up[1] / (double)(up[0] + up[1]);
    sum += share;
    squares += share * share;
  }
  const double mean = sum / SEEDS;
  *ret_error = sqrt((squares / SEEDS - mean * mean) / (SEEDS - 1));
  return mean;
}

/* 6 ranks with one expert each of 6, 5 or 4: an instance without redundant experts needs all. */
Test(rank_failures, availability_is_that_of_k_of_n, STATISTICS) {
  for (int32_t k = 4; k <= RANKS_MOST; k++) {
    double error, want = 0;
    for (unsigned down = 0; down <= (unsigned)(RANKS_MOST - k); down++)
      want += gsl_ran_binomial_pdf(down, 0.2, RANKS_MOST);
    const double got = up_share(k, &error);
    cr_expect_lt(fabs(got - want), 3 * error, "%d of 6: %g, expected %g, error %g", k, got, want,
                 error);
    cr_expect_lt(error, 0.1 * want, "too wide an interval to tell");
  }
}
