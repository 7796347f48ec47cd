/* Errors of iterations, of percentiles, and of the device against itself. */
#include "experiments/validate/errors.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

const char *const validate_part_names[VALIDATE_PARTS] = {
    [VALIDATE_ALL] = "all",
    [VALIDATE_PREFILL] = "prefill",
    [VALIDATE_DECODE] = "decode",
    [VALIDATE_MIXED] = "mixed",
};

/* NAN of none. Moves the values. */
static double median_of(double *values, size_t n) {
  return n > 0 ? gsl_stats_median(values, 1, n) : NAN;
}

static double relative(double value, double reference) {
  return (value - reference) / reference;
}

/* ---- Iterations ---- */

static bool is_part(const BatchShape *shape, ValidatePart part) {
  const bool prefills = shape->prefill_tokens > 0, decodes = shape->decode_seqs > 0;
  const bool parts[VALIDATE_PARTS] = {[VALIDATE_ALL] = true,
                                      [VALIDATE_PREFILL] = !decodes,
                                      [VALIDATE_DECODE] = !prefills,
                                      [VALIDATE_MIXED] = prefills && decodes};
  return parts[part];
}

ValidateErrors validate_summary(double *errors, size_t n_errors) {
  ValidateErrors self = {.worst = -1};
  double sum = 0, signed_sum = 0;
  for (size_t i = 0; i < n_errors; i++) {
    const double error = errors[i], size = fabs(error);
    if (isnan(error)) continue;
    errors[self.n++] = size;
    sum += size;
    signed_sum += error;
    if (size <= self.worst) continue;
    self.worst = size;
    self.worst_at = i;
  }
  if (self.n == 0) self.worst = NAN;
  self.median = median_of(errors, self.n);
  gsl_sort(errors, 1, self.n);
  self.p95 = self.n ? gsl_stats_quantile_from_sorted_data(errors, 1, self.n, 0.95) : NAN;
  self.mape = sum / (double)self.n;
  self.bias = signed_sum / (double)self.n;
  return self;
}

static ValidateErrors errors_of(const ValidateIteration *iterations, size_t n, ValidatePart part,
                                double *errors) {
  double predicted = 0, seconds = 0;
  size_t extrapolated = 0;
  for (size_t i = 0; i < n; i++) {
    const ValidateIteration *iteration = &iterations[i];
    errors[i] = NAN;
    if (!is_part(&iteration->shape, part)) continue;
    errors[i] = relative(iteration->predicted, iteration->measured);
    predicted += iteration->predicted;
    seconds += iteration->measured;
    extrapolated += iteration->extrapolated;
  }
  ValidateErrors self = validate_summary(errors, n);
  self.seconds = seconds;
  self.total = relative(predicted, seconds);
  self.extrapolated = (double)extrapolated / (double)self.n;
  if (self.n > 0) self.worst_batch = iterations[self.worst_at].shape;
  return self;
}

void validate_iteration_errors(const ValidateIteration *iterations, size_t n,
                               ValidateErrors ret_errors[VALIDATE_PARTS], Arena *arena) {
  double *errors = ARENA_ARRAY(arena, double, n + 1);
  for (int part = 0; part < VALIDATE_PARTS; part++)
    ret_errors[part] = errors_of(iterations, n, (ValidatePart)part, errors);
}

/* ---- Repeats ---- */

static int compare_iterations(const void *a, const void *b) {
  return batch_compare(&((const ValidateIteration *)a)->shape,
                       &((const ValidateIteration *)b)->shape);
}

static ValidateIteration *sort_iterations(const ValidateRun *run, Arena *arena) {
  ValidateIteration *sorted = ARENA_ARRAY(arena, ValidateIteration, run->n_iterations + 1);
  for (size_t i = 0; i < run->n_iterations; i++)
    sorted[i] = run->iterations[i];
  qsort(sorted, run->n_iterations, sizeof *sorted, compare_iterations);
  return sorted;
}

/* Walks two sorted runs; the batches that both have are compared one by one. Returns how many. */
static size_t compare_runs(const ValidateIteration *first, size_t n_first,
                           const ValidateIteration *other, size_t n_other, double *ret_distances) {
  size_t i = 0, k = 0, n = 0;
  while (i < n_first && k < n_other) {
    int order = compare_iterations(&first[i], &other[k]);
    if (order == 0) ret_distances[n++] = fabs(relative(other[k].measured, first[i].measured));
    i += order <= 0;
    k += order >= 0;
  }
  return n;
}

static double repeat_of_iterations(const Validation *self, Arena *arena) {
  const ValidateRun *first = &self->measured[0];
  const ValidateIteration *sorted = sort_iterations(first, arena);
  size_t n = 0, room = first->n_iterations * (size_t)self->n_measured + 1;
  double *distances = ARENA_ARRAY(arena, double, room);
  for (int64_t r = 1; r < self->n_measured; r++) {
    const ValidateRun *run = &self->measured[r];
    n += compare_runs(sorted, first->n_iterations, sort_iterations(run, arena), run->n_iterations,
                      &distances[n]);
  }
  return median_of(distances, n);
}

/* ---- Percentiles ---- */

static const char *const LATENCIES[VALIDATE_LATENCIES] = {"ttft_s", "tbt_s", "e2e_s"};
static const char *const STATISTICS[VALIDATE_STATISTICS] = {"p50", "p90", "p99"};

static ValidateLatency compare_latency(const Validation *self, const char *name,
                                       const char *statistic, double *distances) {
  const double measured = report_latency(&self->measured[0].report, name, statistic);
  const double predicted = report_latency(&self->predicted.report, name, statistic);
  for (int64_t r = 1; r < self->n_measured; r++)
    distances[r - 1] =
        fabs(relative(report_latency(&self->measured[r].report, name, statistic), measured));
  return (ValidateLatency){name,
                           statistic,
                           predicted,
                           measured,
                           relative(predicted, measured),
                           median_of(distances, (size_t)self->n_measured - 1)};
}

/* ---- The verdict ---- */

const char *const validate_verdict_names[] = {
    [VALIDATE_MET] = "met", [VALIDATE_NOT_MET] = "not met", [VALIDATE_WORTHLESS] = "worthless"};

/* What cannot be compared, because nothing was measured of it, is not off. */
static double distance_of(const ValidateLatency *latency) {
  return isnan(latency->error) ? 0 : fabs(latency->error);
}

static bool is_near(const ValidateLatency *latency, double within) {
  return distance_of(latency) <= within || distance_of(latency) <= latency->repeat;
}

static void judge(Validation *self) {
  self->worst = &self->latencies[0];
  self->verdict = VALIDATE_MET;
  for (int i = 0; i < VALIDATE_LATENCIES * VALIDATE_STATISTICS; i++) {
    const ValidateLatency *latency = &self->latencies[i];
    if (distance_of(latency) > distance_of(self->worst)) self->worst = latency;
    if (!is_near(latency, self->within)) self->verdict = VALIDATE_NOT_MET;
  }
  if (fabs(self->drift) > self->within) self->verdict = VALIDATE_WORTHLESS;
}

static double replay_of(const ValidateRun *run, Arena *arena) {
  double *distances = ARENA_ARRAY(arena, double, run->n_iterations);
  for (size_t i = 0; i < run->n_iterations; i++)
    distances[i] = run->iterations[i].spread;
  return median_of(distances, run->n_iterations);
}

void validate_errors(Validation *self, Arena *arena) {
  const ValidateRun *first = &self->measured[0];
  double *repeats = ARENA_ARRAY(arena, double, self->n_measured);
  validate_iteration_errors(first->iterations, first->n_iterations, self->errors, arena);
  for (int i = 0; i < VALIDATE_LATENCIES * VALIDATE_STATISTICS; i++)
    self->latencies[i] = compare_latency(self, LATENCIES[i / VALIDATE_STATISTICS],
                                         STATISTICS[i % VALIDATE_STATISTICS], repeats);
  self->replay = replay_of(first, arena);
  self->repeat = repeat_of_iterations(self, arena);
  judge(self);
}
