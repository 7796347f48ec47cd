/* See differential.h. How SplitwiseSim's overrides map to our configuration is the table in
 * `schedulers` and `pools_of`. */
#include "base/lines.h"
#include "perfmodel/finder.h"
#include "perfmodel/hardware.h"
#include "sim/policies.h"
#include "tests/differential/differential.h"
#include "traces/workload.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- reading */

static const char * override(const Run *run, const char *key) {
  const size_t length = strlen(key);
  for (const Node *item = run->overrides->first; item; item = item->next)
    if (strncmp(item->text, key, length) == 0 && item->text[length] == '=')
      return item->text + length + 1;
  return NULL;
}

static bool override_is(const Run *run, const char *key, const char *value) {
  const char *text = override(run, key);
  return text && strcmp(text, value) == 0;
}

static uint32_t override_count(const Run *run, const char *key) {
  const char *text = override(run, key);
  return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* "h100-80gb_12" is machine 12. */
static int machine_number(const char *name, const char **ret_end) {
  while (*name != '_')
    name++;
  char *end;
  const long number = strtol(name + 1, &end, 10);
  *ret_end = *end ? end + 1 : end;
  return (int)number;
}

/* id,p_inst,t_inst and then prompt_start,prompt_end,token_start,token_end, or
 * queue_s,prompt_s,gap_s,decode_s when `delta`. */
static void parse_fate(Run *run, const char *text, bool delta) {
  char *end;
  const long id = strtol(text, &end, 10);
  Fate *fate = &run->recorded[id];
  const char *at = end + 1;
  fate->prefill_machine = machine_number(at, &at);
  fate->decode_machine = machine_number(at, &at);
  double values[4];
  for (int i = 0; i < 4; i++) {
    values[i] = strtod(at, &end);
    at = *end ? end + 1 : end;
  }
  const double arrived = tick_seconds(run->arrivals[id]);
  fate->ttft = delta ? values[0] + values[1] : values[1] - arrived;
  fate->e2e = delta ? values[0] + values[1] + values[2] + values[3] : values[3] - arrived;
}

static int load_trace(Run *self, Arena *arena, Diag *diag) {
  const WorkloadConfig workload = {.trace = self->trace_path, .rate_scale = 1, .loop = 1};
  TraceSource *source = workload_open(&workload, 0, arena, diag);
  if (!source) return -1;
  size_t recorded = 0, replayed = 0, arrivals = 0;
  TraceRow row;
  int rc;
  while ((rc = trace_next(source, &row, diag)) > 0) {
    const int n = self->n_requests++;
    ARENA_RESERVE(arena, self->recorded, recorded, n + 1);
    ARENA_RESERVE(arena, self->replayed, replayed, n + 1);
    ARENA_RESERVE(arena, self->arrivals, arrivals, n + 1);
    self->recorded[n] = self->replayed[n] =
        (Fate){.prefill_machine = -1, .output_tokens = row.output_tokens};
    self->arrivals[n] = row.at;
  }
  trace_close(source);
  return rc;
}

static int load_fates(Run *self, Arena *arena, Diag *diag) {
  char *path = arena_printf(arena, "%s/requests.csv.gz", self->directory);
  FILE *file = fopen(path, "r");
  const bool delta = !file;
  if (file) fclose(file);
  if (delta) path = arena_printf(arena, "%s/requests_delta.csv.gz", self->directory);
  LineReader reader;
  if (line_reader_open(&reader, path, arena, diag) < 0) return -1;
  Line line;
  int rc = line_reader_next(&reader, &line, diag); // the header
  while (rc > 0 && (rc = line_reader_next(&reader, &line, diag)) > 0)
    parse_fate(self, arena_copy(arena, line.text, (size_t)line.length), delta);
  line_reader_close(&reader);
  return rc;
}

/* The run's line of slo.csv, if it has one: name, then the nine in our order. */
static int load_slowdowns(Run *self, const char *runs, Arena *arena, Diag *diag) {
  LineReader reader;
  if (line_reader_open(&reader, arena_printf(arena, "%s/slo.csv", runs), arena, diag) < 0)
    return -1;
  const size_t length = strlen(self->name);
  Line line;
  int rc;
  while ((rc = line_reader_next(&reader, &line, diag)) > 0) {
    const char *text = arena_copy(arena, line.text, (size_t)line.length);
    if (strncmp(text, self->name, length) != 0 || text[length] != ',') continue;
    char *at = (char *)text + length;
    for (int i = 0; i < SLOWDOWNS; i++)
      self->recorded_slowdowns[i] = strtod(at + 1, &at);
    self->has_slowdowns = true;
  }
  line_reader_close(&reader);
  return rc;
}

int run_load(Run *self, const char *data_dir, const char *name, Arena *arena, Diag *diag) {
  const char *runs = arena_printf(arena, "%s/splitwise-sim-runs", data_dir);
  *self = (Run){.name = name, .directory = arena_printf(arena, "%s/%s", runs, name)};
  self->overrides =
      yaml_load(arena_printf(arena, "%s/overrides.yaml", self->directory), arena, diag);
  if (!self->overrides) return -1;
  self->trace_path =
      arena_printf(arena, "%s/traces/%s.csv.gz", runs, override(self, "trace.filename"));
  return load_trace(self, arena, diag) < 0 || load_fates(self, arena, diag) < 0 ||
                 load_slowdowns(self, runs, arena, diag) < 0
             ? -1
             : 0;
}

/* --- replaying */

/* SplitwiseSim's scheduler, our router and its options, and the rate of each KV flow in GiB/s. */
static const struct {
  const char *scheduler, *router, *options;
  double gibps;
} schedulers[] = {
    {"round_robin", "round_robin", NULL, 0},
    {"jsq", "jsq", "{ties: first}", 0},
    {"token_jsq", "token_jsq", "{ties: first}", 0},
    {"kv_round_robin", "round_robin", NULL, 200},
    {"kv_round_robin_ethernet", "round_robin", NULL, 12.5},
    {"kv_jsq", "splitwise_sim_kv_jsq", NULL, 200},
    {"overlap_kv_jsq", "splitwise_sim_kv_jsq", NULL, 2000},
    {"kv_token_jsq", "splitwise_sim_kv_token_jsq", NULL, 2000},
    {"overlap_kv_token_jsq", "splitwise_sim_kv_token_jsq", NULL, 2000},
    {"mixed_pool", "splitwise_sim_mixed_pool", NULL, 200},
};

typedef struct Setup {
  PoolSpec pools[2];
  SimConfig config;
  PerfModel models[2], reference;
} Setup;

static const char *model_of(const Run *run) {
  const char *model = override(run, "applications.0.model_architecture");
  return model ? model : "bloom-176b";
}

/* The machines in the order of the cluster file, which numbers them: server 0, then server 1. */
static int pools_of(const Run *run, const char *model_dir, Setup *setup, Arena *arena, Diag *diag) {
  const bool capped = override_is(run, "cluster", "hhcap_half_half");
  const bool split = strncmp(override(run, "start_state"), "splitwise", 9) == 0;
  const bool by_type = override_is(run, "start_state.split_type", "heterogeneous");
  const char *const gpus[2] = {capped ? "h100-80gb-pcap" : "a100-80gb", "h100-80gb"};
  const char *model = model_of(run);
  Llm llm;
  const char *name = arena_printf(arena, "%s-splitwise-sim", model);
  if (llm_load(&llm, name, model_dir, place_of_file(run->name), arena, diag) < 0) return -1;
  const int64_t memory = INT64_C(85899345920) * 8;
  uint32_t n = 0;
  for (int server = 0; server < 2; server++) {
    const uint32_t count =
        override_count(run, server ? "cluster.servers.1.count" : "cluster.servers.0.count");
    if (count == 0) continue;
    if (perfmodel_load_for(&setup->models[server], "splitwise-sim", model, gpus[server], 8, 1024,
                           model_dir, place_of_file(run->name), arena, diag) < 0)
      return -1;
    setup->pools[n++] =
        (PoolSpec){.name = gpus[server],
                   .machine = gpus[server],
                   .role = !split   ? ROLE_MIXED
                           : server ? ROLE_PREFILL
                                    : ROLE_DECODE,
                   .count = count,
                   .perfmodel = &setup->models[server],
                   .kv_blocks = (memory - llm.weight_bytes) / llm.kv_bytes_per_token,
                   .block_size = 1,
                   .kv_bytes_per_token = llm.kv_bytes_per_token,
                   .num_hidden_layers = llm.num_hidden_layers,
                   .nic_bandwidth = INT64_C(1) << 40};
  }
  if (split && !by_type) { // one kind of machine: the first prefill, the rest decode
    setup->pools[1] = setup->pools[0];
    setup->pools[0].role = ROLE_PREFILL;
    setup->pools[0].count = override_count(run, "start_state.prompt.num_instances");
    setup->pools[1].role = ROLE_DECODE;
    setup->pools[1].count = override_count(run, "start_state.token.num_instances");
    n = 2;
  }
  setup->config.n_pools = n;
  setup->config.pools = setup->pools;
  setup->config.model.slo_reference = &setup->reference;
  return perfmodel_load_for(&setup->reference, "splitwise-sim", model, "a100-80gb", 8, 1024,
                            model_dir, place_of_file(run->name), arena, diag);
}

static int choose(SimConfig *config, PolicyKind kind, const char *name, const char *options,
                  Arena *arena, Diag *diag) {
  const Policy *policy = policy_find(kind, name);
  const Node *node = options ? yaml_parse("options", options, strlen(options), arena, diag) : NULL;
  const void *state = policy_bind(policy, node, place_of_file("options"), arena, diag);
  config->policies[kind] = (PolicyChoice){policy, state};
  return state ? 0 : -1;
}

static int choose_policies(const Run *run, SimConfig *config, Arena *arena, Diag *diag) {
  size_t i = 0;
  while (strcmp(schedulers[i].scheduler, override(run, "applications.0.scheduler")) != 0)
    i++;
  const bool orca = override_is(run, "start_state", "orca");
  const char *flow = arena_printf(arena, "{bandwidth: %g GiB/s}", schedulers[i].gibps);
  return choose(config, POLICY_ROUTER, schedulers[i].router, schedulers[i].options, arena, diag) ||
                 choose(config, POLICY_POOL, "splitwise_sim", NULL, arena, diag) ||
                 choose(config, POLICY_BATCHER, orca ? "splitwise_sim_orca" : "splitwise_sim", NULL,
                        arena, diag) ||
                 choose(config, POLICY_TRANSFER, "splitwise_sim",
                        schedulers[i].gibps > 0 ? flow : NULL, arena, diag) ||
                 choose(config, POLICY_KVTIER, "splitwise_sim", NULL, arena, diag)
             ? -1
             : 0;
}

static int keep_fate(void *context, const RequestRecord *record, const Metrics *so_far,
                     Diag *diag) {
  (void)so_far;
  (void)diag;
  const Run *run = context;
  run->replayed[record->id] =
      (Fate){.prefill_machine = (int)record->prefill_instance,
             .decode_machine = (int)record->decode_instance,
             .ttft = tick_seconds(record->first_token_at - record->arrived_at),
             .e2e = tick_seconds(record->last_token_at - record->arrived_at),
             .output_tokens = record->output_tokens};
  return 0;
}

static void keep_slowdowns(Run *run, const Metrics *metrics) {
  const Histogram *const histograms[] = {&metrics->slowdown_ttft, &metrics->slowdown_tbt,
                                         &metrics->slowdown_e2e};
  static const double quantiles[] = {.5, .9, .99};
  for (int i = 0; i < SLOWDOWNS; i++)
    run->replayed_slowdowns[i] =
        histogram_quantile(histograms[i / 3], quantiles[i % 3]) / SLOWDOWN_SCALE;
}

int run_replay(Run *self, const char *model_dir, Arena *arena, Diag *diag) {
  Setup *setup = ARENA_NEW(arena, Setup);
  setup->config = (SimConfig){.on_request = keep_fate, .on_request_context = self};
  if (pools_of(self, model_dir, setup, arena, diag) < 0 ||
      choose_policies(self, &setup->config, arena, diag) < 0)
    return -1;
  const WorkloadConfig workload = {.trace = self->trace_path, .rate_scale = 1, .loop = 1};
  setup->config.trace = workload_open(&workload, 0, arena, diag);
  if (!setup->config.trace) return -1;
  SimResult result;
  const int rc = sim_run(&setup->config, &result, arena, diag);
  trace_close(setup->config.trace);
  if (rc < 0) return -1;
  keep_slowdowns(self, &result.metrics);
  return 0;
}

/* --- comparing */

static double ttft_of(const Fate *fate) {
  return fate->ttft;
}
static double e2e_of(const Fate *fate) {
  return fate->e2e;
}
static double tbt_of(const Fate *fate) {
  return (fate->e2e - fate->ttft) / fate->output_tokens;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* numpy's linear percentile. */
static double percentile(const Fate *fates, int n, double (*value)(const Fate *), double p,
                         double *scratch) {
  for (int i = 0; i < n; i++)
    scratch[i] = value(&fates[i]);
  qsort(scratch, (size_t)n, sizeof *scratch, by_value);
  const double rank = p * (n - 1);
  const int low = (int)rank;
  if (low + 1 >= n) return scratch[n - 1];
  return scratch[low] + (rank - low) * (scratch[low + 1] - scratch[low]);
}

static void compare_percentiles(const Run *self, Comparison *comparison, double *scratch) {
  static const struct {
    const char *name;
    double (*value)(const Fate *);
    double p;
  } rows[] = {
      {"ttft p50", ttft_of, .5}, {"ttft p90", ttft_of, .9}, {"ttft p99", ttft_of, .99},
      {"tbt p50", tbt_of, .5},   {"tbt p90", tbt_of, .9},   {"tbt p99", tbt_of, .99},
      {"e2e p50", e2e_of, .5},   {"e2e p90", e2e_of, .9},   {"e2e p99", e2e_of, .99},
  };
  comparison->worst_percentile = rows[0].name;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const double want =
        percentile(self->recorded, self->n_requests, rows[i].value, rows[i].p, scratch);
    const double got =
        percentile(self->replayed, self->n_requests, rows[i].value, rows[i].p, scratch);
    const double error = fabs(got / want - 1);
    if (error <= comparison->worst_percentile_error) continue;
    comparison->worst_percentile_error = error;
    comparison->worst_percentile = rows[i].name;
  }
}

void run_compare(const Run *self, Comparison *comparison) {
  for (int i = 0; i < self->n_requests; i++) {
    const Fate *want = &self->recorded[i], *got = &self->replayed[i];
    const bool moved = want->prefill_machine != got->prefill_machine ||
                       want->decode_machine != got->decode_machine;
    const double off = fmax(fabs(want->ttft - got->ttft), fabs(want->e2e - got->e2e));
    comparison->n_placements += moved;
    comparison->n_different += moved || !(off <= 1e-5);
    comparison->worst_seconds = fmax(comparison->worst_seconds, off);
  }
  for (int i = 0; i < SLOWDOWNS && self->has_slowdowns; i++)
    comparison->worst_slowdown_error =
        fmax(comparison->worst_slowdown_error,
             fabs(self->replayed_slowdowns[i] / self->recorded_slowdowns[i] - 1));
  Arena arena;
  arena_init(&arena);
  compare_percentiles(self, comparison, ARENA_ARRAY(&arena, double, self->n_requests));
  arena_done(&arena);
}
