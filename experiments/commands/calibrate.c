/* `tandem calibrate`: a profile, measured on the device at hand. */
#include "experiments/commands/calibrate.h"
#include "base/hash.h"
#include "base/text.h"
#include "calib/environment.h"
#include "calib/model.h"
#include "calib/operators.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/base/version.h"
#include "experiments/commands/cli.h"
#include "experiments/commands/fit_tables.h"
#include "experiments/config/config.h"
#include "experiments/doctor/doctor.h"
#include "experiments/results/results.h"
#include "perfmodel/datafile.h"
#include "perfmodel/gpu_facts.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Options {
  const Node *models;
  const char *tables, *backend, *degrees, *dtype, *weights, *attention, *output, *only, *machine;
  int64_t device, threads, layers, seed;
  Tick budget;
  bool resume, dry_run, no_verify;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN,
     CLI_TEXT("--backend", backend, "NAME",
              "backend that measures: cuda, cpu, llama, fake or ./program"),
     .listed = "backends", .absent = "cuda, or cpu without a GPU"},
    {CLI_ROW("--model", NODE, models, "NAME", "model to measure"), .listed = "models",
     .absent = "tiny-llama-50m on a CPU"},
    {CLI_TEXT("--tp", degrees, "LIST",
              "tensor-parallel degrees, such as 1,2,4; one shard of each is measured"),
     .fallback = "1"},
    {CLI_BUDGET("time limit; the most important points come first", "600 s")},
    {CLI_TEXT("-o", output, "FILE", "profile to write"), .absent = "GPU.csv"},
    {CLI_TEXT("--output", output, "FILE", "same as -o")},
    {CLI_TEXT("--tables", tables, "FOLDER",
              "then write tables of kernels, as 'tandem fit --tables' does")},
    {.group = "What is measured", CLI_DTYPE},
    {CLI_TEXT("--weights", weights, "FORMAT", "number format of the weights"),
     .choices = calib_weights_names + 1, .absent = "that of --dtype"},
    {CLI_ATTENTION},
    {CLI_COUNT("--layers", layers, "measure only the first N layers of the model", INT32_MAX),
     .absent = "all"},
    {CLI_TEXT("--only", only, "LIST", "measure only these operators, separated by commas")},
    {CLI_COUNT("--seed", seed, "random seed of the data and of the order of points", 1e19),
     .fallback = "1"},
    {CLI_FLAG("--no-verify", no_verify, "do not compare results with a reference")},
    {.group = "Running", CLI_DEVICE},
    {CLI_THREADS},
    {CLI_FLAG("--resume", resume, "continue an unfinished FILE")},
    {CLI_FLAG("--dry-run", dry_run, "print the plan and measure nothing")},
    {CLI_MACHINE("machine type to plan for without its GPU, with --dry-run"), .absent = "dgx-h100"},
    {0}};

static const char CPU_MODEL[] = "tiny-llama-50m", GPU_BACKEND[] = "cuda", CPU_BACKEND[] = "cpu",
                  PLANNED_MACHINE[] = "dgx-h100";

/* ---- Options ---- */

/* The next of "a,b,c", which moves on; NULL at the end. */
static const char *next_item(const char **list, Arena *arena) {
  if (!*list) return NULL;
  const size_t length = strcspn(*list, ",");
  const char *item = arena_copy(arena, *list, length);
  *list = (*list)[length] == ',' ? *list + length + 1 : NULL;
  return item;
}

static int read_ops(const char *list, bool ret_ops[CALIB_N_OPS], Arena *arena, Diag *diag) {
  int error = 0;
  for (const char *name; (name = next_item(&list, arena));) {
    int op = 0;
    while (op < CALIB_N_OPS && strcmp(calib_op_names[op], name) != 0)
      op++;
    if (op < CALIB_N_OPS) {
      ret_ops[op] = true;
      continue;
    }
    diag_error(diag, place_of_file("--only"), "unknown operator '%s'", name);
    error = diag_hint_near(diag, name, calib_op_names);
  }
  return error;
}

/* ---- The device ---- */

static CalibOptions backend_options(const Options *options, Arena *arena) {
  return (CalibOptions){.device = (int32_t)options->device,
                        .threads = (int32_t)options->threads,
                        .seed = (uint64_t)options->seed,
                        .verify = !options->no_verify,
                        .choices = cli_cache_folder(arena),
                        .interrupted = &interrupt_signal};
}

static int open_backend(Calibrate *self, const Options *options, const char *name, Diag *diag) {
  const CalibOptions open_options = backend_options(options, self->arena);
  return backend_open(&self->open, name, &open_options, place_of_file("--backend"), diag);
}

/* A machine in place of the device, for plans alone. */
static int plan_for(Calibrate *self, const char *machine, Diag *diag) {
  const char *data_dir = arena_printf(self->arena, "%s/perfmodel", config_data_root());
  if (hardware_load(&self->machine, machine, data_dir, place_of_file("--machine"), self->arena,
                    diag))
    return -1;
  self->hardware = &self->machine;
  self->open.device = (CalibDevice){.sm = (int32_t)self->machine.sm,
                                    .memory_bytes = self->machine.gpu_memory_bytes};
  snprintf(self->open.device.name, sizeof self->open.device.name, "%s", self->machine.name);
  snprintf(self->open.device.gpu, sizeof self->open.device.gpu, "%s", self->machine.gpu);
  return 0;
}

/* The GPU; without one, when nobody asks for it, the processor, and for a plan a machine. */
static int open_gpu(Calibrate *self, const Options *options, Diag *diag) {
  Diag none;
  diag_init(&none);
  int status = open_backend(self, options, GPU_BACKEND, &none);
  if (status && !options->backend && !options->models) {
    fprintf(stderr, "note: %s; the CPU is measured instead\n", none.entries[0].message);
    status = open_backend(self, options, CPU_BACKEND, diag);
  } else if (status && options->dry_run && options->models) {
    fprintf(stderr, "note: %s; the plan is for '%s', '--machine' chooses another\n",
            none.entries[0].message, PLANNED_MACHINE);
    status = plan_for(self, PLANNED_MACHINE, diag);
  } else if (status) {
    diag_append(diag, &none);
    if (!none.entries[0].hint)
      diag_hint(diag, "without a GPU, '--backend cpu' measures the CPU, '--dry-run --machine "
                      "dgx-h100' plans, and 'perfmodel: roofline' needs no measurements");
  }
  diag_done(&none);
  return status;
}

static int open_device(Calibrate *self, const Options *options, Diag *diag) {
  const bool gpu = !options->backend || strcmp(options->backend, GPU_BACKEND) == 0;
  if (gpu ? open_gpu(self, options, diag) : open_backend(self, options, options->backend, diag))
    return -1;
  const char *data_dir = arena_printf(self->arena, "%s/perfmodel", config_data_root());
  if (!self->hardware &&
      gpu_facts_find(&self->machine, self->open.device.gpu, data_dir, self->arena))
    self->hardware = &self->machine;
  if (self->hardware && self->open.device.sm == 0) // of an engine that does not say it
    self->open.device.sm = (int32_t)self->hardware->sm;
  return 0;
}

/* What of it 'tandem doctor' would miss: times are then not those of a GPU in order. */
static void warn_of_device(const Calibrate *self) {
  Doctor doctor;
  if (*self->open.device.note)
    fprintf(stderr, "note: %s\n", text_shown(self->open.device.note, self->arena));
  doctor_init(&doctor, self->arena);
  doctor_company(&doctor, &self->open.device);
  for (size_t i = 0; i < doctor.n; i++)
    if (doctor.checks[i].verdict == DOCTOR_MISSED)
      fprintf(stderr, "warning: %s: %s; %s\n", doctor.checks[i].name, doctor.checks[i].found,
              doctor.checks[i].advice);
}

/* ---- Groups ---- */

/* Rows of two such groups could not be told apart. */
static int check_group_is_new(const Calibrate *self, const CalibModel *model, Diag *diag) {
  for (size_t i = 0; i < self->n_groups; i++) {
    const CalibModel *other = &self->groups[i].model;
    if (other->tensor_parallel_size != model->tensor_parallel_size ||
        strcmp(other->name, model->name) != 0)
      continue;
    return diag_error(diag, place_of_file("--model"),
                      "model '%s' with tensor_parallel_size %d is given twice", model->name,
                      (int)model->tensor_parallel_size);
  }
  return 0;
}

static int add_group(Calibrate *self, const Llm *llm, const CalibModelOptions *model_options,
                     const Options *options, Diag *diag) {
  CalibrateGroup group = {.rejected = false};
  const bool whole = self->open.table && self->open.table->whole;
  const PlanOptions plan_options = {.grid = whole ? grid_whole : NULL,
                                    .only = options->only ? self->only : NULL,
                                    .seed = (uint64_t)options->seed};
  if (calib_model_init(&group.model, llm, model_options, place_of_file("--model"), self->arena,
                       diag) ||
      check_group_is_new(self, &group.model, diag))
    return -1;
  plan_init(&group.plan, &group.model, &self->open.device, &plan_options, self->arena);
  ARENA_RESERVE(self->arena, self->groups, self->capacity, self->n_groups + 1);
  self->groups[self->n_groups++] = group;
  return 0;
}

static int read_degree(const char *text, int32_t *ret_degree, Diag *diag) {
  char *end = NULL;
  const long degree = strtol(text, &end, 10);
  if (end == text || *end || degree < 1 || degree > 1024)
    return diag_error(diag, place_of_file("--tp"), "'%s' must be a number from 1 to 1024", text);
  *ret_degree = (int32_t)degree;
  return 0;
}

/* A model with each of the degrees. */
static int add_model(Calibrate *self, const char *name, CalibModelOptions *model_options,
                     const Options *options, Diag *diag) {
  Llm llm;
  int error = 0;
  const char *data_dir = arena_printf(self->arena, "%s/perfmodel", config_data_root());
  if (llm_load(&llm, name, data_dir, place_of_file("--model"), self->arena, diag)) return -1;
  const char *list = options->degrees;
  for (const char *text; (text = next_item(&list, self->arena));)
    error |= read_degree(text, &model_options->tensor_parallel_size, diag) ||
             add_group(self, &llm, model_options, options, diag);
  return error;
}

static int make_groups(Calibrate *self, const Options *options, CalibDtype *ret_dtype, Diag *diag) {
  const bool is_cpu = self->open.device.sm == 0;
  CalibModelOptions model_options = {.dtype = is_cpu ? CALIB_FP32 : CALIB_BF16,
                                     .layers = (int32_t)options->layers};
  int error = 0;
  if (options->dtype &&
      calib_dtype_find(&model_options.dtype, options->dtype, place_of_file("--dtype"), diag))
    return -1;
  if (options->weights && calib_weights_find(&model_options.weights, options->weights,
                                             place_of_file("--weights"), diag))
    return -1;
  if (options->attention && calib_attention_find(&model_options.attention, options->attention,
                                                 place_of_file("--attention"), diag))
    return -1;
  *ret_dtype = model_options.dtype;
  if (!options->models && is_cpu) return add_model(self, CPU_MODEL, &model_options, options, diag);
  for (const Node *model = options->models->first; model; model = model->next)
    error |= add_model(self, model->text, &model_options, options, diag);
  return error;
}

static uint64_t digest_plans(const Calibrate *self) {
  uint64_t digest = 0;
  for (size_t i = 0; i < self->n_groups; i++)
    digest = hash_fold(digest, self->groups[i].plan.digest);
  return digest;
}

/* ---- The profile ---- */

static void begin_facts(const Calibrate *self, const Options *options, CalibDtype dtype,
                        Profile *profile) {
  const char *names[] = {CPU_MODEL, NULL};
  CalibTelemetry idle;
  self->open.table->telemetry(self->open.state, &idle);
  const EnvironmentRun run = {
      .version = tandem_version,
      .commit = tandem_commit,
      .backend = self->open.table->name,
      .models = datafile_join(options->models ? cli_texts(options->models, self->arena) : names,
                              self->arena),
      .degrees = options->degrees,
      .dtype = dtype,
      .options = backend_options(options, self->arena),
      .plan = digest_plans(self),
      .budget_seconds = tick_seconds(options->budget)};
  environment_begin(profile, &run, &self->open.device, &idle);
  if (self->groups[0].model.weights != CALIB_WEIGHTS_PLAIN)
    profile_set_fact(profile, "weight_dtype", calib_weights_names[self->groups[0].model.weights]);
  if (self->groups[0].model.attention != CALIB_ATTENTION_OWN)
    profile_set_fact(profile, "attention", calib_attention_names[self->groups[0].model.attention]);
}

static void go_on(const Calibrate *self, const Profile *profile) {
  for (size_t g = 0; g < self->n_groups; g++) {
    CalibrateGroup *group = &self->groups[g];
    const ProfileGroup key = {.model = group->model.name,
                              .gpu = self->open.device.gpu,
                              .tensor_parallel_size = group->model.tensor_parallel_size};
    plan_go_on(&group->plan, profile, &key);
  }
}

/* Another device of the kind may go on: anchors say how far the two differ. */
static void note_machine(Profile *found, const Profile *now) {
  static const char HASH[] = "gpu_uuid_hash";
  const char *was = profile_fact(found, HASH), *is = profile_fact(now, HASH);
  if (!was || !is || strstr(was, is)) return;
  fprintf(stderr,
          "note: '%s' was begun on another GPU of this kind; the drift of the anchors "
          "between the two is reported\n",
          found->path);
  profile_set_fact(found, HASH, arena_printf(found->arena, "%s, %s", was, is));
}

/* The rows to go on from: none, or those of a run of the same plan on the same device. */
static int begin_profile(const Calibrate *self, const Options *options, const char *path,
                         Profile *profile, Diag *diag) {
  struct stat status;
  if (stat(path, &status) || !S_ISREG(status.st_mode) || status.st_size == 0) return 0;
  if (!options->resume) {
    diag_error(diag, place_of_file(path), "the profile already exists");
    return diag_hint(diag, "continue it with '--resume', or choose another name");
  }
  Profile found;
  if (profile_load(&found, path, self->arena, diag) || environment_check(&found, profile, diag))
    return -1;
  go_on(self, &found);
  note_machine(&found, profile);
  profile_set_fact(&found, "resumed", profile_fact(profile, "date"));
  *profile = found;
  return 0;
}

/* ---- Measuring ---- */

/* Loads a group's model. One that is too large leaves an entry; the others go on. */
static CalibStatus load_group(Calibrate *self, CalibrateGroup *group, Diag *diag) {
  char error[CALIB_ERROR_SIZE] = "";
  const CalibStatus status = self->open.table->load(self->open.state, &group->model, error);
  if (status && interrupt_signal) return status;
  if (!status) {
    plan_waive(&group->plan, self->open.table, self->open.state, self->arena);
    return status;
  }
  group->rejected = true;
  if (status == CALIB_REJECTED || status == CALIB_OUT_OF_MEMORY)
    diag_error(diag, place_of_file("--model"), "%s", error);
  else
    backend_failed(status, error, place_of_file(NULL), diag);
  return status;
}

/* A point on a GPU runs until a reading of power, a mean over 0.1 s, is its own, if there is time.
 */
static SampleLimits limits_of(const Calibrate *self) {
  SampleLimits limits = sample_limits_default;
  if (self->open.device.sm > 0) limits.min_seconds = 0.15;
  return limits;
}

/* All groups one after the other, each with its share of the time that is left. */
static void measure_groups(Calibrate *self, const Options *options, Recorder *recorder,
                           HarnessReport *report, Diag *diag) {
  const double end = clock_monotonic() + tick_seconds(options->budget);
  CalibrateProgress progress = {.shown = false};
  HarnessOptions harness = harness_options_default();
  harness.limits = limits_of(self);
  if (self->open.device.sm == 0) harness.drift = 0.05; // a processor has other work too
  harness.verify = !options->no_verify;
  harness.interrupted = &interrupt_signal;
  harness.clock = clock_read_monotonic;
  harness.progress = calibrate_show;
  harness.progress_context = &progress;
  bool goes_on = true;
  for (size_t i = 0; i < self->n_groups && goes_on && !interrupt_signal; i++) {
    CalibrateGroup *group = &self->groups[i];
    const CalibStatus status = load_group(self, group, diag);
    goes_on = status != CALIB_ENVIRONMENT;
    if (!goes_on) report->end = interrupt_signal ? HARNESS_INTERRUPTED : HARNESS_FAILED;
    if (status) continue;
    harness.seconds = (end - clock_monotonic()) / (double)(self->n_groups - i);
    progress.group = group;
    const HarnessJob job = {.backend = self->open.table,
                            .state = self->open.state,
                            .model = &group->model,
                            .device = &self->open.device,
                            .hardware = self->hardware,
                            .plan = &group->plan,
                            .recorder = recorder,
                            .arena = self->arena};
    goes_on = harness_run(&job, &harness, report, diag) == 0;
  }
  calibrate_hide(&progress);
}

static void report_wrong(const HarnessReport *report, Diag *diag) {
  for (int op = 0; op < CALIB_N_OPS; op++)
    if (report->wrong[op])
      diag_environment(diag, place_of_file(NULL), "operator '%s' gives wrong results: %s",
                       calib_op_name((CalibOp)op), report->wrong[op]);
}

static int measure_into(Calibrate *self, const Options *options, CalibDtype dtype, const char *path,
                        Diag *diag) {
  Profile profile;
  Recorder recorder;
  HarnessReport report = {.end = HARNESS_DONE};
  profile_init(&profile, path, self->arena);
  begin_facts(self, options, dtype, &profile);
  if (begin_profile(self, options, path, &profile, diag)) return EXIT_INPUT;
  profile_set_fact(&profile, "finished", "no"); // until environment_end
  warn_of_device(self);
  interrupt_catch();
  if (recorder_open(&recorder, path, &profile, diag)) return EXIT_ENVIRONMENT;
  measure_groups(self, options, &recorder, &report, diag);
  environment_end(&recorder.profile, &report);
  if (recorder.profile.n_rows > 0) recorder_save(&recorder, diag);
  recorder_close(&recorder, diag);
  report_wrong(&report, diag);
  calibrate_print_summary(self, &report, path);
  if (recorder.profile.n_rows == 0 && !interrupt_signal && diag->n_entries == 0)
    diag_error(diag, place_of_file("--budget"), "no point fits in %g s",
               tick_seconds(options->budget));
  if (report.no_memory > 0)
    fprintf(stderr, "tandem calibrate: %lld points do not fit in memory and are omitted\n",
            (long long)report.no_memory);
  if (report.end == HARNESS_BUDGET || report.end == HARNESS_INTERRUPTED)
    fprintf(stderr, "tandem calibrate: %s, %lld points left; '--resume' continues\n",
            environment_end_name(report.end), (long long)report.left);
  return interrupt_signal ? 128 + (int)interrupt_signal : EXIT_DONE;
}

/* Alone with the file; pipes and devices take rows from anybody. */
static int measure(Calibrate *self, const Options *options, CalibDtype dtype, Diag *diag) {
  const char *path = options->output;
  if (!path) path = arena_printf(self->arena, "%s.csv", self->open.device.gpu);
  ResultsLock lock = {.file = -1};
  struct stat status;
  const bool is_file = stat(path, &status) != 0 || S_ISREG(status.st_mode);
  if (is_file && results_lock_file(&lock, path, "calibration", self->arena, diag))
    return EXIT_INPUT;
  int code = measure_into(self, options, dtype, path, diag);
  results_unlock(&lock);
  if (options->tables && code == EXIT_DONE && diag->n_entries == 0)
    code = fit_tables(&path, 1, options->tables, OUTPUT_TABLE, self->arena, diag);
  return code;
}

static int show_plan(Calibrate *self, const Options *options, Diag *diag) {
  const SampleLimits limits = limits_of(self);
  for (size_t i = 0; i < self->n_groups && self->open.table; i++)
    load_group(self, &self->groups[i], diag);
  calibrate_print_plan(self, &limits, tick_seconds(options->budget));
  return EXIT_DONE;
}

static int run_calibrate(Cli *cli) {
  const Options *given = cli->given;
  Diag *diag = cli->diag;
  Calibrate self = {.arena = cli->arena};
  CalibDtype dtype;
  int code = EXIT_ENVIRONMENT; // of a device or model that fails the entries say more
  if (given->machine && !given->dry_run) return cli_usage(cli, "'--machine' needs '--dry-run'");
  if (read_ops(given->only, self.only, cli->arena, diag) ||
      (given->machine ? plan_for(&self, given->machine, diag) : open_device(&self, given, diag)))
    code = EXIT_INPUT;
  else if (!given->models && self.open.device.sm > 0)
    code = cli_usage(cli, "a GPU needs '--model NAME'");
  else if (make_groups(&self, given, &dtype, diag) == 0)
    code = given->dry_run ? show_plan(&self, given, diag) : measure(&self, given, dtype, diag);
  backend_close(&self.open);
  return code;
}

const Command command_calibrate = {
    .name = "calibrate",
    .group = COMMANDS_MEASURE,
    .help = "measure the operators of a model on this device",
    .description =
        "Times the operators of a model on a GPU or CPU and writes a profile, from which 'tandem "
        "fit' makes a performance model. Measuring stops when the budget is spent.",
    .operands = "",
    CLI_OPTIONS,
    .notes = "'tandem doctor' shows whether the device is fit to measure on.",
    .examples = "tandem calibrate --backend cuda --model llama2-70b --tp 1,2,4,8 -o h200.csv\n"
                "tandem calibrate --model llama3.1-8b --tables perfmodel/tables\n"
                "tandem calibrate --model llama2-70b --dry-run --machine dgx-h100",
    .exits = {[EXIT_DONE] = "success, also if the budget ended before the plan"},
    .run = run_calibrate,
};
