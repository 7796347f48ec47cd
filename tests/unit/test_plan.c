/* Plans of measurements. Pinned: that a run cut short after the coarse points has every term from
 * end to end, that order and digest are functions of the seed and the plan, and what is waived. */
#include "calib/operators.h"
#include "calib/plan.h"
#include "tests/unit/testing.h"

TestSuite(plan, .init = setup, .fini = teardown);

static const CalibDevice gpu = {.sm = 90}, cpu = {.sm = 0, .n_units = 2};

static CalibModel model_of(CalibPositions positions) {
  return (CalibModel){.name = "m",
                      .num_hidden_layers = 8,
                      .hidden_size = 512,
                      .num_attention_heads = 8,
                      .num_key_value_heads = 4,
                      .head_dim = 64,
                      .intermediate_size = 1536,
                      .vocab_size = 32000,
                      .max_position_embeddings = 2048,
                      .positions = positions,
                      .tensor_parallel_size = 1,
                      .block_size = 16};
}

static Plan plan_of(const CalibModel *model, const CalibDevice *device, uint64_t seed,
                    const bool *only) {
  Plan plan;
  const PlanOptions options = {.seed = seed, .only = only};
  plan_init(&plan, model, device, &options, &arena);
  return plan;
}

Test(plan, classes_come_in_order_and_the_first_two_have_every_term) {
  const CalibModel model = model_of(CALIB_ROPE);
  const CalibDevice *devices[] = {&gpu, &cpu};
  for (int d = 0; d < 2; d++) {
    const Plan plan = plan_of(&model, devices[d], 1, NULL);
    int terms[CALIB_N_OPS] = {0}, prefills = 0, decodes = 0, mixed = 0;
    for (size_t i = 0; i < plan.n; i++) {
      const PlanPoint *point = &plan.points[i];
      if (i > 0) cr_assert_geq(point->class, plan.points[i - 1].class);
      cr_expect(calib_is_term(point->point.op) == (point->class < PLAN_DETAIL));
      if (point->class > PLAN_COARSE) continue;
      terms[point->point.op]++;
      if (point->point.op != CALIB_ITERATION) continue;
      prefills += point->shape.decode_seqs == 0;
      decodes += point->shape.prefill_tokens == 0;
      mixed += point->shape.decode_seqs > 0 && point->shape.prefill_tokens > 0;
    }
    for (int op = 0; calib_is_term((CalibOp)op); op++)
      cr_expect_geq(terms[op], 4, "%s has %d points", calib_op_name((CalibOp)op), terms[op]);
    cr_expect(prefills >= 3 && decodes >= 3 && mixed >= 2);
    cr_expect_eq(plan.points[0].class, PLAN_ANCHOR);
  }
}

Test(plan, no_point_is_there_twice_and_each_has_work) {
  const CalibModel model = model_of(CALIB_ROPE);
  const Plan plan = plan_of(&model, &gpu, 1, NULL);
  bool *seen = ARENA_ARRAY(&arena, bool, plan.n + 1);
  for (size_t i = 0; i < plan.n; i++) {
    const PlanPoint *a = &plan.points[i];
    cr_assert(a->configuration >= 1 && a->configuration <= (int64_t)plan.n);
    cr_assert(!seen[a->configuration]);
    seen[a->configuration] = true;
    cr_assert_gt(calib_work(&model, &a->point).bytes, 0);
    for (size_t k = 0; k < i; k++) {
      const PlanPoint *b = &plan.points[k];
      const bool same_batch = memcmp(&a->shape, &b->shape, sizeof a->shape) == 0;
      cr_assert(a->point.op != b->point.op || a->point.mode != b->point.mode ||
                    a->point.hot != b->point.hot || a->point.busy != b->point.busy ||
                    a->point.size != b->point.size || !same_batch,
                "points %zu and %zu are the same '%s'", k, i, calib_op_name(a->point.op));
    }
  }
}

Test(plan, the_seed_decides_the_order_and_not_the_digest) {
  const CalibModel model = model_of(CALIB_ROPE);
  const Plan a = plan_of(&model, &gpu, 1, NULL), b = plan_of(&model, &gpu, 1, NULL);
  const Plan c = plan_of(&model, &gpu, 2, NULL);
  size_t moved = 0;
  for (size_t i = 0; i < a.n; i++) {
    cr_assert_eq(a.points[i].configuration, b.points[i].configuration);
    moved += a.points[i].configuration != c.points[i].configuration;
  }
  cr_expect_gt(moved, a.n / 2);
  cr_expect(a.digest == b.digest && a.digest == c.digest);
  CalibModel other = model;
  other.tensor_parallel_size = 2;
  bool only[CALIB_N_OPS] = {[CALIB_LINEAR] = true};
  cr_expect_neq(plan_of(&other, &gpu, 1, NULL).digest, a.digest);
  cr_expect_neq(plan_of(&model, &cpu, 1, NULL).digest, a.digest);
  cr_expect_neq(plan_of(&model, &gpu, 1, only).digest, a.digest);
}

Test(plan, only_some_operators) {
  const CalibModel model = model_of(CALIB_ROPE);
  const bool only[CALIB_N_OPS] = {[CALIB_LINEAR] = true, [CALIB_NORM] = true};
  const Plan plan = plan_of(&model, &gpu, 1, only);
  cr_assert_gt(plan.n, 20);
  for (size_t i = 0; i < plan.n; i++)
    cr_assert(only[plan.points[i].point.op]);
}

Test(plan, learned_positions_end) {
  const CalibModel learned = model_of(CALIB_LEARNED), rotary = model_of(CALIB_ROPE);
  const Plan plan = plan_of(&learned, &gpu, 1, NULL), all = plan_of(&rotary, &gpu, 1, NULL);
  size_t waived = 0;
  for (size_t i = 0; i < plan.n; i++) {
    const CalibBatch *batch = &plan.points[i].point.batch;
    bool beyond = false;
    for (int32_t k = 0; k < batch->n_prefills + batch->n_decodes; k++)
      beyond |= batch->sequences[k].new_tokens + batch->sequences[k].past_tokens > 2048;
    cr_assert_eq(plan.points[i].waived != NULL, beyond);
    waived += beyond;
  }
  cr_expect_gt(waived, 0);
  cr_expect_eq(plan_left(&plan), plan.n - waived);
  cr_expect_eq(plan_left(&all), all.n);
}
