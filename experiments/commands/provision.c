/* `tandem provision STUDY`: the best machine counts, or choices, of each design. */
#include "experiments/provision/provision.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/base/workers.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include <unistd.h>

typedef struct Options {
  const Node *set;
  const char *output;
  int format;
  int64_t seed, jobs, memory;
  bool dry_run, require_slo, full_runs, no_range;
} Options;

static const OptionSpec options[] = {
    CLI_SET("provision.seeds=5"),
    CLI_JOBS("simulates on N threads"),
    CLI_MEMORY("that its runs may take together"),
    CLI_TEXT("--output", output, "DB", "keeps runs and answers; what is there is not rerun"),
    CLI_FORMAT,
    CLI_SEED("--seed", seed, "first seed, in place of those in STUDY"),
    CLI_FLAG("--full-runs", full_runs, "ends no run early, so that all figures are whole"),
    CLI_FLAG("--no-range", no_range, "does not search with times moved by their models' error"),
    CLI_FLAG("--dry-run", dry_run, "checks STUDY, says what would be searched, and ends"),
    CLI_FLAG("--require-slo", require_slo, "exit code 1, not 3, when no design meets the limits"),
    {0}};

/* One study: what is open while it lasts. */
typedef struct Study {
  const Options *options;
  Provision study;
  TrialBase base;
  Results results;
  ResultsLock lock;
  bool locked;
  Arena *arena;
  Diag *diag;
} Study;

static void show_progress(void *context, int64_t done, int64_t in_flight) {
  double *shown_s = context;
  const double now = clock_monotonic();
  if (!isatty(STDERR_FILENO) || now - *shown_s < 0.2) return;
  *shown_s = now;
  fprintf(stderr, "\r%lld simulations, %lld under way\033[K", (long long)done,
          (long long)in_flight);
}

static int open_results(Study *self) {
  const char *path = self->options->output;
  if (!path) return 0;
  if (results_lock(&self->lock, path, self->arena, self->diag)) return -1;
  self->locked = true;
  if (results_open(&self->results, path, config_data_root(), self->arena, self->diag)) return -1;
  int64_t runs = 0, stale = 0;
  const int status = results_count_runs(&self->results, &runs, &stale, self->diag);
  cli_note_stale(runs, stale);
  return status;
}

static int run_study(Study *self) {
  const Options *given = self->options;
  double shown_s = clock_monotonic();
  const ProvisionOptions how = {.jobs = cli_jobs(given->jobs),
                                .results = given->output ? &self->results : NULL,
                                .no_early_stop = given->full_runs,
                                .range = !given->no_range,
                                .on_progress = show_progress,
                                .context = &shown_s};
  DesignOutcome *outcomes = NULL;
  interrupt_catch();
  const int status = provision_run(&self->study, &how, &outcomes, self->arena, self->diag);
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  config_note_perfmodels(&self->base.cache, stderr);
  if (status) return EXIT_INPUT;
  if (given->output && provision_store(&self->study, outcomes, &self->results, self->diag))
    return EXIT_INPUT;
  provision_print(&self->study, outcomes, given->format, stdout);
  bool flips = false;
  if (provision_best(&self->study, outcomes, &flips) >= 0) return EXIT_DONE;
  if (given->require_slo) return EXIT_SLO_MISSED;
  for (int d = 0; d < self->study.n_designs; d++)
    diag_error(self->diag, self->study.designs[d].at, "design '%s' meets the limits nowhere: %s",
               self->study.designs[d].name, outcomes[d].why_not);
  return EXIT_INPUT;
}

/* The exit code when `diag` stays empty. */
static int open_study(Study *self, const char *path) {
  const ConfigChanges changes = {.assignments = cli_texts(self->options->set, self->arena),
                                 .seed = self->options->seed,
                                 .tie_seed = -1};
  if (provision_load(&self->study, &self->base, path, &changes, self->arena, self->diag))
    return EXIT_INPUT;
  self->base.memory = cli_memory(self->options->memory, cli_jobs(self->options->jobs));
  if (self->options->dry_run) {
    provision_print_plan(&self->study, stdout);
    return EXIT_DONE;
  }
  return open_results(self) ? EXIT_INPUT : run_study(self);
}

static int run_provision(Cli *cli) {
  const Options *given = cli->given;
  Study self = {.options = given, .arena = cli->arena, .diag = cli->diag};
  const int code = open_study(&self, cli->operands[0]);
  if (given->output) results_close(&self.results);
  if (self.locked) results_unlock(&self.lock);
  if (self.base.root) trial_base_done(&self.base);
  if (given->output)
    cli_interrupted(cli, "its runs so far are in '%s'; the same command goes on", given->output);
  else
    cli_interrupted(cli, "nothing is kept; with '--output DB' it could go on");
  return code;
}

const Command command_provision = {
    .name = "provision",
    .help = "the cheapest cluster that meets the limits",
    .summary =
        "Searches for the cluster that serves a workload within its limits at the least cost,\n"
        "power or number of machines, or at the largest rate that a budget allows; or, of work\n"
        "that is all there at once, for the parallelism and options of the largest throughput.",
    .operands = "STUDY",
    .options = options,
    .size = sizeof(Options),
    .notes =
        "STUDY is a configuration with a block 'provision': 'tandem list options' has its keys.",
    .example = "tandem provision experiments/examples/provision.yaml",
    .exit_codes =
        "0 done, 1 no design meets the limits (--require-slo), 2 wrong usage, 3 bad input\n"
        "  or no design meets the limits, 4 the environment lacks something, 130 interrupted",
    .initial = &(const Options){.seed = -1},
    .run = run_provision,
};
