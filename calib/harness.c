/* One loop over the plan, interrupted by anchors. */
#include "calib/harness.h"
#include "base/text.h"
#include "calib/backend_load.h"
#include "calib/environment.h"
#include "calib/operators.h"
#include "calib/sampling.h"
#include "calib/verify.h"
#include "perfmodel/profile_clock.h"
#include <math.h>
#include <string.h>

static const double VERIFY_SHARE = 0.1; // of the budget
enum { READINGS_MOST = 5 };             // of a point while the device drifts

/* What became of a point. */
typedef enum Outcome { MEASURED, WAIVED, STOPPED, FAILED } Outcome;

typedef struct Harness {
  const HarnessJob *job;
  const HarnessOptions *options;
  HarnessReport *report;
  Diag *diag;
  double began; // of the clock
  size_t done;

  size_t n_anchors;             // first in the plan
  SampleStatistics *references; // [n_anchors] their newest readings; n 0: none
  double anchored, reading;     // clock after the newest of all, and how long it took
  size_t *block;                // points measured since
  size_t n_block, block_row;    // and the first of their rows, which follow one another

  bool verified[CALIB_N_OPS];
} Harness;

HarnessOptions harness_options_default(void) {
  return (HarnessOptions){.limits = sample_limits_default,
                          .region_seconds = 0.002,
                          .anchor_seconds = 30,
                          .anchor_points = PLAN_ANCHOR_POINTS,
                          .drift = 0.02,
                          .verify = true,
                          .seconds = INFINITY};
}

static double now(const Harness *self) {
  return self->options->clock(self->options->clock_context) - self->began;
}

static bool is_interrupted(const Harness *self) {
  return self->options->interrupted && *self->options->interrupted;
}

static size_t count_rows(const Harness *self) {
  return self->job->recorder->profile.n_rows;
}

/* ---- One point ---- */

static const double SUSTAINED_REGION_SECONDS = 0.1; // with as few pauses between samples

/* Samples of the point that is prepared. */
static CalibStatus take_samples(Harness *self, const PlanPoint *planned, Sampled *ret_sampled,
                                char *error) {
  Sampler sampler = {.backend = self->job->backend,
                     .state = self->job->state,
                     .limits = self->options->limits,
                     .region_seconds = self->options->region_seconds,
                     .interrupted = self->options->interrupted};
  if (planned->class == PLAN_SUSTAINED) {
    sampler.limits = (SampleLimits){SAMPLES_LEAST, SAMPLES_MOST, PLAN_MEASURED_SECONDS,
                                    PLAN_MEASURED_SECONDS, sampler.limits.half_width};
    sampler.region_seconds = SUSTAINED_REGION_SECONDS;
    sampler.lead_seconds = PLAN_LEAD_SECONDS;
  }
  return sampling_take(&sampler, ret_sampled, error);
}

static void waive(Harness *self, PlanPoint *planned, const char *why) {
  planned->waived = arena_copy(self->job->arena, why, strlen(why));
}

/* Does `a` do at least the work of `b`, in the same way? */
static bool does_more(const PlanPoint *a, const PlanPoint *b) {
  const CalibPoint *p = &a->point, *q = &b->point;
  return p->op == q->op && p->mode == q->mode && p->hot == q->hot && p->busy == q->busy &&
         p->layers == q->layers && p->size >= q->size &&
         a->shape.prefill_tokens >= b->shape.prefill_tokens &&
         a->shape.prefill_area2 >= b->shape.prefill_area2 &&
         a->shape.decode_seqs >= b->shape.decode_seqs &&
         a->shape.context_tokens >= b->shape.context_tokens;
}

/* Waives what would fail likewise: an operator that cannot be verified is not measured at all. */
static void waive_likes(Harness *self, PlanPoint *failed, CalibStatus status, bool of_operator,
                        const char *error) {
  Plan *plan = self->job->plan;
  for (size_t i = 0; i < plan->n; i++) {
    PlanPoint *other = &plan->points[i];
    const bool alike = status == CALIB_OUT_OF_MEMORY ? does_more(other, failed)
                       : of_operator                 ? other->point.op == failed->point.op
                                                     : other == failed;
    if (!alike || other->waived || other->readings > 0) continue;
    waive(self, other, error);
    self->report->no_memory += status == CALIB_OUT_OF_MEMORY;
  }
  if (status == CALIB_WRONG)
    self->report->wrong[failed->point.op] = arena_copy(self->job->arena, error, strlen(error));
}

static Outcome fail_point(Harness *self, PlanPoint *planned, CalibStatus status, bool of_operator,
                          const char *error) {
  if (status == CALIB_ENVIRONMENT && is_interrupted(self)) return STOPPED; // it was not waited for
  if (status != CALIB_ENVIRONMENT) {
    waive_likes(self, planned, status, of_operator || status == CALIB_WRONG, error);
    return WAIVED;
  }
  const char *name = calib_op_name(planned->point.op);
  diag_environment(self->diag, place_of_file(NULL), "backend '%s' failed at '%s': %s",
                   self->job->backend->name, name, error);
  return FAILED;
}

/* The operator against its reference, before it is timed for the first time. */
static CalibStatus verify(Harness *self, CalibOp op, char *error) {
  const HarnessJob *job = self->job;
  const VerifyTarget target = {job->backend, job->state, job->model};
  double off = NAN;
  if (!self->options->verify || self->verified[op]) return CALIB_OK;
  self->verified[op] = true;
  const CalibStatus status = verify_operator(&target, op, &off, error);
  if (off > self->report->worst_error[op]) self->report->worst_error[op] = off;
  return status;
}

static Outcome measure_point(Harness *self, PlanPoint *planned, Sampled *ret_measurement) {
  const HarnessJob *job = self->job;
  char error[CALIB_ERROR_SIZE] = "";
  Sampled measurement = {.stop = SAMPLE_MORE};
  CalibStatus status = verify(self, planned->point.op, error);
  if (status) return fail_point(self, planned, status, true, error);
  status = job->backend->prepare(job->state, &planned->point, error);
  if (!status) status = take_samples(self, planned, &measurement, error);
  if (status) return fail_point(self, planned, status, false, error);
  if (measurement.stop == SAMPLE_MORE) return STOPPED;
  *ret_measurement = measurement;
  return MEASURED;
}

/* ---- Rows ---- */

#define US_PER_S 1e6

/* A row that beats the peaks is recorded as what it is; 'tandem check' finds it. */
static ProfileRow make_row(const Harness *self, const PlanPoint *planned,
                           const Sampled *measurement) {
  const HarnessJob *job = self->job;
  const CalibPoint *point = &planned->point;
  const SampleStatistics *statistics = &measurement->statistics;
  const CalibWork work = calib_work(job->model, point);
  ProfileRow row =
      profile_row(job->model->name, job->device->gpu, job->model->tensor_parallel_size);
  row.op = calib_profile_op(point->op);
  row.mode = point->mode == CALIB_EAGER     ? "eager"
             : calib_is_captured(point->op) ? "graph"
                                            : "queued";
  row.cache = point->hot ? "hot" : "cold";
  row.busy = point->busy;
  row.configuration = planned->configuration;
  row.batch = planned->shape;
  row.size = calib_parts(point->op) ? 0 : point->size;
  row.median_us = US_PER_S * statistics->median;
  row.mad_us = US_PER_S * statistics->mad;
  row.p10_us = US_PER_S * statistics->p10;
  row.p90_us = US_PER_S * statistics->p90;
  row.samples = statistics->n;
  row.power_w = measurement->power_w;
  row.sm_clock_mhz = measurement->sm_clock_mhz;
  row.mem_clock_mhz = measurement->after.mem_clock_mhz;
  row.least_sm_clock_mhz = measurement->least_sm_clock_mhz;
  row.energy_j = measurement->energy_j;
  if (job->device->sm > 0 && isfinite(measurement->sm_clock_mhz))
    row.throttle = environment_throttle(measurement->throttle, job->arena);
  row.algorithm = text_shown(measurement->after.algorithm, job->arena);
  row.attn_kernel = text_shown(measurement->after.attn_kernel, job->arena);
  row.rates = planned->class == PLAN_SUSTAINED ? "sustained" : "";
  row.flops = work.flops;
  row.bytes = work.bytes;
  row.stop = sample_stop_name(measurement->stop);
  if (!job->hardware || point->hot) return row;
  const PlanRates peaks = plan_peaks(job->hardware, job->model->weights);
  row.roofline_fraction = plan_run_seconds(job->model, point, &peaks) / statistics->median;
  return row;
}

static void keep_most(double *most, double value) {
  if (value > *most) *most = value;
}

static void book(Harness *self, const PlanPoint *planned, const Sampled *measurement) {
  HarnessReport *report = self->report;
  const CalibOp op = planned->point.op;
  const double seconds = measurement->statistics.median;
  const CalibWork work = calib_work(self->job->model, &planned->point);
  const double watts = measurement->power_w;
  report->samples += measurement->statistics.n;
  report->outliers += measurement->statistics.outliers;
  keep_most(&report->best_flops, work.flops / seconds);
  if (plan_crosses_link(op))
    keep_most(&report->best_link, work.bytes / seconds);
  else if (!planned->point.hot && work.bytes > (double)self->job->device->cache_bytes)
    keep_most(&report->best_memory, work.bytes / seconds);
  if (watts > 0) {
    keep_most(&report->most_power, watts);
    if (report->least_power <= 0 || watts < report->least_power) report->least_power = watts;
  }
  report->throttled += measurement->throttle != 0;
  report->throttle |= measurement->throttle;
}

/* Measures a point and records it. */
static Outcome take_point(Harness *self, PlanPoint *planned, SampleStatistics *ret_statistics) {
  Sampled measurement = {.stop = SAMPLE_MORE};
  const Outcome outcome = measure_point(self, planned, &measurement);
  if (outcome != MEASURED) return outcome;
  const ProfileRow row = make_row(self, planned, &measurement);
  if (recorder_add(self->job->recorder, &row, self->diag)) return FAILED;
  book(self, planned, &measurement);
  self->report->points += planned->readings++ == 0;
  *ret_statistics = measurement.statistics;
  return MEASURED;
}

/* ---- Anchors ---- */

static double change_between(const SampleStatistics *before, const SampleStatistics *after) {
  return before->n == 0 ? 0 : fabs(after->median / before->median - 1);
}

/* How far two readings are apart; 0 where their intervals meet, which is noise. */
static double drift_between(const SampleStatistics *before, const SampleStatistics *after) {
  if (before->low <= after->high && after->low <= before->high) return 0;
  return change_between(before, after);
}

static bool is_row_of(const Harness *self, const ProfileRow *row, int64_t configuration) {
  const CalibModel *model = self->job->model;
  const ProfileGroup group = {.model = model->name,
                              .gpu = self->job->device->gpu,
                              .tensor_parallel_size = model->tensor_parallel_size};
  return row->configuration == configuration && profile_in_group(row, &group);
}

/* The last readings of a run before, maybe on another device of the kind. */
static void recall_anchors(Harness *self) {
  const Profile *profile = &self->job->recorder->profile;
  for (size_t i = 0; i < self->n_anchors; i++)
    for (size_t k = 0; k < profile->n_rows; k++) {
      const ProfileRow *row = &profile->rows[k];
      if (is_row_of(self, row, self->job->plan->points[i].configuration))
        self->references[i] = (SampleStatistics){.n = (int)row->samples,
                                                 .median = row->median_us / US_PER_S,
                                                 .low = row->p10_us / US_PER_S,
                                                 .high = row->p90_us / US_PER_S};
    }
}

static double usual_clock(const Harness *self) {
  return profile_usual_clock(&self->job->recorder->profile, self->job->device->gpu,
                             self->job->arena);
}

/* Whether the clock fell while the row was measured, which its `stop` then says. */
static bool flag_clock(Harness *self, size_t row, double usual_mhz) {
  Recorder *recorder = self->job->recorder;
  if (!profile_clock_fell(&recorder->profile.rows[row], usual_mhz)) return false;
  recorder_flag(recorder, row, row + 1, PLAN_CLOCK);
  self->report->slowed++;
  return true;
}

/* The newest reading of an anchor and the one before differ; which of them is off nobody knows. */
static void flag_readings(Harness *self, int64_t configuration) {
  Recorder *recorder = self->job->recorder;
  int left = 2;
  for (size_t row = count_rows(self); row-- > 0 && left > 0;) {
    if (recorder->profile.rows[row].configuration != configuration) continue;
    recorder_flag(recorder, row, row + 1, PLAN_DRIFT);
    left--;
  }
}

/* Reads all anchors. `ret_drift`: the greatest change since the reading before; 0 at the first. */
static Outcome read_anchors(Harness *self, double *ret_drift) {
  const double began = now(self);
  *ret_drift = 0;
  for (size_t i = 0; i < self->n_anchors; i++) {
    PlanPoint *anchor = &self->job->plan->points[i];
    SampleStatistics statistics;
    if (anchor->waived) continue;
    const Outcome outcome = take_point(self, anchor, &statistics);
    if (outcome == WAIVED) continue;
    if (outcome != MEASURED) return outcome;
    self->report->anchors++;
    if (flag_clock(self, count_rows(self) - 1, usual_clock(self)) &&
        recorder_save(self->job->recorder, self->diag))
      return FAILED;
    const double drift = drift_between(&self->references[i], &statistics);
    keep_most(ret_drift, drift);
    keep_most(&self->report->worst_drift, change_between(&self->references[i], &statistics));
    if (drift > self->options->drift) flag_readings(self, anchor->configuration);
    self->references[i] = statistics;
  }
  self->anchored = now(self);
  self->reading = self->anchored - began;
  return MEASURED;
}

static void begin_block(Harness *self) {
  self->n_block = 0;
  self->block_row = count_rows(self);
}

static double time_left(const Harness *self) {
  return self->options->seconds - now(self);
}

static bool has_time(const Harness *self) {
  return !is_interrupted(self) && time_left(self) > 0;
}

/* A reading of a steady device takes the place of those that are not. */
static void drop_drifted(Harness *self, PlanPoint *planned) {
  Recorder *recorder = self->job->recorder;
  for (size_t row = self->block_row; row-- > 0 && planned->drifted > 0;) {
    if (!is_row_of(self, &recorder->profile.rows[row], planned->configuration)) continue;
    recorder_drop(recorder, row);
    self->block_row--;
    planned->readings--;
    planned->drifted--;
  }
}

/* The anchors have moved, or have not, since the block began; and so has the clock of each row. */
static Outcome judge_block(Harness *self, bool has_drifted) {
  Recorder *recorder = self->job->recorder;
  const double usual_mhz = usual_clock(self);
  bool changed = false;
  self->report->drifts += has_drifted;
  for (size_t i = 0; i < self->n_block; i++) {
    PlanPoint *planned = &self->job->plan->points[self->block[i]];
    const size_t row = self->block_row + i;
    const bool has_fallen = flag_clock(self, row, usual_mhz);
    if (has_drifted) recorder_flag(recorder, row, row + 1, PLAN_DRIFT);
    changed |= has_drifted || has_fallen || planned->drifted > 0;
    if (has_drifted || has_fallen)
      planned->drifted++;
    else
      drop_drifted(self, planned);
  }
  return changed && recorder_save(recorder, self->diag) ? FAILED : MEASURED;
}

/* Ends a block of points by reading the anchors. */
static Outcome end_block(Harness *self) {
  double drift = 0;
  Outcome outcome = read_anchors(self, &drift);
  if (outcome == MEASURED && self->n_block > 0)
    outcome = judge_block(self, drift > self->options->drift);
  begin_block(self);
  return outcome;
}

/* ---- The plan ---- */

static void show(Harness *self) {
  const HarnessOptions *options = self->options;
  if (!options->progress) return;
  const size_t left = plan_left(self->job->plan);
  double seconds = INFINITY;
  if (self->done > 0) seconds = now(self) / (double)self->done * (double)left;
  options->progress(options->progress_context, self->done, left,
                    fmin(seconds, options->seconds - now(self)));
}

/* Where points are slow, so are anchors: they take a tenth of the time at most. */
static bool block_is_full(const Harness *self) {
  const double seconds = now(self) - self->anchored;
  return (int)self->n_block >= self->options->anchor_points ||
         (seconds >= self->options->anchor_seconds && seconds >= 9 * self->reading);
}

static bool has_only_drifted(const PlanPoint *planned) {
  return planned->drifted > 0 && planned->drifted == planned->readings;
}

/* Points that have not been measured; or those `again` whose readings have all drifted. */
static bool is_due(const Harness *self, const PlanPoint *planned, bool again) {
  if (planned->waived || planned->class == PLAN_ANCHOR) return false;
  if (planned->class == PLAN_SUSTAINED && time_left(self) < PLAN_SUSTAINED_SECONDS) return false;
  if (!again) return planned->readings == 0;
  return has_only_drifted(planned) && planned->readings < READINGS_MOST;
}

/* Once over the plan in its order, until a point ends it. */
static Outcome run_points(Harness *self, bool again) {
  Plan *plan = self->job->plan;
  Outcome outcome = MEASURED;
  for (size_t i = self->n_anchors; i < plan->n && has_time(self); i++) {
    PlanPoint *planned = &plan->points[i];
    SampleStatistics statistics;
    if (!is_due(self, planned, again)) continue;
    outcome = take_point(self, planned, &statistics);
    if (outcome == STOPPED || outcome == FAILED) return outcome;
    if (outcome == WAIVED) continue;
    self->block[self->n_block++] = i;
    self->report->remeasured += again;
    self->done += !again;
    show(self);
    if (block_is_full(self)) outcome = end_block(self);
    if (outcome == STOPPED || outcome == FAILED) return outcome;
  }
  return self->n_block > 0 && !is_interrupted(self) ? end_block(self) : MEASURED;
}

/* The whole plan first. What the device drifted at comes again later, when it may have settled; if
 * it does not, readings that are minutes apart have a median. */
static Outcome run_passes(Harness *self) {
  Outcome outcome = run_points(self, false);
  for (int pass = 1; pass < READINGS_MOST && outcome == MEASURED && has_time(self); pass++)
    outcome = run_points(self, true);
  for (size_t i = self->n_anchors; i < self->job->plan->n; i++)
    self->report->flagged += has_only_drifted(&self->job->plan->points[i]);
  return outcome;
}

/* ---- Sizes against the reference ---- */

/* First the largest that will be timed of each operator, then all others of attention, which
 * changes its kernel and its plan with the size. */
static bool is_to_be_verified(const Harness *self, size_t ix, bool is_first) {
  const PlanPoint *points = self->job->plan->points;
  const CalibPoint *point = &points[ix].point;
  if (points[ix].waived || points[ix].readings > 0 || point->mode == CALIB_EAGER) return false;
  const bool is_attention =
      point->op == CALIB_PREFILL_ATTENTION || point->op == CALIB_DECODE_ATTENTION;
  const CalibWork own = calib_work(self->job->model, point);
  for (size_t i = 0; i < self->job->plan->n; i++) {
    if (points[i].point.op != point->op || i == ix || points[i].waived) continue;
    const CalibWork other = calib_work(self->job->model, &points[i].point);
    if (points[i].point.mode == CALIB_EAGER) continue;
    if (other.bytes > own.bytes || (other.bytes == own.bytes && i < ix))
      return !is_first && is_attention;
  }
  return is_first;
}

/* Before anything is timed, because a device that waits for the reference slows down. */
static Outcome verify_sizes(Harness *self) {
  const HarnessJob *job = self->job;
  const VerifyTarget target = {job->backend, job->state, job->model};
  HarnessReport *report = self->report;
  const double began = now(self), most = VERIFY_SHARE * self->options->seconds;
  const size_t n = self->options->verify ? job->plan->n : 0;
  for (size_t k = 0; k < 2 * n && !is_interrupted(self); k++) {
    const size_t i = k % n;
    PlanPoint *planned = &job->plan->points[i];
    char error[CALIB_ERROR_SIZE] = "";
    double off = NAN;
    if (!is_to_be_verified(self, i, k < n)) continue;
    if (now(self) - began > most) {
      report->unverified++;
      continue;
    }
    const CalibStatus status = verify_point(&target, &planned->point, &off, error);
    report->verified += isfinite(off);
    if (off > report->worst_error[planned->point.op]) report->worst_error[planned->point.op] = off;
    if (status && fail_point(self, planned, status, false, error) == FAILED) return FAILED;
  }
  report->verify_seconds += now(self) - began;
  return is_interrupted(self) ? STOPPED : MEASURED;
}

/* A point of which a few runs alone take longer than there is, as far as rates are known. */
static void waive_slow(Harness *self, const PlanRates *rates) {
  enum { RUNS_LEAST = 6 };
  for (size_t i = 0; i < self->job->plan->n; i++) {
    PlanPoint *planned = &self->job->plan->points[i];
    if (planned->waived || planned->readings > 0) continue;
    const double run = plan_run_seconds(self->job->model, &planned->point, rates);
    if (RUNS_LEAST * run > self->options->seconds) waive(self, planned, "slower than the budget");
  }
}

int harness_run(const HarnessJob *job, const HarnessOptions *options, HarnessReport *report,
                Diag *diag) {
  Plan *plan = job->plan;
  const PlanRates rates = plan_rates(job->hardware, job->device);
  HarnessOptions shortened = *options;
  Harness self = {.job = job, .options = &shortened, .report = report, .diag = diag};
  waive_slow(&self, &rates);
  shortened.limits = plan_limits(plan, job->model, &rates, &options->limits, options->seconds);
  self.began = options->clock(options->clock_context);
  while (self.n_anchors < plan->n && plan->points[self.n_anchors].class == PLAN_ANCHOR)
    self.n_anchors++;
  self.references = ARENA_ARRAY(job->arena, SampleStatistics, self.n_anchors);
  self.block = ARENA_ARRAY(job->arena, size_t, plan->n);
  recall_anchors(&self);
  double drift;
  Outcome outcome = verify_sizes(&self);
  if (outcome == MEASURED && plan_left(plan) > 0) outcome = read_anchors(&self, &drift);
  begin_block(&self);
  if (outcome == MEASURED) outcome = run_passes(&self);
  const size_t left = plan_left(plan);
  report->left += (int64_t)left;
  const HarnessEnd end = outcome == FAILED       ? HARNESS_FAILED
                         : is_interrupted(&self) ? HARNESS_INTERRUPTED
                         : left > 0              ? HARNESS_BUDGET
                                                 : HARNESS_DONE;
  if (end > report->end) report->end = end;
  return outcome == FAILED ? -1 : 0;
}
