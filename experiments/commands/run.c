/* `tandem run CONFIG`: one configuration, simulated. */
#include "base/output.h"
#include "base/text.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/campaign/campaign.h"
#include "experiments/commands/caller.h"
#include "experiments/commands/study.h"
#include "sim/batcher/batcher.h"
#include "sim/books/saved_caches.h"
#include "sim/core/scheduler.h"

typedef struct Options {
  const Node *set;
  const char *output, *event_log, *save_cache, *caller;
  int format;
  int64_t seed, tie_seed; // -1: as in the file
  int64_t memory;         // 0: what is free
  double precision;       // 0: as in the file
  bool requests, step, audit, check, require_slo, strict, range;
} Options;

/* Those that every command has, and those of other programs. */
enum { FORMAT_VLLM = OUTPUT_JSON + 1, FORMAT_VLLM_JSON };
static const char *const run_formats[] = {"table", "csv", "json", "vllm", "vllm-json", NULL};

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_SET("pools.prefill.count=30")},
    {CLI_OUTPUT},
    {CLI_ROW("--format", CHOICE, format, "FORMAT", "output format"), .choices = run_formats,
     .fallback = "table"},
    {CLI_FLAG("--check", check, "check the configuration and stop")},
    {CLI_FLAG("--require-slo", require_slo,
              "exit with code 1 if an SLO limit was missed or not measured")},
    {.group = "How much is simulated", CLI_SEED},
    {CLI_TIE_SEED},
    {CLI_ROW("--precision", REAL, precision, "SHARE",
             "run until every requested figure has this precision, such as 5%"),
     .min = CONFIG_PRECISION_MIN, .max = CONFIG_PRECISION_MAX, .absent = "as configured"},
    {CLI_FLAG("--range", range,
              "run again with shorter and longer iteration times, moved by the error of the "
              "performance model")},
    {CLI_FLAG("--strict", strict,
              "fail if an iteration is outside the measured range of the performance model")},
    {CLI_MEMORY},
    {.group = "Files to write", CLI_FLAG("--requests", requests, "store every request in DB too")},
    {CLI_TEXT("--event-log", event_log, "FILE", "write all events with their times as CSV")},
    {CLI_TEXT("--save-cache", save_cache, "FILE",
              "write the contents of the prefix caches at the end of the run")},
    {.group = "Debugging", CLI_FLAG("--step", step, "simulate every iteration on its own")},
    {CLI_TEXT("--proposal-caller", caller, "IN,OUT,HOOKS",
              "ask for decisions of 'proposal: caller' on these descriptors, as tandem.run of "
              "Python does")},
    {CLI_FLAG("--audit", audit, "check the state of the simulator after every event")},
    {0}};

/* One run: what is open while it lasts. */
typedef struct Run {
  const Options *options;
  Config config;
  Results results;
  Output event_log, save_cache;
  SimResult result;
  Report report;
  MovedRuns moved;
  Caller asker;
  Arena *arena;
  Diag *diag;
} Run;

/* `other` is another file that is written. */
static int open_output(Run *run, Output *output, const char *option, const char *path,
                       const char *other) {
  const char *const inputs[] = {run->config.path, other ? other : run->options->output,
                                run->options->output, NULL};
  if (!path) return 0;
  if (output_check(path, inputs, run->diag) ||
      config_check_output(&run->config, option, path, run->arena, run->diag))
    return -1;
  return output_open(output, path, run->arena, run->diag);
}

static int open_outputs(Run *run) {
  const Options *given = run->options;
  if (given->save_cache && !config_keeps_caches(&run->config)) {
    diag_error(run->diag, place_of_file(run->config.path),
               "'--save-cache' needs a prefix cache, and no pool has one");
    config_hint_caching(run->diag);
    return -1;
  }
  if (given->save_cache &&
      config_check_blocks(&run->config, place_of_file(run->config.path), "--save-cache", run->diag))
    return -1;
  return open_output(run, &run->event_log, "--event-log", given->event_log, NULL) ||
                 open_output(run, &run->save_cache, "--save-cache", given->save_cache,
                             given->event_log)
             ? -1
             : 0;
}

static int open_files(Run *run) {
  const Options *given = run->options;
  if (config_open_trace(&run->config, run->arena, run->diag)) return -1;
  if (given->check) return 0;
  if (given->output &&
      results_open(&run->results, given->output, run->config.data_root, run->arena, run->diag))
    return -1;
  return open_outputs(run);
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
  return diag_hint(run->diag,
                   "without --strict such iterations are extrapolated and their share is reported");
}

/* Says what of the trace is left out, and where prefix caches can find nothing. */
static void note_trace(const Run *run, const TraceSource *trace) {
  if (trace->left_out && *trace->left_out > 0)
    fprintf(stderr, "%s: rows without a prompt or an output are omitted: %lld\n",
            text_shown(run->config.workload.trace, run->arena), (long long)*trace->left_out);
  if (!run->config.workload.trace || trace->names_tokens || !config_keeps_caches(&run->config))
    return;
  fprintf(stderr, "%s: requests share no tokens, because no row names its blocks\n",
          text_shown(run->config.workload.trace, run->arena));
}

/* What was asked for is written and whole, or there is an entry. */
static int end_outputs(Run *run) {
  if (run->event_log.file && output_commit(&run->event_log, run->diag)) return -1;
  if (!run->save_cache.file) return 0;
  if (saved_caches_save(&run->result, run->save_cache.file, place_of_file(run->config.path),
                        run->arena, run->diag))
    return -1;
  return output_commit(&run->save_cache, run->diag);
}

static int simulate(Run *run) {
  SimConfig *sim = &run->config.sim;
  Progress progress;
  progress_init(&progress, &run->config.workload);
  sim->step = run->options->step;
  sim->audit = run->options->audit;
  sim->event_log = run->event_log.file;
  sim->memory_limit = cli_memory(run->options->memory, 1);
  sim->keeps_batches = true;
  sim->on_progress = progress_update;
  sim->on_progress_context = &progress;
  if (run->options->output && run->options->requests) {
    sim->keeps_parts = true;
    sim->on_request = on_request;
    sim->on_request_context = &run->results;
  }
  if (run->options->caller) sim->interrupted = &run->asker.ends;
  interrupt_catch();
  int status =
      config_simulate(&run->config, sim, &run->result, &run->report, run->arena, run->diag);
  progress_done(&progress);
  if (caller_check(&run->asker, run->diag)) return -1;
  if (status == 0) status = end_outputs(run);
  if (status) return -1;
  note_trace(run, run->config.source);
  return 0;
}

/* The run itself stays as it is, and what is stored of it. */
static int move(Run *run) {
  if (!run->options->range) return 0;
  run->report.ranged = true;
  if (!(run->report.extrapolated.perfmodel_error > 0)) return 0;
  return moved_runs_make(&run->moved, &run->config, cli_memory(run->options->memory, MOVES),
                         &run->report, run->arena, run->diag);
}

static int store(Run *run) {
  uint64_t digest = 0;
  if (!run->options->output) return 0;
  if (config_digest(&run->config, &digest, run->diag)) return -1;
  return results_add_run(&run->results, &run->report, digest, run->arena, run->diag);
}

/* What engines filled in, so that nobody has to know their defaults. */
static void print_engines(const Config *config) {
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PoolConfig *pool = &config->pools[i];
    if (!pool->giver || !*pool->given) continue;
    fprintf(stderr, "note: pool '%s', GPUs %s of %.4g GiB: %s gives %s\n", pool->spec.name,
            pool->hardware.gpu, (double)pool->hardware.gpu_memory_bytes / 1073741824.0,
            pool->giver->name, pool->given);
  }
}

/* Whether requests may come without max_tokens, as far as is known before they do. */
static bool sends_none(const WorkloadConfig *workload) {
  bool none = workload->n_components == 0 && !workload->ignore_eos && workload->max_tokens == 0 &&
              !workload->reading.columns[TRACE_MAX_TOKENS];
  for (int i = 0; i < workload->n_components && !none; i++)
    none = sends_none(&workload->components[i].of);
  return none;
}

/* Memory that is reserved for outputs as long as the context leaves few requests at once. */
static void note_reservations(const Config *config) {
  for (uint32_t i = 0; i < config->sim.n_pools && sends_none(&config->workload); i++) {
    const PoolSpec *pool = &config->sim.pools[i];
    const PolicyChoice choice = sim_pool_policy(&config->sim, pool, POLICY_BATCHER);
    const Batcher *batcher = (const Batcher *)choice.policy;
    const bool no_evict = batcher->schedules && batcher->schedules(choice.state).no_evict;
    if (!no_evict && (!batcher->reserves_output || batcher->foresees_outputs)) continue;
    fprintf(stderr,
            "note: pool '%s' reserves KV memory for max_tokens, and without it for the rest of the "
            "context of %lld tokens: set workload.max_tokens or workload.ignore_eos\n",
            pool->name, (long long)sim_model(&config->sim, pool->model)->max_model_len);
  }
}

static void print_report(const Report *report, int format) {
  if (format == FORMAT_VLLM)
    report_print_vllm(report, stdout);
  else if (format == FORMAT_VLLM_JSON)
    report_print_vllm_json(report, stdout);
  else
    report_print(report, (OutputFormat)format, stdout);
}

static void note_answer(const Study *study, Arena *arena) {
  const Provision *provision = &study->provision;
  const DesignOutcome *outcome = &study->outcomes[study->best];
  fprintf(stderr, "note: the answer of the study is design '%s'",
          text_shown(outcome->design->name, arena));
  for (int i = 0; i < outcome->design->n_counts; i++)
    fprintf(stderr, "%s %s=%lld", i ? "" : " with", outcome->design->counts[i].key,
            (long long)outcome->answers[0].counts[i]);
  if (provision->offline)
    fprintf(stderr, ", %s", outcome->design->fits[outcome->answers[0].choice].label);
  fputc('\n', stderr);
}

/* Of a study the configuration is that of its best answer, which is searched for; how well it is to
 * be known is not what the search asks. */
static int load_answer(Run *run, const char *path, Node *root, const ConfigChanges *changes) {
  Study *study = ARENA_NEW(run->arena, Study);
  ConfigChanges searched = *changes;
  searched.precision = 0;
  int status = study_open(study, path, root, &searched, 0, run->options->memory,
                          cache_new(run->arena), run->arena, run->diag) ||
               study_search(study, NULL, false, false);
  if (status == 0 && study->best < 0) {
    study_explain(study);
    status = -1;
  }
  if (status == 0) {
    note_answer(study, run->arena);
    status = study_bind_answer(study, changes->precision, cache_new(run->arena), &run->config);
  }
  study_close(study);
  return status ? -1 : 0;
}

/* Whether it is a study once all is set: `provision=null` makes it a configuration again. */
static int is_study(Run *run, const Node *root, const ConfigChanges *changes) {
  if (!node_find(root, "provision")) return 0;
  Node *changed = node_copy(root, run->arena);
  if (config_change(changed, changes, run->arena, run->diag)) return -1;
  return node_find(changed, "provision") != NULL;
}

static int load(Run *run, const char *path) {
  const Options *given = run->options;
  const ConfigChanges changes = {.assignments = cli_texts(given->set, run->arena),
                                 .seed = given->seed,
                                 .tie_seed = given->tie_seed,
                                 .precision = given->precision};
  Node *root = config_tree(path, run->arena, run->diag);
  if (!root) return -1;
  const int study = is_study(run, root, &changes);
  if (study < 0) return -1;
  if (study) return load_answer(run, path, root, &changes);
  return config_bind(&run->config, path, root, &changes, NULL, run->arena, run->diag);
}

/* The exit code when `diag` stays empty. */
static int run_config(Run *run, const char *path) {
  const Options *given = run->options;
  if (given->caller && caller_open(&run->asker, given->caller, run->arena, run->diag))
    return EXIT_INPUT;
  if (load(run, path) || open_files(run)) return EXIT_INPUT;
  print_engines(&run->config);
  note_reservations(&run->config);
  config_note_perfmodels(run->config.cache, stderr);
  if (given->check) {
    fprintf(stderr, "%s: the configuration is valid\n", text_shown(path, run->arena));
    return EXIT_DONE;
  }
  if (simulate(run)) return EXIT_INPUT;
  const bool served = report_check_served(&run->report, run->diag) == 0;
  if (served && (check_strict(run) || move(run) || store(run))) return EXIT_INPUT;
  // whoever reads the other formats is a program, which wants them whole
  if (served || given->format != OUTPUT_TABLE) print_report(&run->report, given->format);
  if (!served) return EXIT_INPUT;
  return given->require_slo && !report_met(&run->report) ? EXIT_SLO_MISSED : EXIT_DONE;
}

static int run_run(Cli *cli) {
  const Options *given = cli->given;
  if (given->requests && !given->output) return cli_usage(cli, "'--requests' needs '--output'");
  if (given->caller && (given->output || given->range))
    return cli_usage(cli, "'--proposal-caller' excludes '--output' and '--range': nobody else can "
                          "repeat the run");
  if (given->range && given->format > OUTPUT_JSON)
    return cli_usage(cli, "'--range' needs the format table, csv or json");
  Run run = {.options = given, .arena = cli->arena, .diag = cli->diag};
  const int code = run_config(&run, cli->operands[0]);
  if (run.config.sim.trace) trace_close(run.config.sim.trace);
  output_drop(&run.event_log);
  output_drop(&run.save_cache);
  results_close(&run.results);
  caller_close(&run.asker);
  moved_runs_done(&run.moved);
  cli_interrupted(cli, "nothing of the run is kept; the same command starts again");
  return code;
}

const Command command_run = {
    .name = "run",
    .group = COMMANDS_SIMULATE,
    .help = "simulate one configuration",
    .description =
        "Simulates a cluster under a workload and prints latencies, throughput, utilization and "
        "cost. If CONFIG has a block 'provision', its best answer is searched for and simulated.",
    .operands = "CONFIG",
    .arguments =
        (const CliTerm[]){{"CONFIG", "configuration file (YAML), or - for standard input"}, {0}},
    CLI_OPTIONS,
    .examples = "tandem run experiments/examples/quickstart.yaml\n"
                "tandem run experiments/examples/quickstart.yaml --set pools.serve.count=2",
    .exits = {[EXIT_SLO_MISSED] = "an SLO limit was missed or not measured (--require-slo)",
              [EXIT_INPUT] = "the configuration is wrong, or no request was served"},
    .initial = &(const Options){.seed = -1, .tie_seed = -1},
    .run = run_run,
};
