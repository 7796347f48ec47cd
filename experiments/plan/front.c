/* What a token costs against how fast users get them: the answers of a study at several loads. */
#include "experiments/base/progress.h"
#include "experiments/plan/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the load that was asked. */
static const double loads[] = {0.25, 0.5, 0.75, 1, 1.25};
enum { LOADS = sizeof loads / sizeof *loads, DESIGNS_MAX = 8, AT_ONCE = 4 };

typedef struct FrontRun {
  int point; // of the front
  ConfigChanges changes;
  TrialBase *base;
  const RunKept *known; // of the answer; NULL: at another load
  bool loaded, keeps_parts;
  Trial trial;
  RunServed served;
  double parts[CAUSES]; // seconds of `n_served` requests
  int64_t n_served;
} FrontRun;

typedef struct Runs {
  Front *front;
  const Provision *study;
  int n_begun, n_ended, n_due; // points; all before n_due may be run
  double offered; // output tokens per second that come at most, of the load that was asked
  double began_s, shown_s;
  Arena *arena;
  Diag *diag;
} Runs;

/* The answer's configuration, with so much of its load. */
static ConfigChanges changes_at(const Provision *study, const DesignOutcome *outcome, double load,
                                Arena *arena) {
  ConfigChanges changes = provision_answer_changes(study, outcome, arena);
  if (load == 1) return changes;
  Setting *settings = ARENA_ARRAY(arena, Setting, changes.n_settings + 1);
  memcpy(settings, changes.settings, (size_t)changes.n_settings * sizeof *settings);
  settings[changes.n_settings++] = provision_answer_load(study, outcome, load, arena);
  changes.settings = settings;
  return changes;
}

/* ---- As a campaign ---- */

static int next_run(void *context, void *run) {
  Runs *self = context;
  FrontRun *next = run;
  if (self->n_begun == self->n_due) return 0;
  next->point = self->n_begun++;
  next->base = self->study->base;
  const FrontPoint *point = &self->front->points[next->point];
  next->known = point->load == 1 ? &point->outcome->answers[0].run : NULL;
  next->keeps_parts = point->load == 1 && self->front->keeps_parts;
  next->changes = changes_at(self->study, point->outcome, point->load, self->arena);
  return 1;
}

/* Fits SimConfig.on_request. */
static int add_parts(void *context, const RequestRecord *record, const Metrics *so_far,
                     Diag *diag) {
  (void)so_far, (void)diag;
  FrontRun *self = context;
  if (record->last_token_at < 0 || !record->parts) return 0;
  for (Cause cause = 0; cause < CAUSES; cause++)
    self->parts[cause] += tick_seconds(record->parts->of[cause]);
  self->n_served++;
  return 0;
}

static void make_run(void *run) {
  FrontRun *self = run;
  trial_init(&self->trial);
  self->loaded = true;
  if (trial_load(&self->trial, self->base, &self->changes)) return;
  SimConfig *sim = &self->trial.config.sim;
  sim->keeps_batches = true; // which say whether it is saturated
  sim->without_ranges = !self->trial.config.length.automatic;
  if (self->known && self->known->served.known && !self->keeps_parts &&
      self->known->config_digest == self->trial.config_digest) {
    self->served = self->known->served;
    return;
  }
  if (self->keeps_parts) {
    sim->keeps_parts = true;
    sim->on_request = add_parts;
    sim->on_request_context = self;
  }
  if (trial_run(&self->trial) == 0) self->served = run_served(&self->trial.report);
}

/* Fits Campaign.idle. */
static void show_progress(void *context) {
  Runs *self = context;
  if (!progress_begins(self->began_s, &self->shown_s)) return;
  fprintf(stderr, "searched; %d of %d simulations of the answers at shares of the load",
          self->n_ended, self->front->n);
  progress_said();
}

/* Tokens that come per second of the load that was asked, which no cluster can exceed; where users
 * wait for answers it is not known. */
static void note_offered(Runs *self, const FrontRun *run, double load) {
  if (!workload_waits(&run->trial.config.workload))
    self->offered = fmax(self->offered, run->served.offered_tokens / load);
}

static int take_run(void *context, void *run) {
  Runs *self = context;
  self->n_ended++;
  FrontRun *ended = run;
  FrontPoint *point = &self->front->points[ended->point];
  if (ended->trial.diag.n_entries > 0) {
    diag_append(self->diag, &ended->trial.diag);
    return -1;
  }
  const RunServed *served = &ended->served;
  point->rate = served->throughput_rps;
  point->tokens_per_s = served->output_tokens_per_s;
  point->gpus = served->gpus;
  point->tokens_per_user = 1 / served->tpot_s;
  point->cost = served->cost;
  point->joules = served->joules;
  point->gpu_seconds = point->gpus / point->tokens_per_s * 1e6;
  for (Cause cause = 0; cause < CAUSES && ended->n_served > 0; cause++)
    point->parts[cause] = ended->parts[cause] / (double)ended->n_served;
  note_offered(self, ended, point->load);
  point->saturated = served->saturated;
  point->met = served->met;
  return 0;
}

static void release_run(void *run) {
  FrontRun *self = run;
  if (self->loaded) trial_done(&self->trial);
}

/* ---- The front ---- */

double front_cost(const FrontPoint *point) {
  return isnan(point->cost) ? point->gpu_seconds : point->cost;
}

static int compare_points(const void *a, const void *b) {
  const FrontPoint *left = a, *right = b;
  const double costs = front_cost(left) - front_cost(right);
  if (costs != 0) return costs < 0 ? -1 : 1;
  const double speeds = right->tokens_per_user - left->tokens_per_user;
  return speeds != 0 ? (speeds < 0 ? -1 : 1) : left->number - right->number;
}

/* By cost, those that are no slower than a cheaper one are left out; so are saturated ones, whose
 * speed is of their length. */
static void mark_best(Front *self) {
  double fastest = 0;
  for (int i = 0; i < self->n; i++) {
    FrontPoint *point = &self->points[i];
    point->best = false;
    if (point->saturated || !(point->tokens_per_user > fastest)) continue;
    fastest = point->tokens_per_user;
    point->best = true;
  }
}

int *plan_order(const Provision *study, const DesignOutcome *outcomes, Arena *arena) {
  int *order = ARENA_ARRAY(arena, int, study->n_designs);
  for (int d = 0; d < study->n_designs; d++) {
    const Answer *mine = &outcomes[d].answers[0];
    int at = d;
    for (; at > 0; at--) {
      const Answer *other = &outcomes[order[at - 1]].answers[0];
      if (!mine->found || (other->found && !provision_is_better(study, mine, other))) break;
      order[at] = order[at - 1];
    }
    order[at] = d;
  }
  return order;
}

/* What tokens cost at least, times those that come per second at the load that was asked. */
static double least_cost(const FrontPoint *point) {
  const Takes *takes = &point->outcome->answers[0].fleet.takes;
  const double hour = isnan(takes->cost_per_hour) ? 3600 * takes->gpus : takes->cost_per_hour;
  return hour / 3600 * 1e6 / point->load;
}

/* The load that was asked goes first: all designs are shown at it. */
static int compare_least(const void *a, const void *b) {
  const FrontPoint *left = a, *right = b;
  if ((left->load == 1) != (right->load == 1)) return left->load == 1 ? -1 : 1;
  const double costs = least_cost(left) - least_cost(right);
  return costs != 0 ? (costs < 0 ? -1 : 1) : left->number - right->number;
}

/* Whether the `wanted` first points of the front are among the `n` that were run, whatever the next
 * one gives. Puts those in order. */
static bool is_known(Runs *runs, int n, int wanted) {
  FrontPoint *points = runs->front->points;
  int n_known = 0;
  if (n == runs->front->n) return true;
  const double next = least_cost(&points[n]) / runs->offered;
  qsort(points, (size_t)n, sizeof *points, compare_points);
  mark_best(&(Front){.points = points, .n = n});
  for (int i = 0; i < n; i++)
    n_known += points[i].best && points[i].met && front_cost(&points[i]) < next;
  return n_known >= wanted;
}

int front_make(Front *self, const Provision *study, const DesignOutcome *outcomes, int wanted,
               bool keeps_parts, int jobs, Arena *arena, Diag *diag) {
  const int *order = plan_order(study, outcomes, arena);
  int n = 0;
  while (n < study->n_designs && n < DESIGNS_MAX && outcomes[order[n]].answers[0].found)
    n++;
  *self = (Front){ARENA_ARRAY(arena, FrontPoint, n * LOADS + 1), n * LOADS, keeps_parts};
  for (int i = 0; i < self->n; i++)
    self->points[i] =
        (FrontPoint){.number = i, .outcome = &outcomes[order[i / LOADS]], .load = loads[i % LOADS]};
  qsort(self->points, (size_t)self->n, sizeof *self->points, compare_least);
  const double now = clock_monotonic();
  Runs runs = {
      .front = self, .study = study, .began_s = now, .shown_s = now, .arena = arena, .diag = diag};
  const Campaign campaign = {.jobs = jobs,
                             .ahead = 4,
                             .run_size = sizeof(FrontRun),
                             .next = next_run,
                             .make = make_run,
                             .take = take_run,
                             .release = release_run,
                             .idle = show_progress,
                             .context = &runs};
  int status = 0;
  while (status == 0 && !is_known(&runs, runs.n_due, wanted)) {
    const int due = runs.n_due + (runs.n_due == 0 ? n : AT_ONCE);
    runs.n_due = due < self->n ? due : self->n;
    status = campaign_run(&campaign, arena, diag);
  }
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  if (status) return -1;
  self->n = runs.n_due;
  qsort(self->points, (size_t)self->n, sizeof *self->points, compare_points);
  mark_best(self);
  return 0;
}

const FrontPoint *front_asked(const Front *self, const DesignOutcome *outcome) {
  for (int i = 0; i < self->n; i++)
    if (self->points[i].outcome == outcome && self->points[i].load == 1) return &self->points[i];
  return NULL;
}
