/* `tandem validate CONFIG`: predictions against what a device really takes, with --backend, or with
 * --against what an engine logged. */
#include "experiments/validate/validate.h"
#include "base/hash.h"
#include "experiments/base/interrupt.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include <string.h>

typedef struct Options {
  const Node *set;
  const char *backend, *against, *dtype, *attention, *output;
  int format;
  bool any_device;
  int64_t seed, repeats, threads, device; // seed −1: as in the file
  double within;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_TEXT("--backend", backend, "NAME",
                        "run the batches on: cpu, cuda, llama, fake or ./program")},
    {CLI_TEXT("--against", against, "LOG", "compare with the log of an engine")},
    {CLI_ROW("--within", REAL, within, "SHARE", "largest error of a latency that passes"),
     .min = 1e-6, .max = 100, .fallback = "10%"},
    {CLI_SET("workload.requests=100")},
    {CLI_OUTPUT},
    {.group = "Measurement", CLI_FORMAT},
    {CLI_ROW("--repeat", INT, repeats, "N", "measure N times, which shows the noise"), .min = 1,
     .max = 100, .fallback = "1"},
    {CLI_SEED},
    {CLI_DTYPE},
    {CLI_ATTENTION},
    {CLI_DEVICE},
    {CLI_THREADS},
    {CLI_FLAG("--any-device", any_device,
              "accept a device other than that of the machine and the performance model")},
    {0}};

/* ---- The database ---- */

/* A run under a name of its own. A measured one is no function of its configuration, so that its
 * digest must not be taken for that of a simulated one. */
static int store_run(Results *results, const Config *config, const ValidateRun *run,
                     const char *suffix, uint64_t digest, Arena *arena, Diag *diag) {
  Config named = *config;
  Report report = run->report;
  named.path = arena_printf(arena, "%s (%s)", config->path, suffix);
  report.config = &named;
  return results_add_run(results, &report, digest, arena, diag);
}

static int store(const Validation *validation, const Config *config, const Options *given,
                 Results *results, Arena *arena, Diag *diag) {
  uint64_t digest = 0;
  if (!given->output) return 0;
  if (config_digest(config, &digest, diag) ||
      store_run(results, config, &validation->predicted, "predicted", digest, arena, diag))
    return -1;
  const char *suffix =
      arena_printf(arena, "measured by %s on %s", validation->backend, validation->device.name);
  digest = hash_fold(digest, hash_bytes(suffix, strlen(suffix)));
  for (int64_t i = 0; i < validation->n_measured; i++)
    if (store_run(results, config, &validation->measured[i], suffix, hash_fold(digest, (uint64_t)i),
                  arena, diag))
      return -1;
  return 0;
}

/* ---- Running ---- */

static int run(Config *config, const Options *given, Results *results, Arena *arena, Diag *diag) {
  const ValidateOptions wanted = {.backend = given->backend,
                                  .dtype = given->dtype,
                                  .attention = given->attention,
                                  .device = {.device = (int32_t)given->device,
                                             .threads = (int32_t)given->threads,
                                             .choices = cli_cache_folder(arena),
                                             .seed = (uint64_t)(given->seed < 0 ? 1 : given->seed),
                                             .interrupted = &interrupt_signal},
                                  .repeats = given->repeats,
                                  .any_device = given->any_device,
                                  .within = given->within};
  Validation *validation = ARENA_NEW(arena, Validation);
  if (given->output && results_open(results, given->output, config->data_root, arena, diag))
    return EXIT_ENVIRONMENT;
  config_note_perfmodels(config->cache, stderr);
  interrupt_catch();
  if (validate(validation, config, &wanted, arena, diag) ||
      store(validation, config, given, results, arena, diag))
    return EXIT_ENVIRONMENT;
  if (config->pools[0].tensor_parallel_size > 1)
    fprintf(stderr, "note: one shard of %lld was run, without all-reduces\n",
            (long long)config->pools[0].tensor_parallel_size);
  validate_print(validation, config, given->format, stdout);
  return validation->verdict == VALIDATE_MET ? EXIT_DONE : EXIT_NOT_MET;
}

/* ---- Against a log ---- */

static int run_against(Cli *cli, const Options *given) {
  Config config;
  EngineLog log;
  Against *against = ARENA_NEW(cli->arena, Against);
  if (engine_log_load(&log, given->against, cli->arena, cli->diag)) return EXIT_INPUT;
  // the workload of the log takes the place of any
  const char *workload = validate_against_workload(&log, cli->arena);
  const ConfigChanges changes = {.assignments = cli_texts_and(given->set, workload, cli->arena),
                                 .seed = given->seed,
                                 .tie_seed = -1};
  interrupt_catch();
  if (config_load(&config, cli->operands[0], &changes, cli->arena, cli->diag) ||
      validate_against(against, &config, &log, given->within, cli->arena, cli->diag))
    return EXIT_INPUT;
  config_note_perfmodels(config.cache, stderr);
  validate_against_print(against, &config, given->format, stdout);
  return against->verdict == VALIDATE_MET ? EXIT_DONE : EXIT_NOT_MET;
}

static int run_validate(Cli *cli) {
  const Options *given = cli->given;
  if (!given->backend == !given->against)
    return cli_usage(cli, given->backend ? "'--backend' and '--against' exclude each other"
                                         : "'--backend NAME' or '--against LOG' is missing");
  if (given->against && given->output) return cli_usage(cli, "'--output' needs '--backend'");
  if (given->against) return run_against(cli, given);
  Config config;
  Results results = {0};
  const ConfigChanges changes = {
      .assignments = cli_texts(given->set, cli->arena), .seed = given->seed, .tie_seed = -1};
  int code = EXIT_INPUT;
  if (config_load(&config, cli->operands[0], &changes, cli->arena, cli->diag) == 0)
    code = run(&config, given, &results, cli->arena, cli->diag);
  results_close(&results);
  cli_interrupted(cli, "nothing of the runs is kept; the same command starts again");
  return code;
}

const Command command_validate = {
    .name = "validate",
    .group = COMMANDS_MEASURE,
    .help = "compare predictions with a device or an engine's log",
    .description =
        "Simulates a configuration with predicted iteration times. Then it repeats the run with "
        "each batch run by a backend, or reads the log of an engine, and prints the error of each "
        "latency. One of --backend and --against is required.",
    .operands = "CONFIG",
    .arguments = (const CliTerm[]){{"CONFIG", "configuration file (YAML)"}, {0}},
    CLI_OPTIONS,
    .notes = "The device runs one shard, in turn for all instances, without all-reduces. LOG is "
             "the output of vllm_steps.py, JSON of 'vllm bench serve --save-detailed', or "
             "requests.csv of LLMServingSim.",
    .examples = "tandem validate experiments/examples/splitwise-small.yaml --backend cuda",
    .exits = {[EXIT_NOT_MET] = "an error exceeds --within, or the comparison is worthless"},
    .initial = &(const Options){.seed = -1},
    .run = run_validate,
};
