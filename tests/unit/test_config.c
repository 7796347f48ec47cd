/* Configurations: what is bound to what, defaults, shares of a machine, changes from the command
 * line, and the digest. Messages about bad input are pinned by tests/cli/bad_config.sh. */
#include "base/cache.h"
#include "experiments/config/config.h"
#include "sim/batcher/batcher.h"
#include "sim/core/scheduler.h"
#include "tests/unit/testing.h"

static const char base[] = "model: llama2-70b\n"
                           "workload:\n"
                           "  lengths: azure-conv-2023\n"
                           "  arrivals: {process: poisson, rate: 4 /s}\n"
                           "  duration: 10 s\n"
                           "pools:\n"
                           "  all: {machine: dgx-h100}\n";

TestSuite(config, .init = setup_folder, .fini = teardown_folder);

/* The base with up to three assignments. */
static Config load(const char *text, const char *a, const char *b, const char *c) {
  const char *const assignments[] = {a, b, c, NULL};
  const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
  Config config;
  write_file(path, text);
  int status = config_load(&config, path, &changes, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  return config;
}

static uint64_t digest_of(const Config *config) {
  uint64_t digest = 0;
  cr_assert_eq(config_digest(config, &digest, &diag), 0);
  return digest;
}

Test(config, what_is_absent_has_its_default) {
  static const char *const policies[POLICY_KINDS] = {
      [POLICY_ROUTER] = "token_jsq", [POLICY_PREDICTOR] = "none", [POLICY_DISPATCHER] = "router",
      [POLICY_POOL] = "fixed",       [POLICY_BATCHER] = "mixed",  [POLICY_TRANSFER] = "splitwise",
      [POLICY_KVTIER] = "recompute", [POLICY_SCALER] = "none",
  };
  Config config = load(base, NULL, NULL, NULL);
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    cr_expect_str_eq(config.sim.policies[kind].policy->name, policies[kind]);
  cr_expect_eq(config.sim.seed, 1);
  cr_expect_eq(config.sim.tie_seed, 0);
  cr_expect_eq(config.sim.network_bandwidth, 0);
  cr_expect_null(config.sim.model.slo_reference);
  cr_expect_eq(config.slo->n_specs, 0);
  const PoolSpec *pool = &config.sim.pools[0];
  cr_expect_eq(pool->role, ROLE_MIXED);
  cr_expect_eq(pool->count, 1);
  cr_expect_eq(pool->block_size, 16);
  cr_expect_eq(config.pools[0].tensor_parallel_size, 8);
}

Test(config, a_model_may_be_in_other_formats) {
  const Config plain = load(base, "perfmodel=roofline", NULL, NULL);
  const Config fp8 = load(base, "perfmodel=roofline",
                          "model={name: llama2-70b, quantization: fp8, kv_cache_dtype: fp8}", NULL);
  const int64_t rest = 2 * 32000 * 8192 + (2 * 80 + 1) * 8192; // embedding and head, norms
  cr_expect_eq(fp8.model.weight_bytes, plain.model.weight_bytes / 2 + rest);
  cr_expect_eq(fp8.sim.pools[0].kv_bytes_per_token, plain.sim.pools[0].kv_bytes_per_token / 2);
  cr_expect_str_eq(fp8.model.name, plain.model.name);
}

Test(config, pools_keep_the_order_of_the_file) {
  Config config = load("model: bloom-176b\n"
                       "workload: {lengths: azure-conv-2023, requests: 1,"
                       " arrivals: {process: at_once}}\n"
                       "pools:\n"
                       "  z: {role: decode, machine: dgx-a100, count: 3}\n"
                       "  a: {role: prefill, machine: dgx-h100, count: 2}\n",
                       NULL, NULL, NULL);
  cr_assert_eq(config.sim.n_pools, 2);
  cr_expect_str_eq(config.sim.pools[0].name, "z");
  cr_expect_str_eq(config.sim.pools[0].machine, "dgx-a100");
  cr_expect_eq(config.sim.pools[0].role, ROLE_DECODE);
  cr_expect_eq(config.sim.pools[0].count, 3);
  cr_expect_str_eq(config.sim.pools[1].name, "a");
  cr_expect_eq(config.sim.pools[1].role, ROLE_PREFILL);
}

/* llama2-70b: 2·(69.0e9) bytes of weights, 2·80·8·128·2 bytes of KV per token. */
Test(config, kv_memory_is_what_the_weights_leave) {
  Config config = load(base, "pools.all.activation_bytes=2 GiB",
                       "pools.all.gpu_memory_utilization=0.5", "pools.all.block_size=32");
  const PoolSpec *pool = &config.sim.pools[0];
  const double gib = 1024.0 * 1024 * 1024;
  const double left = 0.5 * 80 * gib * 8 - (double)config.model.weight_bytes - 2 * gib * 8;
  cr_expect_eq(pool->kv_bytes_per_token, 327680);
  cr_expect_eq(pool->kv_blocks, (int64_t)(left / (32 * 327680.0)));
  config = load(base, "pools.all.num_gpu_blocks_override=123", NULL, NULL);
  cr_expect_eq(config.sim.pools[0].kv_blocks, 123);
  config = load(base, "pools.all.kv_cache_memory_bytes=3 GB", NULL, NULL);
  cr_expect_eq(config.sim.pools[0].kv_blocks, 8 * 3000000000 / (16 * 327680));
}

/* DeepSeek-R1: its 62nd layer, 11,717,510,256 bytes (test_llm), and the KV of it, whose latent is
 * on each of 8 GPUs. A head that is trained apart is not counted. */
Test(config, mtp_layers_take_kv_memory) {
  static const char text[] = "model: deepseek-r1\nperfmodel: roofline\nengine: vllm-0.33\n"
                             "workload: {lengths: azure-conv-2023, requests: 1,"
                             " arrivals: {process: at_once}}\n"
                             "pools: {all: {machine: dgx-h200, tensor_parallel_size: 8}}\n";
  const Config plain = load(text, NULL, NULL, NULL);
  const Config mtp =
      load(text,
           "policies.batcher.speculative={method: mtp, num_speculative_tokens: 1, acceptance: 1.9}",
           NULL, NULL);
  const Config eagle = load(
      text,
      "policies.batcher.speculative={method: eagle, num_speculative_tokens: 1, acceptance: 1.9}",
      NULL, NULL);
  const PoolSpec *without = &plain.sim.pools[0], *with = &mtp.sim.pools[0];
  cr_expect_eq(with->weight_bytes - without->weight_bytes, INT64_C(11717510256));
  cr_expect_eq(with->kv_block_bytes, 16 * 62 * 1152 * 8);
  cr_expect_eq(without->kv_block_bytes, 16 * 61 * 1152 * 8);
  const double left = (double)with->kv_blocks * (double)with->kv_block_bytes;
  const double more = (double)without->kv_blocks * (double)without->kv_block_bytes - left;
  cr_expect(fabs(more - 11717510256) < (double)with->kv_block_bytes, "%.0f", more);
  cr_expect_eq(with->num_hidden_layers, 61);
  cr_expect_eq(eagle.sim.pools[0].kv_blocks, without->kv_blocks);
}

/* A dgx-h100 has 2 TB of CPU memory and eight links of 64 GB/s to it. */
Test(config, swapped_kv_has_the_share_of_cpu_memory) {
  Config config = load(base, NULL, NULL, NULL);
  const PoolSpec *pool = &config.sim.pools[0];
  cr_expect_eq(pool->kv_block_bytes, 16 * 327680);
  cr_expect_eq(pool->cpu_kv_blocks, (int64_t)(2e12 / (16 * 327680)));
  cr_expect_eq(pool->host_link.options.to_cpu, 8 * 64000000000);
  cr_expect_eq(pool->host_link.options.to_gpu, 8 * 64000000000);
  config = load(base, "pools.all.tensor_parallel_size=4", NULL, NULL);
  cr_expect_eq(config.sim.pools[0].cpu_kv_blocks, (int64_t)(1e12 / (16 * 327680)));
  cr_expect_eq(config.sim.pools[0].host_link.options.to_cpu, 4 * 64000000000);
  config = load(base, "pools.all.cpu_memory=100 GB", NULL, NULL);
  cr_expect_eq(config.sim.pools[0].cpu_kv_blocks, (int64_t)(1e11 / (16 * 327680)));
  config = load(base, "pools.all.cpu_memory=0 B", NULL, NULL);
  cr_expect_eq(config.sim.pools[0].cpu_kv_blocks, 0);
}

/* Four links of 16 GiB/s. With two KV heads on four GPUs each head is on two of them: its KV is
 * stored once and comes in twice. */
Test(config, copies_of_kv_heads_are_copied_in_each) {
  static const char text[] =
      "model: tiny-llama-50m\n"
      "workload: {lengths: {prompt: {constant: 20}, output: {constant: 2}}, requests: 1,\n"
      "           arrivals: {process: at_once}}\n"
      "pools:\n"
      "  front: {role: prefill, machine: a10-x4, tensor_parallel_size: 2,\n"
      "          pipeline_parallel_size: 2}\n"
      "  back: {role: decode, machine: a10-x4, tensor_parallel_size: 4}\n"
      "groups: {gpus: {prefill: front, decode: back}}\n"
      "policies: {pool: seesaw, batcher: continuous}\n"
      "perfmodel: {name: roofline}\n";
  Config config = load(text, NULL, NULL, NULL);
  const GroupSpec *group = &config.sim.groups[0];
  for (int i = 0; i < 2; i++) {
    cr_expect_eq(config.sim.pools[i].host_link.options.to_gpu, INT64_C(64) << 30);
    cr_expect_eq(config.sim.pools[i].host_link.options.to_cpu, INT64_C(64) << 30);
  }
  cr_expect_eq(group->copy_share[COPY_OUT], 1);
  cr_expect_eq(group->copy_share[COPY_IN], 2);
  config = load(text, "model=llama-13b", NULL, NULL);
  cr_expect_eq(config.sim.groups[0].copy_share[COPY_IN], 1);
}

Test(config, fewer_gpus_are_a_share_of_the_machine) {
  Config whole = load(base, NULL, NULL, NULL);
  Config half = load(base, "pools.all.tensor_parallel_size=4", NULL, NULL);
  const PoolSpec *a = &whole.sim.pools[0], *b = &half.sim.pools[0];
  cr_expect_eq(a->nic_bandwidth, 400000000000);
  cr_expect_eq(b->nic_bandwidth, 200000000000);
  cr_expect_eq(b->kv_transfer_overhead, a->kv_transfer_overhead);
  cr_expect_eq(b->kv_bytes_per_token, a->kv_bytes_per_token);
  const double shares[] = {b->idle_power / a->idle_power, b->prefill_power / a->prefill_power,
                           b->decode_power / a->decode_power,
                           b->provisioned_power / a->provisioned_power,
                           b->cost_per_hour / a->cost_per_hour};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
    cr_expect_float_eq(shares[i], 0.5, 1e-12, "figure %zu", i);
}

/* Each of the two halves of a machine has a scheduler with its own limits, and half of all else. */
Test(config, attention_ranks_are_instances_of_their_own) {
  const char *text = "model: llama2-70b\n"
                     "perfmodel: roofline\n"
                     "workload: {lengths: azure-conv-2023, requests: 1,"
                     " arrivals: {process: at_once}}\n"
                     "policies: {batcher: {name: vllm, max_num_seqs: 100}}\n"
                     "pools: {all: {machine: dgx-h100, attention_data_parallel_size: 2}}\n";
  const Config config = load(text, NULL, NULL, NULL);
  const Config whole = load(text, "policies.batcher.rank_scheduling=shared", NULL, NULL);
  const PoolSpec *rank = &config.sim.pools[0], *all = &whole.sim.pools[0];
  cr_expect_eq(rank->ranks, 2);
  cr_expect_eq(rank->attention_ranks, 1);
  cr_expect_eq(rank->count, 2);
  cr_expect_eq(pool_machines(rank), 1);
  cr_expect_eq(2 * rank->kv_blocks, all->kv_blocks);
  cr_expect_eq(2 * rank->nic_bandwidth, all->nic_bandwidth);
  cr_expect_float_eq(2 * rank->cost_per_hour, all->cost_per_hour, 1e-9);
  cr_expect_eq(rank->host_link.options.to_gpu, all->host_link.options.to_gpu, "of all GPUs");
  cr_expect_eq(rank->perfmodel->max_decode_seqs, 200);
  const PolicyChoice batcher = sim_pool_policy(&config.sim, rank, POLICY_BATCHER);
  cr_expect_eq(batcher_limits(&batcher).max_num_seqs, 100);
  cr_expect_neq(digest_of(&config), digest_of(&whole));
}

/* One machine of eight GPUs, whose scheduler has the limits of both groups. */
Test(config, groups_of_attention_are_one_machine) {
  const char *text =
      "model: llama2-70b\n"
      "perfmodel: roofline\n"
      "workload: {lengths: azure-conv-2023, requests: 1,"
      " arrivals: {process: at_once}}\n"
      "policies: {batcher: {name: vllm, max_num_seqs: 100, rank_scheduling: shared}}\n"
      "pools: {all: {machine: dgx-h100, attention_data_parallel_size: 2}}\n";
  const Config config = load(text, NULL, NULL, NULL);
  const Config whole = load(text, "pools.all.attention_data_parallel_size=1", NULL, NULL);
  const PoolSpec *pool = &config.sim.pools[0], *one = &whole.sim.pools[0];
  cr_expect_eq(config.pools[0].tensor_parallel_size, 4);
  cr_expect_eq(pool->count, 1);
  const PolicyChoice batcher = sim_pool_policy(&config.sim, pool, POLICY_BATCHER);
  const SchedulerLimits limits = ((const Batcher *)batcher.policy)->schedules(batcher.state);
  cr_expect_eq(limits.max_num_seqs, 200);
  cr_expect_eq(limits.max_num_batched_tokens, 16384);
  cr_expect_eq(pool->perfmodel->max_decode_seqs, 200);
  cr_expect_eq(pool->nic_bandwidth, one->nic_bandwidth);
  cr_expect_eq(pool->nvlink_bandwidth, one->nvlink_bandwidth);
  cr_expect_eq(pool->host_link.options.to_gpu, one->host_link.options.to_gpu);
  cr_expect_float_eq(pool->cost_per_hour, one->cost_per_hour, 1e-9);
  cr_expect_neq(digest_of(&config), digest_of(&whole));
}

Test(config, prices_are_those_of_the_configuration) {
  const char *file = in_folder("prices.yaml");
  Config config = load(base, "prices.dgx-h100=80 $/h", "pools.all.tensor_parallel_size=4", NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 40, 1e-12);
  write_file(file, "dgx-a100: 10 $/h\ndgx-h100: 20 $/h\n");
  config = load(base, "prices=prices.yaml", NULL, NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 20, 1e-12);
  config =
      load(base, "prices.dgx-h100={gpu_cost_per_hour: 3 $/h, price_date: 2026-05}", NULL, NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 24, 1e-12);
  cr_expect_str_eq(config.pools[0].hardware.price_date, "2026-05");
  cr_expect_null(config.pools[0].hardware.price_source, "not that of the file");
  // Of a GPU, by the longest name; of all machine types that are not named.
  config = load(base, "prices={h100: 2 $/h, h100-80gb: 3 $/h, a100: 1 $/h}", NULL, NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 24, 1e-12);
  config = load(base, "prices={h100: 2 $/h, dgx-h100: 3 $/h}", NULL, NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 3, 1e-12, "of the machine");
  config = load(base, "cost_per_hour=40 $/h", "prices.a100=1 $/h", NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 40, 1e-12);
  config = load(base, "cost_per_hour=40 $/h", "gpu_cost_per_hour=2 $/h", NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 16, 1e-12);
  const char *table = in_folder("prices.csv");
  write_file(table, "gpu,usd_per_gpu_hour,date,source\nh100,2.5,2026-11,\"our offer, net\"\n");
  config = load(base, "prices=prices.csv", NULL, NULL);
  cr_expect_float_eq(config.sim.pools[0].cost_per_hour, 20, 1e-12);
  cr_expect_str_eq(config.pools[0].hardware.price_source, "our offer, net");
  cr_expect_str_eq(config.pools[0].hardware.price_date, "2026-11");
  remove(table);
  const char *const dated[] = {"prices.dgx-h100={price_date: May}", NULL};
  const ConfigChanges no_price = {.assignments = dated, .seed = -1, .tie_seed = -1};
  cr_assert_eq(config_load(&config, path, &no_price, &arena, &diag), -1);
  cr_expect_eq(diag.n_entries, 2, "no price, and no date");
  diag_done(&diag);
  diag_init(&diag);
  const char *const wrong[] = {"prices={dgx-h10: 20 $/h, dgx-h100: 20}", NULL};
  const ConfigChanges changes = {.assignments = wrong, .seed = -1, .tie_seed = -1};
  cr_assert_eq(config_load(&config, path, &changes, &arena, &diag), -1);
  expect_entry(&diag, 0, 1, 9, "unknown machine or GPU 'dgx-h10'", "a typo");
  cr_expect_eq(diag.n_entries, 2);
}

/* TetriInfer's two networks between instances of two of the machine's four GPUs: its RoCE is that
 * of a pair of instances, its NVLink 2 x 150 GB/s. */
Test(config, kv_takes_the_path_of_the_network) {
  const char *text = "model: opt-13b\n"
                     "perfmodel: roofline\n"
                     "workload: {lengths: azure-conv-2023, requests: 1,"
                     " arrivals: {process: at_once}}\n"
                     "pools:\n"
                     "  all: {machine: v100-32gb-x4, tensor_parallel_size: 2}\n";
  Config config = load(text, NULL, NULL, NULL);
  cr_expect_eq(config.sim.network_path, NETWORK_NIC);
  cr_expect_eq(config.sim.pools[0].kv_bytes_per_token, 819200);
  cr_expect_eq(config.sim.pools[0].nic_bandwidth, 12500000000, "half of the machine's");
  const uint64_t digest = digest_of(&config);
  config = load(text, "network.path=nvlink", "pools.all.nic_bandwidth=200 Gbps", NULL);
  cr_expect_eq(config.sim.network_path, NETWORK_NVLINK);
  cr_expect_eq(config.sim.pools[0].nic_bandwidth, 25000000000);
  cr_expect_eq(config.sim.pools[0].nvlink_bandwidth, 300000000000);
  cr_expect_neq(digest_of(&config), digest);
  config = load(text, "network.path=indirect", NULL, NULL);
  cr_expect_eq(config.sim.network_path, NETWORK_INDIRECT);
  cr_expect_eq(config.sim.pools[0].host_link.options.to_cpu, 32000000000);
}

Test(config, a_decode_batch_is_as_large_as_the_batcher_says) {
  static const struct {
    const char *max_num_seqs, *blocks;
    int64_t expected;
  } rows[] = {{"40", "1000", 40}, {"40", "7", 7}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *seqs =
        arena_printf(&arena, "policies.batcher.max_num_seqs=%s", rows[i].max_num_seqs);
    const char *blocks =
        arena_printf(&arena, "pools.all.num_gpu_blocks_override=%s", rows[i].blocks);
    Config config = load(base, seqs, blocks, NULL);
    cr_expect_str_eq(config.sim.policies[POLICY_BATCHER].policy->name, "mixed");
    cr_expect_eq(config.sim.pools[0].perfmodel->max_decode_seqs, rows[i].expected, "row %zu", i);
  }
}

Test(config, network_and_objectives_are_bound) {
  Config config = load(base, "network={bandwidth: 200 Gbps, latency: 5 us}",
                       "slo={name: splitwise, machine: dgx-h100}", NULL);
  cr_expect_eq(config.sim.network_bandwidth, 25000000000);
  cr_expect_eq(config.sim.network_latency, 5000000);
  cr_expect_str_eq(config.slo->name, "splitwise");
  cr_assert_not_null(config.sim.model.slo_reference);
  Config plain = load(base, "slo=splitwise", NULL, NULL);
  const Tick a100 = perfmodel_prefill(plain.sim.model.slo_reference, 1000);
  cr_expect_gt(a100, perfmodel_prefill(config.sim.model.slo_reference, 1000));
}

Test(config, a_seed_from_the_command_line_replaces_all_of_the_file) {
  static const struct {
    const char *workload_seed; // in the file
    int64_t given, run, workload;
  } rows[] = {{NULL, -1, 1, -1},
              {NULL, 9, 9, -1},
              {"workload.seed=3", -1, 1, 3},
              {"workload.seed=3", 9, 9, 9}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *const assignments[] = {rows[i].workload_seed, NULL};
    const ConfigChanges changes = {
        .assignments = assignments, .seed = rows[i].given, .tie_seed = -1};
    Config config;
    write_file(path, base);
    cr_assert_eq(config_load(&config, path, &changes, &arena, &diag), 0);
    cr_expect_eq(config.sim.seed, (uint64_t)rows[i].run, "row %zu", i);
    cr_expect_eq(config.workload.seed, rows[i].workload, "row %zu", i);
  }
}

Test(config, the_digest_tells_configurations_apart) {
  static const char *const changes[] = {"seed=2",
                                        "tie_seed=1",
                                        "workload.duration=11 s",
                                        "workload.lengths=azure-code-2023",
                                        "pools.all.count=2",
                                        "pools.all.machine=dgx-a100",
                                        "policies.router=jsq",
                                        "slo=splitwise"};
  enum { N = sizeof changes / sizeof *changes };
  uint64_t digests[N + 1];
  Config config = load(base, NULL, NULL, NULL);
  digests[N] = digest_of(&config);
  for (int i = 0; i < N; i++) {
    config = load(base, changes[i], NULL, NULL);
    digests[i] = digest_of(&config);
    for (int k = 0; k < i; k++)
      cr_expect_neq(digests[i], digests[k], "%s and %s", changes[i], changes[k]);
    cr_expect_neq(digests[i], digests[N], "%s", changes[i]);
  }
}

Test(config, the_digest_is_blind_to_layout) {
  Config a = load(base, NULL, NULL, NULL);
  const uint64_t digest = digest_of(&a);
  Config b = load(arena_printf(&arena, "# a comment\n%s# another\n", base), NULL, NULL, NULL);
  cr_expect_eq(digest_of(&b), digest);
}

Test(config, the_digest_covers_the_files_that_are_named) {
  static const char *const trace_texts[] = {
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,45\n"};
  static const char *const table_texts[] = {"q,prompt,output\n0,1,1\n100,20,5\n",
                                            "q,prompt,output\n0,1,1\n100,20,6\n"};
  const char *data = in_folder("data.csv");
  const struct {
    const char *const *texts;
    const char *change;
  } rows[] = {{trace_texts, arena_printf(&arena, "workload={trace: %s}", data)},
              {table_texts, arena_printf(&arena, "workload.lengths=%s", data)}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint64_t digests[2];
    for (int k = 0; k < 2; k++) {
      write_file(data, rows[i].texts[k]);
      Config config = load(base, rows[i].change, NULL, NULL);
      digests[k] = digest_of(&config);
    }
    cr_expect_neq(digests[0], digests[1], "%s", rows[i].change);
  }
}

Test(config, every_example_is_in_order) {
  static const char *const names[] = {
      "quickstart", "splitwise-small", "splitwise-hh", "splitwise-sim", "azure-conv",
      "seesaw",     "azure-code",      "chat",         "mooncake"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Config config;
    const char *file = arena_printf(&arena, "%s/experiments/examples/%s.yaml",
                                    getenv("TANDEM_SOURCE_DIR"), names[i]);
    int status = config_load(&config, file, NULL, &arena, &diag);
    diag_print(&diag, stderr);
    cr_expect_eq(status, 0, "%s", names[i]);
  }
}

/* A value that takes a MiB; none at all when `context` is NULL. */
static const void *load_mebibyte(const void *context, Arena *into, Diag *problems) {
  void *value = arena_alloc(into, 1 << 20);
  if (context) return value;
  diag_error(problems, place_of_file(path), "no value");
  return NULL;
}

Test(config, a_cache_keeps_what_was_loaded_and_nothing_of_what_could_not_be) {
  Cache cache;
  cache_init(&cache);
  const size_t before = cache.arena.bytes;
  cr_expect_null(cache_get(&cache, "bad", load_mebibyte, NULL, &diag));
  cr_expect_eq(cache.arena.bytes, before, "%zu bytes of a failed load are kept",
               cache.arena.bytes - before);
  cr_expect_eq(diag.n_entries, 1);
  const void *value = cache_get(&cache, "good", load_mebibyte, path, &diag);
  cr_expect_not_null(value);
  cr_expect_eq(cache_get(&cache, "good", load_mebibyte, NULL, &diag), value);
  cache_done(&cache);
}

/* Kubernetes has a window for shrinking; Dynamo's planners have none. */
Test(config, the_window_for_shrinking_is_that_of_the_scaler) {
  static const struct {
    const char *scaling, *scaler;
    Tick window; // s
  } cases[] = {
      {"{max: 2}", "{name: hpa, queue: 5}", 300},
      {"{max: 2}", "{name: target, queue: 5}", 300},
      {"{max: 2}", "llm_d_wva", 300},
      {"{max: 2}", "{name: dynamo_planner_modes, optimization_target: latency}", 0},
      {"{max: 2, down_window: 60 s}", "{name: dynamo_planner_modes, optimization_target: latency}",
       60},
      {"{max: 2, down_window: 0 s}", "{name: hpa, queue: 5}", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Config config = load(base, arena_printf(&arena, "pools.all.scaling=%s", cases[i].scaling),
                               arena_printf(&arena, "policies.scaler=%s", cases[i].scaler), NULL);
    cr_expect_eq(config.sim.pools[0].scaling.down_window, cases[i].window * TICKS_PER_SECOND,
                 "case %zu", i);
  }
}
