/* `tandem validate CONFIG --backend NAME`: predictions against what a device really takes. */
#include "experiments/validate/validate.h"
#include "experiments/base/interrupt.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include "sim/base/hash.h"
#include <stddef.h>
#include <string.h>

typedef struct Options {
  CliList assignments;
  const char *backend, *dtype, *output;
  OutputFormat format;
  int64_t seed, repeats, threads, device; // seed −1: as in the file
} Options;

#define OPTION(name, value, kind, field, help)                                                     \
  { name, value, kind, offsetof(Options, field), help }

static const CliOption options[] = {
    OPTION("--backend", "NAME", CLI_TEXT, backend, "runs the batches: cpu, cuda or fake"),
    OPTION("--set", "K=V", CLI_LIST, assignments, "sets a key: --set workload.requests=100"),
    OPTION("--output", "DB", CLI_TEXT, output, "adds both runs to this database of results"),
    OPTION("--format", "F", CLI_OUTPUT, format, "table, csv or json  [table]"),
    OPTION("--repeat", "N", CLI_NUMBER, repeats, "measures N times: how well it repeats  [1]"),
    OPTION("--seed", "N", CLI_NUMBER, seed, "in place of the seeds in CONFIG"),
    OPTION("--dtype", "T", CLI_TEXT, dtype, "bf16, fp16 or fp32  [bf16; cpu: fp32]"),
    OPTION("--device", "N", CLI_NUMBER, device, "which device of the backend  [0]"),
    OPTION("--threads", "N", CLI_NUMBER, threads, "of a CPU  [all]"),
    {0}};

static const CliCommand command = {
    .name = "validate",
    .summary = "Runs a configuration twice, with predicted iteration times and with each batch\n"
               "really run by a backend, and prints how far the prediction is off.",
    .operands = "CONFIG",
    .min_operands = 1,
    .max_operands = 1,
    .options = options,
    .notes = "One device stands for all machines, one after another, and runs one shard: it has\n"
             "no all-reduces. Errors of iterations are of the batches that were really run.",
    .example = "tandem validate experiments/examples/quickstart.yaml --backend cuda \\\n"
               "    --set perfmodel=h200.yaml --set 'workload.duration=10 s'",
    .exit_codes = "0 done, 2 wrong usage, 3 bad input, or too large for the device,\n"
                  "  4 the environment lacks something, 130 interrupted",
};

enum { REPEATS_MAX = 100 };

static int check_usage(const Options *given) {
  if (!given->backend) return cli_usage(&command, "which backend? '--backend' is missing");
  if (given->repeats < 1 || given->repeats > REPEATS_MAX)
    return cli_usage(&command, "'--repeat' must be 1 to %d", REPEATS_MAX);
  if (given->threads > INT32_MAX || given->device > INT32_MAX)
    return cli_usage(&command, "no machine has so many of '--threads' or '--device'");
  return CLI_GO_ON;
}

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
                                  .device = {.device = (int32_t)given->device,
                                             .threads = (int32_t)given->threads,
                                             .seed = (uint64_t)(given->seed < 0 ? 1 : given->seed)},
                                  .repeats = given->repeats};
  Validation *validation = ARENA_NEW(arena, Validation);
  if (given->output && results_open(results, given->output, config->data_root, arena, diag))
    return EXIT_ENVIRONMENT;
  interrupt_catch();
  if (validate(validation, config, &wanted, arena, diag) ||
      store(validation, config, given, results, arena, diag))
    return EXIT_ENVIRONMENT;
  if (config->pools[0].tensor_parallel_size > 1)
    fprintf(stderr, "note: one shard of %lld was run, without all-reduces\n",
            (long long)config->pools[0].tensor_parallel_size);
  validate_print(validation, config, given->format, stdout);
  return EXIT_DONE;
}

int cmd_validate(int argc, char **argv) {
  Options given = {.seed = -1, .repeats = 1};
  const char *path = NULL;
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  int code = cli_parse(&command, argc, argv, &given, &path, &arena);
  if (code == CLI_GO_ON) code = check_usage(&given);
  if (code == CLI_GO_ON) {
    Config config;
    Results results = {0};
    const ConfigChanges changes = {
        .assignments = given.assignments.items, .seed = given.seed, .tie_seed = -1};
    code = config_load(&config, path, &changes, &arena, &diag)
               ? EXIT_INPUT
               : run(&config, &given, &results, &arena, &diag);
    results_close(&results);
    cli_interrupted(&command, &diag, "nothing of the runs is kept; the same command begins anew");
  }
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
