/* Attention ranks with schedulers of their own. Pinned: what a step of all ranks takes, that a rank
 * without work is not in its way, that one rank is an instance without ranks, and whom the front
 * end chooses. Not pinned here: rounds, waves and publications in whole runs, which the recorded
 * runs show. */
#include "sim/core/rank_front.h"
#include "tests/unit/scene_testing.h"

TestSuite(lockstep, .init = setup_scene, .fini = teardown);

static void give_ranks(uint32_t n, const char *options) {
  scene.pools[0].ranks = n;
  scene.pools[0].count = n;
  scene_choose(&scene, POLICY_BATCHER, "vllm", options);
}

/* Prefill of 10 and of 20 tokens takes 20 and 30 ms, so both have their first token at 30; then the
 * second has the longer context: 21 and 22 tokens, 11.21 and 11.22 ms. */
Test(lockstep, a_step_takes_as_long_as_its_longest_batch) {
  const TraceRow rows[] = {row(0, 10, 3), row(0, 20, 3)};
  static const char *const options[] = {"{async_scheduling: false}", "{async_scheduling: true}"};
  for (int i = 0; i < 2; i++) {
    give_ranks(2, options[i]);
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++) {
      expect_at(scene.records[r].first_token_at, 30000, options[i]);
      expect_at(scene.records[r].last_token_at, 52430, options[i]);
    }
  }
}

/* A dummy batch is one token long: 11.01 ms, less than any other. */
Test(lockstep, ranks_without_work_do_not_hold_up_others) {
  const TraceRow rows[] = {row(0, 10, 3)};
  Tick last[2];
  for (uint32_t n = 1; n <= 4; n += 3) {
    give_ranks(n, NULL);
    run(rows, COUNT(rows));
    last[n > 1] = scene.records[0].last_token_at;
  }
  cr_expect_eq(last[0], last[1]);
}

/* An idle rank looks for requests when a step with a dummy of its own is launched. At 5 ms it has
 * come to three: of 0–20, of 20–31.11, and to one that the other decides at 20, 31.11–42.23. */
Test(lockstep, a_request_waits_for_steps_that_its_rank_has_come_to) {
  const TraceRow rows[] = {row(0, 10, 5), row(5 * MS, 10, 1)};
  give_ranks(2, "{async_scheduling: true}");
  run(rows, COUNT(rows));
  expect_at(scene.records[1].first_token_at, 20000 + 11110 + 11120 + 20000, "the second request");
}

Test(lockstep, one_rank_is_an_instance_without_ranks) {
  const TraceRow rows[] = {row(0, 100, 20), row(3 * MS, 50, 9), row(40 * MS, 200, 30)};
  uint64_t digests[2];
  for (uint32_t n = 0; n < 2; n++) {
    give_ranks(1, NULL);
    scene.pools[0].ranks = n;
    run(rows, COUNT(rows));
    digests[n] = scene.result.digest;
  }
  cr_expect_eq(digests[0], digests[1]);
}

/* Ranks that are equally busy take what the model says of all of them; with one that has nothing,
 * as long, but for what is spread over all. */
Test(lockstep, what_is_spread_is_of_the_tokens_of_all) {
  PerfModel model = *plain_model(&arena);
  const PwlKnot knots[] = {{1, 0.001}, {1000, 1}};
  const BatchShape each = {.prefill_tokens = 100, .prefill_area2 = 10000, .logit_seqs = 1};
  const BatchShape both = {.prefill_tokens = 200, .prefill_area2 = 20000, .logit_seqs = 2};
  const BatchShape dummy = {.decode_seqs = 1, .context_tokens = 1, .logit_seqs = 1};
  const RankShare share = {100, 10000};
  model.ranks = 2;
  pwl_init(&model.spread, knots, 2, false, &arena);
  RanksTime even = {0}, uneven = {0};
  for (int i = 0; i < 2; i++)
    perfmodel_add_rank(&even, &model, &each, 0, 0);
  perfmodel_add_rank(&uneven, &model, &each, 0, 0);
  perfmodel_add_rank(&uneven, &model, &dummy, 0, 0);
  const Tick balanced = perfmodel_ranks(&even);
  cr_expect_eq(balanced, perfmodel_iteration_on(&model, &both, &share, NULL));
  cr_expect_eq(balanced - perfmodel_ranks(&uneven), 99 * MS, "200 tokens against 101");
}

/* With no load in turn; then the rank with the fewest requests of this front end; those that wait
 * weigh more where memory is crowded, once it has been published, 100 ms after it was told. */
Test(lockstep, the_front_end_weighs_what_it_knows) {
  RankFront front;
  const bool may[3] = {true, true, true};
  int64_t own[3] = {0, 0, 0};
  rank_front_init(&front, 3, &arena);
  for (uint32_t i = 0; i < 3; i++)
    cr_expect_eq(rank_front_pick(&front, i, own, may), i);
  rank_front_tell(&front, 10 * MS, 0, 0, 0, (RankCounts){0, 1, 0.1});
  rank_front_tell(&front, 10 * MS, 1, 0, 0, (RankCounts){2, 1, 0.9});
  rank_front_tell(&front, 10 * MS, 2, 0, 0, (RankCounts){0, 4, 0.1});
  own[0] = 5;
  own[1] = 3;
  own[2] = 4;
  cr_expect_eq(rank_front_pick(&front, 20 * MS, own, may), 1, "not published yet");
  cr_expect_eq(rank_front_pick(&front, 200 * MS, own, may), 2, "3 + 2 x 6 x 0.4 against 4");
  const bool only_first[3] = {true, false, false};
  cr_expect_eq(rank_front_pick(&front, 200 * MS, own, only_first), 0);
}
