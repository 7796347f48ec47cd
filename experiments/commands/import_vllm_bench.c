/* `tandem import vllm-bench FILE... -o DB`: what a benchmark client measured, beside what was
 * simulated. */
#include "base/text.h"
#include "experiments/benchmark/benchmark.h"
#include "experiments/commands/cli.h"

typedef struct Options {
  const char *output;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_TEXT("-o", output, "DB", "database of results to add to, made if missing"),
     .required = true},
    {0}};

static void tell(const Benchmark *run, const Results *results, int64_t number, Arena *arena) {
  char duration[32];
  printf("%s: run %lld: %s, %s", text_shown(results->path, arena), (long long)number,
         text_shown(run->model, arena), format_duration(run->run.wall_s, duration));
  if (run->n_requests > 0) printf(", %zu requests", run->n_requests);
  if (run->n_requests > 0 && run->requests[0].sent < 0)
    fputs(", without their times: the file has no 'start_times'", stdout);
  putchar('\n');
}

static int add_file(Results *results, const char *path, Arena *arena, Diag *diag) {
  Benchmark *runs = NULL;
  size_t n = 0;
  if (benchmark_load(path, &runs, &n, arena, diag)) return -1;
  for (size_t i = 0; i < n; i++) {
    int64_t number = 0;
    if (benchmark_store(&runs[i], results, arena, diag) ||
        results_ask(results, "SELECT max(id) FROM run", NULL, 0, &number, diag) < 0)
      return -1;
    tell(&runs[i], results, number, arena);
  }
  return 0;
}

static int run_import_vllm_bench(Cli *cli) {
  const Options *given = cli->given;
  Results results;
  if (results_open(&results, given->output, config_data_root(), cli->arena, cli->diag))
    return EXIT_INPUT;
  int status = 0;
  for (int i = 0; i < cli->n_operands && status == 0; i++)
    status = add_file(&results, cli->operands[i], cli->arena, cli->diag);
  results_close(&results);
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_import_vllm_bench = {
    .name = "import vllm-bench",
    .group = COMMANDS_MEASURE,
    .help = "add 'vllm bench serve' results to a database",
    .description =
        "Adds measured runs to a database of results, where they can be compared with simulated "
        "ones. Files of --save-result have the figures of runs, those of --save-detailed also "
        "their requests.",
    .operands = "FILE...",
    .arguments = (const CliTerm[]){{"FILE", "JSON file of 'vllm bench serve --save-result'"}, {0}},
    CLI_OPTIONS,
    .notes = "Figures have the names of simulated ones: ttft_s, tpot_s, tbt_s (ITL), e2e_s (E2EL), "
             "throughput_rps, output_tokens_per_s. Measured runs are never stale.",
    .examples = "tandem import vllm-bench openai-infqps-8B.json -o runs.db",
    .exits = {[EXIT_INPUT] = "the file is wrong"},
    .run = run_import_vllm_bench,
};
