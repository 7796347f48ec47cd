/* A scheduler that decides as SGLang's. Pinned: rules that no recorded run shows (the order of all
 * else is in differential_sglang), worked out by hand. */
#include "sim/router/router.h"
#include "tests/unit/scene_testing.h"

TestSuite(rounds, .init = setup_scene, .fini = teardown);

/* The chunks of a request, in order. */
typedef struct Chunks {
  uint64_t request;
  int32_t tokens[16];
  size_t n;
} Chunks;

static void keep_chunks(void *context, const StepRecord *step) {
  Chunks *self = context;
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].request == self->request && step->items[i].prefills)
      self->tokens[self->n++] = step->items[i].tokens;
}

static void choose(int64_t kv_tokens, const char *options) {
  scene.pools[0].kv_blocks = kv_tokens;
  scene.pools[0].block_size = 1;
  scene_choose(&scene, POLICY_BATCHER, "sglang", options);
}

static TraceRow allowed(TraceRow of, int32_t max_tokens) {
  of.max_tokens = max_tokens;
  return of;
}

/* With 0 of 10 tokens of its prompt decoded beside, the first one has made 1 of 5 tokens at the
 * second round and reserves the other 4. Of K tokens of memory K - 10 - 4 are left; the second
 * needs 8 + 3 and a page, 12, and must leave something: 27 are enough, 26 are not. */
Test(rounds, a_prompt_must_need_less_than_what_is_left) {
  const TraceRow rows[] = {row(0, 10, 5), row(5 * MS, 8, 3)};
  for (int64_t tokens = 26; tokens <= 27; tokens++) {
    choose(tokens, "{schedule_conservativeness: 2, enable_overlap_schedule: false}");
    run(rows, COUNT(rows));
    const Tick began_at = scene.records[1].prefill_began_at;
    cr_expect_eq(scene.records[0].first_token_at, 20 * MS);
    cr_expect_eq(began_at, tokens == 27 ? 20 * MS : scene.records[0].last_token_at);
  }
}

/* Four that have made k of 30 tokens reserve 0.7 (30 - k) each, and decode in each step. The prompt
 * of 60 tokens comes when k is 1: of 152 tokens of memory, less 4 prompts and 4 decodes,
 * 144 - 81.2 = 62.8 are left, and 60 + 1 + 1 are needed. Each round takes 10 of the chunk, 4 for
 * decodes, and gives back 2.8: in the sixth 6.8 are left for the last 10. In the seventh -0.4 are
 * left, so that no limit holds, and it need not wait for the others. */
Test(rounds, a_chunk_goes_on_with_no_more_than_whole_tokens_that_are_left) {
  static const int32_t chunks[] = {10, 10, 10, 10, 10, 6, 4};
  const TraceRow one = allowed(row(0, 1, 20), 30);
  const TraceRow rows[] = {one, one, one, one, allowed(row(5 * MS, 60, 1), 1)};
  Chunks kept = {.request = 4};
  choose(152, "{max_num_batched_tokens: 14, enable_mixed_chunk: true, enable_prefix_caching: "
              "false, enable_overlap_schedule: false}");
  run(rows, COUNT(rows));
  scene.config.on_step = keep_chunks;
  scene.config.on_step_context = &kept;
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_assert_eq(kept.n, COUNT(chunks));
  for (size_t i = 0; i < COUNT(chunks); i++)
    cr_expect_eq(kept.tokens[i], chunks[i], "chunk %zu: %d", i, kept.tokens[i]);
  cr_expect_lt(scene.records[4].first_token_at, scene.records[0].last_token_at);
}

/* The first runs, the second is between two chunks, which holds one of two places. */
Test(rounds, one_between_two_chunks_holds_a_place) {
  const TraceRow rows[] = {row(0, 4, 30), row(0, 20, 3), row(0, 2, 3)};
  choose(1000, "{max_num_batched_tokens: 16, max_num_seqs: 2}");
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_began_at, 0);
  cr_expect_geq(scene.records[2].prefill_began_at, scene.records[1].last_token_at);
}

/* Two run, on both of two places, in steps of 12.2 ms from 30 ms on. The fourth of them makes the
 * last token of the second, and the third request is known of as it begins. What is decided then is
 * the step behind, and nobody knows of that token yet: the first decodes alone in it, in 11.2 ms,
 * and the third joins the next one. */
Test(rounds, one_that_has_made_its_last_token_holds_a_place_until_that_is_known) {
  const TraceRow rows[] = {row(0, 10, 30), row(0, 10, 5), row(60 * MS, 10, 3)};
  choose(1000, "max_num_seqs: 2");
  run(rows, COUNT(rows));
  const Tick ended_at = scene.records[1].last_token_at;
  cr_expect_gt(ended_at, 78 * MS);
  cr_expect_gt(scene.records[2].prefill_began_at, ended_at + 11 * MS);
  cr_expect_lt(scene.records[2].prefill_began_at, ended_at + 12 * MS);
}

/* How many of five prompts that wait are in the first step. */
static size_t first_step(const TraceRow *rows, size_t n_rows, const char *options) {
  size_t n = 0;
  choose(1000, options);
  run(rows, n_rows);
  for (size_t i = 0; i < n_rows; i++)
    n += scene.records[i].prefill_began_at == 0;
  return n;
}

/* Of five prompts of 90 tokens one rank takes two, as 10 of 100 tokens of input are left behind the
 * first; two ranks have 200, of which 20 are left behind the second, and take three. Of prompts in
 * a step two ranks may have twice as many. */
Test(rounds, each_rank_has_input_and_prompts_of_its_own) {
  TraceRow rows[5];
  for (size_t i = 0; i < COUNT(rows); i++)
    rows[i] = row(0, 90, 2);
  for (uint32_t ranks = 1; ranks <= 2; ranks++) {
    scene.pools[0].attention_ranks = ranks;
    cr_expect_eq(first_step(rows, COUNT(rows), "max_prefill_tokens: 100"), ranks + 1);
    cr_expect_eq(first_step(rows, COUNT(rows), "prefill_max_requests: 2"), 2 * ranks);
    cr_expect_eq(first_step(rows, COUNT(rows), "prefill_max_requests: 0"), COUNT(rows));
  }
}

/* Of 8000 tokens that each may make 4096 are reserved: 9000 - 10 - 4096 are left, and the second
 * needs 10 + 4096 + 1. */
Test(rounds, no_more_is_reserved_than_a_request_is_thought_to_make) {
  const TraceRow one = allowed(row(0, 10, 5), 8000);
  const TraceRow rows[] = {one, allowed(row(5 * MS, 10, 5), 8000)};
  choose(9000, "{schedule_conservativeness: 2, enable_overlap_schedule: false}");
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_began_at, 20 * MS);
}

/* It needs all of the memory, and no page is left beside it: SGLang would never take it. */
Test(rounds, a_request_that_is_alone_is_taken_if_it_fits) {
  const TraceRow rows[] = {row(0, 99, 1), row(0, 99, 1)};
  choose(100, NULL);
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.completed, 2);
}

/* The second is admitted when the first has made a token: of 36 tokens 24 less its reservation are
 * left, and 8 + 12 + 1 are needed. The first stands still meanwhile, so both have made as many when
 * 36 are taken: the one with the longer prompt gives way. */
Test(rounds, of_equal_outputs_the_longest_prompt_gives_way) {
  const TraceRow rows[] = {row(0, 12, 12), row(0, 8, 12)};
  choose(36, "{schedule_conservativeness: 0.05, enable_overlap_schedule: false}");
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_began_at, scene.records[0].first_token_at);
  cr_expect_eq(scene.records[0].recomputes, 1);
  cr_expect_eq(scene.records[1].recomputes, 0);
}

/* 50 tokens of a prompt of 60 are those of the first, to the token. */
Test(rounds, hits_are_to_the_token) {
  const TraceSegment first[] = {{7, 50}, {8, 70}}, second[] = {{7, 50}, {9, 60}};
  TraceRow rows[] = {row(0, 70, 2), row(500 * MS, 60, 2)};
  rows[0].segments = first;
  rows[1].segments = second;
  rows[0].n_segments = rows[1].n_segments = 2;
  for (int64_t page = 1; page <= 16; page += 15) {
    choose(2000, NULL);
    scene.pools[0].block_size = page;
    run(rows, COUNT(rows));
    cr_expect_eq(scene.records[1].cached_tokens, page == 1 ? 50 : 48);
  }
}

/* Its whole conversation is found: prompt and output of the turn before, less the last token, whose
 * KV is made by nobody. */
Test(rounds, outputs_are_found_by_the_next_turn) {
  const TraceSegment talk[] = {{7, 200}};
  TraceRow rows[] = {row(0, 40, 10), row(500 * MS, 100, 2)};
  for (int i = 0; i < 2; i++) {
    rows[i].segments = talk;
    rows[i].n_segments = 1;
  }
  choose(2000, NULL);
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[1].cached_tokens, 49);
}

/* Two run on each of two instances. On the second one waits that it knows of, then one comes while
 * no place is free, then the copy of one that the first knows of. As both places are free together
 * the first two take them: the copy is not known of before them. */
Test(rounds, a_copy_is_taken_in_behind_those_who_came_before_it) {
  const TraceRow rows[] = {row(0, 10, 60),      row(0, 10, 30),      row(0, 10, 60),
                           row(0, 10, 30),      row(40 * MS, 10, 5), row(50 * MS, 10, 5),
                           row(60 * MS, 10, 5), row(70 * MS, 10, 5)};
  choose(1000, "max_num_seqs: 2");
  scene.pools[0].count = 2;
  scene.config.hedge = (HedgeOptions){100 * MS, 0.15}; // one of eight
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.hedges, 1);
  cr_expect_eq(scene.records[1].last_token_at, scene.records[3].last_token_at);
  cr_expect_eq(scene.records[5].prefill_began_at, scene.records[3].last_token_at);
  cr_expect_eq(scene.records[7].prefill_began_at, scene.records[3].last_token_at);
}

/* The first is computed and decoded on the second instance, the others come there with their KV. */
static Placement pick_second(void *state, const ClusterView *view, RequestIx request) {
  (void)state;
  const InstanceIx first = view->requests[request].id == 0;
  return (Placement){first, 1, .roles_stay = true, .claimed = INSTANCE_NONE};
}

static const Router to_second = {.policy = {.name = "to_second"}, .pick = pick_second};

/* Chunks of 10 tokens take 20 ms each. The other prompt, of 30 tokens, ends at 60 and its KV has
 * come at 90, to an instance of 100 tokens with one place, which the first holds: 70 of its 80
 * tokens are computed at 140, and there is no page for the others. It gives way. The other one
 * decodes with contexts of 31 to 34, 45.3 ms; the first is computed again, 160 ms to 345.3, and
 * decodes with contexts of 81 to 84, 47.3 ms. */
Test(rounds, one_between_two_chunks_gives_way_to_kv_that_waits_for_its_place) {
  const TraceRow rows[] = {row(0, 80, 5), row(0, 30, 5)};
  choose(100, "{max_num_batched_tokens: 10, max_num_seqs: 1, enable_prefix_caching: false, "
              "enable_overlap_schedule: false}");
  scene.pools[0].count = 2;
  scene.config.policies[POLICY_ROUTER] = (PolicyChoice){&to_second.policy, NULL};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[0].preemptions, 1);
  cr_expect_eq(scene.records[1].preemptions, 0);
  expect_at(scene.records[1].decode_began_at, 140000, "the other one");
  expect_at(scene.records[1].last_token_at, 185300, "its end");
  expect_at(scene.records[0].first_token_at, 345300, "the first");
  expect_at(scene.records[0].last_token_at, 392600, "the end");
}
