/* How fast is a run? Prints figures and judges nothing.
 *
 *     bench_run [REQUESTS]
 *
 * Splitwise-HH: BLOOM-176B on 25 + 15 DGX-H100, Azure conversation lengths, Poisson arrivals at
 * 50 /s, and at 70 /s, where KV memory is full: transfers wait, decodes are evicted, machines turn
 * to mixed. It shows
 *
 *   1  requests per CPU-second, and the same with outputs ten times as long at the rate that fills
 *      KV memory as much (2.5 /s): coalescing keeps the cost of a request the same
 *   2  peak resident memory, with ten times as many requests too
 *   3  where the time goes: a run with a clock read around every event, the clock's cost taken off
 *
 * CPU time is the process's own; compare figures of one run with each other, not across
 * machines. */
#include "perfmodel/hardware.h"
#include "sim/base/cleanup.h"
#include "sim/engine.h"
#include "traces/workload.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Case {
  double rate; // requests per second
  int64_t requests;
  double output_scale;
} Case;

typedef struct Cluster {
  Llm llm;
  Hardware hardware;
  PerfModel model;
  PoolSpec pools[2];
} Cluster;

static void fail(Diag *diag) {
  diag_print(diag, stderr);
  exit(4);
}

static void load_cluster(Cluster *self, const char *root, Arena *arena, Diag *diag) {
  const Place at = place_of_file("bench_run");
  const char *data = arena_printf(arena, "%s/perfmodel", root);
  const KvOptions kv = {.block_size = 16, .gpu_memory_utilization = 0.9};
  KvCapacity capacity;
  if (llm_load(&self->llm, "bloom-176b", data, at, arena, diag) < 0 ||
      hardware_load(&self->hardware, "dgx-h100", data, at, arena, diag) < 0 ||
      kv_capacity(&self->llm, &self->hardware, (Parallelism){8, 1, 1}, &kv, at, &capacity, diag) <
          0 ||
      perfmodel_load_for(&self->model, "fitted", "bloom-176b", self->hardware.gpu, 8, 1024, data,
                         at, arena, diag) < 0)
    fail(diag);
  const PoolSpec pool = {.name = "prefill",
                         .machine = "dgx-h100",
                         .role = ROLE_PREFILL,
                         .count = 25,
                         .perfmodel = &self->model,
                         .kv_blocks = capacity.blocks,
                         .block_size = kv.block_size,
                         .kv_bytes_per_token = self->llm.kv_bytes_per_token,
                         .num_hidden_layers = self->llm.num_hidden_layers,
                         .nic_bandwidth = self->hardware.nic_bandwidth,
                         .kv_transfer_overhead = self->hardware.kv_transfer_overhead};
  self->pools[0] = self->pools[1] = pool;
  self->pools[1].name = "decode";
  self->pools[1].role = ROLE_DECODE;
  self->pools[1].count = 15;
}

static PolicyChoice choose(PolicyKind kind, const char *name, Arena *arena) {
  const Policy *policy = policy_find(kind, name);
  void *state = arena_alloc(arena, policy->state_size);
  if (policy->options) option_defaults(policy->options, state);
  return (PolicyChoice){policy, state};
}

static SimConfig configure(const Cluster *cluster, const Case *c, const char *root, Arena *arena,
                           Diag *diag) {
  WorkloadConfig *workload = ARENA_NEW(arena, WorkloadConfig);
  const char *text = arena_printf(
      arena,
      "{lengths: azure-conv-2023, arrivals: {process: poisson, rate: %g /s}, requests: %" PRId64
      "}",
      c->rate, c->requests);
  const Node *node = yaml_parse("bench", text, strlen(text), arena, diag);
  if (!node || workload_bind(workload, node, root, ".", arena, diag) < 0) fail(diag);
  double *longer = ARENA_ARRAY(arena, double, workload->output.n_quantiles);
  for (int i = 0; i < workload->output.n_quantiles; i++)
    longer[i] = workload->output.quantiles[i] * c->output_scale;
  workload->output.quantiles = longer;
  SimConfig config = {.pools = cluster->pools,
                      .n_pools = 2,
                      .network_latency = tick_from_seconds(5e-6),
                      .trace = workload_open(workload, 1, arena, diag)};
  config.policies[POLICY_ROUTER] = choose(POLICY_ROUTER, "splitwise", arena);
  config.policies[POLICY_POOL] = choose(POLICY_POOL, "splitwise_mixed", arena);
  config.policies[POLICY_BATCHER] = choose(POLICY_BATCHER, "splitwise", arena);
  config.policies[POLICY_TRANSFER] = choose(POLICY_TRANSFER, "splitwise", arena);
  config.policies[POLICY_KVTIER] = choose(POLICY_KVTIER, "recompute", arena);
  return config;
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of this program alone: getrusage's figure includes what forked it. */
static double peak_mib(void) {
  CLEANUP_FILE FILE *status = fopen("/proc/self/status", "r");
  char line[128];
  double kib = 0;
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmHWM: %lf kB", &kib) == 1) break;
  return kib / 1024;
}

/* CPU seconds of one run, printed as a row. */
static double run_case(const Cluster *cluster, const char *name, const Case *c, const char *root,
                       Diag *diag) {
  Arena arena;
  arena_init(&arena);
  SimConfig config = configure(cluster, c, root, &arena, diag);
  SimResult result;
  const double begin = cpu_seconds();
  if (sim_run(&config, &result, &arena, diag) < 0) fail(diag);
  const double seconds = cpu_seconds() - begin;
  const double n = (double)result.metrics.asked.requests;
  const int64_t iterations = result.totals.prefill_iterations + result.totals.decode_iterations;
  printf("%-22s %9.0f %8.3f %12.0f %8.0f %8.2f %10.1f %8.1f\n", name, n, seconds, n / seconds,
         1e9 * seconds / n, (double)result.events / n, (double)iterations / n, peak_mib());
  trace_close(config.trace);
  arena_done(&arena);
  return seconds / n;
}

/* --- where the time goes */

enum { PART_TRACE, PART_AGENDA, PART_ARRIVAL, PART_PREFILL, PART_DECODE, PART_TRANSFER, PARTS };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double clock_cost_ns(void) {
  enum { READS = 1000000 };
  const double begin = now_ns();
  double last = 0;
  for (int i = 0; i < READS; i++)
    last = now_ns();
  return (last - begin) / READS;
}

static int part_of(const Engine *engine) {
  const Event *event = engine->agenda.heap;
  if (event->kind == EVENT_ARRIVAL) return PART_ARRIVAL;
  if (event->kind == EVENT_TRANSFER) return PART_TRANSFER;
  return engine->machines[event->target].activity == ACTIVITY_PREFILL ? PART_PREFILL : PART_DECODE;
}

static double pull_all_ns(const Cluster *cluster, const Case *c, const char *root, Diag *diag) {
  Arena arena;
  arena_init(&arena);
  SimConfig config = configure(cluster, c, root, &arena, diag);
  TraceRow row;
  const double begin = now_ns();
  while (trace_next(config.trace, &row, diag) > 0)
    continue;
  const double ns = now_ns() - begin;
  trace_close(config.trace);
  arena_done(&arena);
  return ns;
}

static void print_parts(const Cluster *cluster, const Case *c, const char *root, Diag *diag) {
  static const char *const names[PARTS] = {
      [PART_TRACE] = "drawing requests",      [PART_AGENDA] = "taking the next event",
      [PART_ARRIVAL] = "arrival and routing", [PART_PREFILL] = "iterations with prefill",
      [PART_DECODE] = "decode runs",          [PART_TRANSFER] = "KV transfers"};
  double ns[PARTS] = {[PART_TRACE] = pull_all_ns(cluster, c, root, diag)};
  const double clock_ns = clock_cost_ns();
  Arena arena;
  arena_init(&arena);
  SimConfig config = configure(cluster, c, root, &arena, diag);
  Engine *engine = ARENA_NEW(&arena, Engine);
  engine_init(engine, &config, &arena, diag);
  for (bool more = true; more;) {
    if (engine->agenda.n_events == 0) break;
    const int part = part_of(engine);
    const double begin = now_ns();
    more = engine_step(engine);
    ns[part] += now_ns() - begin - clock_ns;
  }
  ns[PART_ARRIVAL] -= ns[PART_TRACE];
  /* The heap alone: as many pops and sets on as many pending timers as the run had. */
  Agenda agenda;
  agenda_init(&agenda, 0, &arena);
  agenda_reserve(&agenda, EVENT_ITERATION, engine->n_machines);
  for (uint32_t m = 0; m < engine->n_machines; m++)
    agenda_set(&agenda, EVENT_ITERATION, m, (Tick)m * 997);
  const double begin = now_ns();
  Event event;
  for (uint64_t i = 0; i < engine->n_events; i++) {
    agenda_pop(&agenda, &event);
    agenda_set(&agenda, EVENT_ITERATION, event.target, event.at + (Tick)(i * 7919 % 50021));
  }
  ns[PART_AGENDA] = now_ns() - begin;
  double total = 0;
  for (int part = 0; part < PARTS; part++)
    total += part == PART_AGENDA ? 0 : ns[part];
  printf("\n%-26s %7s %10s\n", "part", "share", "ns/request");
  for (int part = 0; part < PARTS; part++)
    printf("%-26s %6.1f%% %10.1f%s\n", names[part], 100 * ns[part] / total,
           ns[part] / (double)c->requests, part == PART_AGENDA ? "  (inside the parts below)" : "");
  trace_close(config.trace);
  arena_done(&arena);
}

int main(int argc, char **argv) {
  const char *root = getenv("TANDEM_SOURCE_DIR");
  if (!root) root = ".";
  const int64_t requests = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000;
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  Cluster *cluster = ARENA_NEW(&arena, Cluster);
  load_cluster(cluster, root, &arena, &diag);
  printf("%-22s %9s %8s %12s %8s %8s %10s %8s\n", "case", "requests", "CPU s", "requests/s",
         "ns/req", "events", "iterations", "peak MiB");
  const Case base = {.rate = 50, .requests = requests, .output_scale = 1};
  const Case full = {.rate = 70, .requests = requests, .output_scale = 1};
  const Case longer = {.rate = 2.5, .requests = requests, .output_scale = 10};
  const Case many = {.rate = 50, .requests = 10 * requests, .output_scale = 1};
  const double cost = run_case(cluster, "conv, 50 /s", &base, root, &diag);
  run_case(cluster, "conv, 70 /s (full)", &full, root, &diag);
  const double longer_cost = run_case(cluster, "outputs x10, 2.5 /s", &longer, root, &diag);
  run_case(cluster, "ten times as many", &many, root, &diag);
  printf("\ncost of a request with outputs ten times as long: %.2fx\n", longer_cost / cost);
  print_parts(cluster, &base, root, &diag);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
