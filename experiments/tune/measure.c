/* What points give: simulations on several threads, each once. */
#include "base/hash.h"
#include "experiments/base/exit_code.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/tune/tune.h"
#include <math.h>
#include <string.h>

/* How much higher than where its search began a rate may be. */
enum { RATE_MOST = 64 };

typedef struct TuneJob {
  Tuning *tuning; // read alone
  TuneEval eval;
  Trial trials[2]; // the one under way, and that of the value
  int kept;        // which is of the value; -1: none
  Arena arena;     // of the search of a rate
  Diag diag;       // of the first trial that went wrong
  bool made;
} TuneJob;

/* ---- On a thread ---- */

/* The configuration of a point on a seed, at a rate in steps; 0: as it is. */
static int load_trial(TuneJob *self, Trial *trial, int64_t steps) {
  const Tuning *tuning = self->tuning;
  const TuneEval *eval = &self->eval;
  const Place at = place_of_file("--objective");
  trial_init(trial);
  ConfigChanges changes = tune_changes(tuning, &eval->point, &trial->arena);
  Setting *settings = (Setting *)changes.settings; // which has room
  const double load = (double)steps * tuning->step;
  if (steps > 0 && tuning->load.base_rate > 0)
    settings[changes.n_settings++] =
        provision_load_setting(&tuning->load, load, 1, at, &trial->arena);
  else if (steps > 0)
    settings[changes.n_settings++] =
        provision_load_setting(&tuning->load, 0, load, at, &trial->arena);
  changes.n_settings += plan_limit_settings(&tuning->goodput, at, &settings[changes.n_settings],
                                            &trial->arena, &trial->diag);
  if (eval->seed > 0) changes.seed = (int64_t)tuning->config.sim.seed + eval->seed;
  if (eval->move > 0) changes.error_shift = config_moves[eval->move - 1];
  return trial_load(trial, &self->tuning->base, &changes);
}

/* Keeps what a run says of itself, and for a database the run, in place of the one before. */
static void keep(TuneJob *self, Trial *trial) {
  const Report *report = &trial->report;
  TuneEval *eval = &self->eval;
  eval->met = report_met(report);
  eval->saturated = report->saturated;
  eval->outcomes = hash_fold(eval->outcomes, trial->result.digest);
  eval->extrapolated = report->extrapolated;
  if (!self->tuning->results) {
    trial_done(trial);
    return;
  }
  if (self->kept >= 0) trial_done(&self->trials[self->kept]);
  self->kept = (int)(trial - self->trials);
}

static void keep_failure(TuneJob *self, Trial *trial) {
  if (self->diag.n_entries == 0) diag_append(&self->diag, &trial->diag);
  trial_done(trial);
}

static double value_of(const TuneObjective *objective, const Trial *trial) {
  const Report *report = &trial->report;
  if (objective->kind == TUNE_GOODPUT)
    return report_value(report, "good") / report_value(report, "duration_s");
  if (objective->kind == TUNE_FIGURE) return report_value(report, objective->figure);
  const SloSet set = {"", &objective->latency, 1};
  SloOutcome outcome;
  slo_eval(&set, &trial->result.metrics, &outcome);
  return outcome.value;
}

static void make_once(TuneJob *self) {
  Trial *trial = &self->trials[0];
  const int status = load_trial(self, trial, 0) || trial_run(trial);
  self->eval.n_runs++;
  if (status) {
    keep_failure(self, trial);
  } else {
    self->eval.value = value_of(&self->tuning->objective, trial);
    keep(self, trial);
  }
}

/* Fits ProbeOracle: whether the limits hold at a rate. */
static ProbeVerdict holds_at(void *context, const Probe *probe) {
  TuneJob *self = context;
  Trial *trial = &self->trials[self->kept == 0];
  EarlyEnd end = {0};
  if (self->diag.n_entries > 0) return PROBE_FAILS;
  int status = load_trial(self, trial, probe->rate);
  if (status == 0 && early_end_may(trial)) status = early_end_set(&end, trial);
  if (status == 0) status = trial_run(trial);
  self->eval.n_runs++;
  const bool held = status == 0 && !trial->result.stopped && report_met(&trial->report);
  if (held) {
    self->eval.outcomes = 0;
    keep(self, trial); // the last that holds is the largest
  } else if (status) {
    keep_failure(self, trial);
  } else {
    trial_done(trial);
  }
  return held ? PROBE_HOLDS : PROBE_FAILS;
}

static void make_rate(TuneJob *self) {
  TuneEval *eval = &self->eval;
  const Probe cluster = {{0, 0}, 0};
  const int64_t low = eval->low > 0 ? eval->low : 1,
                likely = eval->likely > low ? eval->likely : low;
  const SearchSpace space = {.clusters = &cluster,
                             .n_clusters = 1,
                             .rate_low = low,
                             .rate_high = likely * RATE_MOST,
                             .start = {{0, 0}, likely},
                             .has_start = true};
  SearchResult result;
  search_largest_rate(&space, holds_at, self, &result, &self->arena);
  if (self->diag.n_entries > 0) return;
  const int64_t steps = result.found ? result.answer.rate : low - 1;
  eval->bounded = !result.found && low > 1;
  eval->met = result.found;
  eval->value = (double)steps * self->tuning->step;
  eval->outcomes = hash_fold(eval->outcomes, (uint64_t)steps);
}

static void make(void *run) {
  TuneJob *self = run;
  arena_init(&self->arena);
  diag_init(&self->diag);
  self->made = true;
  self->kept = -1;
  self->eval.value = NAN;
  self->eval.done = true;
  if (self->tuning->objective.kind == TUNE_RATE)
    make_rate(self);
  else
    make_once(self);
}

/* ---- As a campaign ---- */

typedef struct EvalBatch {
  Tuning *tuning;
  size_t *due; // [n] evaluations to be made
  int n, n_begun;
} EvalBatch;

static int next_eval(void *context, void *run) {
  EvalBatch *self = context;
  TuneJob *job = run;
  if (self->n_begun == self->n) return 0;
  job->tuning = self->tuning;
  job->eval = self->tuning->evals[self->due[self->n_begun++]];
  return 1;
}

static uint64_t place_of(const TunePoint *point, int seed, int move) {
  const uint64_t of_point = hash_bytes(point->at, sizeof point->at);
  return hash_fold(hash_fold(of_point, (uint64_t)seed), (uint64_t)move) | 1;
}

static int take_eval(void *context, void *run) {
  EvalBatch *self = context;
  Tuning *tuning = self->tuning;
  TuneJob *job = run;
  const TuneEval *made = &job->eval;
  Trial *kept = job->kept < 0 ? NULL : &job->trials[job->kept];
  if (diag_exit_code(&job->diag) == EXIT_INTERRUPTED) return 0;
  if (kept && results_keep_run(tuning->results, &kept->report, kept->config_digest, false,
                               &kept->arena, tuning->diag))
    return -1;
  TuneEval *eval =
      &tuning->evals[*key_map_find(&tuning->index, place_of(&made->point, made->seed, made->move))];
  *eval = *made;
  tuning->n_runs += made->n_runs;
  if (job->diag.n_entries == 0) return 0;
  const char *why = job->diag.entries[0].message;
  eval->value = NAN;
  eval->why = arena_copy(tuning->arena, why, strlen(why));
  if (memcmp(&made->point, &tuning->current, sizeof made->point) != 0) return 0;
  diag_append(tuning->diag, &job->diag); // without the current values there is nothing to compare
  return -1;
}

static void release_eval(void *run) {
  TuneJob *self = run;
  if (!self->made) return;
  if (self->kept >= 0) trial_done(&self->trials[self->kept]);
  diag_done(&self->diag);
  arena_done(&self->arena);
}

/* Fits Campaign.idle. */
static void show_progress(void *context) {
  EvalBatch *self = context;
  Tuning *tuning = self->tuning;
  if (!progress_begins(tuning->began_s, &tuning->shown_s)) return;
  fprintf(stderr, "%lld simulations of %zu settings and seeds", (long long)tuning->n_runs,
          tuning->n_evals);
  progress_said();
}

/* Where an evaluation is kept; it is made when it is not known. */
static void want(Tuning *self, const TuneWish *wish, EvalBatch *batch) {
  const uint64_t place = place_of(&wish->point, wish->seed, wish->move);
  const size_t n = self->index.n_keys;
  uint32_t *at = key_map_put(&self->index, place, self->arena);
  if (self->index.n_keys == n) return;
  ARENA_RESERVE(self->arena, self->evals, self->capacity, self->n_evals + 1);
  *at = (uint32_t)self->n_evals;
  self->evals[self->n_evals] = (TuneEval){.point = wish->point,
                                          .seed = wish->seed,
                                          .move = wish->move,
                                          .low = wish->low,
                                          .likely = wish->likely};
  batch->due[batch->n++] = self->n_evals++;
}

int tune_measure(Tuning *self, const TuneWish *wishes, int n) {
  EvalBatch batch = {.tuning = self, .due = ARENA_ARRAY(self->arena, size_t, n + 1)};
  for (int i = 0; i < n; i++)
    want(self, &wishes[i], &batch);
  const Campaign campaign = {.jobs = self->jobs,
                             .ahead = 4,
                             .run_size = sizeof(TuneJob),
                             .next = next_eval,
                             .make = make,
                             .take = take_eval,
                             .release = release_eval,
                             .idle = show_progress,
                             .context = &batch,
                             .results = self->results};
  if (batch.n == 0) return 0;
  if (campaign_run(&campaign, self->arena, self->diag)) return -1;
  return interrupt_signal ? diag_interrupted(self->diag) : 0;
}

const TuneEval *tune_find(const Tuning *self, const TunePoint *point, int seed, int move) {
  const uint32_t *at = key_map_find(&self->index, place_of(point, seed, move));
  return at && self->evals[*at].done ? &self->evals[*at] : NULL;
}

/* ---- Comparisons ---- */

Difference tune_difference(const Tuning *self, const TunePoint *from, const TunePoint *to, int seed,
                           int n_seeds, int move) {
  enum { MOST = 1000 };
  double a[MOST], b[MOST];
  bool repeated[MOST];
  uint64_t pairs[MOST];
  const size_t n = (size_t)(n_seeds < MOST ? n_seeds : MOST);
  for (size_t i = 0; i < n; i++) {
    const TuneEval *one = tune_find(self, from, seed + (int)i, move);
    const TuneEval *other = tune_find(self, to, seed + (int)i, move);
    a[i] = one && isfinite(one->value) ? one->value : NAN;
    b[i] = other && isfinite(other->value) ? other->value : NAN;
    pairs[i] = one && other ? hash_fold(one->outcomes, other->outcomes) : 0;
    repeated[i] = false;
    for (size_t k = 0; k < i; k++)
      repeated[i] |= pairs[k] == pairs[i];
  }
  Difference of = difference_paired(&(Values){a, repeated, n}, &(Values){b, repeated, n});
  if (self->step > 0 && of.half_width < self->step) of.half_width = self->step; // no finer is known
  return of;
}

bool tune_gains(const Tuning *self, const Difference *difference) {
  static const double hair = 0.002; // of the value that was
  const double gain = objective_gain(&self->objective, difference->value);
  if (isnan(difference->half_width)) return gain > hair * fabs(difference->a);
  return gain - difference->half_width > 0;
}
