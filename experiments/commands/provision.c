/* `tandem provision STUDY`: the best machine counts, or choices, of each design. */
#include "experiments/commands/study.h"

typedef struct Options {
  const Node *set;
  const char *output, *export;
  int format;
  int64_t seed, jobs, memory;
  bool dry_run, require_slo, full_runs, no_range, run;
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
    CLI_FLAG("--run", run, "simulates the best answer too; --export P starts it: 'plan --help'"),
    CLI_TEXT("--export", export, "P", NULL),
    CLI_FLAG("--dry-run", dry_run, "checks STUDY, says what would be searched, and ends"),
    CLI_FLAG("--require-slo", require_slo, "exit code 1, not 3, when no design meets the limits"),
    {0}};

/* The exit code when `diag` stays empty. */
static int answer(Study *self, const Options *given) {
  if (study_search(self, given->output, given->full_runs, !given->no_range)) return EXIT_INPUT;
  if (given->export && self->best >= 0) return study_export(self, given->export);
  provision_print(&self->provision, self->outcomes, given->format, stdout);
  if (self->best >= 0) {
    if (given->run) putchar('\n');
    return given->run && study_run_answer(self, stdout) ? EXIT_INPUT : EXIT_DONE;
  }
  if (given->require_slo) return EXIT_SLO_MISSED;
  study_explain(self);
  return EXIT_INPUT;
}

static int open_and_answer(Cli *cli, Study *self, Node *root) {
  const Options *given = cli->given;
  const ConfigChanges changes = {
      .assignments = cli_texts(given->set, cli->arena), .seed = given->seed, .tie_seed = -1};
  if (study_open(self, cli->operands[0], root, &changes, given->jobs, given->memory, cli->arena,
                 cli->diag))
    return EXIT_INPUT;
  if (!given->dry_run) return answer(self, given);
  provision_print_plan(&self->provision, stdout);
  return EXIT_DONE;
}

static int run_provision(Cli *cli) {
  const Options *given = cli->given;
  if (given->run && given->format != OUTPUT_TABLE)
    return cli_usage(cli, "'--run' prints two tables: it goes with '--format table' alone");
  const int usage = study_check_export(given->export, cli->arena);
  if (usage != EXIT_DONE) return usage;
  Node *root = config_tree(cli->operands[0], cli->arena, cli->diag);
  if (!root) return EXIT_INPUT;
  Study self = {0};
  const int code = open_and_answer(cli, &self, root);
  study_close(&self);
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
    .exit_codes = "0 done, 1 none meets the limits (--require-slo), 2 usage, 3 bad input or none, "
                  "4, 130",
    .initial = &(const Options){.seed = -1},
    .run = run_provision,
};
