/* Who uses a link sees who else does. Pinned, to the tick: KV on an indirect path, its own kind and
 * background traffic; KV and a tier's weights; lanes of a pipeline that swap; KV on its way to a
 * group's store and what is swapped there; whose queues are one. That a queue's ends are those of
 * its copies one after the other is in test_host_link. */
#include "sim/core/copying.h"
#include "sim/run.h"
#include "tests/unit/scene_testing.h"

/* A prefill machine and a decode machine; a token is 1 MB, 1 ms on the network, 1/3 ms to CPU
 * memory and 1/2 ms back. */
static void begin(void) {
  setup_scene();
  scene_split(&scene, 1, 1);
  scene.config.network_path = NETWORK_INDIRECT;
  for (int i = 0; i < 2; i++) {
    PoolSpec *pool = &scene.pools[i];
    pool->kv_block_bytes = pool->block_size * pool->kv_bytes_per_token;
    pool->host_link.options =
        (HostLinkOptions){.to_gpu = 2000000000, .to_cpu = 3000000000, .efficiency = 1};
  }
}

TestSuite(contention, .init = begin, .fini = teardown);

/* Alone 30 + 90 + 45 ms after 100. */
Test(contention, kv_of_one_request_takes_its_time) {
  const TraceRow rows[] = {row(0, 90, 2)};
  run(rows, 1);
  expect_at(scene.result.metrics.kv_transfer.max, 165000, "the KV");
}

/* Two machines prefill side by side. Each has a link of its own out and half of the NIC in, until
 * 100 + 30 + 180; then one copy comes in after the other. */
Test(contention, kv_waits_for_kv_on_the_way_in) {
  scene.pools[0].count = 2;
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  const TraceRow rows[] = {row(0, 90, 2), row(0, 90, 2)};
  run(rows, 2);
  expect_at(scene.result.metrics.kv_transfer.max, 30000 + 180000 + 2 * 45000, "the second's KV");
  expect_at(scene.records[0].decode_began_at, 100000 + 30000 + 180000 + 45000, "the first");
}

/* Both prompts end in one iteration, at 70 ms: one is across the sender's link at 80, the other at
 * 90. The first has the NIC for 10 ms, then they share it until 130, and the second needs it until
 * 140. The first comes in until 145, the second from then on. */
Test(contention, kv_waits_for_kv_on_the_way_out) {
  const TraceRow rows[] = {row(0, 30, 2), row(0, 30, 2)};
  run(rows, 2);
  expect_at(scene.result.metrics.kv_transfer.max, 160000 - 70000, "the second's KV");
}

Test(contention, kv_waits_for_background_traffic_and_small_copies_cost_more) {
  BackgroundTraffic traffic = {
      .from = 0, .to = TICK_MAX, .direction = 1 + LINK_TO_CPU, .share = 0.5};
  const TraceRow rows[] = {row(0, 90, 2)};
  HostLink *link = &scene.pools[0].host_link;
  link->background = &traffic;
  link->n_background = 1;
  run(rows, 1);
  expect_at(scene.result.metrics.kv_transfer.max, 165000 + 30000, "at half of the rate");
  link->n_background = 0;
  link->options.half_size = 30000000;
  run(rows, 1);
  expect_at(scene.result.metrics.kv_transfer.max, 165000 + 10000, "with 30 MB more");
}

/* Weights of 20 MB come in with each iteration, for 10 ms. The first request decodes as the KV of
 * the second comes: at half of the rate each. It began to come in as the machine was idle. */
Test(contention, kv_and_a_tiers_weights_halve_each_other) {
  PoolSpec *pool = &scene.pools[1];
  pool->num_hidden_layers = 10;
  pool->weight_bytes = 20000000;
  pool->cpu_kv_blocks = 4 * pool->kv_blocks;
  pool->kvtier = choose_policy(POLICY_KVTIER, "flexgen", NULL, &arena);
  scene_choose(&scene, POLICY_BATCHER, "mixed", NULL);
  const TraceRow rows[] = {row(0, 90, 100), row(500 * MS, 90, 2)};
  run(rows, 2);
  expect_at(scene.records[0].decode_began_at, 100000 + 165000, "the first, alone");
  expect_at(scene.result.metrics.kv_transfer.max, 165000 + 45000, "the second's KV");
  const Tick alone = 99 * 11000 + 10 * (99 * 91 + 99 * 98 / 2) + 99 * 10000;
  cr_expect_gt(scene.records[0].last_token_at - scene.records[0].decode_began_at,
               (alone + 30000) * US, "the first's iterations meanwhile");
}

/* Their copies are the same, in the same tick: one of them waits for the other, which stands still
 * for as long as both take. */
Test(contention, lanes_that_swap_wait_for_each_other) {
  Tick stalls[2];
  scene_init(&scene, &arena, &diag);
  scene_choose(&scene, POLICY_KVTIER, "swap", NULL);
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  PoolSpec *pool = &scene.pools[0];
  pool->kv_blocks = 10;
  pool->cpu_kv_blocks = 100;
  pool->kv_block_bytes = 16000000;
  pool->host_link.options =
      (HostLinkOptions){.to_gpu = 2000000000, .to_cpu = 1000000000, .efficiency = 1};
  pool->count = 2;
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40), row(0, 60, 40), row(0, 60, 40)};
  for (int lanes = 0; lanes < 2; lanes++) {
    pool->pipeline_stages = lanes ? 2 : 1;
    run(rows, 4);
    cr_expect_eq(scene.result.totals.swaps_out, 2);
    stalls[lanes] = (Tick)scene.result.totals.stall_ticks;
  }
  cr_expect_gt(stalls[1], stalls[0]);
}

/* --- queues */

static void start(Simulation *engine) {
  static const TraceRow rows[] = {{.prompt_tokens = 1, .output_tokens = 1}};
  scene.trace.rows = rows;
  scene.trace.n_rows = 1;
  scene.config.trace = &scene.trace.source;
  sim_init(engine, &scene.config, &arena, &diag);
}

Test(contention, the_shapes_of_a_group_have_one_queue_with_a_rate_of_each) {
  static GroupSpec group = {.pools = {0, 1}, .store_blocks = 250, .overlaps = true};
  scene.config.groups = &group;
  scene.config.n_groups = 1;
  scene_choose(&scene, POLICY_POOL, "seesaw", NULL);
  scene.pools[1].host_link.options.to_cpu = 1000000000;
  Simulation engine;
  start(&engine);
  expect_at(sim_copy(&engine, &engine.instances[0], LINK_TO_CPU, 30000000, 0), 10000, "stored");
  expect_at(sim_copy(&engine, &engine.instances[1], LINK_TO_CPU, 10000000, 0), 20000, "swapped");
  expect_at(sim_copy(&engine, &engine.instances[1], LINK_TO_GPU, 10000000, 0), 5000, "back");
}

Test(contention, machines_have_queues_of_their_own_unless_they_are_lanes) {
  scene.pools[0].count = 4;
  Simulation engine;
  start(&engine);
  for (int i = 0; i < 4; i++)
    expect_at(sim_copy(&engine, &engine.instances[i], LINK_TO_GPU, 20000000, 0), 10000, "alone");
  scene.pools[0].pipeline_stages = 2;
  start(&engine);
  for (int i = 0; i < 4; i++)
    expect_at(sim_copy(&engine, &engine.instances[i], LINK_TO_GPU, 20000000, 0),
              i % 2 ? 20000 : 10000, "a lane's");
}
