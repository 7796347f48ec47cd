/* Engines as rows. Pinned: that every row binds on every machine, what is filled in and what is
 * left as written, which engine counts where several are named, and limits by GPU. The notes and
 * messages of `tandem run` are in tests/cli/engines.sh. */
#include "experiments/config/config.h"
#include "perfmodel/captured.h"
#include "perfmodel/datafile.h"
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include "tests/unit/testing.h"

TestSuite(engines, .init = setup_folder, .fini = teardown_folder);

/* A pool on eight H100 of Llama2-70B, whose context is 4096, with more keys and more lines. */
static Config load(const char *keys, const char *lines) {
  Config config;
  write_file(path, arena_printf(&arena,
                                "model: llama2-70b\n"
                                "workload: {lengths: azure-conv-2023, requests: 1,\n"
                                "           arrivals: {process: at_once}}\n"
                                "pools: {all: {%s}}\n%s",
                                strstr(keys, "machine:")
                                    ? keys + 2
                                    : arena_printf(&arena, "machine: dgx-h100%s", keys),
                                lines));
  const int status = config_load(&config, path, NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  return config;
}

static int64_t option_of(const Config *config, const char *key) {
  const PolicyChoice batcher = sim_pool_policy(&config->sim, &config->sim.pools[0], POLICY_BATCHER);
  const OptionSpec *spec = batcher.policy->options;
  while (spec->key && strcmp(spec->key, key) != 0)
    spec++;
  cr_assert_not_null(spec->key, "%s has no %s", batcher.policy->name, key);
  return *(const int64_t *)((const char *)batcher.state + spec->offset);
}

static const char *batcher_of(const Config *config) {
  return sim_pool_policy(&config->sim, &config->sim.pools[0], POLICY_BATCHER).policy->name;
}

#define RANKS ", tensor_parallel_size: 4, attention_data_parallel_size: 2"

Test(engines, what_is_written_counts_before_what_the_engine_gives) {
  const struct {
    const char *keys, *lines, *batcher;
    int64_t tokens, seqs;
    double utilization;
    const char *given;
  } cases[] = {
      {"", "", "mixed", 2048, 256, 0.9, NULL},
      {"", "engine: none\n", "mixed", 2048, 256, 0.9, NULL},
      {"", "engine: vllm-0.33\n", "vllm", 8192, 1024, 0.92,
       "batcher vllm, async_scheduling true, enable_prefix_caching true, "
       "long_prefill_token_threshold 0, policy fcfs, scheduler_reserve_full_isl true, "
       "first_token decode, max_num_batched_tokens 8192, max_num_seqs 1024, gpu_memory_utilization "
       "0.92, "
       "block_size 16"},
      // the batcher alone: its limits by GPU memory, and nothing else
      {"", "policies: {batcher: vllm}\n", "vllm", 8192, 1024, 0.9,
       "max_num_batched_tokens 8192, max_num_seqs 1024"},
      {", batcher: {name: vllm, max_num_batched_tokens: 512}", "", "vllm", 512, 512, 0.9,
       "max_num_seqs 512"},
      {", machine: a100-40gb-x8, batcher: vllm", "engine: vllm-0.5.4\nperfmodel: roofline\n",
       "vllm", 2048, 256, 0.9, NULL},
      {"", "engine: vllm-0.5.4\n", "sarathi", 512, 256, 0.9,
       "batcher sarathi, max_num_batched_tokens 512, max_num_seqs 256, gpu_memory_utilization 0.9, "
       "block_size 16"},
      // the context of the model, and none
      {"", "engine: vllm-2023\n", "continuous", 4096, 256, 0.9, NULL},
      {"", "engine: vllm-2023\nmax_model_len: none\n", "continuous", 2048, 256, 0.9, NULL},
      // an option alone, of the run and of the pool; the other limit fits it
      {"", "engine: vllm-0.5.4\npolicies: {batcher: {max_num_seqs: 64}}\n", "sarathi", 512, 64, 0.9,
       NULL},
      {", batcher: {max_num_batched_tokens: 100}", "engine: vllm-0.5.4\n", "sarathi", 100, 100, 0.9,
       "batcher sarathi, max_num_seqs 100, gpu_memory_utilization 0.9, block_size 16"},
      {", batcher: {max_num_seqs: 3}", "engine: vllm-2023\nmax_model_len: 500\n", "continuous",
       1500, 3, 0.9, NULL},
      // another batcher has its own defaults
      {", gpu_memory_utilization: 0.8, block_size: 32",
       "engine: vllm-0.5.4\npolicies: {batcher: mixed}\n", "mixed", 2048, 256, 0.8, ""},
      // the pool's engine, over all that is said of the run
      {", engine: vllm-2023", "engine: vllm-0.5.4\npolicies: {batcher: {max_num_seqs: 64}}\n",
       "continuous", 4096, 256, 0.9, NULL},
      {", engine: vllm-2023, batcher: sarathi", "", "sarathi", 2048, 256, 0.9, NULL},
      {", engine: none", "engine: vllm-0.5.4\npolicies: {batcher: {max_num_seqs: 64}}\n", "mixed",
       2048, 64, 0.9, NULL},
      // attention ranks divide SGLang's tokens, after memory was kept for all of them
      {", tensor_parallel_size: 8", "engine: sglang-0.5\nperfmodel: roofline\n", "sglang", 8192,
       2048, 0.819, NULL},
      {RANKS, "engine: sglang-0.5\nperfmodel: roofline\n", "sglang", 4096, 2048, 0.763, NULL},
      {RANKS ", batcher: {max_num_batched_tokens: 8192}",
       "engine: sglang-0.5\nperfmodel: roofline\n", "sglang", 8192, 2048, 0.763, NULL},
      {RANKS, "engine: vllm-0.33\nperfmodel: roofline\n", "vllm", 8192, 1024, 0.92, NULL},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Config config = load(cases[i].keys, cases[i].lines);
    cr_expect_str_eq(batcher_of(&config), cases[i].batcher, "case %zu", i);
    cr_expect_eq(option_of(&config, "max_num_batched_tokens"), cases[i].tokens, "case %zu", i);
    cr_expect_eq(option_of(&config, "max_num_seqs"), cases[i].seqs, "case %zu", i);
    cr_expect_eq(config.pools[0].kv.gpu_memory_utilization, cases[i].utilization, "case %zu", i);
    if (cases[i].given) cr_expect_str_eq(config.pools[0].given, cases[i].given, "case %zu", i);
  }
}

/* The row that a release with defaults by GPU memory has. */
Test(engines, limits_go_by_the_memory_of_a_gpu_and_its_name) {
  const ServingEngine engine = {
      .limits = {{160, NULL, 16384, 1024}, {70, "a100", 8192, 1024}, {0, NULL, 2048, 256}}};
  const struct {
    const char *machine;
    int64_t tokens, seqs;
  } cases[] = {{"dgx-b200", 16384, 1024},        {"dgx-h200", 8192, 1024},
               {"dgx-h100", 8192, 1024},         {"gh200-96gb", 8192, 1024},
               {"dgx-a100", 2048, 256},          {"a100-80gb-pcie-x8", 2048, 256},
               {"a100-40gb-pcie-x8", 2048, 256}, {"l4-x8", 2048, 256}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    Hardware hardware;
    cr_assert_eq(
        hardware_load(&hardware, cases[i].machine, data_dir, place_of_file("test"), &arena, &diag),
        0);
    const ServingLimits *limits = serving_limits(&engine, &hardware);
    cr_expect_eq(limits->max_num_batched_tokens, cases[i].tokens, "%s", cases[i].machine);
    cr_expect_eq(limits->max_num_seqs, cases[i].seqs, "%s", cases[i].machine);
  }
  cr_expect_eq(serving_limits(&engine, NULL)->max_num_batched_tokens, 16384);
}

/* SGLang keeps 512 MiB free, 1.5 for a token of a step, 128 for a GPU, and 2 for a sequence of the
 * largest graph: 14,848 of the 81,920 MiB of an H100. */
Test(engines, sglang_leaves_what_it_does_not_reserve) {
  static const struct {
    const char *machine;
    Parallelism degrees;
    Role role;
    int64_t tokens, seqs;
    double share;
  } cases[] = {
      {"dgx-h100", {.tensor = 8, .pipeline = 1}, ROLE_MIXED, 8192, 2048, 0.819},
      {"dgx-h100", {.tensor = 1, .pipeline = 1}, ROLE_MIXED, 8192, 2048, 0.836},   // graphs of 256
      {"dgx-h100", {.tensor = 8, .pipeline = 1}, ROLE_PREFILL, 8192, 2048, 0.831}, // no graphs
      {"dgx-h100", {.tensor = 8, .pipeline = 1}, ROLE_DECODE, 8192, 2048, 0.875},  // 10 GiB
      {"dgx-h100", {.tensor = 1, .pipeline = 1}, ROLE_MIXED, 512, 2048, 0.875},    // likewise
      {"dgx-h200", {.tensor = 8, .pipeline = 1}, ROLE_MIXED, 8192, 16, 0.904},     // graphs of 16
      {"dgx-b200", {.tensor = 8, .pipeline = 1}, ROLE_MIXED, 16384, 4096, 0.852},
      {"dgx-b200", {.tensor = 1, .pipeline = 1, .attention = 8}, ROLE_MIXED, 16384, 4096, 0.751},
  };
  const ServingEngine *engine = NULL;
  for (int i = 1; serving_choices[i]; i++)
    if (strcmp(serving_choices[i], "sglang-0.5") == 0) engine = serving_at(i);
  for (size_t i = 0; i < COUNT(cases); i++) {
    Hardware hardware;
    cr_assert_eq(
        hardware_load(&hardware, cases[i].machine, data_dir, place_of_file("test"), &arena, &diag),
        0);
    const ServingSite site = {&hardware, cases[i].degrees, cases[i].role, cases[i].tokens,
                              cases[i].seqs};
    const double share = serving_memory(engine, &site);
    cr_expect_float_eq(share, cases[i].share, 1e-9, "case %zu: %g", i, share);
  }
}

/* Each gives its batcher keys that the batcher has, and knows what it captures. */
Test(engines, every_row_binds_on_every_machine) {
  for (int i = 1; serving_choices[i]; i++) {
    const ServingEngine *engine = serving_at(i);
    cr_expect_str_eq(engine->name, serving_choices[i]);
    for (const char *const *name = datafile_names(data_dir, "machines", &arena); *name; name++) {
      Hardware hardware;
      PolicyChoice choice;
      cr_assert_eq(hardware_load(&hardware, *name, data_dir, place_of_file("test"), &arena, &diag),
                   0);
      const ServingUse use = {.engine = engine,
                              .hardware = &hardware,
                              .max_model_len = 4096,
                              .at = place_of_file("test")};
      cr_assert_eq(serving_bind_batcher(&use, NULL, &choice, NULL, &arena, &diag), 0, "%s",
                   engine->name);
      cr_expect_str_eq(choice.policy->name, engine->batcher);
      cr_expect_geq(config_max_decode_seqs(&choice), 256);
    }
    if (!engine->captured_batch_sizes) continue;
    int w = 0;
    while (captured_words[w].word && strcmp(captured_words[w].word, engine->captured_batch_sizes))
      w++;
    cr_expect_not_null(captured_words[w].word, "%s", engine->captured_batch_sizes);
  }
  cr_expect_null(serving_at(0));
}

/* What a batcher's options say is what it offers, and other limits are another batcher's. */
Test(engines, every_batcher_offers_its_limits) {
  for (const Policy *const *policy = policy_list(POLICY_BATCHER); *policy; policy++) {
    int64_t tokens = 0, seqs = 0;
    Node *map = yaml_parse("test", "{}", 2, &arena, &diag);
    for (const OptionSpec *spec = (*policy)->options; spec->key; spec++) {
      if (strcmp(spec->key, "max_num_batched_tokens") == 0)
        yaml_set(map, "max_num_batched_tokens=77", &arena, &diag), tokens = 77;
      if (strcmp(spec->key, "max_num_seqs") == 0)
        yaml_set(map, "max_num_seqs=55", &arena, &diag), seqs = 55;
    }
    const void *state = policy_bind(*policy, map, place_of_file("test"), &arena, &diag);
    const PolicyChoice choice = {*policy, state}, none = {*policy, NULL};
    const BatchLimits limits = batcher_limits(&choice);
    cr_expect_eq(limits.max_num_batched_tokens, tokens, "%s", (*policy)->name);
    cr_expect_eq(limits.max_num_seqs, seqs, "%s", (*policy)->name);
    const PolicyChoice more = batcher_limited(choice, (BatchLimits){9, 8}, &arena);
    cr_expect_eq(batcher_limits(&more).max_num_seqs, 8);
    cr_expect_eq(batcher_limits(&choice).max_num_seqs, seqs);
    cr_expect_eq(batcher_limits(&none).max_num_seqs, 0);
  }
}

Test(engines, what_an_engine_gives_is_in_the_digest) {
  uint64_t written, given;
  const Config all = load(", gpu_memory_utilization: 0.9, block_size: 16, batcher: sarathi", "");
  const Config engine = load(", engine: vllm-0.5.4", "");
  Config config = engine;
  cr_assert_eq(config_digest(&all, &written, &diag) | config_digest(&config, &given, &diag), 0);
  cr_expect_neq(written, given);
  const uint64_t before = given;
  config.pools = &(PoolConfig){.giver = engine.pools[0].giver, .given = "max_num_seqs 1"};
  cr_assert_eq(config_digest(&config, &given, &diag), 0);
  cr_expect_neq(given, before);
}
