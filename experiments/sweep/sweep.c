/* The threads of a campaign load and simulate points; this one stores them, so that SQLite has one
 * writer and a point is in the database soon after it ends. */
#include "experiments/sweep/sweep.h"
#include "experiments/base/epoch.h"
#include "experiments/base/exit_code.h"
#include <string.h>

/* ---- One point ---- */

/* Loads the trial of `point`. */
static int load_point(SweepRun *self, int64_t point, Trial *trial) {
  Setting *settings = ARENA_ARRAY(&trial->arena, Setting, self->sweep.n_settings_max);
  const ConfigChanges changes = {.seed = -1,
                                 .tie_seed = -1,
                                 .settings = settings,
                                 .n_settings = sweep_settings(&self->sweep, point, settings)};
  return trial_load(trial, &self->base, &changes);
}

/* ---- Before it begins ---- */

/* Whether the first problem is with a key that an axis names, not with a value it has there. */
static bool is_at_key(const Sweep *sweep, const Diag *diag) {
  const Place *at = &diag->entries[0].at;
  for (int i = 0; i < sweep->n_axes; i++)
    for (int k = 0; k < sweep->axes[i].n_keys; k++) {
      const Place *key_at = &sweep->axes[i].keys[k].at;
      if (at->line == key_at->line && at->column == key_at->column && at->path &&
          strcmp(at->path, key_at->path) == 0)
        return true;
    }
  return false;
}

typedef enum Binding { BINDING_BAD_KEY = -1, BINDING_FAILS, BINDING_HOLDS } Binding;

static Binding try_point(SweepRun *self, int64_t point) {
  Trial trial;
  trial_init(&trial);
  Binding binding = BINDING_HOLDS;
  if (load_point(self, point, &trial))
    binding = is_at_key(&self->sweep, &trial.diag) ? BINDING_BAD_KEY : BINDING_FAILS;
  trial_done(&trial);
  return binding;
}

/* What is wrong with a point, said to the user. */
static int refuse(SweepRun *self, int64_t point, Diag *diag) {
  Trial trial;
  trial_init(&trial);
  load_point(self, point, &trial);
  diag_append(diag, &trial.diag);
  trial_done(&trial);
  return -1;
}

/* Meets all keys: every design, and one choice of every other axis, whose choices all set the same
 * keys. */
static int check_keys(SweepRun *self, Diag *diag) {
  int64_t stride = self->sweep.n_points;
  for (int i = 0; i < self->sweep.n_axes; i++) {
    const Axis *axis = &self->sweep.axes[i];
    stride /= axis->n_choices;
    const int n_tried = axis->n_keys > axis->choices[0].n_settings ? axis->n_choices : 1;
    for (int k = 0; k < n_tried; k++)
      if (try_point(self, k * stride) == BINDING_BAD_KEY) return refuse(self, k * stride, diag);
  }
  return 0;
}

/* A file that no point makes sense of is in error itself. */
static int check_any(SweepRun *self, Diag *diag) {
  for (int64_t point = 0; point < self->sweep.n_points; point++)
    if (try_point(self, point) == BINDING_HOLDS) return 0;
  return refuse(self, 0, diag);
}

static int n_moving(const Axis *axis, const char *key) {
  int n = 0;
  for (int i = 0; i < axis->n_keys; i++)
    n += strcmp(axis->keys[i].key, key) == 0;
  return n;
}

/* The axis of 'seed' alone that another one, of 'workload.seed', leaves nothing to decide; NULL. */
static const Axis *axis_without_effect(const SweepRun *self, const Config *config) {
  const Axis *of_seed = NULL, *of_workload = NULL;
  for (int i = 0; i < self->sweep.n_axes; i++) {
    const Axis *axis = &self->sweep.axes[i];
    if (n_moving(axis, "workload.seed") > 0) of_workload = axis;
    if (n_moving(axis, "seed") == axis->n_keys) of_seed = axis;
  }
  return of_workload && !sim_draws(&config->sim) ? of_seed : NULL;
}

static int check_seeds(SweepRun *self, Diag *diag) {
  Trial trial;
  trial_init(&trial);
  const Axis *axis =
      load_point(self, 0, &trial) == 0 ? axis_without_effect(self, &trial.config) : NULL;
  trial_done(&trial);
  if (!axis) return 0;
  diag_error(diag, axis->keys[0].at,
             "axis '%s' changes nothing, because arrivals and lengths are drawn from "
             "'workload.seed', which is an axis, too",
             axis->name);
  return diag_hint(diag,
                   "omit it, or let both move together: {seed: [1, 2], workload.seed: [1, 2]}");
}

/* The rules of the first of an axis' choices, and of others that may name policies: an axis of more
 * is of numbers. */
enum { CHOICES_WITH_RULES = 64 };

static void add_rules(SweepRun *self, int64_t point, Arena *arena) {
  Trial trial;
  trial_init(&trial);
  if (load_point(self, point, &trial) == 0)
    self->row.epoch = epoch_join(self->row.epoch, config_epoch(&trial.config, &trial.arena), arena);
  trial_done(&trial);
}

static void find_rules(SweepRun *self, Arena *arena) {
  int64_t stride = self->sweep.n_points;
  self->row.epoch = epoch_of(NULL, 0, arena);
  for (int i = 0; i < self->sweep.n_axes; i++) {
    const Axis *axis = &self->sweep.axes[i];
    stride /= axis->n_choices;
    for (int k = 0; k < axis->n_choices && k < CHOICES_WITH_RULES; k++)
      add_rules(self, k * stride, arena);
  }
}

int sweep_run_init(SweepRun *self, const char *path, const ConfigChanges *changes, Arena *arena,
                   Diag *diag) {
  *self = (SweepRun){.row = self->row};
  if (trial_base_init(&self->base, path, changes, arena, diag)) return -1;
  self->row.sweep = &self->sweep;
  self->row.name = path;
  self->row.text = node_text(self->base.root, arena);
  const Node *block = node_take(self->base.root, "sweep");
  if (!block) {
    diag_error(diag, place_of_file(path), "'%s' has no block 'sweep'", path);
    return diag_hint(diag, "add its axes, such as sweep: {pools.prefill.count: 1..40}");
  }
  if (sweep_bind(&self->sweep, block, arena, diag)) return -1;
  if (check_keys(self, diag) || check_any(self, diag) || check_seeds(self, diag)) return -1;
  find_rules(self, arena);
  return 0;
}

void sweep_run_done(SweepRun *self) {
  if (self->base.root) trial_base_done(&self->base);
}

/* ---- Running ---- */

typedef enum PointEnd { POINT_FOUND, POINT_SIMULATED, POINT_FAILED, POINT_INTERRUPTED } PointEnd;

typedef struct PointJob {
  SweepRun *run;
  int64_t point;
  Trial trial;
  PointEnd end;
} PointJob;

/* Points are loaded by the threads too: it takes a share of a small one's time. */
static void run_point(void *slot) {
  PointJob *job = slot;
  trial_init(&job->trial);
  job->end = POINT_FAILED;
  if (load_point(job->run, job->point, &job->trial)) return;
  if (digest_set_has(&job->run->finished, job->trial.config_digest))
    job->end = POINT_FOUND;
  else if (trial_run(&job->trial) == 0 &&
           report_check_served(&job->trial.report, &job->trial.diag) == 0)
    job->end = POINT_SIMULATED;
  else if (diag_exit_code(&job->trial.diag) == EXIT_INTERRUPTED)
    job->end = POINT_INTERRUPTED;
}

static int store_failure(SweepRun *self, Results *results, PointJob *job, Arena *arena,
                         Diag *diag) {
  const char *reason = trial_reason(&job->trial);
  if (!self->first_reason) self->first_reason = arena_copy(arena, reason, strlen(reason));
  self->tally.failed++;
  if (results_add_point(results, &self->row, job->point, diag)) return -1;
  return results_add_failure(results, &job->trial.config, job->trial.config_digest, reason,
                             &job->trial.arena, diag);
}

static int store(SweepRun *self, Results *results, PointJob *job, Arena *arena, Diag *diag) {
  Trial *trial = &job->trial;
  if (job->end == POINT_INTERRUPTED) return 0;
  if (job->end == POINT_FAILED) return store_failure(self, results, job, arena, diag);
  // Points with the same configuration are one run, also when both were on their way.
  const int linked = results_link_point(results, &self->row, job->point, trial->config_digest,
                                        &trial->arena, diag);
  if (linked < 0) return -1;
  self->tally.found += linked;
  if (linked) return 0;
  if (job->end == POINT_FOUND)
    return diag_environment(diag, place_of_file(results->path),
                            "a run was removed from '%s' while the sweep needed it", results->path);
  self->tally.done++;
  if (results_add_point(results, &self->row, job->point, diag)) return -1;
  return results_add_run(results, &trial->report, trial->config_digest, &trial->arena, diag);
}

/* The points that are still to be run, and where they go. */
typedef struct Feed {
  SweepRun *run;
  Results *results;
  int64_t next; // of the shard's points
  Arena *arena;
  Diag *diag;
} Feed;

static int next_point(void *context, void *slot) {
  Feed *self = context;
  const SweepRow *row = &self->run->row;
  if (self->next == self->run->tally.points) return 0;
  *(PointJob *)slot = (PointJob){
      .run = self->run, .point = sweep_shard_point(row->shard, row->n_shards, self->next++)};
  return 1;
}

static int take_point(void *context, void *slot) {
  Feed *self = context;
  const int status = store(self->run, self->results, slot, self->arena, self->diag);
  tally_show(&self->run->tally);
  return status;
}

static void release_point(void *slot) {
  PointJob *job = slot;
  trial_done(&job->trial);
}

static void begin_tally(SweepRun *self) {
  tally_init(&self->tally, sweep_shard_points(&self->sweep, self->row.shard, self->row.n_shards));
}

int sweep_run(SweepRun *self, Results *results, int jobs, Arena *arena, Diag *diag) {
  Feed feed = {.run = self, .results = results, .arena = arena, .diag = diag};
  const Campaign campaign = {.jobs = jobs,
                             .ahead = 4,
                             .run_size = sizeof(PointJob),
                             .next = next_point,
                             .make = run_point,
                             .take = take_point,
                             .release = release_point,
                             .context = &feed,
                             .results = results};
  begin_tally(self);
  const int status = campaign_run(&campaign, arena, diag);
  tally_done(&self->tally);
  return status == 0 && tally_ended(&self->tally) < self->tally.points ? diag_interrupted(diag)
                                                                       : status;
}

int64_t sweep_run_plan(SweepRun *self, int64_t *ret_first, int64_t most) {
  const SweepRow *row = &self->row;
  int64_t n = 0;
  begin_tally(self);
  for (int64_t i = 0; i < self->tally.points; i++) {
    const int64_t point = sweep_shard_point(row->shard, row->n_shards, i);
    Trial trial;
    trial_init(&trial);
    const bool failed = load_point(self, point, &trial) != 0;
    const bool found = !failed && digest_set_has(&self->finished, trial.config_digest);
    trial_done(&trial);
    self->tally.failed += failed;
    self->tally.found += found;
    if (failed || found) continue;
    if (n < most) ret_first[n] = point;
    n++;
  }
  return n;
}
