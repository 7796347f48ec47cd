/* Proposals for vLLM's scheduler. Pinned: the order in which prompts are admitted, worked out by
 * hand from the formulas that their authors print, the steps that limits make of prompts, and what
 * is refused. That they lose no request is the swarm's. */
#include "sim/policies.h"
#include "sim/proposal/proposal.h"
#include "tests/unit/scene_testing.h"

TestSuite(proposals, .init = setup_scene, .fini = teardown);

static void propose(const char *proposal, const char *more) {
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               arena_printf(&arena, "{async_scheduling: false%s, proposal: %s}", more, proposal));
}

/* The requests are admitted in the order of `want`, a digit each. */
static void expect_order(const char *proposal, const TraceRow *rows, size_t n, const char *want) {
  char got[SCENE_REQUESTS + 1] = {0};
  propose(proposal, ", max_num_seqs: 1");
  run(rows, n);
  for (size_t place = 0; place < n; place++)
    for (size_t i = 0, before = 0; i < n; i++, before = 0) {
      for (size_t j = 0; j < n; j++)
        before += scene.records[j].prefill_began_at < scene.records[i].prefill_began_at;
      if (before == place) got[place] = (char)('0' + i);
    }
  cr_expect_str_eq(got, want, "%s", proposal);
}

/* Request 0 is decoded for longer than the last of the others comes. A prompt of 100 tokens has
 * score 1/2, one of 25 has 4/5: it goes before where it came less than 300 ms later. */
Test(proposals, sjf_weighs_length_against_waiting) {
  const char *const even = "{name: sjf, length_weight: 1, time_weight: 1, length_median: 100, "
                           "time_median: 1 s}";
  const char *const shortest = "{name: sjf, time_weight: 0}";
  const TraceRow rows[] = {row(0, 10, 60), row(50 * MS, 100, 2), row(349 * MS, 25, 2),
                           row(351 * MS, 25, 2), row(352 * MS, 100, 2)};
  expect_order(even, rows, COUNT(rows), "02134");
  expect_order(shortest, rows, COUNT(rows), "02314");
  expect_order("{name: sjf, length_weight: 0}", rows, COUNT(rows), "01234");
}

/* Four of the five blocks of request 1 are cached: one is left, where request 2 has three. */
Test(proposals, residual_sjf_counts_blocks_that_the_cache_lacks) {
  const TraceSegment document = {7, 64};
  TraceRow first = row(0, 64, 60), cached = row(100 * MS, 80, 2);
  first.segments = cached.segments = &document;
  first.n_segments = cached.n_segments = 1;
  const TraceRow rows[] = {first, cached, row(101 * MS, 48, 2), row(102 * MS, 31, 2)};
  const TraceRow fresh[] = {first, row(100 * MS, 80, 2), rows[2], rows[3]};
  scene.pools[0].block_size = 16;
  expect_order("residual_sjf", rows, COUNT(rows), "0132"); // 1 block each, by arrival; 3
  expect_order("residual_sjf", fresh, COUNT(fresh), "0321");
  expect_order("{name: residual_sjf, max_wait: 0 s}", fresh, COUNT(fresh), "0123");
  expect_order("{name: residual_sjf, max_wait: 500 ms}", fresh, COUNT(fresh), "0123");
}

/* Steps of 30, 30, 30 and 10 tokens; and a second prompt behind the first, or beside its end. */
Test(proposals, prefill_limits_cut_prompts) {
  static const struct {
    const char *proposal;
    int64_t us[2];
  } cases[] = {
      {"{name: prefill_limits}", {130000, 130000}},
      {"{name: prefill_limits, max_prefill_tokens_per_step: 30}", {160000, 160000}},
      {"{name: prefill_limits, max_concurrent_prefills: 1}", {110000, 140000}},
      {"{name: prefill_limits, max_prefill_tokens_per_step: 30, max_concurrent_prefills: 1}",
       {140000, 170000}},
  };
  const TraceRow rows[] = {row(0, 100, 1), row(0, 20, 1)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    propose(cases[i].proposal, "");
    run(rows, COUNT(rows));
    for (int r = 0; r < 2; r++)
      expect_at(scene.records[r].first_token_at, cases[i].us[r],
                arena_printf(&arena, "%s, prompt %d", cases[i].proposal, r));
  }
}

/* A prompt that gives way is ahead of all that are ranked: the shortest waits with it for the
 * memory that the other one has until its end. */
Test(proposals, who_was_preempted_goes_first) {
  scene.pools[0].kv_blocks = 8;
  propose("{name: sjf, time_weight: 0}", ", enable_prefix_caching: false");
  const TraceRow rows[] = {row(0, 60, 40), row(0, 50, 40), row(MS, 5, 2)};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[0].recomputes, 1);
  cr_expect_gt(scene.records[2].first_token_at, scene.records[1].last_token_at);
}

Test(proposals, what_cannot_be_meant_is_refused) {
  static const char *const cases[][2] = {
      {"{proposal: sfj}", "unknown proposal 'sfj'"},
      {"{proposal: {max_wait: 1 s}}", "'proposal' needs a 'name'"},
      {"{proposal: {name: sjf, max_wait: 1 s}}", "unknown key 'max_wait'"},
      {"{policy: priority, proposal: sjf}", "'sjf' orders requests, as 'policy: priority' does"},
      {"{enable_chunked_prefill: false, proposal: prefill_limits}",
       "'prefill_limits' cuts prompts into chunks, and cannot be used with "
       "'enable_chunked_prefill: false'"},
      {"{speculative: {method: ngram, num_speculative_tokens: 2, acceptance: 2}, "
       "proposal: prefill_limits}",
       "'prefill_limits' cuts prompts into chunks, and cannot be used with 'speculative'"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Node *map = yaml_parse("test", cases[i][0], strlen(cases[i][0]), &arena, &diag);
    const Policy *vllm = policy_find(POLICY_BATCHER, "vllm");
    const size_t n = diag.n_entries;
    cr_expect_null(policy_bind(vllm, map, map->at, &arena, &diag), "%s", cases[i][0]);
    cr_assert_eq(diag.n_entries, n + 1, "%s", cases[i][0]);
    cr_expect_not_null(strstr(diag.entries[n].message, cases[i][1]), "%s", diag.entries[n].message);
  }
}
