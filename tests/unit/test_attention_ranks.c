/* Attention data parallelism of a machine: a request is on one rank. Pinned: what KV memory it may
 * take, how many tokens of a prompt a step computes, what the busiest rank has of an iteration, and
 * that whole prompts stay on one rank and wait for others.
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

/* Whole prompts of TensorRT-LLM: of three, two ranks of 100 tokens have room for two at once, and
 * each is on the rank with the fewest requests. */
Test(attention_ranks, whole_prompts_have_the_tokens_of_their_rank) {
  const TraceRow rows[] = {row(0, 60, 1), row(0, 70, 1), row(0, 60, 1)};
  static const Tick first_us[][3] = {{70000, 150000, 220000}, {140000, 140000, 210000}};
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               "{async_scheduling: false, max_num_batched_tokens: 100, "
               "enable_chunked_prefill: false}");
  for (int ranks = 1; ranks <= 2; ranks++) {
    scene.pools[0].attention_ranks = ranks;
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++)
      expect_at(scene.records[r].first_token_at, first_us[ranks - 1][r], ranks > 1 ? "two" : "one");
  }
}

/* One whose rank is full is passed over; one that no rank has room for is cut. */
Test(attention_ranks, a_prompt_goes_before_one_whose_rank_is_full) {
  const TraceRow rows[] = {row(0, 60, 1), row(0, 20, 1), row(0, 60, 1), row(0, 70, 1)};
  const TraceRow longer[] = {row(0, 130, 1)};
  scene.pools[0].attention_ranks = 2;
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               "{async_scheduling: false, max_num_batched_tokens: 100, "
               "enable_chunked_prefill: false}");
  run(rows, COUNT(rows));
  expect_at(scene.records[3].first_token_at, 160000, "the fourth");
  expect_at(scene.records[2].first_token_at, 230000, "the third");
  run(longer, 1);
  expect_at(scene.records[0].first_token_at, 150000, "in two steps");
}

/* Two decode, one on each rank, from 30 ms on in steps of 12.22, 12.24, 12.26 ms, … . A third comes
 * at 35 ms: it waits for the fourth iteration since prompts were let in, or for a fourth prompt, of
 * 45 ms, on the other rank. With a draft of each a step takes 2 ms more, and as many are waited
 * for. */
Test(attention_ranks, prompts_wait_for_one_on_each_rank) {
  const TraceRow rows[] = {row(0, 10, 30), row(0, 10, 30), row(35 * MS, 10, 2),
                           row(45 * MS, 10, 2)};
  static const struct {
    const char *options;
    size_t n;
    Tick began_us;
  } cases[] = {{"{async_scheduling: false, enable_chunked_prefill: false}", 3, 42220},
               {"{async_scheduling: false, enable_chunked_prefill: false, "
                "attention_dp_timeout_iters: 4}",
                3, 66720},
               {"{async_scheduling: false, enable_chunked_prefill: false, "
                "attention_dp_timeout_iters: 4}",
                4, 54460},
               {"{async_scheduling: false, enable_chunked_prefill: false, "
                "speculative: {method: ngram, num_speculative_tokens: 1, acceptance: 1}}",
                3, 44220},
               {"{async_scheduling: false, enable_chunked_prefill: false, "
                "attention_dp_timeout_iters: 4, "
                "speculative: {method: ngram, num_speculative_tokens: 1, acceptance: 1}}",
                3, 72720}};
  scene.pools[0].attention_ranks = 2;
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_BATCHER, "vllm", cases[i].options);
    run(rows, cases[i].n);
    for (size_t r = 2; r < cases[i].n; r++)
      expect_at(scene.records[r].prefill_began_at, cases[i].began_us, cases[i].options);
  }
}
