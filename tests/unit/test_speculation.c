/* Speculative decoding where a scheduler decides step by step. Pinned: how many tokens a step makes
 * of a request at each acceptance, what it takes, and what is refused. Not pinned here: who gets
 * which drafts and blocks, in differential_vllm. */
#include "sim/batcher/speculative.h"
#include "tests/unit/scene_testing.h"

TestSuite(speculation, .init = setup_scene, .fini = teardown);

static void choose(const char *speculative) {
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               arena_printf(&arena, "{speculative: {%s}}", speculative));
}

/* Twelve tokens after the first. With async scheduling the step after the last is decided by then,
 * and is in vain. */
Test(speculation, a_step_makes_as_many_tokens_as_are_accepted_and_one) {
  static const struct {
    const char *acceptance;
    int64_t steps, accepted;
  } cases[] = {{"1", 12, 0}, {"2", 6, 6}, {"3", 4, 8}, {"4", 3, 9}, {"[1, 1, 0]", 4, 8}};
  const TraceRow rows[] = {row(0, 10, 13)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    choose(arena_printf(&arena, "method: ngram, num_speculative_tokens: 3, acceptance: %s",
                        cases[i].acceptance));
    run(rows, 1);
    const InstanceTotals *totals = &scene.result.totals;
    const int64_t in_vain = cases[i].accepted > 0;
    cr_expect_eq(totals->decode_iterations, cases[i].steps + in_vain, "%s", cases[i].acceptance);
    cr_expect_eq(totals->accepted_tokens, cases[i].accepted, "%s", cases[i].acceptance);
    cr_expect_eq(totals->draft_tokens, 3 * cases[i].steps, "%s", cases[i].acceptance);
    cr_expect_eq(totals->decode_tokens, 12);
    cr_expect_eq(totals->padding_tokens, in_vain);
    cr_expect_eq(scene.result.metrics.tbt.total, 12);
  }
}

/* The least-variance schedule: its mean is that asked for, within four standard errors. */
Test(speculation, a_mean_length_is_met) {
  const TraceRow rows[] = {row(0, 10, 8001)};
  scene.pools[0].kv_blocks = 1000;
  choose("method: ngram, num_speculative_tokens: 4, acceptance: 2.3");
  run(rows, 1);
  const InstanceTotals *totals = &scene.result.totals;
  const double steps = (double)(totals->decode_tokens - totals->accepted_tokens);
  cr_expect_eq(totals->decode_tokens, 8000);
  cr_expect_float_eq(8000 / steps, 2.3, 4 * 0.46 / 59);
}

/* Twelve tokens after the first of each: a component has its own before that of its class. */
Test(speculation, components_and_classes_have_acceptance_of_their_own) {
  static const ClassSpec classes[] = {{.name = "interactive", .max_queue = -1},
                                      {.name = "batch", .max_queue = -1}};
  static const TenantSpec tenants[] = {{.name = "all", .weight = 1}};
  static const ComponentSpec components[] = {
      {.name = "chat"}, {.name = "code"}, {.name = "papers", .class = 1}};
  static const int64_t accepted[] = {6, 9, 0};
  scene.config.classes = classes;
  scene.config.tenants = tenants;
  scene.config.components = components;
  scene.config.n_classes = 2;
  scene.config.n_tenants = 1;
  scene.config.n_components = 3;
  choose("method: ngram, num_speculative_tokens: 3,"
         " acceptance: {interactive: 2, code: [1, 1, 1], batch: 1}");
  for (uint16_t i = 0; i < COUNT(components); i++) {
    TraceRow one = row(0, 10, 13);
    one.component = i;
    run(&one, 1);
    cr_expect_eq(scene.result.totals.accepted_tokens, accepted[i], "%s", components[i].name);
  }
}

Test(speculation, a_drafter_takes_its_time_in_each_step) {
  const TraceRow rows[] = {row(0, 10, 13)};
  Tick last[2];
  for (int i = 0; i < 2; i++) {
    choose(arena_printf(&arena,
                        "method: mtp, num_speculative_tokens: 1, acceptance: 2, drafter_time: %s",
                        i ? "3ms" : "0ms"));
    run(rows, 1);
    last[i] = scene.records[0].last_token_at;
  }
  cr_expect_eq(last[1] - last[0], 7 * 3 * MS);
}

/* All blocks are there for the KV of one request and its drafts, so the later one gives way. */
Test(speculation, blocks_reach_ahead_of_what_is_sure) {
  const TraceRow rows[] = {row(0, 14, 20), row(0, 14, 20)};
  scene.pools[0].kv_blocks = 4;
  choose("method: eagle, num_speculative_tokens: 5, acceptance: 1, drafter_time: 0s");
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.completed, 2);
  cr_expect_gt(scene.result.metrics.preemptions, 0);
}

Test(speculation, what_cannot_be_is_refused) {
  static const char *const wrong[] = {
      "{method: ngram, num_speculative_tokens: 2}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: 3.5}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: 0.5}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: [0.5]}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: [0.5, 0.6]}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: 2, mtp_modules: 2}",
      "{method: draft_model, num_speculative_tokens: 2, acceptance: 2}",
      "{num_speculative_tokens: 2, acceptance: 2}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: {}}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: {chat: 2, code: 4}}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: {chat: {code: 2}}}",
      "{method: ngram, num_speculative_tokens: 2, acceptance: 2, acceptance_error: 1.5}",
  };
  for (size_t i = 0; i < COUNT(wrong); i++) {
    Speculation speculation;
    const Node *map = yaml_parse("x", wrong[i], strlen(wrong[i]), &arena, &diag);
    cr_assert(map);
    cr_expect_lt(speculative_bind(&speculation, map, place_of_file("x"), &arena, &diag), 0, "%s",
                 wrong[i]);
  }
}
