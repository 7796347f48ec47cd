/* Attention data parallelism of a machine: a request is on one rank. Pinned: what KV memory it may
 * take, how many tokens of a prompt a step computes, and what the busiest rank has of an iteration.
 * Not pinned here: what that takes, in test_roofline. */
#include "sim/core/attention_ranks.h"
#include "tests/unit/scene_testing.h"

TestSuite(attention_ranks, .init = setup_scene, .fini = teardown);

/* Four ranks have five blocks of 16 each, and a request is on one of them. */
Test(attention_ranks, a_request_fits_into_the_memory_of_a_rank) {
  const TraceRow rows[] = {row(0, 60, 10), row(0, 60, 40), row(0, 100, 2), row(0, 79, 1)};
  const Rejection rejected[][2] = {{REJECTED_NOT, REJECTED_NOT},
                                   {REJECTED_NOT, REJECTED_KV_MEMORY},
                                   {REJECTED_NOT, REJECTED_KV_MEMORY},
                                   {REJECTED_NOT, REJECTED_NOT}};
  scene.pools[0].kv_blocks = 20;
  scene_choose(&scene, POLICY_BATCHER, "vllm", "{enable_prefix_caching: false}");
  for (int i = 0; i < 2; i++) {
    scene.pools[0].attention_ranks = i ? 4 : 1;
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++)
      cr_expect_eq(scene.records[r].rejected, rejected[r][i], "request %zu, case %d", r, i);
  }
}

/* Each of two ranks computes 50 of the 100 tokens of a step. */
Test(attention_ranks, a_prompt_has_the_tokens_of_its_rank) {
  const TraceRow rows[] = {row(0, 100, 1)};
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               "{async_scheduling: false, max_num_batched_tokens: 100}");
  run(rows, 1);
  expect_at(scene.records[0].first_token_at, 110000, "one rank");
  scene.pools[0].attention_ranks = 2;
  run(rows, 1);
  expect_at(scene.records[0].first_token_at, 120000, "two ranks");
}

/* In order each to the rank with the fewest tokens, none beyond what a rank computes in a step. */
Test(attention_ranks, chunks_go_to_the_rank_that_has_the_fewest) {
  static const struct {
    int64_t most, tokens[4], busiest;
  } cases[] = {{INT64_MAX, {100, 10, 10, 10}, 100},
               {INT64_MAX, {50, 50, 50, 0}, 100},
               {INT64_MAX, {40, 30, 30, 20}, 60},
               {80, {70, 70, 20, 0}, 80}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    Ranks ranks = {0};
    ranks_begin(&ranks, 2, cases[i].most, &arena);
    for (int k = 0; k < 4; k++)
      ranks_add(&ranks, cases[i].tokens[k], 10 * cases[i].tokens[k]);
    const RankShare busiest = ranks_busiest(&ranks);
    cr_expect_eq(busiest.prefill_tokens, cases[i].busiest, "case %zu: %d", i,
                 (int)busiest.prefill_tokens);
    cr_expect_eq(busiest.prefill_area2, 10 * cases[i].busiest, "case %zu", i);
  }
}
