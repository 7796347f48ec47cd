/* Transfer policies. Pinned: serialized or layer-wise by prompt length, Splitwise's break-even from
 * the machines' own constants, the link and polling of the splitwise-sim set; timelines of
 * transfers by chunks, with and without room for them, and over each path. How long the other ways
 * take is in test_engine. */
#include "sim/policies.h"
#include "sim/router/router.h"
#include "sim/transfer/transfer_policy.h"
#include "tests/unit/scene_testing.h"

TestSuite(transfer, .init = setup_scene, .fini = teardown);

static TransferChoice pick(const char *name, const char *options, int32_t prompt_tokens,
                           const PoolSpec *from, int64_t bandwidth) {
  const TransferPolicy *policy = (const TransferPolicy *)policy_find(POLICY_TRANSFER, name);
  const Request request = {.prompt_tokens = prompt_tokens};
  return policy->pick(policy_state(POLICY_TRANSFER, name, options, &arena), &request, from, from,
                      bandwidth);
}

Test(transfer, by_prompt_length) {
  static const PoolSpec pool = {.kv_bytes_per_token = 1000};
  static const struct {
    const char *name, *options;
    int32_t prompt;
    TransferMode mode;
  } cases[] = {
      {"serialized", NULL, 1, TRANSFER_SERIALIZED},
      {"serialized", NULL, 100000, TRANSFER_SERIALIZED},
      {"layerwise", NULL, 1, TRANSFER_LAYERWISE},
      {"layerwise", "{serialized_below: 512}", 511, TRANSFER_SERIALIZED},
      {"layerwise", "{serialized_below: 512}", 512, TRANSFER_LAYERWISE},
      {"chunked", NULL, 1, TRANSFER_CHUNKED},
      {"splitwise_sim", NULL, 100000, TRANSFER_SERIALIZED},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const TransferChoice choice =
        pick(cases[i].name, cases[i].options, cases[i].prompt, &pool, 1000000000);
    cr_expect_eq(choice.mode, cases[i].mode, "%s, %d tokens", cases[i].name, cases[i].prompt);
  }
}

/* Serialized while prompt · bytes / bandwidth is below what stays visible of a layer-wise one. */
Test(transfer, splitwise_breaks_even_where_the_link_takes_as_long_as_the_constant) {
  static const struct {
    const char *what;
    int64_t bytes_per_token, bandwidth;
    Tick overhead;
    int32_t serialized; // the longest prompt that is
  } cases[] = {
      {"BLOOM-176B, 400 GB/s, 5 ms (DGX-H100)", 4014080, 400000000000, 5 * MS, 498},
      {"the same with the paper's 512 tokens", 4014080, 400000000000, 5138022400, 511},
      {"BLOOM-176B, 200 GB/s, 8 ms (DGX-A100)", 4014080, 200000000000, 8 * MS, 398},
      {"Llama2-70B, 400 GB/s, 5 ms", 327680, 400000000000, 5 * MS, 6103},
      {"no constant: layer-wise always", 4014080, 400000000000, 0, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const PoolSpec from = {.kv_bytes_per_token = cases[i].bytes_per_token,
                           .kv_transfer_overhead = cases[i].overhead};
    for (int more = 0; more < 2; more++) {
      const int32_t prompt = cases[i].serialized + more;
      const TransferChoice choice = pick("splitwise", NULL, prompt, &from, cases[i].bandwidth);
      const TransferMode want = more || prompt == 0 ? TRANSFER_LAYERWISE : TRANSFER_SERIALIZED;
      cr_expect_eq(choice.mode, want, "%s: %d tokens", cases[i].what, prompt);
      cr_expect(choice.private_bandwidth == 0 && choice.retry == 0);
    }
  }
}

Test(transfer, splitwise_sim_has_a_link_for_each_transfer_and_polls) {
  static const PoolSpec pool = {.kv_bytes_per_token = 1000};
  const TransferChoice released = pick("splitwise_sim", NULL, 1, &pool, 7);
  cr_expect_eq(released.private_bandwidth, INT64_C(200) << 30);
  cr_expect_eq(released.retry, TICKS_PER_SECOND);
  const TransferChoice set =
      pick("splitwise_sim", "{bandwidth: 100 Gbps, retry: 250 ms}", 1, &pool, 7);
  cr_expect_eq(set.private_bandwidth, 12500000000);
  cr_expect_eq(set.retry, TICKS_PER_SECOND / 4);
}

/* --- timelines */

static void expect_ms(Tick got, double want_ms, const char *what) {
  cr_expect_eq(got, tick_from_seconds(want_ms / 1000), "%s at %.6f ms, not %.6f", what,
               (double)got / (double)MS, want_ms);
}

/* A prompt of 90 tokens in chunks of 60, to 70 ms, and 30, to 110 ms, or one of 50 in a single
 * chunk, to 60 ms. Its KV moves at so many ms per token as its case says, with 5 ms of latency; ten
 * layers and 8 ms that stay visible of a layer-wise transfer. */
Test(transfer, chunks_move_while_the_next_is_prefilled) {
  static const struct {
    const char *what, *transfer;
    int32_t prompt;
    int64_t nic;
    double first_token, decodes; // ms
  } cases[] = {
      {"0.5 ms: the first chunk is across by 100", "chunked", 90, 2000000000, 110, 110 + 15 + 5},
      {"1 ms: 20 of its 60 tokens are left", "chunked", 90, 1000000000, 110, 110 + 50 + 5},
      {"4 ms: 50 of them are left", "chunked", 90, 250000000, 110, 110 + 320 + 5},
      {"a single chunk goes whole", "chunked", 50, 1000000000, 60, 60 + 50 + 5},
      {"serialized", "serialized", 90, 1000000000, 110, 110 + 90 + 5},
      {"layer-wise, 40 of 81 go with the last chunk", "layerwise", 90, 1000000000, 110,
       110 + 50 + 5 + 8},
  };
  static const char *const dispatchers[] = {"router", "least_loaded"};
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 60}");
  scene.config.network_latency = 5 * MS;
  scene.config.monitor_interval = 1000 * MS;
  scene.pools[0].kv_transfer_overhead = 8 * MS;
  for (size_t i = 0; i < 2 * COUNT(cases); i++) {
    const size_t c = i / 2;
    scene_choose(&scene, POLICY_DISPATCHER, dispatchers[i % 2], NULL);
    scene_choose(&scene, POLICY_TRANSFER, cases[c].transfer, NULL);
    scene.pools[0].nic_bandwidth = scene.pools[1].nic_bandwidth = cases[c].nic;
    const TraceRow rows[] = {row(0, cases[c].prompt, 2)};
    run(rows, 1);
    expect_ms(scene.records[0].first_token_at, cases[c].first_token, cases[c].what);
    expect_ms(scene.records[0].decode_began_at, cases[c].decodes, cases[c].what);
    cr_expect_eq(scene.result.metrics.transfers, 1u);
    cr_expect_eq(scene.result.metrics.transferred_bytes, (int64_t)cases[c].prompt * 1000000);
  }
}

/* Splitwise §VII: KV is compressed before it moves, to a half, so that 90 MB take 45 ms at 1 GB/s;
 * of 60 tokens in a chunk 30 ms, while the other takes 40; and the break-even of Splitwise's choice
 * is at twice the prompt, as on a link of twice the rate. */
Test(transfer, compressed_kv_moves_as_fewer_bytes) {
  static const struct {
    const char *transfer;
    double ratio, decodes;
    int64_t bytes;
  } cases[] = {
      {"serialized", 1, 110 + 90, 90000000},
      {"serialized", 2, 110 + 45, 45000000},
      {"chunked", 2, 110 + 15, 45000000},
      {"splitwise", 1, 110 + 50 + 80, 90000000}, // 90 ms: layer-wise, 40 of 81 are across
      {"splitwise", 2, 110 + 45, 45000000},      // 45 ms are less than the 80 ms
  };
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 60}");
  scene.pools[0].kv_transfer_overhead = 80 * MS;
  scene.pools[0].nic_bandwidth = scene.pools[1].nic_bandwidth = 1000000000;
  const TraceRow rows[] = {row(0, 90, 2)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_TRANSFER, cases[i].transfer, NULL);
    scene.config.network_compression = cases[i].ratio;
    run(rows, 1);
    expect_ms(scene.records[0].decode_began_at, cases[i].decodes, cases[i].transfer);
    cr_expect_eq(scene.result.metrics.transferred_bytes, cases[i].bytes);
  }
}

/* Splitwise §IV-C: synchronizing each of ten layers takes 0.5 ms. A prompt of 20 tokens has its
 * first token after 30 ms, or 35: a sixth later; one of 90 after 100, or 105. Splitwise's choice
 * sends the short one whole and pays nothing; nor does one that is decoded here. */
Test(transfer, layer_by_layer_delays_short_prompts_most) {
  static const struct {
    const char *transfer;
    int32_t prompt;
    double first_token, decodes;
  } cases[] = {
      {"layerwise", 20, 35, 35 + 2},        {"layerwise", 90, 105, 105 + 9},
      {"serialized", 20, 30, 30 + 20},      {"splitwise", 20, 30, 30 + 20},
      {"splitwise", 90, 105, 105 + 9 + 30}, // 90 ms are more than the 30
  };
  scene_split(&scene, 1, 1);
  scene.pools[0].kv_layer_sync = MS / 2;
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene.pools[0].kv_transfer_overhead = cases[i].transfer[1] == 'p' ? 30 * MS : 0;
    scene_choose(&scene, POLICY_TRANSFER, cases[i].transfer, NULL);
    const TraceRow rows[] = {row(0, cases[i].prompt, 2), row(2000 * MS, cases[i].prompt, 1)};
    run(rows, 2);
    expect_ms(scene.records[0].first_token_at, cases[i].first_token, cases[i].transfer);
    expect_ms(scene.records[0].decode_began_at, cases[i].decodes, cases[i].transfer);
    expect_ms(scene.records[1].first_token_at, 2000 + cases[i].prompt + 10, "it goes nowhere");
  }
}

/* With a dispatcher the decode machine of a prompt in one chunk is known only when its prefill has
 * ended, so there is nothing to overlap and no constant to pay. */
Test(transfer, layers_of_a_prompt_dispatched_at_its_end_go_whole) {
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_TRANSFER, "layerwise", NULL);
  scene.config.monitor_interval = 1000 * MS;
  scene.pools[0].kv_transfer_overhead = 8 * MS;
  const TraceRow rows[] = {row(0, 50, 2)};
  run(rows, 1);
  expect_ms(scene.records[0].decode_began_at, 60 + 5 + 8, "routed: a tenth is left");
  scene_choose(&scene, POLICY_DISPATCHER, "least_loaded", NULL);
  run(rows, 1);
  expect_ms(scene.records[0].decode_began_at, 60 + 50, "dispatched");
}

/* The receiver has 8 blocks of 16 tokens, the first request takes 6. Chunks: 60 of the first, to
 * 70; 30 and 30, to 140; 60 of the second, to 210. The first arrives at 170 and makes its two
 * tokens in 11.91 + 11.92 ms. At 140 there is no room for the second; at 210, when its prefill
 * ends, there is, and it moves whole. */
Test(transfer, chunks_without_room_at_the_receiver_go_whole) {
  scene_split(&scene, 1, 1);
  scene.pools[1].kv_blocks = 8;
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 60}");
  scene_choose(&scene, POLICY_TRANSFER, "chunked", NULL);
  const TraceRow rows[] = {row(0, 90, 3), row(0, 90, 3)};
  run(rows, 2);
  expect_ms(scene.records[0].first_token_at, 140, "the first's prefill");
  expect_ms(scene.records[0].decode_began_at, 170, "the first");
  expect_ms(scene.records[0].last_token_at, 170 + 23.83, "its end");
  expect_ms(scene.records[1].decode_began_at, 210 + 90, "the second");
}

/* A second prompt of three chunks finds room when its second has ended: the first request is gone
 * by 193.83, chunks of 30, 60 and 20 tokens end at 140, 210 and 240. At 210 the 90 tokens that are
 * done begin to move; 30 have by 240; 60 and 20 are left. */
Test(transfer, chunks_wait_for_room_until_a_later_one_finds_it) {
  scene_split(&scene, 1, 1);
  scene.pools[1].kv_blocks = 8;
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 60}");
  scene_choose(&scene, POLICY_TRANSFER, "chunked", NULL);
  const TraceRow rows[] = {row(0, 90, 3), row(0, 110, 3)};
  run(rows, 2);
  expect_ms(scene.records[1].first_token_at, 240, "the second's prefill");
  expect_ms(scene.records[1].decode_began_at, 240 + 80, "the second");
}

/* Even requests go from the first machine to the second, odd ones the other way. */
static Placement pick_crosswise(void *state, const ClusterView *view, RequestIx request) {
  (void)state;
  const InstanceIx odd = view->requests[request].id % 2;
  return (Placement){odd, 1 - odd, .roles_stay = true, .claimed = INSTANCE_NONE};
}

static const Router crosswise = {.policy = {.name = "crosswise"}, .pick = pick_crosswise};

/* Nineteen blocks of 16 tokens each, prompts of 161 in chunks of 64, 64 and 33. At 74 ms each takes
 * 11 blocks on the other's machine, at 148 each has 8 on its own and can have no more. Once what is
 * done is across, at 212, the first gives its room back. So the second goes on, to 255, moves its
 * other 33 tokens to 288 and decodes for 12.62 + 12.63 ms, to 313.25. Then the first goes on, to
 * 356.25, and moves whole. */
Test(transfer, chunks_give_their_room_back_when_prefills_wait_for_each_other) {
  scene.pools[0].count = 2;
  scene.pools[0].kv_blocks = 19;
  scene.config.policies[POLICY_ROUTER] = (PolicyChoice){&crosswise.policy, NULL};
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 64}");
  scene_choose(&scene, POLICY_TRANSFER, "chunked", NULL);
  const TraceRow rows[] = {row(0, 161, 3), row(0, 161, 3)};
  run(rows, 2);
  expect_ms(scene.records[1].first_token_at, 255, "the second's prefill");
  expect_ms(scene.records[1].decode_began_at, 288, "the second");
  expect_ms(scene.records[1].last_token_at, 313.25, "its end");
  expect_ms(scene.records[0].first_token_at, 356.25, "the first's prefill");
  expect_ms(scene.records[0].decode_began_at, 517.25, "the first");
  cr_expect_eq(scene.result.metrics.transfers, 2u);
  cr_expect_eq(scene.result.metrics.transferred_bytes, 322000000);
  cr_expect_eq(scene.result.metrics.recomputes, 0u);
}

/* Prefill of 90 tokens to 100 ms. NICs take 90 ms, NVLink 20; a copy to CPU memory takes 30 ms and
 * one from it 45. */
Test(transfer, each_path_takes_its_links) {
  static const struct {
    const char *what, *transfer;
    NetworkPath path;
    int64_t network;
    double decodes; // ms
  } cases[] = {
      {"NICs", "serialized", NETWORK_NIC, 0, 100 + 90 + 5},
      {"NVLink", "serialized", NETWORK_NVLINK, 0, 100 + 20 + 5},
      {"NVLink, limited", "serialized", NETWORK_NVLINK, 3000000000, 100 + 30 + 5},
      {"NVLink, layer-wise", "layerwise", NETWORK_NVLINK, 0, 100 + 2 + 5},
      {"through CPU memory", "serialized", NETWORK_INDIRECT, 0, 100 + 30 + 90 + 5 + 45},
      {"the same, layer-wise: whole too", "layerwise", NETWORK_INDIRECT, 0, 100 + 30 + 90 + 5 + 45},
      {"a link of its own", "splitwise_sim", NETWORK_INDIRECT, 0, 100 + 0.41909515857696533},
  };
  scene_split(&scene, 1, 1);
  scene.config.network_latency = 5 * MS;
  for (int i = 0; i < 2; i++)
    scene.pools[i].nvlink_bandwidth = 4500000000;
  scene.pools[0].host_link.options = (HostLinkOptions){.to_cpu = 3000000000, .efficiency = 1};
  scene.pools[1].host_link.options = (HostLinkOptions){.to_gpu = 2000000000, .efficiency = 1};
  const TraceRow rows[] = {row(0, 90, 2)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene.config.network_path = cases[i].path;
    scene.config.network_bandwidth = cases[i].network;
    scene_choose(&scene, POLICY_TRANSFER, cases[i].transfer, NULL);
    run(rows, 1);
    expect_ms(scene.records[0].decode_began_at, cases[i].decodes, cases[i].what);
  }
}

/* OPT-13B's 819,200 bytes per token between two instances of TetriInfer's: 512 tokens take 16.8 ms
 * over RoCE of 200 Gbps and 1.4 ms over NVLink of 300 GB/s. */
Test(transfer, tetriinfers_prompts_over_its_two_networks) {
  scene_split(&scene, 1, 1);
  for (int i = 0; i < 2; i++) {
    scene.pools[i].kv_bytes_per_token = 819200;
    scene.pools[i].nic_bandwidth = 25000000000;
    scene.pools[i].nvlink_bandwidth = 300000000000;
  }
  const TraceRow rows[] = {row(0, 512, 2)};
  run(rows, 1);
  expect_ms(scene.result.metrics.kv_transfer.max, 16.777216, "RoCE");
  scene.config.network_path = NETWORK_NVLINK;
  run(rows, 1);
  expect_ms(scene.result.metrics.kv_transfer.max, 1.398101333333, "NVLink");
}

/* Two blocks of 256 tokens hold a sequence each. Neither grows out of its own in the next 16
 * tokens, so the second comes in beside the first. */
Test(transfer, kv_comes_in_beside_sequences_that_will_not_grow_soon) {
  scene_split(&scene, 1, 1);
  scene.pools[0].block_size = scene.pools[1].block_size = 256;
  scene.pools[1].kv_blocks = 2;
  const TraceRow rows[] = {row(0, 90, 60), row(0, 90, 60)};
  run(rows, 2);
  cr_expect_lt(scene.records[1].decode_began_at, scene.records[0].last_token_at);
  cr_expect_eq(scene.result.metrics.recomputes, 0u);
  // here the first needs the other block for itself
  const TraceRow longer[] = {row(0, 250, 60), row(300 * MS, 250, 60)};
  run(longer, 2);
  cr_expect_gt(scene.records[1].decode_began_at, scene.records[0].last_token_at);
}

/* Prefilled elsewhere with 10 tokens, 20 ms; the KV of 10 tokens takes 10 ms; then each step of one
 * sequence takes 10 + 1 ms and 10 us per token of its context, 11 and on. The token of the prefill
 * is the first of its client, who has two; or is for nobody, and the decode instance makes two. */
Test(transfer, the_first_token_comes_from_where_the_engine_says) {
  static const struct {
    const char *from;
    Tick first, last;
  } cases[] = {{"prefill", 20 * MS, 41110 * US}, {"decode", 41110 * US, 52230 * US}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    Scene scene;
    scene_init(&scene, &arena, &diag);
    scene_split(&scene, 1, 1);
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 arena_printf(&arena, "{async_scheduling: false, first_token: %s}", cases[i].from));
    scene_run_both(&scene, (const TraceRow[]){row(0, 10, 2)}, 1);
    cr_expect_eq(scene.records[0].first_token_at, cases[i].first, "%s", cases[i].from);
    cr_expect_eq(scene.records[0].last_token_at, cases[i].last, "%s", cases[i].from);
    cr_expect_eq(scene.records[0].output_tokens, 2);
  }
}
