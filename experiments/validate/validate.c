/* The backend as the simulator's clock. */
#include "experiments/validate/validate.h"
#include "calib/backend_load.h"
#include "calib/model.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/base/writer.h"
#include "experiments/campaign/campaign.h"
#include "experiments/validate/errors.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

/* What is open while runs are measured. */
typedef struct Meter {
  const Config *config;
  OpenBackend open;
  Progress progress;
  uint64_t finished; // requests
  ValidateRun *run;
  CalibSequence *sequences; // reused
  size_t capacity;
  Arena *arena;
} Meter;

/* ---- Opening ---- */

/* A backend holds one shard with one size of page: all pools must have these. */
static int check_pools(const Config *config, Diag *diag) {
  const Node *pools = node_find(config->root, "pools");
  int status = config_need_one_model(config, "'validate'", diag);
  for (uint32_t i = 1; i < config->sim.n_pools; i++) {
    const PoolSpec *first = &config->sim.pools[0], *pool = &config->sim.pools[i];
    const Place at = config_place(pools, pool->name);
    if (config->pools[i].tensor_parallel_size != config->pools[0].tensor_parallel_size)
      status = diag_error(diag, at,
                          "a device runs one shard, but pools '%s' and '%s' differ in "
                          "tensor_parallel_size, %lld and %lld",
                          first->name, pool->name, (long long)config->pools[0].tensor_parallel_size,
                          (long long)config->pools[i].tensor_parallel_size);
    if (pool->block_size != first->block_size)
      status = diag_error(diag, at,
                          "a device has one block size, but pools '%s' and '%s' differ in "
                          "block_size, %lld and %lld",
                          first->name, pool->name, (long long)first->block_size,
                          (long long)pool->block_size);
  }
  return status;
}

/* Those that the model was measured with. */
static CalibWeights weights_of(const PerfModel *model) {
  const int dtype = model->setup.weight_dtype;
  return dtype == DTYPE_FP8         ? CALIB_FP8
         : dtype == DTYPE_FP8_BLOCK ? CALIB_FP8_BLOCK
                                    : CALIB_WEIGHTS_PLAIN;
}

/* Processors have no 16-bit arithmetic worth measuring. */
static int make_model(CalibModel *ret_model, const Config *config, const ValidateOptions *options,
                      const CalibDevice *device, Arena *arena, Diag *diag) {
  const bool wide = device->sm == 0 || config->model.dtype_bytes == 4;
  CalibModelOptions shard = {.dtype = wide ? CALIB_FP32 : CALIB_BF16,
                             .weights = weights_of(config->sim.pools[0].perfmodel),
                             .tensor_parallel_size = (int32_t)config->pools[0].tensor_parallel_size,
                             .block_size = (int32_t)config->sim.pools[0].block_size};
  if (options->dtype &&
      calib_dtype_find(&shard.dtype, options->dtype, place_of_file("--dtype"), diag))
    return -1;
  if (options->attention && calib_attention_find(&shard.attention, options->attention,
                                                 place_of_file("--attention"), diag))
    return -1;
  return calib_model_init(ret_model, &config->model, &shard, config_place(config->root, "model"),
                          arena, diag);
}

static int refuse_device(const Meter *self, Place at, const CalibDevice *device, const char *what,
                         const char *wanted, Diag *diag) {
  diag_error(diag, at, "%s '%s', but the device of '%s' is '%s', a '%s'", what, wanted,
             self->open.table->name, device->name, device->gpu);
  diag_hint(diag, "'--any-device' runs nevertheless: errors are then those between two devices");
  return -1;
}

/* What is predicted must be what is run. Processors are all of one kind, and told apart by name. */
static int check_device(const Meter *self, const CalibDevice *device, Diag *diag) {
  const Config *config = self->config;
  const Node *pools = node_find(config->root, "pools");
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const Hardware *hardware = &config->pools[i].hardware;
    const PerfModel *model = config->sim.pools[i].perfmodel;
    const Place at = config_place(config->root, "perfmodel");
    if (strcmp(hardware->gpu, device->gpu) != 0)
      return refuse_device(self, config_place(pools, config->sim.pools[i].name), device,
                           arena_printf(self->arena, "the GPU of '%s' is", hardware->name),
                           hardware->gpu, diag);
    if (model->setup.gpu && strcmp(model->setup.gpu, device->gpu) != 0)
      return refuse_device(self, at, device,
                           arena_printf(self->arena, "the GPU of the model '%s' is", model->name),
                           model->setup.gpu, diag);
    if (device->sm == 0 && model->measured_on && strcmp(model->measured_on, device->name) != 0)
      return refuse_device(
          self, at, device,
          arena_printf(self->arena, "the model '%s' is for the processor", model->name),
          model->measured_on, diag);
  }
  return 0;
}

static int load_model(Meter *self, const ValidateOptions *options, Diag *diag) {
  CalibModel model;
  char error[CALIB_ERROR_SIZE] = "";
  const CalibDevice *device = &self->open.device;
  if (!options->any_device && check_device(self, device, diag)) return -1;
  if (make_model(&model, self->config, options, device, self->arena, diag)) return -1;
  const CalibStatus status = self->open.table->load(self->open.state, &model, error);
  if (!status) return 0;
  if (interrupt_signal) return diag_interrupted(diag);
  return backend_failed(status, error, config_place(self->config->root, "model"), diag);
}

/* Opens the device with the model on it; on failure nothing stays open. */
static int meter_open(Meter *self, const ValidateOptions *options, Diag *diag) {
  const Place at = place_of_file("--backend");
  if (check_pools(self->config, diag) ||
      backend_open(&self->open, options->backend, &options->device, at, diag))
    return -1;
  if (load_model(self, options, diag) == 0) return 0;
  backend_close(&self->open);
  return -1;
}

/* ---- Measuring ---- */

static const PerfModel *perfmodel_of(const Config *config, InstanceIx machine) {
  uint32_t pool = 0;
  while (machine >= config->sim.pools[pool].count)
    machine -= config->sim.pools[pool++].count;
  return config->sim.pools[pool].perfmodel;
}

static void keep(Meter *self, const ExecutorBatch *batch, double seconds, double spread) {
  ValidateRun *run = self->run;
  Extrapolation extrapolation;
  const PerfModel *model = perfmodel_of(self->config, batch->instance);
  const Tick predicted = perfmodel_iteration(model, &batch->shape, &extrapolation);
  ARENA_RESERVE(self->arena, run->iterations, run->capacity, run->n_iterations + 1);
  run->iterations[run->n_iterations++] = (ValidateIteration){
      batch->shape, seconds, tick_seconds(predicted), extrapolation != EXTRAPOLATION_NONE, spread};
}

static int run_batch(Meter *self, const CalibBatch *batch, const BatchShape *shape,
                     double *ret_seconds, Diag *diag) {
  char error[CALIB_ERROR_SIZE] = "", text[96];
  const CalibStatus status =
      self->open.table->run_batch(self->open.state, batch, ret_seconds, error);
  if (!status && *ret_seconds > 0) return 0;
  if (status && interrupt_signal) return diag_interrupted(diag); // it was not waited for
  format_batch(shape, text, sizeof text);
  if (!status)
    return diag_environment(diag, place_of_file("--backend"),
                            "the batch %s is predicted to take %g s", text, *ret_seconds);
  backend_failed(status, arena_printf(self->arena, "%s (running the batch %s)", error, text),
                 place_of_file("--backend"), diag);
  if (status == CALIB_OUT_OF_MEMORY)
    diag_hint(diag, "a smaller num_gpu_blocks_override or max_num_seqs makes smaller batches");
  return -1;
}

/* The median of some replays, which one interrupt does not move; `ret_spread` of them. */
static int replay_batch(Meter *self, const CalibBatch *batch, const BatchShape *shape,
                        double *ret_seconds, double *ret_spread, Diag *diag) {
  double seconds[VALIDATE_REPLAYS];
  for (int i = 0; i < VALIDATE_REPLAYS; i++)
    if (run_batch(self, batch, shape, &seconds[i], diag)) return -1;
  gsl_sort(seconds, 1, VALIDATE_REPLAYS);
  *ret_seconds = seconds[VALIDATE_REPLAYS / 2];
  *ret_spread = (seconds[VALIDATE_REPLAYS - 1] - seconds[0]) / *ret_seconds;
  return 0;
}

static Tick measure_iteration(void *context, const ExecutorBatch *batch, Diag *diag) {
  Meter *self = context;
  const int32_t n = batch->n_prefills + batch->n_decodes;
  double seconds = NAN, spread = NAN;
  ARENA_RESERVE(self->arena, self->sequences, self->capacity, (size_t)n);
  int64_t tokens = 0;
  for (int32_t i = 0; i < n; i++) {
    self->sequences[i] =
        (CalibSequence){batch->sequences[i].new_tokens, batch->sequences[i].past_tokens};
    tokens += batch->sequences[i].new_tokens;
  }
  if (tokens < batch->shape.prefill_tokens + batch->shape.decode_seqs)
    return diag_error(diag, place_of_file("--backend"),
                      "a batch is padded, which no backend can run");
  const CalibBatch calib = {.sequences = self->sequences,
                            .n_prefills = batch->n_prefills,
                            .n_decodes = batch->n_decodes,
                            .n_logits = (int32_t)batch->shape.logit_seqs};
  if (replay_batch(self, &calib, &batch->shape, &seconds, &spread, diag)) return -1;
  keep(self, batch, seconds, spread);
  const Tick ticks = tick_from_seconds(seconds);
  return ticks > 0 ? ticks : 1;
}

/* A request has finished: a real run is shown at each, there are not millions of them. */
static int count_request(void *context, const RequestRecord *record, const Metrics *so_far,
                         Diag *diag) {
  Meter *self = context;
  (void)so_far, (void)diag;
  progress_update(&self->progress, ++self->finished, record->last_token_at);
  return 0;
}

enum { PROBE_DECODES = 4 };

/* A prompt and a few decodes, which are run for their own sake. */
typedef struct Probes {
  CalibSequence whole, decodes[PROBE_DECODES];
  CalibBatch batches[2];
  BatchShape shapes[2];
} Probes;

static void make_probes(Probes *self, const Config *config) {
  enum { PROMPT = 128 };
  const int64_t longest = config->model.max_position_embeddings;
  const int32_t prompt = longest < 2 * PROMPT ? (int32_t)(longest + 1) / 2 : PROMPT;
  for (int i = 0; i < PROBE_DECODES; i++)
    self->decodes[i] = (CalibSequence){1, prompt - 1};
  self->whole = (CalibSequence){prompt, 0};
  self->batches[0] = (CalibBatch){&self->whole, 1, 0, 1};
  self->batches[1] = (CalibBatch){self->decodes, 0, PROBE_DECODES, PROBE_DECODES};
  self->shapes[0] = (BatchShape){prompt, (int64_t)prompt * prompt, 0, 0, 1};
  self->shapes[1] =
      (BatchShape){0, 0, PROBE_DECODES, (int64_t)PROBE_DECODES * prompt, PROBE_DECODES};
}

/* Medians of the times that each takes. */
static int time_probes(Meter *self, const Probes *probes, double ret_seconds[2], Diag *diag) {
  enum { TIMES = 21 };
  double seconds[TIMES];
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < TIMES; k++)
      if (run_batch(self, &probes->batches[i], &probes->shapes[i], &seconds[k], diag)) return -1;
    ret_seconds[i] = gsl_stats_median(seconds, 1, TIMES);
  }
  return 0;
}

/* Clocks rise and memory is mapped on first use: goes on until neither matters. */
static int warm_up(Meter *self, const Probes *probes, Diag *diag) {
  enum { ROUNDS_MIN = 3, ROUNDS_MAX = 200 };
  const double least_s = 0.3, began_s = clock_monotonic();
  double seconds;
  for (int round = 0; round < ROUNDS_MAX; round++) {
    if (round >= ROUNDS_MIN && clock_monotonic() - began_s >= least_s) break;
    for (int i = 0; i < 2; i++)
      if (run_batch(self, &probes->batches[i], &probes->shapes[i], &seconds, diag)) return -1;
  }
  return 0;
}

/* ---- Runs ---- */

static int predict(ValidateRun *run, Config *config, Arena *arena, Diag *diag) {
  Progress progress;
  progress_init(&progress, &config->workload);
  SimConfig sim = config->sim;
  sim.on_progress = progress_update;
  sim.on_progress_context = &progress;
  int status = config_simulate(config, &sim, &run->result, &run->report, arena, diag);
  progress_done(&progress);
  return status;
}

static int measure(ValidateRun *run, Meter *meter, Config *config, Diag *diag) {
  const Executor executor = {.context = meter, .iteration = measure_iteration};
  SimConfig sim = config->sim;
  meter->run = run;
  meter->finished = 0;
  progress_init(&meter->progress, &config->workload);
  sim.executor = &executor;
  sim.on_request = count_request;
  sim.on_request_context = meter;
  int status = config_simulate(config, &sim, &run->result, &run->report, meter->arena, diag);
  progress_done(&meter->progress);
  return status;
}

static double further(double a, double b) {
  return fabs(a) > fabs(b) ? a : b;
}

/* All measured runs, with the probes before and after them. */
static int measure_all(Validation *self, Meter *meter, Config *config, Diag *diag) {
  Probes probes;
  double before[2], after[2];
  make_probes(&probes, config);
  if (warm_up(meter, &probes, diag) || time_probes(meter, &probes, before, diag)) return -1;
  for (int64_t i = 0; i < self->n_measured; i++)
    if (measure(&self->measured[i], meter, config, diag)) return -1;
  if (time_probes(meter, &probes, after, diag)) return -1;
  self->drift = further(after[0] / before[0] - 1, after[1] / before[1] - 1);
  return 0;
}

int validate(Validation *self, Config *config, const ValidateOptions *options, Arena *arena,
             Diag *diag) {
  Meter meter = {.config = config, .arena = arena};
  *self = (Validation){.backend = options->backend,
                       .measured = ARENA_ARRAY(arena, ValidateRun, options->repeats),
                       .n_measured = options->repeats,
                       .within = options->within};
  if (meter_open(&meter, options, diag)) return -1;
  self->device = meter.open.device;
  int status = predict(&self->predicted, config, arena, diag);
  if (status == 0) status = measure_all(self, &meter, config, diag);
  backend_close(&meter.open);
  if (status == 0) validate_errors(self, arena);
  return status;
}
