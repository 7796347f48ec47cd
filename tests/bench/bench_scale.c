/* Does a request cost more in a larger cluster? Prints figures and judges nothing.
 *
 *     bench_scale [--instructions] [--instances FEW,MANY] [ROW]...
 *
 * Each policy that ships in a cluster that suits it, of 10 instances and of 1,000 at the same load
 * of each, with as many requests for each: nanoseconds of CPU per request in the loop (the least of
 * several rounds, taken in turns) and their ratio; set-up is left out. With --instructions, and
 * where callgrind is installed, instructions of the loop instead, which do not hang on what else
 * runs. ROWs are the beginnings of names; none: all.
 *
 * One run: bench_scale --once ROW INSTANCES REQUESTS_PER_INSTANCE
 *
 *     bench_scale --bytes CONFIGURATION [KEY=VALUE]...
 *
 * Bytes that prefix caches hold, at the end of a run, for each block that they find, without the 8
 * of a key: arrays of runs and their index as they were reserved, those that it outgrew too. */
#include "base/cleanup.h"
#include "experiments/config/config.h"
#include "sim/run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PER_INSTANCE = 50, ROUNDS = 3, SETS = 8, COUNTS = 4 };

static int few = 10, many = 1000; // instances

/* A cluster for requests at a rate per instance; `pools` have the counts of instances as %d. */
typedef struct Base {
  const char *text;
  const char *counts[COUNTS]; // keys of the pools' counts
  double shares[COUNTS];      // of the instances
  double rate;                // requests per second and instance
} Base;

enum {
  SPLIT,
  FULL,
  TOGETHER,
  CHAT,
  PAGES,
  RELEASED,
  TETRI,
  LANES,
  PIE,
  FLEXGEN,
  SEESAW,
  SCALED,
  SCALED_SPLIT,
  BASES
};

#define SPLIT_TEXT                                                                                 \
  "model: bloom-176b\n"                                                                            \
  "workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 1 /s}, requests: 1}\n"  \
  "pools:\n"                                                                                       \
  "  prefill: {role: prefill, machine: dgx-h100, tensor_parallel_size: 8}\n"                       \
  "  decode: {role: decode, machine: dgx-h100, tensor_parallel_size: 8}\n"                         \
  "policies: {router: splitwise, pool: fixed, batcher: splitwise, transfer: splitwise}\n"          \
  "perfmodel: splitwise-2023\n"                                                                    \
  "slo: none\n"

/* Conversations with one of three system prompts. */
#define CHAT_TEXT(batcher, block)                                                                  \
  "model: llama3.1-8b\n"                                                                           \
  "workload:\n"                                                                                    \
  "  lengths: azure-conv-2023\n"                                                                   \
  "  system_prompts: {count: 3, tokens: {constant: 1500}, zipf: 1}\n"                              \
  "  sessions: {turns: {exponential: {mean: 6}}, lengths: sharegpt,\n"                             \
  "    think_time: {lognormal: {mean: 20 s, sigma: 1}}}\n"                                         \
  "  arrivals: {process: poisson, rate: 1 /s}\n"                                                   \
  "  requests: 1\n"                                                                                \
  "pools: {all: {machine: rtx-pro-6000-x8, tensor_parallel_size: 1, block_size: " block "}}\n"     \
  "policies: {router: dynamo_kv, batcher: {name: " batcher ", max_num_batched_tokens: 2048}}\n"    \
  "perfmodel: roofline\n"                                                                          \
  "slo: none\n"

static const Base bases[BASES] = {
    [CHAT] = {CHAT_TEXT("vllm", "16"), {"pools.all.count"}, {1}, 0.4375},
    [PAGES] = {CHAT_TEXT("sglang", "1"), {"pools.all.count"}, {1}, 0.4375},
    [SPLIT] = {SPLIT_TEXT, {"pools.prefill.count", "pools.decode.count"}, {0.625, 0.375}, 1.25},
    [FULL] = {SPLIT_TEXT, {"pools.prefill.count", "pools.decode.count"}, {0.625, 0.375}, 1.75},
    [TOGETHER] = {"model: bloom-176b\n"
                  "workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 1 /s},\n"
                  "           requests: 1}\n"
                  "pools: {all: {machine: dgx-h100, tensor_parallel_size: 8}}\n"
                  "policies: {router: token_jsq, batcher: continuous}\n"
                  "perfmodel: splitwise-2023\n"
                  "slo: none\n",
                  {"pools.all.count"},
                  {1},
                  0.9},
    [RELEASED] = {"model: bloom-176b-splitwise-sim\n"
                  "max_model_len: none\n"
                  "workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 1 /s},\n"
                  "           requests: 1}\n"
                  "pools:\n"
                  "  prefill: {role: prefill, machine: dgx-h100, tensor_parallel_size: 8,\n"
                  "    block_size: 1, gpu_memory_utilization: 1, activation_bytes: 0 B}\n"
                  "  decode: {role: decode, machine: dgx-h100, tensor_parallel_size: 8,\n"
                  "    block_size: 1, gpu_memory_utilization: 1, activation_bytes: 0 B}\n"
                  "policies: {router: splitwise_sim_mixed_pool, pool: splitwise_sim,\n"
                  "  batcher: splitwise_sim, transfer: splitwise_sim, kvtier: splitwise_sim}\n"
                  "perfmodel: splitwise-sim\n"
                  "slo: none\n",
                  {"pools.prefill.count", "pools.decode.count"},
                  {0.625, 0.375},
                  1.75},
    [TETRI] = {"model: opt-13b\n"
               "max_model_len: none\n"
               "workload: {lengths: sharegpt, arrivals: {process: poisson, rate: 1 /s},\n"
               "           requests: 1}\n"
               "pools:\n"
               "  prefill: {role: prefill, machine: v100-32gb-x4, tensor_parallel_size: 2,\n"
               "    nic_bandwidth: 200 Gbps}\n"
               "  decode: {role: decode, machine: v100-32gb-x4, tensor_parallel_size: 2,\n"
               "    nic_bandwidth: 200 Gbps}\n"
               "policies: {router: token_jsq, predictor: buckets, dispatcher: power_of_two,\n"
               "  pool: tetriinfer_flip, batcher: tetriinfer, transfer: chunked}\n"
               "perfmodel: {name: roofline}\n"
               "slo: none\n",
               {"pools.prefill.count", "pools.decode.count"},
               {0.5, 0.5},
               0.8},
    [LANES] = {"model: bloom-176b\n"
               "workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 1 /s},\n"
               "           requests: 1}\n"
               "pools: {all: {machine: dgx-h100, tensor_parallel_size: 4,\n"
               "  pipeline_parallel_size: 2}}\n"
               "policies: {router: token_jsq, batcher: continuous}\n"
               "perfmodel: {name: roofline}\n"
               "slo: none\n",
               {"pools.all.count"},
               {0.5},
               0.5},
    [PIE] = {"model: opt-30b\n"
             "workload: {lengths: sharegpt, max_model_len: 2048,\n"
             "           arrivals: {process: poisson, rate: 1 /s}, requests: 1}\n"
             "pools: {all: {machine: gh200-96gb, kv_cache_memory_bytes: 3 GB}}\n"
             "policies: {router: jsq, batcher: continuous, kvtier: pie}\n"
             "perfmodel: {name: roofline}\n"
             "slo: none\n",
             {"pools.all.count"},
             {1},
             2},
    [FLEXGEN] = {"model: opt-30b\n"
                 "workload: {lengths: sharegpt, max_model_len: 2048,\n"
                 "           arrivals: {process: poisson, rate: 1 /s}, requests: 1}\n"
                 "pools: {all: {machine: gh200-96gb, kv_cache_memory_bytes: 3 GB}}\n"
                 "policies: {router: jsq, batcher: {name: request_level, max_num_seqs: 256,\n"
                 "  padded: true}, kvtier: {name: flexgen, weights_on_cpu: 1, kv_on_cpu: 0}}\n"
                 "perfmodel: {name: roofline}\n"
                 "slo: none\n",
                 {"pools.all.count"},
                 {1},
                 0.2},
    // Half of the instances are on at first, more than are needed.
    [SCALED] = {"model: bloom-176b\n"
                "workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 1 /s},\n"
                "           requests: 1}\n"
                "pools: {all: {machine: dgx-h100, tensor_parallel_size: 8,\n"
                "  start_up: {boot: 10 s}, scaling: {max: 1, down_window: 20 s}}}\n"
                "policies: {router: token_jsq, batcher: continuous}\n"
                "scaling: {interval: 5 s}\n"
                "perfmodel: splitwise-2023\n"
                "slo: none\n",
                {"pools.all.count", "pools.all.scaling.max"},
                {0.5, 1},
                0.4},
    [SCALED_SPLIT] = {SPLIT_TEXT "scaling: {interval: 5 s}\n",
                      {"pools.prefill.count", "pools.decode.count", "pools.prefill.scaling.max",
                       "pools.decode.scaling.max"},
                      {0.4, 0.2, 0.6, 0.4},
                      0.6},
    [SEESAW] =
        {"model: codellama-34b\n"
         "workload: {lengths: arxiv-summarization, arrivals: {process: poisson, rate: 1 /s},\n"
         "           requests: 1}\n"
         "pools:\n"
         "  prefill: {role: prefill, machine: a10-x4, tensor_parallel_size: 1,\n"
         "    pipeline_parallel_size: 4}\n"
         "  decode: {role: decode, machine: a10-x4, tensor_parallel_size: 4}\n"
         "groups: {gpus: {prefill: prefill, decode: decode}}\n"
         "policies: {router: token_jsq, pool: seesaw, batcher: {name: continuous,\n"
         "  max_num_batched_tokens: 4096, max_num_seqs: 512}}\n"
         "perfmodel: {name: roofline}\n"
         "slo: none\n",
         {"pools.prefill.count", "pools.decode.count"},
         {0.2, 0.2},
         0.05},
};

typedef struct Row {
  const char *name;
  int base;
  const char *sets[SETS]; // key=value
} Row;

static const Row rows[] = {
    {"router random", SPLIT, {"policies.router=random"}},
    {"router round_robin", SPLIT, {"policies.router=round_robin"}},
    {"router jsq", SPLIT, {"policies.router=jsq"}},
    {"router token_jsq", SPLIT, {"policies.router=token_jsq"}},
    {"router least_kv", SPLIT, {"policies.router=least_kv"}},
    {"router power_of_two", SPLIT, {"policies.router=power_of_two"}},
    {"router prefix_affinity", CHAT, {"policies.router=prefix_affinity"}},
    {"router dynamo_kv", CHAT, {NULL}},
    {"router dynamo_kv, pages of a token", PAGES, {NULL}},
    {"router llm_d", CHAT, {"policies.router=llm_d"}},
    {"prefixes, router jsq", CHAT, {"policies.router=jsq"}},
    {"prefixes, router jsq, pages of a token", PAGES, {"policies.router=jsq"}},
    {"router splitwise", SPLIT, {NULL}},
    {"router splitwise_sim_kv_jsq", SPLIT, {"policies.router=splitwise_sim_kv_jsq"}},
    {"router splitwise_sim_kv_token_jsq", SPLIT, {"policies.router=splitwise_sim_kv_token_jsq"}},
    {"router splitwise_sim_mixed_pool", RELEASED, {NULL}},
    {"scaler target", SCALED, {"policies.scaler={name: target, concurrency: 5}"}},
    {"scaler forecast",
     SCALED,
     {"policies.scaler=forecast", "pools.all.scaling.machine_rate=1 /s"}},
    {"scaler schedule",
     SCALED,
     {"policies.scaler={name: schedule, steps: [{at: 0 s, machines: 5}]}"}},
    {"scaler dynamo_planner", SCALED_SPLIT, {"policies.scaler=dynamo_planner"}},
    {"scaler hpa", SCALED, {"policies.scaler={name: hpa, concurrency: 5}"}},
    {"scaler hpa, from none",
     SCALED,
     {"policies.scaler={name: hpa, queue: 2}", "pools.all.scaling.min=0", "pools.all.count=0"}},
    {"scaler dynamo_planner_modes",
     SCALED_SPLIT,
     {"policies.scaler={name: dynamo_planner_modes, throughput_interval: 20 s}"}},
    {"scaler dynamo_planner_modes, by load",
     SCALED,
     {"policies.scaler={name: dynamo_planner_modes, load_scaling: true, throughput_interval: 20 "
      "s}"}},
    {"scaler dynamo_planner_modes, thresholds",
     SCALED,
     {"policies.scaler={name: dynamo_planner_modes, optimization_target: latency}"}},
    {"scaler llm_d_wva", SCALED, {"policies.scaler=llm_d_wva"}},
    {"pool splitwise_mixed", SPLIT, {"policies.pool=splitwise_mixed"}},
    {"pool splitwise_mixed, full", FULL, {"policies.pool=splitwise_mixed"}},
    {"pool tetriinfer_flip", TETRI, {NULL}},
    {"pool tetriinfer_flip, at once",
     TETRI,
     {"policies.pool={name: tetriinfer_flip, idle_for: 200 ms}"}},
    {"pool seesaw", SEESAW, {NULL}},
    {"dispatcher power_of_two", SPLIT, {"policies.dispatcher=power_of_two"}},
    {"dispatcher power_of_two, full", FULL, {"policies.dispatcher=power_of_two"}},
    {"dispatcher least_loaded", SPLIT, {"policies.dispatcher=least_loaded"}},
    {"dispatcher least_loaded, fresh",
     SPLIT,
     {"policies.dispatcher={name: least_loaded, stale: false}"}},
    {"dispatcher random", SPLIT, {"policies.dispatcher=random"}},
    {"dispatcher imbalance", SPLIT, {"policies.dispatcher={name: imbalance, heavy_machines: 9}"}},
    {"batcher request_level", TOGETHER, {"policies.batcher=request_level", "rate=0.5"}},
    {"batcher continuous", TOGETHER, {NULL}},
    {"batcher mixed", TOGETHER, {"policies.batcher=mixed"}},
    {"batcher sarathi", TOGETHER, {"policies.batcher=sarathi"}},
    {"batcher splitwise", TOGETHER, {"policies.batcher=splitwise"}},
    {"batcher splitwise_sim", RELEASED, {NULL}},
    {"batcher splitwise_sim_orca", RELEASED, {"policies.batcher=splitwise_sim_orca"}},
    {"batcher tetriinfer", TETRI, {"policies.pool=fixed"}},
    {"transfer serialized", SPLIT, {"policies.transfer=serialized"}},
    {"transfer layerwise", SPLIT, {"policies.transfer=layerwise"}},
    {"transfer chunked", SPLIT, {"policies.transfer=chunked", "policies.batcher=sarathi"}},
    {"transfer splitwise_sim", SPLIT, {"policies.transfer=splitwise_sim"}},
    {"kvtier recompute", PIE, {"policies.kvtier=recompute"}},
    {"kvtier swap", PIE, {"policies.kvtier=swap"}},
    {"kvtier pie", PIE, {NULL}},
    {"kvtier flexgen", FLEXGEN, {NULL}},
    {"pipelines", LANES, {NULL}},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static void fail(const Diag *diag) {
  diag_print(diag, stderr);
  exit(4);
}

static double cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void configure(Config *config, const Row *row, int instances, int64_t requests, int64_t seed,
                      Arena *arena, Diag *diag) {
  const Base *base = &bases[row->base];
  const char *sets[SETS + COUNTS + 3];
  int n = 0;
  double rate = base->rate;
  for (int i = 0; i < COUNTS && base->counts[i]; i++)
    sets[n++] = arena_printf(arena, "%s=%d", base->counts[i], (int)(instances * base->shares[i]));
  for (int i = 0; i < SETS && row->sets[i]; i++)
    if (sscanf(row->sets[i], "rate=%lf", &rate) != 1) sets[n++] = row->sets[i];
  sets[n++] = arena_printf(arena, "workload.requests=%" PRId64, requests);
  sets[n++] = arena_printf(arena, "workload.arrivals.rate=%.17g /s", rate * instances);
  sets[n] = NULL;
  const ConfigChanges changes = {.assignments = sets, .seed = seed, .tie_seed = -1};
  Node *root = yaml_parse("bench_scale", base->text, strlen(base->text), arena, diag);
  if (!root || config_bind(config, "bench_scale", root, &changes, NULL, arena, diag) ||
      config_open_trace(config, arena, diag))
    fail(diag);
}

/* Apart, so that callgrind can tell it from the set-up. */
__attribute__((noinline)) void bench_loop(Simulation *engine) {
  while (sim_step(engine))
    continue;
}

static double run_once(const Row *row, int instances, int64_t per_instance, int64_t seed) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  Config *config = ARENA_NEW(&arena, Config);
  configure(config, row, instances, instances * per_instance, seed, &arena, &diag);
  Simulation *engine = ARENA_NEW(&arena, Simulation);
  sim_init(engine, &config->sim, &arena, &diag);
  const double begin = cpu_ns();
  bench_loop(engine);
  const double ns = cpu_ns() - begin;
  if (engine->failed) fail(&diag);
  const double n = (double)engine->metrics.asked.requests;
  trace_close(config->sim.trace);
  diag_done(&diag);
  arena_done(&arena);
  return ns / n;
}

static void print_times(const Row *row) {
  double best[2] = {1e300, 1e300};
  for (int round = 0; round < ROUNDS; round++) {
    double small = 0;
    const int repeats = many / few / 4 + 1;
    for (int i = 0; i < repeats; i++)
      small += run_once(row, few, PER_INSTANCE, 1 + i) / repeats;
    const double large = run_once(row, many, PER_INSTANCE, 1);
    if (small < best[0]) best[0] = small;
    if (large < best[1]) best[1] = large;
  }
  printf("%-38s %10.0f %10.0f %8.2f\n", row->name, best[0], best[1], best[1] / best[0]);
  fflush(stdout);
}

/* Of the loop, by callgrind; negative when it cannot be asked. */
static double instructions(const char *self, int row, int instances, int64_t per_instance) {
  char command[1024], line[256];
  snprintf(command, sizeof command,
           "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
           "--toggle-collect=bench_loop '%s' --once %d %d %" PRId64 " 2>&1",
           self, row, instances, per_instance);
  FILE *pipe = popen(command, "r");
  double collected = -1;
  while (pipe && fgets(line, sizeof line, pipe)) {
    const char *at = strstr(line, "Collected : ");
    if (at) collected = strtod(at + strlen("Collected : "), NULL);
  }
  if (!pipe || pclose(pipe)) return -1;
  return collected / (double)(instances * per_instance);
}

static void print_instructions(const char *self, int row) {
  enum { EACH = 25 };
  const double small = instructions(self, row, few, EACH);
  const double large = instructions(self, row, many, EACH);
  if (small < 0 || large < 0)
    printf("%-38s %10s\n", rows[row].name, "-");
  else
    printf("%-38s %10.0f %10.0f %8.2f\n", rows[row].name, small, large, large / small);
  fflush(stdout);
}

/* Of a cache, from the system: `ret_keys` of them are keys. */
static double bytes_of_cache(const CacheRuns *runs, double *ret_keys) {
  double slots = 0; // an index that doubled leaves the former ones in the arena
  for (size_t n = runs->n_slots; n > 0 && n >= 64; n /= 2)
    slots += (double)n;
  *ret_keys = (double)sizeof(uint64_t) * runs->n_used;
  return (double)(runs->capacity * sizeof *runs->items) + slots * (double)sizeof *runs->slots;
}

static int print_bytes(const char *path, const char *const *sets) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  Config *config = ARENA_NEW(&arena, Config);
  const ConfigChanges changes = {.assignments = sets, .seed = -1, .tie_seed = -1};
  if (config_load(config, path, &changes, &arena, &diag) ||
      config_open_trace(config, &arena, &diag))
    fail(&diag);
  Simulation *engine = ARENA_NEW(&arena, Simulation);
  sim_init(engine, &config->sim, &arena, &diag);
  bench_loop(engine);
  if (engine->failed) fail(&diag);
  double bytes = 0, keys = 0, blocks = 0, runs = 0;
  for (uint32_t i = 0; i < engine->n_instances; i++) {
    const PrefixCache *cache = engine->instances[i].cache;
    double of_keys = 0;
    if (!cache) continue;
    bytes += bytes_of_cache(&cache->runs, &of_keys);
    keys += of_keys;
    blocks += (double)cache->n_keys;
    runs += cache->runs.n_used;
  }
  printf("blocks %.0f\nruns %.0f\nbytes_per_block %.3g\nbeyond_keys %.3g\n", blocks, runs,
         bytes / blocks, (bytes - keys) / blocks);
  trace_close(config->sim.trace);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}

static bool is_named(const char *name, int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (strncmp(name, argv[i], strlen(argv[i])) == 0) return true;
  return argc == 0;
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "--once") == 0) {
    const long row = strtol(argv[2], NULL, 10);
    if (row < 0 || row >= N_ROWS) return 2;
    const long instances = strtol(argv[3], NULL, 10), per_instance = strtol(argv[4], NULL, 10);
    printf("%.0f ns\n", run_once(&rows[row], (int)instances, per_instance, 1));
    return 0;
  }
  if (argc > 2 && strcmp(argv[1], "--bytes") == 0)
    return print_bytes(argv[2], (const char *const *)argv + 3);
  const char *self = argv[0];
  const bool counts = argc > 1 && strcmp(argv[1], "--instructions") == 0;
  argc -= counts;
  argv += counts;
  if (argc > 2 && strcmp(argv[1], "--instances") == 0) {
    if (sscanf(argv[2], "%d,%d", &few, &many) != 2 || few < 5 || many < few) return 2;
    argc -= 2;
    argv += 2;
  }
  printf("%-38s %10d %10d %8s   %s\n", "instances", few, many, "ratio",
         counts ? "instructions per request" : "ns of CPU per request");
  for (int row = 0; row < N_ROWS; row++) {
    if (!is_named(rows[row].name, argc - 1, argv + 1)) continue;
    if (counts)
      print_instructions(self, row);
    else
      print_times(&rows[row]);
  }
  return 0;
}
