/* A backend that measures nothing: the roofline of a machine stated here, with noise, outliers, a
 * slow wave and ways to fail. It takes no real time, and serves to test all that is around a
 * backend. Its profiles carry a GPU of the name `fake-gpu` or `fake-cpu`, so that nobody takes them
 * for measurements.
 *
 * --device chooses: 0 a GPU, 1 a CPU, 2 a GPU too old for the kernels. TANDEM_FAKE, words between
 * spaces, makes it fail:
 *
 *   no-driver     opening fails            fail=N      the N-th point fails
 *   oom=UNITS     points of more work (tokens, sequences, KiB or pages) do not fit
 *   wrong=OP      this operator's results are wrong; wrong=wgmma: those of prefills by wgmma
 *   refuse=OP     this operator cannot be run
 *   no-cudnn      there is no attention by cuDNN
 *   wgmma=SHARE   there is attention by wgmma, whose prefills take this share of the others' time
 *   noise=SHARE   of samples (0.004)       outliers=SHARE  take half as long again (0.01)
 *   step=SHARE    everything is slower by this much after=N samples (400)
 *   pace=SECONDS  each sample really takes so long
 *   slow=OP       this operator takes by=SHARE (0.5) longer, less when it is negative, at its
 *                 points from=N (1) until=N (all)
 *   dip=SHARE     and meanwhile its clock is this share of the other (1)
 *   uuid=TEXT     another device of the same kind
 *   processes=N ecc=0|1 ecc-errors=N mig=0|1 pcie=LANES free=SHARE
 *                 what the GPU says of itself (1, 1, 0, 0, 16 of 16, 1)
 *   clock=MHZ throttle=BITS
 *                 and at each reading (1500 of 1500, 0) */
#include "base/rng.h"
#include "calib/backend.h"
#include "calib/model.h"
#include "calib/operators.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Machine {
  const char *name, *gpu;
  double flops, memory, link; // reached, per second
  double launch;              // seconds of the shortest kernel
  double gap;                 // between two kernels that no graph holds together
  int64_t memory_bytes, cache_bytes;
  int32_t sm, n_units;
} Machine;

static const Machine machines[] = {
    {"Fake GPU", "fake-gpu", 400e12, 1.6e12, 25e9, 2e-6, 4e-6, INT64_C(80) << 30, INT64_C(40) << 20,
     80, 100},
    {"Fake processor", "fake-cpu", 200e9, 20e9, 10e9, 1e-6, 0, INT64_C(8) << 30, INT64_C(16) << 20,
     0, 4},
    {"Fake old GPU", "fake-old-gpu", 100e12, 0.8e12, 12e9, 3e-6, 6e-6, INT64_C(32) << 30,
     INT64_C(6) << 20, 70, 80},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

typedef struct Fake {
  Arena arena;
  const Machine *machine;
  Rng rng;
  double noise, outliers, step, pace;
  int64_t step_at;
  int64_t oom_units, fail_at;
  const char *wrong, *refused;
  bool has_no_cudnn;
  double wgmma; // 0: there is none
  const char *slow;
  double slow_by;
  int64_t slow_from, slow_until, slow_points;
  CalibDevice device;
  double clock_mhz, dip;
  uint64_t throttle;

  CalibModel model;
  CalibOp op;     // of the prepared point
  double seconds; // of one of its runs
  bool is_slow;
  int64_t points, samples;
  double energy_j;
} Fake;

/* ---- Life ---- */

/* The text after "KEY=" among the words, up to the next space; NULL when it is not there. */
static const char *find_word(const char *words, const char *key, Arena *arena) {
  const size_t length = strlen(key);
  while (*words) {
    words += strspn(words, " ");
    const size_t word = strcspn(words, " ");
    if (word > length && strncmp(words, key, length) == 0 && words[length] == '=')
      return arena_copy(arena, words + length + 1, word - length - 1);
    words += word;
  }
  return NULL;
}

static double find_number(const char *words, const char *key, double fallback, Arena *arena) {
  const char *text = find_word(words, key, arena);
  return text ? strtod(text, NULL) : fallback;
}

static CalibSwitch find_switch(const char *words, const char *key, int fallback, Arena *arena) {
  return find_number(words, key, fallback, arena) > 0 ? CALIB_ON : CALIB_OFF;
}

/* A processor says less of itself. */
static CalibDevice make_device(const Machine *machine, const char *words, Arena *arena) {
  CalibDevice device = {.driver = "1.0",
                        .runtime = "1.0",
                        .library = "none",
                        .sm = machine->sm,
                        .n_units = machine->n_units,
                        .n_devices = 1,
                        .memory_bytes = machine->memory_bytes,
                        .free_bytes = machine->memory_bytes,
                        .cache_bytes = machine->cache_bytes};
  snprintf(device.name, sizeof device.name, "%s", machine->name);
  snprintf(device.gpu, sizeof device.gpu, "%s", machine->gpu);
  const char *number = find_word(words, "uuid", arena);
  snprintf(device.uuid, sizeof device.uuid, "FAKE-%.40s", number ? number : "0000");
  if (machine->sm == 0) return device;
  device.free_bytes =
      (int64_t)(find_number(words, "free", 1, arena) * (double)machine->memory_bytes);
  device.n_processes = (int32_t)find_number(words, "processes", 1, arena);
  device.ecc = find_switch(words, "ecc", 1, arena);
  device.mig = find_switch(words, "mig", 0, arena);
  device.ecc_errors = (int64_t)find_number(words, "ecc-errors", 0, arena);
  device.pcie_most = 16;
  device.pcie_width = (int32_t)find_number(words, "pcie", 16, arena);
  device.sm_clock_most_mhz = 1500;
  return device;
}

static void read_faults(Fake *self, const char *words, Arena *arena) {
  self->slow = find_word(words, "slow", arena);
  self->slow_by = find_number(words, "by", 0.5, arena);
  self->slow_from = (int64_t)find_number(words, "from", 1, arena);
  self->slow_until = (int64_t)find_number(words, "until", 1e9, arena);
  self->clock_mhz = find_number(words, "clock", 1500, arena);
  self->dip = find_number(words, "dip", 1, arena);
  self->throttle = (uint64_t)find_number(words, "throttle", 0, arena);
  self->device = make_device(self->machine, words, arena);
}

static CalibStatus fake_open(const CalibOptions *options, void **ret_state, char *error) {
  const char *words = getenv("TANDEM_FAKE");
  if (!words) words = "";
  if (strstr(words, "no-driver"))
    return calib_failed(CALIB_ENVIRONMENT, error, "no driver: it is told to have none");
  if (options->device < 0 || options->device >= N_MACHINES)
    return calib_failed(CALIB_ENVIRONMENT, error, "no device %d: there are %d",
                        (int)options->device, N_MACHINES);
  Arena arena;
  arena_init(&arena);
  Fake *self = ARENA_NEW(&arena, Fake);
  *self = (Fake){.machine = &machines[options->device],
                 .noise = find_number(words, "noise", 0.004, &arena),
                 .outliers = find_number(words, "outliers", 0.01, &arena),
                 .step = find_number(words, "step", 0, &arena),
                 .step_at = (int64_t)find_number(words, "after", 400, &arena),
                 .pace = find_number(words, "pace", 0, &arena),
                 .oom_units = (int64_t)find_number(words, "oom", 0, &arena),
                 .fail_at = (int64_t)find_number(words, "fail", 0, &arena),
                 .wrong = find_word(words, "wrong", &arena),
                 .refused = find_word(words, "refuse", &arena),
                 .has_no_cudnn = strstr(words, "no-cudnn") != NULL,
                 .wgmma = find_number(words, "wgmma", 0, &arena)};
  read_faults(self, words, &arena);
  rng_init(&self->rng, options->seed, "fake");
  self->arena = arena; // last: it owns all of the above
  *ret_state = self;
  return CALIB_OK;
}

static void fake_close(void *state) {
  Arena arena = ((Fake *)state)->arena; // it holds the state, too
  arena_done(&arena);
}

static void fake_describe(void *state, CalibDevice *ret_device) {
  *ret_device = ((Fake *)state)->device;
}

/* ---- Models ---- */

/* Bytes of weights: all layers, the embedding and the head. */
static double weight_bytes(const CalibModel *model) {
  const CalibPoint linear = {.op = CALIB_LINEAR, .size = 1}, head = {.op = CALIB_HEAD, .size = 1};
  return calib_work(model, &linear).bytes + 2 * calib_work(model, &head).bytes;
}

static bool fits(const Machine *machine, const CalibModel *model) {
  return weight_bytes(model) < 0.9 * (double)machine->memory_bytes;
}

static CalibStatus too_large(const Machine *machine, const CalibModel *model, char *error) {
  CalibModel smaller = *model;
  for (int32_t tp = 2 * model->tensor_parallel_size; tp <= 64; tp *= 2) {
    smaller.tensor_parallel_size = tp;
    if (model->num_attention_heads % tp == 0 && fits(machine, &smaller))
      return calib_failed(
          CALIB_REJECTED, error,
          "'%s' needs %.0f GB of weights, the device has %.0f GB; tensor_parallel_size %d fits",
          model->name, 1e-9 * weight_bytes(model), 1e-9 * (double)machine->memory_bytes, (int)tp);
  }
  smaller = *model;
  while (smaller.num_hidden_layers > 1 && !fits(machine, &smaller))
    smaller.num_hidden_layers--;
  return calib_failed(CALIB_REJECTED, error,
                      "'%s' needs %.0f GB of weights, the device has %.0f GB; %d layers fit",
                      model->name, 1e-9 * weight_bytes(model), 1e-9 * (double)machine->memory_bytes,
                      (int)smaller.num_hidden_layers);
}

static CalibStatus fake_load(void *state, const CalibModel *model, char *error) {
  Fake *self = state;
  if (self->has_no_cudnn && model->attention == CALIB_ATTENTION_CUDNN)
    return calib_failed(CALIB_ENVIRONMENT, error, "no attention by cuDNN: it is told to have none");
  if (self->wgmma <= 0 && model->attention == CALIB_ATTENTION_WGMMA)
    return calib_failed(CALIB_REJECTED, error, "no attention by wgmma: it is not told to have it");
  if (!fits(self->machine, model)) return too_large(self->machine, model, error);
  self->model = *model;
  return CALIB_OK;
}

/* ---- Points ---- */

static const char *fake_supports(void *state, const CalibPoint *point) {
  const Fake *self = state;
  if (calib_is_to_gpu(point->op)) return "needs several devices";
  if (self->machine->sm > 0) return NULL;
  if (point->mode == CALIB_EAGER) return "a CPU has no graphs";
  return point->busy ? "a processor has no second stream" : NULL;
}

/* What TANDEM_FAKE=oom compares: sequences and tokens of a batch, or the size, bytes in KiB. */
static int64_t units_of(const CalibPoint *point) {
  const BatchShape shape = calib_batch_shape(&point->batch);
  switch (calib_op_size(point->op)) {
  case CALIB_SIZE_batch:
    return shape.prefill_tokens + shape.decode_seqs;
  case CALIB_SIZE_bytes:
    return point->size / 1024;
  default:
    return point->size;
  }
}

static int kernels_of(const CalibModel *model, const CalibPoint *point) {
  enum { LINEAR_KERNELS = 8 }; // of a layer: four products, two norms, rotation, activation
  enum { MOE_KERNELS = 4 };    // more: the router's product, two of routing, the sum
  const int layers = model->num_hidden_layers;
  const int experts = model->num_experts > 0 ? MOE_KERNELS : 0;
  const int linear = layers * (LINEAR_KERNELS + experts) + 1, head = 3;
  const CalibBatch *batch = &point->batch;
  switch (point->op) {
  case CALIB_ITERATION: // the sum of its terms
    return linear + layers * ((batch->n_prefills > 0) + (batch->n_decodes > 0)) +
           (batch->n_logits > 0 ? head : 0);
  case CALIB_LINEAR:
    return linear;
  case CALIB_PREFILL_ATTENTION:
  case CALIB_DECODE_ATTENTION:
    return layers;
  case CALIB_HEAD:
    return head;
  default:
    return 1;
  }
}

static double run_seconds(const Fake *self, const CalibPoint *point) {
  const Machine *machine = self->machine;
  const CalibWork work = calib_work(&self->model, point);
  const double path = calib_is_to_host(point->op) ? machine->link
                      : point->hot                ? 3 * machine->memory
                                                  : machine->memory;
  const double gap = point->mode == CALIB_EAGER ? machine->gap : 0;
  double seconds = work.flops / machine->flops + work.bytes / path;
  seconds += kernels_of(&self->model, point) * (machine->launch + gap);
  if (point->op == CALIB_PREFILL_ATTENTION && self->model.attention == CALIB_ATTENTION_WGMMA)
    seconds *= self->wgmma;
  return point->busy ? 1.2 * seconds : seconds;
}

static CalibStatus check_refused(const Fake *self, CalibOp op, char *error) {
  if (!self->refused || strcmp(self->refused, calib_op_name(op)) != 0) return CALIB_OK;
  return calib_failed(CALIB_REJECTED, error, "'%s' is refused: it is told to", self->refused);
}

static CalibStatus fake_verify(void *state, CalibOp op, double *ret_error, char *error) {
  const Fake *self = state;
  *ret_error = 1e-3;
  const bool is_wgmma = op == CALIB_PREFILL_ATTENTION && self->wgmma > 0 &&
                        self->model.attention == CALIB_ATTENTION_WGMMA;
  if (self->wrong && strcmp(self->wrong, is_wgmma ? "wgmma" : calib_op_name(op)) == 0)
    return calib_failed(CALIB_WRONG, error, "'%s' is wrong by 0.5", self->wrong);
  return check_refused(self, op, error);
}

static CalibStatus fake_prepare(void *state, const CalibPoint *point, char *error) {
  Fake *self = state;
  if (++self->points == self->fail_at)
    return calib_failed(CALIB_ENVIRONMENT, error, "point %lld fails: it is told to",
                        (long long)self->points);
  if (self->oom_units > 0 && units_of(point) > self->oom_units)
    return calib_failed(CALIB_OUT_OF_MEMORY, error, "out of memory");
  if (check_refused(self, point->op, error)) return CALIB_REJECTED;
  self->op = point->op;
  self->seconds = run_seconds(self, point);
  self->is_slow = self->slow && strcmp(self->slow, calib_op_name(point->op)) == 0 &&
                  ++self->slow_points >= self->slow_from && self->slow_points <= self->slow_until;
  if (self->is_slow) self->seconds *= 1 + self->slow_by;
  return CALIB_OK;
}

/* A wave of 0.2% over 10,000 samples, as of a machine that warms and cools. */
static double wave(int64_t samples) {
  enum { PERIOD = 10000 };
  const double phase = (double)(samples % PERIOD) / PERIOD;
  return 1 + 0.002 * (4 * fabs(phase - 0.5) - 1);
}

static void wait_seconds(double seconds) {
  if (seconds <= 0) return;
  const struct timespec pause = {(time_t)seconds, (long)(1e9 * (seconds - (time_t)seconds))};
  nanosleep(&pause, NULL);
}

static CalibStatus fake_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  Fake *self = state;
  (void)error;
  const bool outlier = rng_uniform(&self->rng) < self->outliers;
  double seconds = self->seconds * wave(self->samples);
  seconds *= portable_exp(self->noise * rng_normal(&self->rng));
  if (outlier) seconds *= 1.5;
  if (++self->samples > self->step_at) seconds *= 1 + self->step;
  self->energy_j += 300 * seconds * repeats;
  wait_seconds(self->pace);
  *ret_seconds = seconds;
  return CALIB_OK;
}

static CalibStatus fake_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                  char *error) {
  const CalibPoint point = {.op = CALIB_ITERATION, .batch = *batch};
  const CalibStatus status = fake_prepare(state, &point, error);
  return status ? status : fake_measure(state, 1, ret_seconds, error);
}

static void fake_telemetry(void *state, CalibTelemetry *ret_telemetry) {
  const Fake *self = state;
  const bool is_gpu = self->machine->sm > 0;
  *ret_telemetry = calib_telemetry_unknown;
  ret_telemetry->throttle = self->throttle;
  if (is_gpu)
    *ret_telemetry = (CalibTelemetry){.sm_clock_mhz = self->is_slow ? self->dip * self->clock_mhz
                                                                    : self->clock_mhz,
                                      .mem_clock_mhz = 2000,
                                      .temperature_c = 40,
                                      .power_w = 300,
                                      .power_limit_w = 400,
                                      .energy_j = self->energy_j,
                                      .throttle = self->throttle};
  if (is_gpu && self->op >= CALIB_GEMM_QKV && self->op <= CALIB_GEMM_HEAD)
    snprintf(ret_telemetry->algorithm, sizeof ret_telemetry->algorithm, "algo %d of the fake",
             (int)self->op);
  const bool attends = self->op == CALIB_ITERATION || self->op == CALIB_PREFILL_ATTENTION ||
                       self->op == CALIB_DECODE_ATTENTION;
  if (attends && self->model.attention != CALIB_ATTENTION_OWN)
    snprintf(ret_telemetry->attn_kernel, sizeof ret_telemetry->attn_kernel, "%s of the fake",
             calib_attention_names[self->model.attention]);
}

const Backend backend_fake = {
    .name = "fake",
    .help = "simulated device with noise, for trials; measures nothing",
    .open = fake_open,
    .describe = fake_describe,
    .load = fake_load,
    .supports = fake_supports,
    .prepare = fake_prepare,
    .measure = fake_measure,
    .run_batch = fake_run_batch,
    .verify = fake_verify,
    .telemetry = fake_telemetry,
    .close = fake_close,
};
