/* `tandem doctor`: whether the device at hand is fit to measure on. */
#include "experiments/doctor/doctor.h"
#include "calib/backend_load.h"
#include "calib/model.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/commands/cli.h"
#include "experiments/config/config.h"
#include "perfmodel/gpu_facts.h"
#include <string.h>

typedef struct Options {
  const char *backend, *model, *machine, *attention;
  int64_t device, threads;
  Tick budget;
  int format;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN,
     CLI_TEXT("--backend", backend, "NAME",
              "backend to examine: cuda, cpu, llama, fake or ./program"),
     .listed = "backends", .fallback = "cuda"},
    {CLI_DEVICE},
    {CLI_TEXT("--model", model, "NAME", "model to time, or a GGUF file"), .listed = "models",
     .absent = "by the device"},
    {CLI_BUDGET("time limit; checks that were skipped count as missed", "120 s")},
    {CLI_FORMAT},
    {.group = "Device",
     CLI_MACHINE("machine type with the peak rates to compare with"),
     .absent = "by the name of the GPU"},
    {CLI_ATTENTION},
    {CLI_THREADS},
    {0}};

/* A backend, open, and what is looked at. */
typedef struct Patient {
  Cli *cli;
  const Options *given;
  Doctor doctor;
  OpenBackend open;
  Hardware machine;
  const Hardware *hardware; // NULL: not known
  CalibAttention attention;
} Patient;

/* ---- The device ---- */

static int open_backend(Patient *self, Diag *diag) {
  const CalibOptions open_options = {.device = (int32_t)self->given->device,
                                     .threads = (int32_t)self->given->threads,
                                     .seed = 1,
                                     .verify = true,
                                     .interrupted = &interrupt_signal};
  return backend_open(&self->open, self->given->backend, &open_options, place_of_file("--backend"),
                      diag);
}

/* The GPU's backend does not open: what this host lacks is looked at, and said first. */
static void examine_host(Patient *self, const Diag *why) {
  Diag *diag = self->cli->diag;
  const bool is_gpu = doctor_host(&self->doctor, "");
  if (!is_gpu) {
    diag_environment(diag, place_of_file(NULL), "there is no GPU that CUDA can use");
    diag_hint(diag, "'tandem doctor --backend cpu' checks the processor; 'perfmodel: roofline' "
                    "needs no measurements");
  }
  diag_append(diag, why);
}

static int open_device(Patient *self) {
  static const char GPU_BACKEND[] = "cuda";
  Diag why;
  diag_init(&why);
  const int status = open_backend(self, &why);
  if (status && why.entries[0].kind == DIAG_ENVIRONMENT &&
      strcmp(self->given->backend, GPU_BACKEND) == 0)
    examine_host(self, &why);
  else
    diag_append(self->cli->diag, &why);
  diag_done(&why);
  return status;
}

/* Peaks: those of --machine, which must be of this GPU, or of the first machine that has it. */
static int find_machine(Patient *self) {
  Arena *arena = self->cli->arena;
  const Place at = place_of_file("--machine");
  const char *name = self->given->machine;
  const char *data_dir = arena_printf(arena, "%s/perfmodel", config_data_root());
  if (!name) {
    if (gpu_facts_find(&self->machine, self->open.device.gpu, data_dir, arena))
      self->hardware = &self->machine;
    return 0;
  }
  if (hardware_load(&self->machine, name, data_dir, at, arena, self->cli->diag)) return -1;
  self->hardware = &self->machine;
  if (strcmp(self->machine.gpu, self->open.device.gpu) == 0) return 0;
  return diag_error(self->cli->diag, at, "'%s' describes the GPU '%s', but the device is '%s'",
                    self->machine.name, self->machine.gpu, self->open.device.gpu);
}

/* ---- Models ---- */

/* Shapes that between them have every kernel: head sizes, norms, positions, biases, experts,
 * weights of 8 bits. Those of large models are cut to shards of a few heads and to few columns,
 * because a reference takes as long as its weights are many. The last is timed: its product of
 * attention is one of 8192 × 8192. */
typedef struct Shape {
  const char *name;
  int32_t layers; // 0: all
  int32_t shards; // tensor_parallel_size; 0: 1
  CalibDtype dtype;
  CalibWeights weights;
  int32_t from, to; // compute capabilities that have products of these weights; 0: all
  bool has_alibi, is_cut;
} Shape;

static const Shape gpu_shapes[] = {
    {.name = "tiny-llama-50m", .layers = 2},
    {.name = "tiny-llama-50m", .layers = 2, .weights = CALIB_FP8, .from = 89, .to = INT32_MAX},
    {.name = "tiny-llama-50m", .layers = 2, .weights = CALIB_FP8_BLOCK, .from = 90, .to = 99},
    {.name = "tiny-moe", .layers = 2},
    {.name = "opt-13b", .layers = 1, .shards = 20, .dtype = CALIB_FP16, .is_cut = true},
    {.name = "bloom-176b", .layers = 1, .shards = 56, .has_alibi = true, .is_cut = true},
    {.name = "qwen3-32b", .layers = 1, .shards = 16, .is_cut = true},
    {.name = "llama2-70b", .layers = 2}};
static const Shape cpu_shapes[] = {{.name = "tiny-bloom", .dtype = CALIB_FP32},
                                   {.name = "tiny-llama-50m", .dtype = CALIB_FP32}};
enum {
  N_GPU_SHAPES = sizeof gpu_shapes / sizeof *gpu_shapes,
  N_CPU_SHAPES = sizeof cpu_shapes / sizeof *cpu_shapes,
};

/* What heads are like stays. */
static void cut(Llm *llm, int32_t shards) {
  enum { HIDDEN = 1024, MLP = 1024, VOCABULARY = 4096 };
  llm->hidden_size = HIDDEN;
  llm->intermediate_size = MLP * shards;
  llm->vocab_size = VOCABULARY * shards;
}

static const CalibModel *load_shape(Patient *self, const Shape *shape) {
  Arena *arena = self->cli->arena;
  const Place at = place_of_file("--model");
  const char *data_dir = arena_printf(arena, "%s/perfmodel", config_data_root());
  const CalibModelOptions model_options = {.dtype = shape->dtype,
                                           .weights = shape->weights,
                                           .attention = self->attention,
                                           .tensor_parallel_size =
                                               shape->shards > 0 ? shape->shards : 1,
                                           .layers = shape->layers};
  CalibModel *model = ARENA_NEW(arena, CalibModel);
  Llm llm;
  if (llm_load(&llm, shape->name, data_dir, at, arena, self->cli->diag)) return NULL;
  if (shape->is_cut) cut(&llm, model_options.tensor_parallel_size);
  if (calib_model_init(model, &llm, &model_options, at, arena, self->cli->diag)) return NULL;
  if (shape->is_cut) model->name = arena_printf(arena, "heads of %s", shape->name);
  if (shape->weights != CALIB_WEIGHTS_PLAIN)
    model->name = arena_printf(arena, "%s in %s", model->name, calib_weights_names[shape->weights]);
  return model;
}

/* Whether the device has products of its weights, and the attention its positions. */
static bool is_possible(const Patient *self, const Shape *shape) {
  if (shape->has_alibi && self->attention != CALIB_ATTENTION_OWN) return false;
  return shape->to == 0 ||
         (self->open.device.sm >= shape->from && self->open.device.sm <= shape->to);
}

/* [n + 1], ended by NULL: all shapes, or the one that the user wants. NULL on error. */
static const CalibModel **load_models(Patient *self, int *ret_n) {
  const bool is_cpu = self->open.device.sm == 0;
  const Shape own = {.name = self->given->model, .dtype = is_cpu ? CALIB_FP32 : CALIB_BF16};
  const Shape *shapes = self->given->model ? &own : is_cpu ? cpu_shapes : gpu_shapes;
  const int most = self->given->model ? 1 : is_cpu ? N_CPU_SHAPES : N_GPU_SHAPES;
  const CalibModel **models = ARENA_ARRAY(self->cli->arena, const CalibModel *, most + 1);
  int n = 0;
  for (int i = 0; i < most; i++)
    if (is_possible(self, &shapes[i]) && !(models[n++] = load_shape(self, &shapes[i]))) return NULL;
  models[n] = NULL;
  *ret_n = n;
  return models;
}

/* ---- Running ---- */

/* Attention of a library that is not there, or too old, is one check that is missed: the rest goes
 * on with the backend's own. */
static const CalibModel **load_possible(Patient *self, int *ret_n) {
  char error[CALIB_ERROR_SIZE] = "";
  const CalibModel **models = load_models(self, ret_n);
  if (!models || self->attention == CALIB_ATTENTION_OWN ||
      !self->open.table->load(self->open.state, models[0], error) || interrupt_signal)
    return models;
  doctor_add(&self->doctor, "results", "attention", DOCTOR_MISSED, error,
             "the other checks go on with the attention of the backend");
  self->attention = CALIB_ATTENTION_OWN;
  return load_models(self, ret_n);
}

static int examine(Patient *self) {
  int n = 0;
  Diag *diag = self->cli->diag;
  if (self->given->attention && calib_attention_find(&self->attention, self->given->attention,
                                                     place_of_file("--attention"), diag))
    return -1;
  doctor_device(&self->doctor, &self->open.device, self->hardware);
  const double began = clock_monotonic();
  interrupt_catch();
  const CalibModel **models = load_possible(self, &n);
  if (!models) return -1;
  DoctorJob job = {.backend = self->open.table,
                   .state = self->open.state,
                   .device = &self->open.device,
                   .hardware = self->hardware,
                   .model = models[n - 1],
                   .seconds = tick_seconds(self->given->budget),
                   .clock = clock_read_monotonic,
                   .began = began,
                   .interrupted = &interrupt_signal};
  models[n - 1] = NULL;
  job.others = models;
  return doctor_correct(&self->doctor, &job, diag) || doctor_bands(&self->doctor, &job, diag) ||
         doctor_kernels(&self->doctor, &job, diag);
}

static int run_doctor(Cli *cli) {
  Patient self = {.cli = cli, .given = cli->given};
  doctor_init(&self.doctor, cli->arena);
  const bool is_examined = open_device(&self) == 0 && find_machine(&self) == 0;
  const int status = is_examined ? examine(&self) : -1;
  backend_close(&self.open);
  if (self.doctor.n > 0) doctor_print(&self.doctor, (OutputFormat)self.given->format);
  if (cli->diag->n_entries > 0 && cli->diag->entries[0].kind == DIAG_INTERRUPTED)
    cli_interrupted(cli, "checks that were not made are not in the list");
  if (status) return EXIT_ENVIRONMENT; // the entries say more
  return doctor_verdict(&self.doctor) > DOCTOR_NOTED ? EXIT_NOT_MET : EXIT_DONE;
}

const Command command_doctor = {
    .name = "doctor",
    .group = COMMANDS_MEASURE,
    .help = "check whether this device is fit to measure on",
    .description =
        "Checks a device before 'tandem calibrate' uses it: its state, the result of every "
        "operator, its speed against the peak rates, and whether equal work takes equal time. "
        "Each missed check comes with advice.",
    .operands = "",
    CLI_OPTIONS,
    .notes = "If the backend does not open, the output names what is missing on this host.",
    .examples = "tandem doctor --backend cuda\ntandem doctor --backend cpu",
    .exits = {[EXIT_DONE] = "all checks passed",
              [EXIT_NOT_MET] = "a check was missed",
              [EXIT_ENVIRONMENT] = "there is no such device, or it failed"},
    .run = run_doctor,
};
