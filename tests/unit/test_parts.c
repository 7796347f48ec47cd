/* Where the time of requests goes, to the tick, from the plain model (10 ms + 1 ms per token + 10
 * us per token of decode context): its 10 ms are the engine's host. Pinned: what is a request's own
 * in an iteration and what others', waits by their reason, KV on links of its own and shared ones,
 * and work that is done twice. That parts add up is asked of every request of every scene. */
#include "perfmodel/host_time.h"
#include "tests/unit/scene_testing.h"

TestSuite(parts, .init = setup_scene, .fini = teardown);

typedef struct Part {
  Cause cause;
  Tick us;
} Part;

/* These are all the parts of a request. */
static void expect_parts(int id, const Part *parts, int n) {
  Tick want[CAUSES] = {0};
  for (int i = 0; i < n; i++)
    want[parts[i].cause] = parts[i].us * US;
  for (Cause cause = 0; cause < CAUSES; cause++)
    cr_expect_eq(scene.parts[id].of[cause], want[cause], "request %d, cause %d: %.3f us, not %.3f",
                 id, (int)cause, (double)scene.parts[id].of[cause] / US, (double)want[cause] / US);
}

#define EXPECT_PARTS(id, ...)                                                                      \
  expect_parts(id, (const Part[]){__VA_ARGS__}, sizeof((const Part[]){__VA_ARGS__}) / sizeof(Part))

/* Prefill to 110, one decode of context 101 to 122.01, then one of 102 with 50 tokens of prefill:
 * 62.02, to 184.03. Contexts 103 and 51: 13.54; then 104 alone: 12.04. */
Test(parts, an_iteration_is_shared_out_among_host_own_work_and_others) {
  scene_choose(&scene, POLICY_BATCHER, "mixed", NULL);
  const TraceRow rows[] = {row(0, 100, 5), row(115 * MS, 50, 2)};
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 100000}, {CAUSE_decode_host, 40000},
               {CAUSE_decode, 4000 + 1010 + 1020 + 1030 + 1040}, {CAUSE_decode_prefill, 50000},
               {CAUSE_decode_batch, 1510});
  EXPECT_PARTS(1, {CAUSE_prefill_queue, 7010}, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 50000},
               {CAUSE_prefill_batch, 2020}, {CAUSE_decode_host, 10000}, {CAUSE_decode, 1510},
               {CAUSE_decode_batch, 2030});
  cr_expect_eq(scene.parts[0].chunks, 1);
}

/* Prompts of their own iterations: the batch stands still for 60 ms. */
Test(parts, decodes_wait_for_prefills_in_their_place) {
  scene.config.request_time = 3 * MS;
  const TraceRow rows[] = {row(0, 100, 3), row(112 * MS, 50, 1)};
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_front, 3000}, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 100000},
               {CAUSE_decode_host, 20000}, {CAUSE_decode, 2000 + 1010 + 1020},
               {CAUSE_decode_prefill, 60000});
  EXPECT_PARTS(1, {CAUSE_front, 3000}, {CAUSE_prefill_queue, 10010}, {CAUSE_prefill_host, 10000},
               {CAUSE_prefill, 50000});
}

/* KV at 1 ms per token. That of request 0 has the receiver to itself from 110 to 150, then half of
 * it for 120; that of request 1 half until then, and all for the last 80. */
Test(parts, kv_on_a_shared_link) {
  scene_split(&scene, 2, 1);
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  scene.config.network_latency = MS;
  const TraceRow rows[] = {row(0, 100, 2), row(0, 140, 2)};
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 100000}, {CAUSE_transfer, 101000},
               {CAUSE_link_wait, 60000}, {CAUSE_decode_host, 10000}, {CAUSE_decode, 2010});
  EXPECT_PARTS(1, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 140000}, {CAUSE_transfer, 141000},
               {CAUSE_link_wait, 60000}, {CAUSE_decode_host, 10000}, {CAUSE_decode, 2410});
}

/* Of the receiver's eight blocks each prompt takes seven. Request 0 decodes at 210 + 12.01; request
 * 1, prefilled from 110 to 220, then has room. */
Test(parts, kv_waits_for_room) {
  scene_split(&scene, 1, 1);
  scene.pools[1].kv_blocks = 8;
  const TraceRow rows[] = {row(0, 100, 2), row(0, 100, 2)};
  scene_choose(&scene, POLICY_BATCHER, "continuous", "{max_num_batched_tokens: 100}");
  run(rows, 2);
  EXPECT_PARTS(1, {CAUSE_prefill_queue, 110000}, {CAUSE_prefill_host, 10000},
               {CAUSE_prefill, 100000}, {CAUSE_memory_wait, 2010}, {CAUSE_transfer, 100000},
               {CAUSE_decode_host, 10000}, {CAUSE_decode, 2010});
}

/* Prompts of 5 tokens together in 20 ms, then contexts 12, 14, 16, 18 until all 18 blocks are held:
 * request 1 goes, and waits until request 0 has made its last three at contexts 10, 11, 12. */
Test(parts, an_evicted_request_waits_and_is_computed_again) {
  scene.pools[0].kv_blocks = 18;
  scene.pools[0].block_size = 1;
  const TraceRow rows[] = {row(0, 5, 8), row(0, 5, 8)};
  run(rows, 2);
  cr_assert_eq(scene.records[1].recomputes, 1);
  EXPECT_PARTS(1, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 5000}, {CAUSE_prefill_batch, 5000},
               {CAUSE_decode_host, 60000}, {CAUSE_decode, 6000 + 10 * (6 + 7 + 8 + 9 + 11 + 12)},
               {CAUSE_decode_batch, 4000 + 10 * (6 + 7 + 8 + 9)}, {CAUSE_preempted, 33330},
               {CAUSE_recompute, 20000});
}

/* Two blocks a chunk, decided as they begin. The other prompt's chunk is in between. */
Test(parts, chunks_scheduled_step_by_step) {
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               "{max_num_batched_tokens: 50, async_scheduling: false}");
  const TraceRow rows[] = {row(0, 100, 3), row(10 * MS, 10, 1)};
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_prefill_host, 20000}, {CAUSE_prefill, 100000}, {CAUSE_decode_host, 20000},
               {CAUSE_decode, 2000 + 1010 + 1020}, {CAUSE_decode_prefill, 10000});
  EXPECT_PARTS(1, {CAUSE_prefill_queue, 110000}, {CAUSE_prefill_host, 10000},
               {CAUSE_prefill, 10000}, {CAUSE_prefill_batch, 2010});
  cr_expect_eq(scene.parts[0].chunks, 2);
}

/* A host of 3 ms an iteration and 100 us a sequence beside the 10 ms. */
Test(parts, the_host_of_an_engine_is_told_apart) {
  PerfModel model = *plain_model(&arena);
  perfmodel_add_host(&model, &(HostTimes){.iteration_time = 3 * MS, .sequence_time = 100 * US}, 32,
                     &arena);
  scene.pools[0].perfmodel = &model;
  const TraceRow rows[] = {row(0, 100, 2), row(0, 50, 2)};
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_prefill_host, 13200}, {CAUSE_prefill, 100000},
               {CAUSE_prefill_batch, 50000}, {CAUSE_decode_host, 13200}, {CAUSE_decode, 2010},
               {CAUSE_decode_batch, 1510});
}

/* Ten blocks of 16 ms to CPU memory and 8 back. After 20 steps of both (contexts 61 to 80) both
 * need a sixth: the second goes, for which the first waits, and comes back when that has made its
 * last 19 alone. */
Test(parts, one_in_cpu_memory_and_those_that_wait_for_the_copies) {
  scene_choose(&scene, POLICY_KVTIER, "swap", NULL);
  scene.pools[0].kv_blocks = 10;
  scene.pools[0].cpu_kv_blocks = 5;
  scene.pools[0].kv_block_bytes = 16000000;
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 2000000000, .to_cpu = 1000000000, .efficiency = 1};
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40)};
  const Tick both = 20000 + 10 * (61 + 80) * 10, alone = 19000 + 10 * (81 + 99) * 19 / 2;
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 60000}, {CAUSE_prefill_batch, 60000},
               {CAUSE_decode_host, 390000}, {CAUSE_decode, both + alone},
               {CAUSE_decode_batch, both}, {CAUSE_decode_stall, 80000});
  EXPECT_PARTS(1, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 60000}, {CAUSE_prefill_batch, 60000},
               {CAUSE_decode_host, 390000}, {CAUSE_decode, both + alone},
               {CAUSE_decode_batch, both}, {CAUSE_decode_stall, 40000},
               {CAUSE_swapped, 80000 + 190000 + alone});
}

/* KV at 1 ms per token either way, a turn of 50: prefilled until 110, in the store from 210, turned
 * until 260, there at 360, and decoded in 24.03 more. The other comes at 230, and is prefilled once
 * the GPUs have turned back. */
Test(parts, gpus_that_change_their_shape) {
  scene_split(&scene, 1, 1);
  static const GroupSpec group = {.name = "gpus",
                                  .pools = {0, 1},
                                  .store_blocks = 250,
                                  .turn_bytes = {50000000, 50000000},
                                  .overlaps = true};
  for (int i = 0; i < 2; i++) {
    scene.pools[i].block_size = 1;
    scene.pools[i].host_link.options = (HostLinkOptions){1000000000, 1000000000, .efficiency = 1};
  }
  scene.config.groups = &group;
  scene.config.n_groups = 1;
  scene_choose(&scene, POLICY_POOL, "seesaw", "{schedule: decode_prioritizing}");
  const TraceRow rows[] = {row(0, 100, 3), row(230 * MS, 50, 1)};
  run(rows, 2);
  EXPECT_PARTS(0, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 100000}, {CAUSE_store, 200000},
               {CAUSE_reshard, 50000}, {CAUSE_decode_host, 20000}, {CAUSE_decode, 4030});
  EXPECT_PARTS(1, {CAUSE_prefill_queue, 360000 + 24030 - 260000},
               {CAUSE_prefill_reshard, 30000 + 50000}, {CAUSE_prefill_host, 10000},
               {CAUSE_prefill, 50000});
}

/* It leaves as its iteration ends, at 110; by steps or not. */
Test(parts, one_whose_client_gives_up_has_spent_its_time_too) {
  TraceRow rows[] = {row(0, 100, 2)};
  rows[0].first_token_patience = 50 * MS;
  for (int steps = 0; steps < 2; steps++) {
    if (steps) scene_choose(&scene, POLICY_BATCHER, "vllm", NULL);
    run(rows, 1);
    cr_expect_eq(scene.records[0].cancelled_at, 110 * MS);
    EXPECT_PARTS(0, {CAUSE_prefill_host, 10000}, {CAUSE_prefill, 100000});
  }
}

Test(parts, they_change_no_outcome) {
  scene_choose(&scene, POLICY_BATCHER, "vllm", "{max_num_batched_tokens: 50}");
  const TraceRow rows[] = {row(0, 100, 5), row(10 * MS, 10, 3), row(11 * MS, 300, 2)};
  run(rows, 3);
  const uint64_t digest = scene.result.digest;
  scene.config.keeps_parts = false;
  run(rows, 3);
  cr_expect_eq(scene.result.digest, digest);
}
