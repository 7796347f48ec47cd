/* Loads of experts and EPLB. Referees: the example that DeepSeek publishes with its algorithm,
 * closed forms, all placements of small cases, and runs whose times are added up by hand. */
#include "perfmodel/two_batches.h"
#include "sim/core/expert_balance.h"
#include "tests/unit/scene_testing.h"

TestSuite(experts, .init = setup_scene, .fini = teardown);

static const int32_t *place(Eplb *eplb, EplbShape shape, const int64_t *loads) {
  int32_t *expert_of = ARENA_ARRAY(&arena, int32_t, shape.n_slots);
  eplb_init(eplb, shape, &arena);
  eplb_place(eplb, loads, expert_of);
  return expert_of;
}

static double imbalance_of(EplbShape shape, const int64_t *loads) {
  Eplb eplb;
  const int32_t *expert_of = place(&eplb, shape, loads);
  return (double)eplb_imbalance(&eplb, loads, expert_of) / EPLB_ONE;
}

/* README of github.com/deepseek-ai/EPLB: two layers of 12 experts in 4 groups, 16 places on 8 GPUs
 * of 2 machines, and the placement that is printed there. */
Test(experts, deepseeks_example) {
  static const int64_t loads[2][12] = {{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
                                       {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}};
  static const int32_t printed[2][16] = {{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1},
                                         {7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}};
  const EplbShape shape = {12, 16, 8, 2, 4};
  for (int layer = 0; layer < 2; layer++) {
    Eplb eplb;
    const int32_t *expert_of = place(&eplb, shape, loads[layer]);
    for (int i = 0; i < 16; i++)
      cr_expect_eq(expert_of[i], printed[layer][i], "layer %d place %d: %d, not %d", layer, i,
                   expert_of[i], printed[layer][i]);
  }
}

Test(experts, equal_loads_gain_nothing) {
  int64_t loads[256];
  for (int e = 0; e < 256; e++)
    loads[e] = 1000;
  cr_expect_eq(imbalance_of((EplbShape){256, 256, 32, 4, 1}, loads), 1.0);
  cr_expect_eq(imbalance_of((EplbShape){256, 288, 32, 4, 8}, loads), 1.0,
               "a GPU has 7 experts and 2 of which there are 2");
}

/* One hot expert with k copies, each alone on its GPU, has load / k there. */
Test(experts, a_hot_expert_is_divided_by_its_copies) {
  for (int32_t k = 1; k <= 8; k++) {
    int64_t loads[17] = {[0] = INT64_C(840) << 20};
    const int32_t n = 17 - k;
    cr_expect_float_eq(imbalance_of((EplbShape){n, 16, 8, 1, 1}, loads), 8.0 / k, 1e-4);
  }
}

/* The least that the busiest of n_gpus can have, over all ways to give each expert copies and place
 * them, 2 on a GPU. */
typedef struct Search {
  const int64_t *loads;
  int32_t n_experts, n_slots;
  int32_t chosen[8];
  double best;
} Search;

static void try_all(Search *self, int32_t slot) {
  if (slot < self->n_slots) {
    for (int32_t e = 0; e < self->n_experts; e++) {
      self->chosen[slot] = e;
      try_all(self, slot + 1);
    }
    return;
  }
  int32_t copies[8] = {0};
  double most = 0;
  for (int32_t i = 0; i < self->n_slots; i++)
    copies[self->chosen[i]]++;
  for (int32_t e = 0; e < self->n_experts; e++)
    if (copies[e] == 0) return;
  for (int32_t i = 0; i < self->n_slots; i += 2) {
    double sum = 0;
    for (int32_t k = i; k < i + 2; k++)
      sum += (double)self->loads[self->chosen[k]] / copies[self->chosen[k]];
    if (sum > most) most = sum;
  }
  if (most < self->best) self->best = most;
}

/* Greedy packing is at most 4/3 of the optimum (Graham 1969); with the copies given greedily too,
 * no proof is known, and none of these cases is beyond. */
Test(experts, greedy_is_near_the_best_of_all_placements) {
  Rng rng;
  rng_init(&rng, 1, "experts");
  for (int round = 0; round < 40; round++) {
    int64_t loads[5], all = 0;
    for (int e = 0; e < 5; e++)
      all += loads[e] = 1 + (int64_t)rng_below(&rng, 1000);
    Search search = {.loads = loads, .n_experts = 5, .n_slots = 6, .best = 1e9};
    try_all(&search, 0);
    const double got = imbalance_of((EplbShape){5, 6, 3, 1, 1}, loads) * (double)all / 3;
    cr_assert_geq(got, search.best - 1, "round %d", round);
    cr_assert_leq(got, search.best * 4 / 3 + 1, "round %d: %g of %g", round, got, search.best);
  }
}

/* --- loads */

Test(experts, loads_follow_the_power_law_and_drift_keeps_it) {
  const ExpertLoadSpec spec = {
      .n_layers = 3, .n_experts = 4, .exponent = 1, .drift_interval = 10 * MS, .n_drifting = 2};
  ExpertLoad load;
  expert_load_init(&load, &spec, 7, "load", &arena);
  int64_t before[12];
  memcpy(before, load.loads, sizeof before);
  for (int drifts = 0; drifts < 50; drifts++) {
    for (int layer = 0; layer < 3; layer++) {
      int64_t sum = 0, squares = 0;
      for (int e = 0; e < 4; e++) {
        const int64_t x = load.loads[4 * layer + e];
        sum += x;
        squares += x * x >> 24;
      }
      cr_expect_leq(EXPERT_LOAD_ALL - sum, 4, "12/25, 6/25, 4/25 and 3/25");
      cr_expect_leq(llabs(squares - (INT64_C(205) << 24) / 625), 10);
    }
    expert_load_drift(&load);
  }
  cr_expect_eq(load.next_drift, 510 * MS);
  cr_expect_neq(memcmp(before, load.loads, sizeof before), 0);
}

/* --- runs */

/* Two ranks, four experts in one layer, an expert's weights of 1 MB over links of 1 GB/s: 1 ms. */
static ExpertSpec spec;
static PerfModel model;

static void give_experts(const double *loads, int64_t step_interval) {
  spec = (ExpertSpec){.load = {.n_layers = 1, .n_experts = 4, .measured = loads, .n_measured = 1},
                      .shape = {4, 4, 2, 1, 1},
                      .step_interval = step_interval,
                      .first_step = step_interval,
                      .window_size = 1000,
                      .expert_bytes = 1000000,
                      .node_rate = 1000000000,
                      .wide_rate = 1000000};
  static const PwlKnot knots[] = {{0, 0}, {1000, 1}}; // 1 ms a token
  model = *plain_model(&arena);
  pwl_init(&model.experts, knots, 2, false, &arena);
  model.busiest = 1;
  scene.pools[0].ranks = scene.pools[0].count = 2;
  scene.pools[0].perfmodel = &model;
  scene.pools[0].experts = &spec;
  scene_choose(&scene, POLICY_BATCHER, "vllm", "{async_scheduling: false}");
}

/* Both ranks prefill 10 tokens, 20 ms; the busiest GPU has 16/9 of the mean, so that experts of 20
 * tokens take as long as of 36: 16 ms more. By a model without ranks decodes are of 1 token, which
 * take as long as of 2: 1 ms more. */
Test(experts, a_step_takes_as_long_as_its_busiest_gpu) {
  static const double loads[] = {8, 8, 1, 1}, equal[] = {1, 1, 1, 1};
  const TraceRow rows[] = {row(0, 10, 3), row(0, 10, 3)};
  give_experts(equal, 0);
  run(rows, COUNT(rows));
  expect_at(scene.records[0].last_token_at, 20000 + 11110 + 11120, "equal loads");
  give_experts(loads, 0);
  run(rows, COUNT(rows));
  expect_at(scene.records[0].first_token_at, 36000, "prefill");
  expect_at(scene.records[0].last_token_at, 36000 + 12110 + 12120, "decodes");
  cr_expect_eq(scene.result.metrics.experts.rearrangements, 0u);
}

/* After two steps each GPU gives the other one expert, in 1 ms, and all is even. */
Test(experts, a_rearrangement_takes_the_time_of_its_bytes) {
  static const double loads[] = {8, 8, 1, 1};
  const TraceRow rows[] = {row(0, 10, 4), row(0, 10, 4)};
  give_experts(loads, 2);
  run(rows, COUNT(rows));
  const Tick two = 36000 + 12110;
  expect_at(scene.records[0].last_token_at, two + 1000 + 11120 + 11130, "with the pause");
  cr_expect_geq(scene.result.metrics.experts.rearrangements, 1u,
                "more in dummy steps behind the last");
  cr_expect(scene.result.metrics.experts.moved_bytes == 2000000);
  give_experts(loads, 2);
  spec.shape.n_nodes = 2; // 1 s over the slow link: not before the run ends
  spec.use_async = true;
  run(rows, COUNT(rows));
  expect_at(scene.records[0].last_token_at, two + 12120 + 12130, "beside the steps");
  spec.wide_rate = 100000000; // 10 ms: there as the next step but one begins
  run(rows, COUNT(rows));
  expect_at(scene.records[0].last_token_at, two + 12120 + 11130, "as soon as it is there");
}

/* An expert that a GPU has already is not moved, and one that its machine has comes from there. */
Test(experts, weights_come_from_the_nearest) {
  const ExpertSpec wide = {.load = {.n_layers = 1, .n_experts = 4},
                           .shape = {4, 8, 4, 2, 1},
                           .expert_bytes = 1000,
                           .node_rate = 1000000,
                           .wide_rate = 10000};
  ExpertBalance balance;
  expert_balance_init(&balance, &wide, 1, "move", &arena);
  static const int32_t from[] = {0, 1, 2, 3, 0, 1, 2, 3}, swapped[] = {1, 0, 3, 2, 0, 1, 2, 3};
  static const int32_t near[] = {0, 2, 2, 3, 0, 1, 2, 3}, far[] = {0, 1, 2, 3, 0, 1, 2, 2};
  static const int32_t lone[] = {0, 0, 0, 0, 1, 1, 2, 3}, cross[] = {0, 0, 0, 3, 1, 1, 2, 3};
  int64_t moved, loaded;
  cr_expect_eq(expert_balance_move(&balance, from, swapped, &moved, &loaded), 0);
  cr_expect_eq(moved, 0);
  cr_expect_eq(expert_balance_move(&balance, from, near, &moved, &loaded), MS,
               "over the machine's links");
  cr_expect_eq(moved, 1);
  cr_expect_eq(expert_balance_move(&balance, from, far, &moved, &loaded), 0, "it has expert 2");
  cr_expect_eq(expert_balance_move(&balance, lone, cross, &moved, &loaded), 100 * MS,
               "over the NIC");
  cr_expect_eq(moved, 1);
}

/* --- batches that are cut in two */

/* Both ranks have 100 prompt tokens, of which the half takes 50 ms of products and, of the 100 of
 * all, `exchange` of the 20 ms that are spread over all GPUs: 2·max(W, X) + min(W, X) / 4, where W
 * is 70 ms without the exchange, times 132/112. */
Test(experts, one_half_exchanges_while_the_other_computes) {
  static const PwlKnot linear[] = {{0, 0}, {1000, 1}}, spread[] = {{0, 0}, {1000, 0.2}};
  static const struct {
    double each_ms, us;
  } cases[] = {{0, 165000}, {0.1, 141428 + 2500}, {0.2, 117857 + 5000}};
  const BatchShape batch = {.prefill_tokens = 100};
  model = (PerfModel){.form = PERF_COMPOSED, .ranks = 1};
  pwl_init(&model.linear, linear, 2, false, &arena);
  pwl_init(&model.spread, spread, 2, false, &arena);
  perfmodel_compile(&model, &(CurveTable){0}, 8, &arena);
  for (size_t i = 0; i < COUNT(cases); i++) {
    TwoBatches two = {0};
    const PwlKnot exchange[] = {{0, 0}, {1000, cases[i].each_ms}};
    pwl_init(&model.communication, exchange, 2, false, &arena);
    for (int rank = 0; rank < 2; rank++)
      two_batches_add(&two, &model, &batch, 0, 0);
    cr_expect(!two.whole);
    const double got = 1e6 * tick_seconds(two_batches_ticks(&two, 4, 0));
    cr_expect_float_eq(got, cases[i].us, 1, "%g us", got);
  }
  TwoBatches small = {0};
  two_batches_add(&small, &model, &(BatchShape){.decode_seqs = 1, .logit_seqs = 1}, 0, 0);
  cr_expect(small.whole, "one decode is not cut");
}

/* Decodes of which half takes as long to compute as to exchange: a step is 2·10 + 10/4 ms, and
 * not 2·20; the head of 1 ms a sequence, and 5 ms of overhead, are of the whole. */
Test(experts, decodes_hide_their_exchange) {
  static const PwlKnot linear[] = {{0, 0}, {1000, 5}}, head[] = {{0, 0}, {1000, 1}};
  static const PwlKnot exchange[] = {{0, 0}, {1000, 2.5}};
  const BatchShape batch = {.decode_seqs = 8, .context_tokens = 800, .logit_seqs = 8};
  model = (PerfModel){.form = PERF_COMPOSED, .overhead = 5 * MS};
  pwl_init(&model.linear, linear, 2, false, &arena);
  pwl_init(&model.head, head, 2, false, &arena);
  pwl_init(&model.communication, exchange, 2, false, &arena);
  perfmodel_compile(&model, &(CurveTable){0}, 8, &arena);
  TwoBatches two = {0};
  two_batches_add(&two, &model, &batch, 0, 0);
  const double got = 1e3 * tick_seconds(two_batches_ticks(&two, 4, 0));
  cr_expect_float_eq(got, 5 + 8 + 22.5, 1e-3, "%g ms", got);
}

/* Where a rank has a dummy, the batch is whole. */
Test(experts, a_step_with_a_dummy_is_not_cut) {
  const TraceRow rows[] = {row(0, 10, 3)};
  Tick last[2];
  give_experts(NULL, 0);
  scene.pools[0].experts = NULL;
  for (int i = 0; i < 2; i++) {
    scene.pools[0].two_batches = i;
    run(rows, COUNT(rows));
    last[i] = scene.records[0].last_token_at;
  }
  cr_expect_eq(last[0], last[1]);
  scene.pools[0].two_batches = false;
}
