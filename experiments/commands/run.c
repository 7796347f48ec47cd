/* `tandem run CONFIG`: one configuration, simulated. */
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include "sim/base/output.h"
#include "sim/base/text.h"

typedef struct Options {
  CliList assignments;
  const char *output, *event_log;
  OutputFormat format;
  int64_t seed, tie_seed; // -1: as in the file
  int64_t memory;         // 0: what is free
  bool requests, step, audit, check, require_slo, strict;
} Options;

#define OPTION(name, value, kind, field, help)                                                     \
  { name, value, kind, offsetof(Options, field), help }

static const CliOption options[] = {
    OPTION("--set", "K=V", CLI_LIST, assignments, "sets a key: --set pools.prefill.count=30"),
    OPTION("--output", "DB", CLI_TEXT, output, "adds the run to this database of results"),
    OPTION("--requests", NULL, CLI_FLAG, requests, "stores every request too"),
    OPTION("--format", "F", CLI_OUTPUT, format, "table, csv or json  [table]"),
    OPTION("--seed", "N", CLI_NUMBER, seed, "in place of the seeds in CONFIG"),
    OPTION("--tie-seed", "N", CLI_NUMBER, tie_seed, "shuffles events of equal time"),
    OPTION("--event-log", "FILE", CLI_TEXT, event_log, "writes what happened when, as CSV"),
    OPTION("--step", NULL, CLI_FLAG, step, "simulates every iteration on its own"),
    OPTION("--audit", NULL, CLI_FLAG, audit, "checks all books after every event"),
    OPTION("--memory", "SIZE", CLI_BYTES, memory, "that it may take  [9/10 of what is free]"),
    OPTION("--check", NULL, CLI_FLAG, check, "checks CONFIG and ends"),
    OPTION("--require-slo", NULL, CLI_FLAG, require_slo, "exit code 1 when an SLO was missed"),
    OPTION("--strict", NULL, CLI_FLAG, strict, "no iteration outside the measured range"),
    {0}};

static const CliCommand command = {
    .name = "run",
    .summary = "Simulates a cluster under a workload and prints what its users would have felt.",
    .operands = "CONFIG",
    .min_operands = 1,
    .max_operands = 1,
    .options = options,
    .example = "tandem run experiments/examples/quickstart.yaml --set pools.decode.count=3",
    .exit_codes = "0 done, 1 SLO missed (--require-slo), 2 wrong usage, 3 bad input,\n"
                  "  4 the environment lacks something, 130 interrupted",
};

/* One run: what is open while it lasts. */
typedef struct Run {
  const Options *options;
  Config config;
  Results results;
  Output event_log;
  SimResult result;
  Report report;
  Arena *arena;
  Diag *diag;
} Run;

/* An error when the event log would be written over a file that a value of the configuration names;
 * others of the data folder are not looked for. */
static int check_event_log(const Run *run, const Node *node) {
  const char *path = run->options->event_log;
  int status = 0;
  for (const Node *child = node->first; child; child = child->next)
    status |= check_event_log(run, child);
  if (node->kind != NODE_SCALAR) return status;
  const char *named = path_resolve(node->text, run->config.directory, run->arena);
  if (!output_is_same(path, named)) return 0;
  return diag_error(run->diag, node->at, "'--event-log' would be written over '%s'", named);
}

static int open_event_log(Run *run) {
  const Options *given = run->options;
  const char *const inputs[] = {run->config.path, given->output, NULL};
  if (!given->event_log) return 0;
  if (output_check(given->event_log, inputs, run->diag) || check_event_log(run, run->config.root))
    return -1;
  return output_open(&run->event_log, given->event_log, run->arena, run->diag);
}

static int open_files(Run *run) {
  const Options *given = run->options;
  if (config_open_trace(&run->config, run->arena, run->diag)) return -1;
  if (given->check) return 0;
  if (given->output &&
      results_open(&run->results, given->output, run->config.data_root, run->arena, run->diag))
    return -1;
  return open_event_log(run);
}

static int on_request(void *context, const RequestRecord *record, const Metrics *so_far,
                      Diag *diag) {
  (void)so_far;
  return results_add_request(context, record, diag);
}

static int check_strict(const Run *run) {
  const uint64_t outside = report_extrapolated(&run->result.totals);
  if (!run->options->strict || outside == 0) return 0;
  diag_error(run->diag, place_of_file(run->config.path),
             "%llu of %.0f iterations are outside the measured range of the performance model",
             (unsigned long long)outside, run->report.machines.iterations);
  diag_hint(run->diag, "without --strict they are extrapolated and their share is reported");
  return -1;
}

static int simulate(Run *run) {
  SimConfig *sim = &run->config.sim;
  Progress progress;
  progress_init(&progress, &run->config.workload);
  sim->step = run->options->step;
  sim->audit = run->options->audit;
  sim->event_log = run->event_log.file;
  sim->interrupted = &interrupt_signal;
  sim->memory_limit = cli_memory(run->options->memory, 1);
  sim->on_progress = progress_update;
  sim->on_progress_context = &progress;
  if (run->options->output && run->options->requests) {
    sim->on_request = on_request;
    sim->on_request_context = &run->results;
  }
  interrupt_catch();
  const double wall = clock_monotonic(), cpu = clock_cpu();
  int status = sim_run(sim, &run->result, run->arena, run->diag);
  progress_done(&progress);
  if (status == 0 && run->event_log.file) status = output_commit(&run->event_log, run->diag);
  if (status) return -1;
  report_init(&run->report, &run->config, &run->result, clock_cpu() - cpu, clock_monotonic() - wall,
              run->arena);
  return report_check_served(&run->report, run->diag) ? -1 : check_strict(run);
}

static int store(Run *run) {
  uint64_t digest = 0;
  if (!run->options->output) return 0;
  if (config_digest(&run->config, &digest, run->diag)) return -1;
  return results_add_run(&run->results, &run->report, digest, run->arena, run->diag);
}

/* The exit code when `diag` stays empty. */
static int run_config(Run *run, const char *path) {
  const Options *given = run->options;
  const ConfigChanges changes = {
      .assignments = given->assignments.items, .seed = given->seed, .tie_seed = given->tie_seed};
  if (config_load(&run->config, path, &changes, run->arena, run->diag) || open_files(run))
    return EXIT_INPUT;
  if (given->check) {
    fprintf(stderr, "%s: in order\n", text_shown(path, run->arena));
    return EXIT_DONE;
  }
  if (simulate(run) || store(run)) return EXIT_INPUT;
  report_print(&run->report, given->format, stdout);
  return given->require_slo && run->report.n_missed > 0 ? EXIT_SLO_MISSED : EXIT_DONE;
}

static void close_files(Run *run) {
  if (run->config.sim.trace) trace_close(run->config.sim.trace);
  output_drop(&run->event_log);
  results_close(&run->results);
}

int cmd_run(int argc, char **argv) {
  Options given = {.seed = -1, .tie_seed = -1};
  const char *path = NULL;
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  int code = cli_parse(&command, argc, argv, &given, &path, &arena);
  if (code == CLI_GO_ON && given.requests && !given.output)
    code = cli_usage(&command, "'--requests' needs '--output'");
  if (code == CLI_GO_ON) {
    Run run = {.options = &given, .arena = &arena, .diag = &diag};
    code = run_config(&run, path);
    close_files(&run);
    cli_interrupted(&command, &diag, "nothing of the run is kept; the same command begins anew");
  }
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
