/* Decodes that flow from pool to pool. Pinned: the times of a request that flows once, to the tick,
 * and the bytes that move; that one flows back where there is room; that tokens are conserved and
 * nothing is computed twice over random requests, on links of any speed; which instance TaiChi's
 * router has prefill a prompt. */
#include "tests/unit/scene_testing.h"

TestSuite(flowing, .init = setup_scene, .fini = teardown);

/* Decodes flow from the second pool to the first above a share of the memory. */
static void set_flow(double watermark, Tick tpot) {
  scene.config.flow = (FlowOptions){
      .watermark = watermark, .from = 1, .to = 0, .tpot = tpot, .share = 1, .review = 1};
}

/* The prompt takes 110 ms and its KV 100 ms; the second token 10 + 1 + 1.01 ms; then 101 tokens of
 * KV take 101 ms, and the last four tokens 11 ms each and 1.02 to 1.05 ms for their context. */
Test(flowing, a_decode_that_flows_is_late_by_its_transfer_and_nothing_else) {
  scene_split(&scene, 1, 1);
  set_flow(0.001, 0);
  const TraceRow rows[] = {row(0, 100, 6)};
  run(rows, COUNT(rows));
  const RequestRecord *record = &scene.records[0];
  expect_at(record->first_token_at, 110000, "first token");
  expect_at(record->last_token_at, 110000 + 100000 + 12010 + 101000 + 4 * 11000 + 4140, "end");
  cr_expect(record->prompt_tokens == 100 && record->output_tokens == 6 &&
            record->generated_tokens == 6);
  cr_expect(record->prefill_instance == 1 && record->decode_instance == 0);
  const Metrics *metrics = &scene.result.metrics;
  cr_expect(metrics->transfers == 2 && metrics->recomputes == 0);
  cr_expect_eq(metrics->transferred_bytes, 201 * 1000000);
}

/* Both do not fit under the watermark of 11 blocks: the first, with more output, flows, and comes
 * back once the other has ended, as its tokens are late. */
Test(flowing, a_late_decode_flows_back_where_there_is_room) {
  scene_split(&scene, 1, 1);
  set_flow(0.0105, US);
  const TraceRow rows[] = {row(0, 100, 30), row(1 * MS, 60, 8)};
  run(rows, COUNT(rows));
  cr_expect_geq(scene.result.metrics.transfers, 4);
  cr_expect_eq(scene.records[0].decode_instance, 1);
  set_flow(0.0105, 0);
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.transfers, 3, "without a limit none flows back");
  cr_expect_eq(scene.records[0].decode_instance, 0);
}

Test(flowing, tokens_are_conserved_and_none_is_computed_twice) {
  static const int64_t nics[] = {1000000, 1000000000, 1000000000000000};
  for (size_t i = 0; i < COUNT(nics); i++) {
    teardown();
    setup_scene();
    scene_split(&scene, 2, 2);
    scene.pools[0].nic_bandwidth = scene.pools[1].nic_bandwidth = nics[i];
    Rng rng;
    rng_init(&rng, 5, "rows");
    TraceRow rows[SCENE_REQUESTS];
    int64_t prompts = 0, outputs = 0;
    Tick at = 0;
    for (int r = 0; r < SCENE_REQUESTS; r++) {
      at += (Tick)rng_below(&rng, 60) * MS;
      const int32_t prompt = 10 + (int32_t)rng_below(&rng, 300);
      rows[r] = row(at, prompt, 2 + (int32_t)rng_below(&rng, 60));
      prompts += prompt;
      outputs += rows[r].output_tokens;
    }
    set_flow(0.05, 30 * MS);
    run(rows, COUNT(rows));
    const Metrics *metrics = &scene.result.metrics;
    cr_expect_gt(metrics->transfers, SCENE_REQUESTS + (i > 0 ? 20 : 0));
    int64_t made = 0, prefilled = 0, decoded = 0;
    for (int r = 0; r < SCENE_REQUESTS; r++)
      made += scene.records[r].generated_tokens;
    for (InstanceIx m = 0; m < 4; m++) {
      prefilled += (int64_t)scene.result.instances[m].prefill_tokens;
      decoded += (int64_t)scene.result.instances[m].decode_tokens;
    }
    cr_expect(made == outputs && prefilled == prompts && decoded == outputs - SCENE_REQUESTS,
              "%lld tokens of output, %lld prefilled, %lld decoded", (long long)made,
              (long long)prefilled, (long long)decoded);
  }
}

/* --- the instance of a prompt */

/* 10 ms and 1 ms a token: chunks of 20 tokens take 30 ms on the decode instance, those of 100 take
 * 110 on the prefill instance. */
Test(flowing, a_decode_instance_prefills_what_has_the_time) {
  static const struct {
    const char *what, *router;
    int n;
    int32_t prompt;
    InstanceIx want[2];
  } cases[] = {
      {"two chunks in time", "{ttft: 60 ms}", 1, 40, {1}},
      {"not quite", "{ttft: 59 ms}", 1, 40, {0}},
      {"a second waits for it", "{ttft: 119 ms}", 2, 40, {1, 0}},
      {"both have the time", "{ttft: 120 ms}", 2, 40, {1, 1}},
      {"ten chunks against two: nobody is in time", "{ttft: 100 ms}", 1, 200, {0}},
      {"in time there", "{ttft: 220 ms}", 1, 200, {0}},
      {"and here", "{ttft: 300 ms}", 1, 200, {1}},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_split(&scene, 1, 1);
    scene.pools[0].batcher =
        choose_policy(POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 100}", &arena);
    scene.pools[1].batcher =
        choose_policy(POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 20}", &arena);
    scene_choose(&scene, POLICY_ROUTER, "taichi", cases[i].router);
    const TraceRow rows[] = {row(0, cases[i].prompt, 5), row(0, cases[i].prompt, 5)};
    run(rows, (size_t)cases[i].n);
    for (int r = 0; r < cases[i].n; r++)
      cr_expect(scene.records[r].prefill_instance == cases[i].want[r] &&
                    scene.records[r].decode_instance == 1,
                "%s: %u", cases[i].what, scene.records[r].prefill_instance);
    cr_expect_eq(scene.result.metrics.transfers,
                 (cases[i].want[0] == 0) + (cases[i].n > 1 && cases[i].want[1] == 0));
    teardown();
    setup_scene();
  }
}
