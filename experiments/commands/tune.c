/* `tandem tune CONFIG`: the best values of a serving engine's knobs, and what each is worth. */
#include "experiments/tune/tune.h"
#include "experiments/commands/cli.h"
#include "experiments/commands/database.h"

typedef struct Options {
  TuneOptions how;
  const Node *set;
  const char *output;
  int format;
  int64_t seed;
  bool dry_run;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN,
     CLI_TEXT("--objective", how.objective, "OBJECTIVE",
              "quantity to make best: rate (the highest within the limits), goodput, throughput, "
              "tokens, energy, or a latency such as ttft_p99 or tpot_mean"),
     .absent = "rate with limits, else e2e_mean, or tokens where no rate is given"},
    {CLI_TEXT("--slo", how.slo, "LIMITS",
              "latency limits in place of those of CONFIG, such as 'ttft.p99<2s,tpot.p99<50ms'"),
     .absent = "those of CONFIG"},
    {CLI_TEXT("--knobs", how.knobs, "LIST",
              "knobs to search, such as max_num_seqs,router; --dry-run prints all"),
     .absent = "all"},
    {CLI_ROW("--seeds", INT, how.seeds, "N",
             "number of seeds to search with, and of others to measure the answer with"),
     .fallback = "5", .min = 1, .max = 500},
    {CLI_ROW("--budget", INT, how.budget, "N",
             "number of simulations after which the search ends and what it found is measured"),
     .fallback = "2000", .min = 1, .max = 1e9},
    {CLI_SEED},
    {CLI_OUTPUT},
    {CLI_FORMAT},
    {CLI_SET("workload.duration='2 min'")},
    {CLI_FLAG("--dry-run", dry_run,
              "print the knobs with their values, the current in brackets, "
              "and stop")},
    {.group = "Resources",
     CLI_ROW("--jobs", INT, how.jobs, "N", "number of threads"),
     .min = 1,
     .max = 1024,
     .absent = "one per CPU"},
    {CLI_ROW("--memory", BYTES, how.memory, "SIZE", "memory limit, such as '8 GB'"), .min = 1,
     .max = 1e18, .absent = "9/10 of the free memory"},
    {0}};

static int run_tune(Cli *cli) {
  const Options *given = cli->given;
  const ConfigChanges changes = {
      .assignments = cli_texts(given->set, cli->arena), .seed = given->seed, .tie_seed = -1};
  TuneOptions how = given->how;
  Tuning *tuning = ARENA_NEW(cli->arena, Tuning);
  how.jobs = cli_jobs(how.jobs);
  how.memory = (int64_t)cli_memory(how.memory, (int)how.jobs);
  Database database = {0};
  const char *output = given->dry_run ? NULL : given->output;
  int status = database_open(&database, output, cli->arena, cli->diag);
  how.results = database_results(&database);
  if (status == 0)
    status = tune_open(tuning, cli->operands[0], &changes, &how, cli->arena, cli->diag);
  if (status == 0 && given->dry_run) {
    tune_print_plan(tuning, stdout);
  } else if (status == 0) {
    status = tune_run(tuning);
    config_note_perfmodels(&tuning->base.cache, stderr);
    if (status == 0) status = tune_print(tuning, (OutputFormat)given->format, stdout);
  }
  if (output)
    cli_interrupted(cli, "its runs so far are in '%s'", output);
  else
    cli_interrupted(cli, "nothing is kept");
  tune_close(tuning);
  database_close(&database);
  return EXIT_DONE;
}

const Command command_tune = {
    .name = "tune",
    .group = COMMANDS_SIMULATE,
    .help = "find the best values of a serving engine's knobs",
    .description =
        "Searches the knobs of the serving engine on the cluster and traffic of a configuration: "
        "limits of a batch, chunks, blocks, the router, how GPUs are divided between prefill and "
        "decode, and what else the batcher has. It prints what each change is worth with its 95% "
        "interval, the keys to set, and the flags that start the engine so.",
    .operands = "CONFIG",
    .arguments = (const CliTerm[]){{"CONFIG", "configuration file; '-' is standard input"}, {0}},
    CLI_OPTIONS,
    .notes = "All values meet the same requests, and are compared seed by seed. A value becomes "
             "part of the answer if it is better beyond chance; what was found is then measured on "
             "seeds that the search did not see. The columns 'alone' and 'without it' are the "
             "change of the objective from the current values to those with this one, and from the "
             "best values to those without it.",
    .examples = "tandem tune experiments/examples/tune.yaml\n"
                "tandem tune experiments/examples/tune.yaml --objective ttft_p99 \\\n"
                "  --knobs max_num_batched_tokens,router",
    .initial = &(const Options){.seed = -1},
    .run = run_tune,
};
