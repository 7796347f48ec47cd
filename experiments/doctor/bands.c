/* Four points, each once, doubled and once more, and what follows from their times.
 *
 * All are long against a launch and larger than the last-level cache, so that twice the work is
 * twice the work. Between the two readings of a point are those of all others. */
#include "calib/environment.h"
#include "calib/operators.h"
#include "calib/sampling.h"
#include "calib/verify.h"
#include "experiments/doctor/doctor.h"
#include <math.h>

static const char SPEED[] = "speed", TWICE[] = "twice", AGAIN[] = "again", CLOCK[] = "clock",
                  RESULTS[] = "results";

static const double SHARE_OF_RESULTS = 0.7; // of the time, with what correct.c takes
/* What the limit of power adds to a band of times on either side: on an H100 that was alone and in
 * order, equal products took 0.94 of the first time and doubled ones 2.13. */
static const double POWER_CAPPED = 0.08;

enum { COPY, GEMM, DECODE, PREFILL, SUBJECTS };

typedef enum Reading { ONCE, DOUBLED, ONCE_MORE, READINGS } Reading;

typedef struct Subject {
  const char *name, *advice;
  CalibPoint points[2]; // ONCE, DOUBLED
  bool of_memory;       // its peak is that of memory, else of products
  double least;         // share of its peak; NAN: none is known
  bool is_proportional; // twice the work, twice the time
  Sampled readings[READINGS];
  bool is_measured; // all of them
} Subject;

typedef struct Bands {
  Doctor *doctor;
  const DoctorJob *job;
  Subject subjects[SUBJECTS];
  int n;
  double spread; // that half of a quiet device's samples stay within
  double repeat; // that two readings may differ by
} Bands;

/* ---- Points ---- */

static CalibPoint sized(CalibOp op, int64_t size) {
  return (CalibPoint){.op = op, .size = size};
}

static CalibPoint batched(const Bands *self, CalibOp op, int32_t n, CalibSequence sequence) {
  CalibSequence *sequences = ARENA_ARRAY(self->doctor->arena, CalibSequence, n);
  for (int32_t i = 0; i < n; i++)
    sequences[i] = sequence;
  const bool is_decode = op == CALIB_DECODE_ATTENTION || sequence.past_tokens > 0;
  return (CalibPoint){.op = op,
                      .batch = {.sequences = sequences,
                                .n_prefills = is_decode ? 0 : n,
                                .n_decodes = is_decode ? n : 0,
                                .n_logits = op == CALIB_ITERATION ? n : 0}};
}

/* Contexts of `n` decodes whose KV in one layer passes the cache four times, and 64 MiB. */
static int32_t context_of(const Bands *self, int32_t n) {
  enum { PAGE = 16, LEAST = 1024 };
  const CalibModel *model = self->job->model;
  const double of_token = 2.0 * calib_kv_heads(model) * model->head_dim * 2; // bf16
  const double bytes = fmax(0x1p26, 4.0 * (double)self->job->device->cache_bytes);
  const double pages = ceil(bytes / (of_token * n * PAGE));
  return (int32_t)fmax(LEAST, PAGE * pages);
}

/* Each subject once and at twice the size: bytes copied, rows of a matrix, decodes, prompts. */
static void set_points(Bands *self, int64_t copied, CalibOp gemm, int64_t rows, int32_t decodes,
                       int32_t context, int32_t prompt) {
  Subject *subjects = self->subjects;
  for (int i = ONCE; i <= DOUBLED; i++) {
    const int32_t times = i == ONCE ? 1 : 2;
    subjects[COPY].points[i] = sized(CALIB_COPY_D2D, times * copied);
    subjects[GEMM].points[i] = sized(gemm, times * rows);
    subjects[DECODE].points[i] =
        batched(self, CALIB_DECODE_ATTENTION, times * decodes, (CalibSequence){1, context - 1});
    subjects[PREFILL].points[i] =
        batched(self, CALIB_PREFILL_ATTENTION, times, (CalibSequence){prompt, 0});
  }
}

static void set_gpu_points(Bands *self) {
  enum { DECODES = 64 };
  set_points(self, INT64_C(1) << 29, CALIB_GEMM_O, 8192, DECODES, context_of(self, DECODES), 8192);
}

static void set_cpu_points(Bands *self) {
  set_points(self, INT64_C(1) << 26, CALIB_GEMM_UP, 2048, 8, 2048, 512);
}

/* Of an engine that runs whole iterations, which are not proportional to anything. */
static void set_whole(Bands *self) {
  enum { DECODES = 4, CONTEXT = 128, PROMPT = 128 };
  const CalibSequence decode = {1, CONTEXT - 1}, prompt = {PROMPT, 0};
  self->n = 2;
  self->subjects[0] = (Subject){.name = "decode iteration", .least = NAN};
  self->subjects[1] = (Subject){.name = "prefill iteration", .least = NAN};
  self->subjects[0].points[ONCE] = batched(self, CALIB_ITERATION, DECODES, decode);
  self->subjects[1].points[ONCE] = batched(self, CALIB_ITERATION, 1, prompt);
}

/* Of peaks: what these kernels reach on A100 and H100 in order; of later GPUs nobody knows what
 * prefill without their own instructions comes to. */
static void set_subjects(Bands *self) {
  const int sm = (int)self->job->device->sm;
  const bool is_wgmma = self->job->model->attention == CALIB_ATTENTION_WGMMA;
  if (self->job->backend->whole) {
    set_whole(self);
    return;
  }
  self->n = SUBJECTS;
  self->subjects[COPY] = (Subject){
      .name = "copy",
      .of_memory = true,
      .least = 0.85,
      .advice = "memory is slow: look for other processes, a low memory clock ('nvidia-smi -q -d "
                "CLOCK') or MIG; the machine file may describe another GPU"};
  self->subjects[GEMM] =
      (Subject){.name = sm > 0 ? "gemm 8192" : "gemm",
                .least = 0.70,
                .advice = "matrix products are slow: look for a power limit or a clock setting "
                          "('nvidia-smi -q -d POWER,CLOCK'), heat, or an old cuBLASLt"};
  self->subjects[DECODE] = (Subject){.name = "decode",
                                     .of_memory = true,
                                     .least = 0.75,
                                     .advice = "if 'copy' is normal, decode attention is slow on "
                                               "this GPU: do not fit an engine to its rows"};
  self->subjects[PREFILL] = (Subject){.name = sm > 0 ? "prefill 8k" : "prefill",
                                      .least = sm > 90                 ? (double)NAN
                                               : sm == 90 && !is_wgmma ? 0.30
                                                                       : 0.50,
                                      .advice = "if 'gemm' is normal, prefill attention is slow on "
                                                "this GPU: do not fit an engine to its rows"};
  for (int i = 0; i < SUBJECTS; i++)
    self->subjects[i].is_proportional = true;
  if (sm > 0)
    set_gpu_points(self);
  else
    set_cpu_points(self);
}

/* ---- Readings ---- */

static bool is_interrupted(const Bands *self) {
  return self->job->interrupted && *self->job->interrupted;
}

static const CalibPoint *point_of(const Subject *subject, Reading reading) {
  return &subject->points[reading == DOUBLED];
}

/* What can be measured. On a GPU all must be. */
static bool is_supported(Bands *self, const Subject *subject) {
  const char *why = self->job->backend->supports(self->job->state, &subject->points[ONCE]);
  if (why)
    doctor_add(self->doctor, SPEED, subject->name,
               self->job->device->sm > 0 ? DOCTOR_MISSED : DOCTOR_NOTED, why,
               "the backend does not support this operator");
  return why == NULL;
}

/* `ret_done`: false with a check when it cannot be measured. −1 when the backend is gone. */
static int take(Bands *self, const Subject *subject, Reading reading, Sampled *ret_sampled,
                bool *ret_done, Diag *diag) {
  const DoctorJob *job = self->job;
  const Sampler sampler = {.backend = job->backend,
                           .state = job->state,
                           .limits = sample_limits_default,
                           .region_seconds = 0.002,
                           .interrupted = job->interrupted};
  char error[CALIB_ERROR_SIZE] = "";
  *ret_done = false;
  if (is_interrupted(self)) return diag_interrupted(diag);
  if (doctor_is_late(job, 1)) {
    doctor_add(self->doctor, SPEED, subject->name, DOCTOR_MISSED, "the time limit was reached",
               "allow more time with '--budget'");
    return 0;
  }
  CalibStatus status = job->backend->prepare(job->state, point_of(subject, reading), error);
  if (!status) status = sampling_take(&sampler, ret_sampled, error);
  if (status == CALIB_ENVIRONMENT) return doctor_failed(job, subject->name, error, diag);
  if (!status && ret_sampled->stop == SAMPLE_MORE) return diag_interrupted(diag);
  if (status)
    doctor_add(self->doctor, SPEED, subject->name, DOCTOR_MISSED, error,
               "free device memory, or end the process that holds it");
  *ret_done = status == CALIB_OK;
  return 0;
}

/* Clocks rise and fall with what was before: a second of products, and nothing of it kept. */
static int warm_up(Bands *self, Diag *diag) {
  enum { MOST = 10 };
  const double wanted = self->job->device->sm > 0 ? 1 : 0.2;
  Subject *subject = &self->subjects[self->n > GEMM ? GEMM : 0];
  if (self->job->backend->supports(self->job->state, &subject->points[ONCE])) return 0;
  double seconds = 0;
  bool done = true;
  for (int i = 0; i < MOST && seconds < wanted && done; i++) {
    Sampled sampled;
    if (take(self, subject, ONCE, &sampled, &done, diag)) return -1;
    seconds += done ? sampled.seconds : 0;
  }
  return 0;
}

static int measure(Bands *self, Diag *diag) {
  for (int i = 0; i < self->n; i++)
    self->subjects[i].is_measured = is_supported(self, &self->subjects[i]);
  if (warm_up(self, diag)) return -1;
  for (int reading = ONCE; reading < READINGS; reading++)
    for (int i = 0; i < self->n; i++) {
      Subject *subject = &self->subjects[i];
      if (!subject->is_measured || (reading == DOUBLED && !subject->is_proportional)) continue;
      if (take(self, subject, (Reading)reading, &subject->readings[reading], &subject->is_measured,
               diag))
        return -1;
    }
  return 0;
}

/* ---- Results of what is timed ---- */

/* −1 when the backend failed. */
static int verify_size(Bands *self, const Subject *subject, Reading reading, int *verified,
                       Diag *diag) {
  const DoctorJob *job = self->job;
  const VerifyTarget target = {job->backend, job->state, job->model};
  char error[CALIB_ERROR_SIZE] = "";
  double off = NAN;
  const CalibStatus status = verify_point(&target, point_of(subject, reading), &off, error);
  if (status == CALIB_ENVIRONMENT) return doctor_failed(job, subject->name, error, diag);
  if (status)
    doctor_add(self->doctor, RESULTS, subject->name, DOCTOR_MISSED, error,
               status == CALIB_WRONG
                   ? "times of this size are not valid: the kernel or the GPU is faulty"
                   : "free device memory");
  *verified += !status && isfinite(off);
  return 0;
}

static int verify_sizes(Bands *self, Diag *diag) {
  int verified = 0, left = 0;
  if (!self->job->backend->run) return 0;
  for (int i = 0; i < 2 * self->n; i++) {
    const Subject *subject = &self->subjects[i / 2];
    if (i % 2 == DOUBLED && !subject->is_proportional) continue;
    if (is_interrupted(self)) return diag_interrupted(diag);
    if (doctor_is_late(self->job, SHARE_OF_RESULTS))
      left++;
    else if (verify_size(self, subject, i % 2 ? DOUBLED : ONCE, &verified, diag))
      return -1;
  }
  doctor_add(self->doctor, RESULTS, "sizes that are timed", left ? DOCTOR_MISSED : DOCTOR_OK,
             arena_printf(self->doctor->arena, "%d correct, %d not verified for lack of time",
                          verified, left),
             "allow more time with '--budget'");
  return 0;
}

/* ---- Verdicts ---- */

/* The median's, which single outliers do not move. */
static double spread_of(const Subject *subject) {
  double spread = 0;
  for (int i = 0; i < READINGS; i++) {
    const SampleStatistics *statistics = &subject->readings[i].statistics;
    if (statistics->n > 0) spread = fmax(spread, statistics->mad / statistics->median);
  }
  return spread;
}

/* A figure and the interval that its samples leave. */
typedef struct Figure {
  double value, low, high;
} Figure;

static Figure ratio_of(const SampleStatistics *above, const SampleStatistics *below) {
  return (Figure){above->median / below->median, above->low / below->high,
                  above->high / below->low};
}

/* At the limit of power the clock follows what the products draw, by some percent from one reading
 * to the next: that is how the device runs, not a fault. */
static bool is_power_capped(const Subject *subject) {
  enum { SOFTWARE_POWER_CAP = 0x4 };
  uint64_t reasons = 0;
  for (int i = 0; i < READINGS; i++)
    reasons |= subject->readings[i].after.throttle;
  return reasons & SOFTWARE_POWER_CAP;
}

/* Within the band, or only with the slack on either side, or out of it for certain, or neither. */
static DoctorVerdict judge(const Bands *self, const Subject *subject, Figure figure, double low,
                           double high, double slack) {
  if (figure.value >= low && figure.value <= high) return DOCTOR_OK;
  if (figure.value >= low - slack && figure.value <= high + slack) return DOCTOR_NOTED;
  const bool may_be = figure.high >= low && figure.low <= high;
  return may_be && spread_of(subject) > self->spread ? DOCTOR_NOISY : DOCTOR_MISSED;
}

static void add_figure(Bands *self, const char *part, const Subject *subject, Figure figure,
                       double low, double high, const char *found, const char *advice) {
  static const char NOISE[] = "other work disturbs the device: measure while nothing else runs",
                    CAPPED[] = "the power limit moves the clock, and times with it: fit to more "
                               "than one reading, under the limit of production";
  const double slack = part != SPEED && is_power_capped(subject) ? POWER_CAPPED : 0;
  const DoctorVerdict verdict = judge(self, subject, figure, low, high, slack);
  DoctorCheck *check = doctor_add(self->doctor, part, subject->name, verdict, found,
                                  verdict == DOCTOR_NOISY   ? NOISE
                                  : verdict == DOCTOR_NOTED ? CAPPED
                                                            : advice);
  check->value = figure.value;
  check->low = low;
  check->high = high;
  check->is_ratio = part != SPEED;
}

static const char *rate_text(const Bands *self, const Subject *subject, double seconds) {
  const CalibWork work = calib_work(self->job->model, &subject->points[ONCE]);
  return subject->of_memory
             ? arena_printf(self->doctor->arena, "%.4g GB/s", 1e-9 * work.bytes / seconds)
             : arena_printf(self->doctor->arena, "%.4g TFLOP/s", 1e-12 * work.flops / seconds);
}

/* The better of two readings is what the device can do; nothing is faster than its peak. */
static void add_speed(Bands *self, const Subject *subject) {
  static const double MOST = 1.02; // clocks of memory are rounded in machine files
  const Hardware *hardware = self->job->hardware;
  const SampleStatistics *once = &subject->readings[ONCE].statistics;
  const SampleStatistics *more = &subject->readings[ONCE_MORE].statistics;
  const SampleStatistics *best = more->median < once->median ? more : once;
  const CalibWork work = calib_work(self->job->model, &subject->points[ONCE]);
  const char *rate = rate_text(self, subject, best->median);
  if (self->job->device->sm == 0 || !hardware || isnan(subject->least)) {
    doctor_add(self->doctor, SPEED, subject->name, DOCTOR_NOTED,
               arena_printf(self->doctor->arena, "%s; no expected range is known", rate), NULL);
    return;
  }
  const double at_peak = subject->of_memory ? work.bytes / (double)hardware->hbm_bandwidth
                                            : work.flops / hardware->dense_bf16_flops;
  const Figure share = {at_peak / best->median, at_peak / best->high, at_peak / best->low};
  add_figure(self, SPEED, subject, share, subject->least, MOST, rate,
             share.value > MOST ? "no device is faster than its peak: the machine file describes "
                                  "another GPU, or the clock is wrong"
                                : subject->advice);
}

static void add_times(Bands *self, const Subject *subject) {
  const SampleStatistics *once = &subject->readings[ONCE].statistics;
  const SampleStatistics *doubled = &subject->readings[DOUBLED].statistics;
  const SampleStatistics *more = &subject->readings[ONCE_MORE].statistics;
  Arena *arena = self->doctor->arena;
  char text[2][32];
  if (subject->is_proportional)
    add_figure(self, TWICE, subject, ratio_of(doubled, once), 1.9, 2.1,
               arena_printf(arena, "%s; %s for twice the work",
                            format_duration(once->median, text[0]),
                            format_duration(doubled->median, text[1])),
               "times do not grow with the work: clocks may vary ('nvidia-smi -q -d CLOCK'), or "
               "other work runs on the device");
  add_figure(self, AGAIN, subject, ratio_of(more, once), 1 - self->repeat, 1 + self->repeat,
             arena_printf(arena, "%s at first, %s later", format_duration(once->median, text[0]),
                          format_duration(more->median, text[1])),
             "the speed of the device has changed within a minute: look for heat, a power limit or "
             "other work; wait until it is steady, or set its clocks to those of production");
}

/* Of the subject whose spread is the greatest share of what is allowed. */
static void add_spread(Bands *self) {
  double worst = 0, worst_share = 0, allowed = 0;
  const char *of = NULL;
  for (int i = 0; i < self->n; i++) {
    const Subject *subject = &self->subjects[i];
    const double most = self->spread + (is_power_capped(subject) ? POWER_CAPPED / 2 : 0);
    if (!subject->is_measured || spread_of(subject) / most < worst_share) continue;
    worst = spread_of(subject);
    worst_share = worst / most;
    allowed = most;
    of = subject->name;
  }
  if (!of) return;
  DoctorCheck *check =
      doctor_add(self->doctor, CLOCK, "spread", worst > allowed ? DOCTOR_NOISY : DOCTOR_OK,
                 arena_printf(self->doctor->arena,
                              "half of the samples of '%s' are within %.1f%% of their median", of,
                              100 * worst),
                 "other work disturbs the device: measure while nothing else runs");
  check->value = worst;
  check->high = allowed;
}

/* ---- The device under load ---- */

static void add_throttle(Bands *self) {
  enum { HARM = 0x8 | 0x20 | 0x40 | 0x80 }; // hardware, heat, power brake
  uint64_t reasons = 0;
  for (int i = 0; i < self->n * READINGS; i++) {
    const Subject *subject = &self->subjects[i / READINGS];
    if (subject->is_measured) reasons |= subject->readings[i % READINGS].after.throttle;
  }
  doctor_add(
      self->doctor, CLOCK, "throttle",
      reasons & HARM ? DOCTOR_MISSED
      : reasons      ? DOCTOR_NOTED
                     : DOCTOR_OK,
      environment_throttle(reasons, self->doctor->arena),
      reasons & HARM
          ? "check cooling and power before measuring: 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE'"
          : "times are valid only under this limit: use the same limit in production");
}

/* nvbench drops what was measured below three quarters of the clock, too. */
static void add_clock(Bands *self) {
  static const double LEAST = 0.75;
  const Subject *gemm = &self->subjects[self->n > GEMM ? GEMM : 0];
  const double mhz = gemm->readings[ONCE].after.sm_clock_mhz;
  const double most = self->job->device->sm_clock_most_mhz;
  if (!gemm->is_measured || isnan(mhz) || most <= 0) {
    doctor_add(self->doctor, CLOCK, "multiprocessors", DOCTOR_NOTED, "unknown: no reading",
               "NVML comes with the driver: check that libnvidia-ml.so.1 is installed");
    return;
  }
  DoctorCheck *check = doctor_add(
      self->doctor, CLOCK, "multiprocessors", mhz >= LEAST * most ? DOCTOR_OK : DOCTOR_MISSED,
      arena_printf(self->doctor->arena, "%.0f of %.0f MHz during matrix products", mhz, most),
      "a clock setting, a power limit or heat lowers the clock: see 'nvidia-smi -q -d "
      "CLOCK,POWER'; 'nvidia-smi -rgc' resets a setting");
  check->value = mhz / most;
  check->low = LEAST;
}

int doctor_bands(Doctor *self, const DoctorJob *job, Diag *diag) {
  const bool is_cpu = job->device->sm == 0;
  Bands bands = {
      .doctor = self, .job = job, .spread = is_cpu ? 0.08 : 0.02, .repeat = is_cpu ? 0.05 : 0.02};
  set_subjects(&bands);
  if (verify_sizes(&bands, diag) || measure(&bands, diag)) return -1;
  for (int i = 0; i < bands.n; i++)
    if (bands.subjects[i].is_measured && bands.subjects[i].is_proportional)
      add_speed(&bands, &bands.subjects[i]);
  for (int i = 0; i < bands.n; i++)
    if (bands.subjects[i].is_measured) add_times(&bands, &bands.subjects[i]);
  add_spread(&bands);
  if (is_cpu) return 0;
  add_throttle(&bands);
  add_clock(&bands);
  return 0;
}
