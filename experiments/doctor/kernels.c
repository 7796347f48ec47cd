/* Prefill attention of one prompt by the backend's own kernel and by wgmma, one after the other. */
#include "calib/model.h"
#include "calib/operators.h"
#include "calib/sampling.h"
#include "calib/verify.h"
#include "experiments/doctor/doctor.h"
#include <math.h>

static const char PART[] = "kernels", NAME[] = "prefill 8k";
static const CalibSequence PROMPT = {.new_tokens = 8192};

/* What a kernel came to: its error (NAN: not known), and its time (NAN: wrong, or not run). */
typedef struct Reading {
  CalibStatus status;
  double off, seconds;
  char error[CALIB_ERROR_SIZE];
} Reading;

/* Its results at the sizes of every operator, and at the one that is timed. */
static void verify(const DoctorJob *job, const CalibModel *model, const CalibPoint *point,
                   Reading *reading) {
  const VerifyTarget target = {job->backend, job->state, model};
  double off = NAN;
  reading->status = verify_operator(&target, point->op, &reading->off, reading->error);
  if (reading->status || !job->backend->run) return;
  reading->status = verify_point(&target, point, &off, reading->error);
  reading->off = fmax(reading->off, off);
}

static Reading read_kernel(const DoctorJob *job, CalibAttention attention) {
  const CalibPoint point = {.op = CALIB_PREFILL_ATTENTION,
                            .batch = {.sequences = &PROMPT, .n_prefills = 1}};
  const Sampler sampler = {.backend = job->backend,
                           .state = job->state,
                           .limits = sample_limits_default,
                           .region_seconds = 0.002,
                           .interrupted = job->interrupted};
  CalibModel model = *job->model;
  Reading reading = {.off = NAN, .seconds = NAN};
  Sampled sampled;
  model.attention = attention;
  reading.status = job->backend->load(job->state, &model, reading.error);
  if (!reading.status) verify(job, &model, &point, &reading);
  if (!reading.status) reading.status = job->backend->prepare(job->state, &point, reading.error);
  if (!reading.status) reading.status = sampling_take(&sampler, &sampled, reading.error);
  if (!reading.status) reading.seconds = sampled.statistics.median / model.num_hidden_layers;
  return reading;
}

static const char *reading_text(const Doctor *self, const char *name, const Reading *reading) {
  if (reading->status) return arena_printf(self->arena, "%s: %s", name, reading->error);
  return arena_printf(self->arena, "%s: %.4g ms a layer, error %.1e", name, 1e3 * reading->seconds,
                      reading->off);
}

static void add_kernels(Doctor *self, const DoctorJob *job, const Reading *own,
                        const Reading *wgmma) {
  const bool is_faster = wgmma->seconds < own->seconds || isnan(own->seconds);
  const CalibAttention best =
      wgmma->status || !is_faster ? CALIB_ATTENTION_OWN : CALIB_ATTENTION_WGMMA;
  const char *found =
      arena_printf(self->arena, "%s; %s; '%s' is to be used", reading_text(self, "tandem", own),
                   reading_text(self, "wgmma", wgmma), calib_attention_names[best]);
  const bool is_wrong = own->status || wgmma->status;
  doctor_add(self, PART, NAME,
             is_wrong                        ? DOCTOR_MISSED
             : best == job->model->attention ? DOCTOR_OK
                                             : DOCTOR_NOTED,
             found,
             is_wrong ? "times of this kernel are not valid: do not measure with it"
             : best == CALIB_ATTENTION_WGMMA
                 ? "'--attention wgmma' measures this device with the faster kernel"
                 : "'--attention tandem' measures this device with the faster kernel");
}

int doctor_kernels(Doctor *self, const DoctorJob *job, Diag *diag) {
  if (job->device->sm == 0 || job->backend->whole || job->model->attention == CALIB_ATTENTION_CUDNN)
    return 0;
  CalibModel model = *job->model;
  char error[CALIB_ERROR_SIZE] = "";
  model.attention = CALIB_ATTENTION_WGMMA;
  const CalibStatus status = job->backend->load(job->state, &model, error);
  if (status == CALIB_ENVIRONMENT) return doctor_failed(job, NAME, error, diag);
  if (status) return 0; // the device has none
  if (doctor_is_late(job, 1)) {
    doctor_add(self, PART, NAME, DOCTOR_MISSED, "the time limit was reached",
               "allow more time with '--budget'");
    return 0;
  }
  const Reading own = read_kernel(job, CALIB_ATTENTION_OWN);
  const Reading wgmma = read_kernel(job, CALIB_ATTENTION_WGMMA);
  if (job->interrupted && *job->interrupted) return diag_interrupted(diag);
  if (own.status == CALIB_ENVIRONMENT) return doctor_failed(job, NAME, own.error, diag);
  if (wgmma.status == CALIB_ENVIRONMENT) return doctor_failed(job, NAME, wgmma.error, diag);
  add_kernels(self, job, &own, &wgmma);
  return 0;
}
