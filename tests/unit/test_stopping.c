/* Requests that end by an EOS token, and pauses, where a scheduler decides step by step. Pinned:
 * the step that such a request is in once more, what is reserved for it, what a pause keeps waiting
 * and drops. Not pinned here: all else that vLLM's scheduler does, in differential_vllm. */
#include "tests/unit/scene_testing.h"

TestSuite(stopping, .init = setup_scene, .fini = teardown);

static TraceRow allowed(TraceRow of, int32_t max_tokens) {
  of.max_tokens = max_tokens;
  return of;
}

/* Its last token comes when it would; the step after that has been decided by then. */
Test(stopping, an_output_that_stops_is_in_one_more_step_if_that_is_decided_ahead) {
  static const int32_t max_tokens[] = {0, 3, 4, INT32_MAX};
  for (int async = 0; async < 2; async++) {
    Tick last_token_at = 0;
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 async ? "{async_scheduling: true}" : "{async_scheduling: false}");
    for (size_t i = 0; i < COUNT(max_tokens); i++) {
      const TraceRow rows[] = {allowed(row(0, 10, 3), max_tokens[i])};
      run(rows, 1);
      const InstanceTotals *totals = &scene.result.totals;
      const int64_t more = async && max_tokens[i] > 3;
      if (i == 0) last_token_at = scene.records[0].last_token_at;
      cr_expect_eq(scene.records[0].last_token_at, last_token_at);
      cr_expect_eq(totals->decode_iterations, 2 + more, "max_tokens %d", max_tokens[i]);
      cr_expect_eq(totals->padding_tokens, more);
      cr_expect_eq(totals->decode_tokens, 2);
      cr_expect_eq(scene.result.metrics.tbt.total, 2);
    }
  }
}

/* There is no block for the KV of its 17th token, which is thrown away: it gives way to itself, and
 * ends with the step that runs. */
Test(stopping, a_request_that_gives_way_for_its_thrown_token_ends_all_the_same) {
  const TraceRow rows[] = {allowed(row(0, 14, 3), 100)};
  scene.pools[0].kv_blocks = 1;
  scene_choose(&scene, POLICY_BATCHER, "vllm", NULL);
  run(rows, COUNT(rows));
  const Metrics *metrics = &scene.result.metrics;
  cr_expect_eq(metrics->completed, 1);
  cr_expect(metrics->preemptions == 1 && metrics->recomputes == 0);
}

Test(stopping, reservations_are_for_what_clients_allow) {
  static const char *const batchers[][2] = {
      {"vllm", "{capacity_scheduler_policy: guaranteed_no_evict}"},
      {"request_level", NULL},
  };
  for (size_t i = 0; i < COUNT(batchers); i++)
    for (int stops = 0; stops < 2; stops++) {
      const TraceRow one = allowed(row(0, 32, 16), stops ? 100000 : 16), rows[] = {one, one};
      scene.pools[0].kv_blocks = 12;
      scene_choose(&scene, POLICY_BATCHER, batchers[i][0], batchers[i][1]);
      run(rows, COUNT(rows));
      const bool waits = scene.records[1].first_token_at > scene.records[0].last_token_at;
      cr_expect_eq(waits, stops, "%s, %d", batchers[i][0], stops);
    }
}

/* At 31.11 ms, with two tokens made. Prompts of 12 and 10 tokens take 32 ms, one of 10 beside a
 * decode 21.12 ms. */
Test(stopping, pauses_are_heard_between_steps) {
  static const struct {
    PauseMode mode;
    bool reset;
    int64_t last_us[2];
    int32_t recomputes;
  } cases[] = {{PAUSE_NONE, false, {53360, 120000}, 0},
               {PAUSE_NEW, false, {53360, 220000}, 0},
               {PAUSE_NEW, true, {53360, 220000}, 0},
               {PAUSE_ALL, false, {232250, 221120}, 0},
               {PAUSE_ALL, true, {243130, 232000}, 1}};
  const TraceRow rows[] = {row(0, 10, 4), row(100 * MS, 10, 1)};
  scene_choose(&scene, POLICY_BATCHER, "vllm", "{async_scheduling: false}");
  for (size_t i = 0; i < COUNT(cases); i++) {
    const PauseSpec pauses[] = {{.at = 25 * MS, .mode = cases[i].mode, .reset = cases[i].reset},
                                {.at = 200 * MS}};
    scene.config.pauses = pauses;
    scene.config.n_pauses = COUNT(pauses);
    run(rows, COUNT(rows));
    for (int r = 0; r < 2; r++)
      expect_at(scene.records[r].last_token_at, cases[i].last_us[r], r ? "new" : "running");
    cr_expect_eq(scene.records[0].recomputes, cases[i].recomputes);
  }
}
