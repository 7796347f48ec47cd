/* Golden timelines. The scenarios of scenarios.c, derived by hand, must give their event logs to
 * the picosecond; and the toy of SplitwiseSim's example.ipynb, three requests on BLOOM-176B, must
 * give the figures that its authors recorded, to a microsecond.
 *
 *     golden MODEL_DIR */
#include "tests/golden/golden.h"
#include "perfmodel/finder.h"
#include "perfmodel/llm.h"
#include "sim/policies.h"
#include "tests/array_trace.h"
#include "tests/time_parts.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_SIZE = 1 << 14, LINE_SIZE = 128, G1_REQUESTS = 3 };

/* --- running */

static void choose(SimConfig *config, PolicyKind kind, const Named *named, Arena *arena) {
  if (!named->name) return; // the first of its kind
  const Policy *policy = policy_find(kind, named->name);
  assert(policy);
  Diag diag;
  diag_init(&diag);
  const char *text = named->options ? named->options : "{}";
  const Node *node = yaml_parse("options", text, strlen(text), arena, &diag);
  const void *state = policy_bind(policy, node, place_of_file("options"), arena, &diag);
  assert(state);
  config->policies[kind] = (PolicyChoice){policy, state};
  diag_done(&diag);
}

static int check_parts(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  (void)context, (void)so_far, (void)diag;
  assert(!time_parts_check(record, record->parts));
  return 0;
}

/* Runs with the audit on and returns the event log without its header. */
static char *run(SimConfig *config, const Named *policies, const TraceRow *rows, int n_rows,
                 Arena *arena) {
  ArrayTrace trace;
  array_trace_init(&trace, rows, n_rows);
  config->trace = &trace.source;
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    choose(config, (PolicyKind)kind, &policies[kind], arena);
  config->audit = config->keeps_parts = true;
  config->on_request = check_parts;
  config->event_log = tmpfile();
  assert(config->event_log);
  Diag diag;
  diag_init(&diag);
  SimResult result;
  const int rc = sim_run(config, &result, arena, &diag);
  assert(rc == 0);
  diag_done(&diag);
  char *log = ARENA_ARRAY(arena, char, LOG_SIZE);
  rewind(config->event_log);
  const size_t length = fread(log, 1, LOG_SIZE - 1, config->event_log);
  assert(length < LOG_SIZE - 1);
  fclose(config->event_log);
  return strchr(log, '\n') + 1;
}

/* --- scenarios by hand */

/* 10 ms, and 1 ms per new token, and 1 ms per context token of decodes. */
static PerfModel round_model(Arena *arena) {
  const PwlKnot line[] = {{0, 0}, {1000, 1}};
  CurveRow row = {.key = 1};
  pwl_init(&row.curve, line, 2, false, arena);
  PerfModel model = {.name = "round", .form = PERF_COMPOSED, .overhead = 10 * MS};
  pwl_init(&model.linear, line, 2, false, arena);
  const CurveTable table = {.rows = &row, .n_rows = 1, .low = 1, .high = 16};
  perfmodel_compile(&model, &table, 16, arena);
  return model;
}

/* The next line of `log`, the time without zeros at its end; false at the end. */
static bool next_line(const char **log, char *ret_line) {
  if (**log == '\0') return false;
  const size_t length = (size_t)(strchr(*log, '\n') - *log);
  const size_t time = strcspn(*log, ",");
  assert(length < LINE_SIZE);
  size_t digits = time;
  if (memchr(*log, '.', time))
    while ((*log)[digits - 1] == '0')
      digits--;
  if ((*log)[digits - 1] == '.') digits--;
  memcpy(ret_line, *log, digits);
  memcpy(ret_line + digits, *log + time, length - time);
  ret_line[digits + length - time] = '\0';
  *log += length + 1;
  return true;
}

static bool check_scenario(const Scenario *scenario, bool step) {
  Arena arena;
  arena_init(&arena);
  const PerfModel model = round_model(&arena);
  PoolSpec pools[3];
  for (uint32_t i = 0; i < scenario->n_pools; i++) {
    pools[i] = scenario->pools[i];
    pools[i].perfmodel = &model;
  }
  SimConfig config = {.pools = pools,
                      .n_pools = scenario->n_pools,
                      .groups = scenario->groups,
                      .n_groups = scenario->n_groups,
                      .network_latency = scenario->network_latency,
                      .monitor_interval = scenario->monitor_interval,
                      .heavy_above = scenario->heavy_above,
                      .step = step};
  const char *got = run(&config, scenario->policies, scenario->rows, scenario->n_rows, &arena);
  const char *want = scenario->expected;
  char got_line[LINE_SIZE] = "", want_line[LINE_SIZE] = "";
  bool same = true;
  while (same) {
    const bool more_got = next_line(&got, got_line), more_want = next_line(&want, want_line);
    if (!more_got && !more_want) break;
    same = more_got && more_want && strcmp(got_line, want_line) == 0;
    if (!same)
      printf("%s%s: expected '%s', got '%s'\n", scenario->name, step ? " (stepped)" : "",
             more_want ? want_line : "the end", more_got ? got_line : "the end");
  }
  arena_done(&arena);
  return same;
}

static bool check_scenarios(const Scenario *scenarios, int n) {
  bool good = true;
  for (int i = 0; i < n; i++) {
    good &= check_scenario(&scenarios[i], false);
    good &= check_scenario(&scenarios[i], true);
  }
  return good;
}

/* --- example.ipynb of SplitwiseSim at 8f99e7d */

/* Seconds by request. */
typedef struct Figures {
  double ttft[G1_REQUESTS], e2e[G1_REQUESTS], transfer[G1_REQUESTS], tbt[G1_REQUESTS];
} Figures;

typedef struct Example {
  const char *name;
  const char *gpus[2]; // of a machine each, the prefill machine first
  uint32_t n_pools;
  Figures want; // TBT, (E2E - TTFT) / output tokens, only where it is on record
} Example;

static const TraceRow example_rows[G1_REQUESTS] = {
    {.at = 1 * TICKS_PER_SECOND, .prompt_tokens = 4096, .output_tokens = 32},
    {.at = 3 * TICKS_PER_SECOND, .prompt_tokens = 2048, .output_tokens = 8},
    {.at = 4 * TICKS_PER_SECOND, .prompt_tokens = 2048, .output_tokens = 16},
};

static const Example examples[] = {
    {"baseline, one H100",
     {"h100-80gb"},
     1,
     {.ttft = {0.649598, 0.251964, 0.251964}, .e2e = {1.744743, 0.499255, 0.781873}}},
    {"Splitwise-HA, one H100 and one A100",
     {"h100-80gb", "a100-80gb"},
     2,
     {.ttft = {0.649598, 0.251964, 0.251964},
      .e2e = {2.199226, 0.622873, 1.003019},
      .transfer = {0.076563, 0.038281, 0.038281},
      .tbt = {0.048426, 0.046364, 0.046941}}},
};

/* Takes the figures from the event log. */
static Figures read_figures(const char *log) {
  Figures figures = {0};
  for (; *log; log = strchr(log, '\n') + 1) {
    char *end;
    const double at = strtod(log, &end);
    const char *event = end + 1, *rest = event + strcspn(event, ",");
    const long id = strtol(rest + 1, NULL, 10);
    const double since = at - tick_seconds(example_rows[id].at);
    if (strncmp(event, "first_token,", 12) == 0) figures.ttft[id] = since;
    if (strncmp(event, "last_token,", 11) == 0) figures.e2e[id] = since;
    if (strncmp(event, "transfer_begin,", 15) == 0) figures.transfer[id] -= since;
    if (strncmp(event, "transfer_end,", 13) == 0) figures.transfer[id] += since;
  }
  for (int i = 0; i < G1_REQUESTS; i++)
    figures.tbt[i] = (figures.e2e[i] - figures.ttft[i]) / example_rows[i].output_tokens;
  return figures;
}

static bool check_figure(const Example *example, const char *what, int request, double want,
                         double got) {
  if (fabs(got - want) <= 1e-6) return true;
  printf("%s, request %d: %s %.9f s, expected %.6f s\n", example->name, request, what, got, want);
  return false;
}

static void example_pools(const Example *example, PoolSpec *pools, PerfModel *models,
                          const char *model_dir, Arena *arena, Diag *diag) {
  const Place place = place_of_file(example->name);
  Llm llm;
  if (llm_load(&llm, "bloom-176b-splitwise-sim", model_dir, place, arena, diag) < 0) return;
  for (uint32_t i = 0; i < example->n_pools; i++) {
    pools[i] = (PoolSpec){.name = example->gpus[i],
                          .machine = example->gpus[i],
                          .role = example->n_pools == 1 ? ROLE_MIXED
                                  : i == 0              ? ROLE_PREFILL
                                                        : ROLE_DECODE,
                          .count = 1,
                          .perfmodel = &models[i],
                          .kv_blocks = 80000,
                          .block_size = 1,
                          .kv_bytes_per_token = llm.kv_bytes_per_token,
                          .num_hidden_layers = llm.num_hidden_layers,
                          .nic_bandwidth = 1};
    if (perfmodel_load_for(&models[i], "splitwise-sim", "bloom-176b", example->gpus[i], 8, 16,
                           model_dir, place, arena, diag) < 0)
      return;
  }
}

static bool check_example(const Example *example, const char *model_dir) {
  static const Named policies[POLICY_KINDS] = {[POLICY_ROUTER] = {"splitwise_sim_mixed_pool", NULL},
                                               [POLICY_POOL] = {"splitwise_sim", NULL},
                                               [POLICY_BATCHER] = {"splitwise_sim", NULL},
                                               [POLICY_TRANSFER] = {"splitwise_sim", NULL},
                                               [POLICY_KVTIER] = {"splitwise_sim", NULL}};
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  PoolSpec pools[2];
  PerfModel models[2];
  example_pools(example, pools, models, model_dir, &arena, &diag);
  diag_print(&diag, stdout);
  bool good = diag.n_entries == 0;
  if (good) {
    SimConfig config = {.pools = pools, .n_pools = example->n_pools};
    const Figures got = read_figures(run(&config, policies, example_rows, G1_REQUESTS, &arena));
    for (int i = 0; i < G1_REQUESTS; i++) {
      const Figures *want = &example->want;
      good &= check_figure(example, "TTFT", i, want->ttft[i], got.ttft[i]);
      good &= check_figure(example, "E2E", i, want->e2e[i], got.e2e[i]);
      good &= check_figure(example, "transfer", i, want->transfer[i], got.transfer[i]);
      if (want->tbt[i] > 0) good &= check_figure(example, "TBT", i, want->tbt[i], got.tbt[i]);
    }
  }
  diag_done(&diag);
  arena_done(&arena);
  return good;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: golden MODEL_DIR\n");
    return 2;
  }
  bool good = check_scenarios(golden_scenarios, golden_n_scenarios);
  good &= check_scenarios(golden_control_scenarios, golden_n_control_scenarios);
  good &= check_scenarios(golden_batching_scenarios, golden_n_batching_scenarios);
  good &= check_scenarios(golden_shape_scenarios, golden_n_shape_scenarios);
  const int n_examples = sizeof examples / sizeof *examples;
  for (int i = 0; i < n_examples; i++)
    good &= check_example(&examples[i], argv[1]);
  const int n_by_hand = golden_n_scenarios + golden_n_control_scenarios +
                        golden_n_batching_scenarios + golden_n_shape_scenarios;
  printf("%d timelines by hand, %d recorded: %s\n", n_by_hand, n_examples,
         good ? "all agree" : "some differ");
  return !good;
}
