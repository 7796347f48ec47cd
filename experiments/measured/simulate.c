/* Configurations of points to predictions: equal ones once, on several threads. */
#include "experiments/base/progress.h"
#include "experiments/campaign/campaign.h"
#include "experiments/measured/set.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compiled performance models of runs that follow one another, and that are alike by their order.
 * Those of wide expert parallelism have 60 MB each, so that not all can be kept. */
typedef struct Family {
  Cache cache;
  int users; // runs, and the simulation while others may follow
} Family;
static const size_t FAMILY_BYTES = (size_t)1 << 28; // beyond which a new one begins

/* Points with a configuration, equal ones side by side. */
typedef struct Simulation {
  MeasuredPoint **points; // [n_points]
  size_t n_points, n_begun;
  Cache cache;    // of what families share
  Family *family; // of the last that began; NULL: none has
  size_t memory;
  Arena *arena;
  Tally tally;
} Simulation;

/* What lies in a slot: the points that have this configuration. */
typedef struct Run {
  Simulation *simulation;
  Family *family;
  MeasuredPoint **points; // [n_points]
  size_t n_points;
  RequestRecord *requests; // [n_points] of a log, by number
  Trial trial;
  bool simulated;
} Run;

/* By all but the workload, by configuration, then by place in the file. */
static int compare(const void *a, const void *b) {
  const MeasuredPoint *left = *(MeasuredPoint *const *)a, *right = *(MeasuredPoint *const *)b;
  int order = strcmp(left->served, right->served);
  if (order == 0) order = strcmp(left->config, right->config);
  return order != 0 ? order : (left > right) - (left < right);
}

static void leave_family(Family *family) {
  if (family && --family->users == 0) cache_done(&family->cache);
}

static Family *join_family(Simulation *self) {
  if (!self->family || cache_bytes(&self->family->cache) > FAMILY_BYTES) {
    leave_family(self->family);
    self->family = ARENA_NEW(self->arena, Family);
    cache_init(&self->family->cache);
    self->family->cache.lasting = &self->cache;
    self->family->users = 1;
  }
  self->family->users++;
  return self->family;
}

static int next_run(void *context, void *slot) {
  Simulation *self = context;
  if (self->n_begun == self->n_points) return 0;
  Run *run = slot;
  *run = (Run){.simulation = self, .points = &self->points[self->n_begun]};
  run->family = join_family(self);
  while (self->n_begun < self->n_points &&
         strcmp(self->points[self->n_begun]->config, run->points[0]->config) == 0)
    self->n_begun++, run->n_points++;
  trial_init(&run->trial);
  return 1;
}

/* Fits SimConfig.on_request. */
static int keep_request(void *context, const RequestRecord *record, const Metrics *so_far,
                        Diag *diag) {
  Run *run = context;
  if (record->id < run->n_points) run->requests[record->id] = *record;
  (void)so_far, (void)diag;
  return 0;
}

/* On a thread: all it touches is the run's, but for the cache, which has a lock. */
static void make_run(void *slot) {
  Run *run = slot;
  Trial *trial = &run->trial;
  const char *text = run->points[0]->config;
  Node *root = yaml_parse("config", text, strlen(text), &trial->arena, &trial->diag);
  if (!root || config_bind(&trial->config, "config", root, NULL, &run->family->cache, &trial->arena,
                           &trial->diag))
    return;
  trial->config.sim.memory_limit = run->simulation->memory;
  if (run->points[0]->log) {
    run->requests = ARENA_ARRAY(&trial->arena, RequestRecord, run->n_points);
    trial->config.sim.on_request = keep_request;
    trial->config.sim.on_request_context = run;
  }
  run->simulated = trial_run(trial) == 0 && report_check_served(&trial->report, &trial->diag) == 0;
}

/* The first thing that is wrong, without its place in a text that nobody wrote. */
static const char *reason(const Run *run, Arena *arena) {
  const Diag *diag = &run->trial.diag;
  if (diag->n_entries == 0) return "it cannot be simulated";
  const DiagEntry *entry = &diag->entries[0];
  return entry->hint ? arena_printf(arena, "%s (%s)", entry->message, entry->hint)
                     : arena_printf(arena, "%s", entry->message);
}

static void take_request(MeasuredPoint *point, const RequestRecord *record) {
  const double decoding_s = tick_seconds(record->last_token_at - record->first_token_at);
  point->predicted[MEASURED_TTFT] = tick_seconds(record->first_token_at - record->arrived_at);
  point->predicted[MEASURED_E2E] = tick_seconds(record->last_token_at - record->arrived_at);
  if (record->output_tokens > 1)
    point->predicted[MEASURED_TPOT] = decoding_s / (record->output_tokens - 1);
}

static void take_figures(MeasuredPoint *point, const Report *report) {
  point->predicted[MEASURED_TTFT] = report_latency(report, "ttft_s", "mean");
  point->predicted[MEASURED_TPOT] = report_latency(report, "tpot_s", "mean");
  point->predicted[MEASURED_E2E] = report_latency(report, "e2e_s", "mean");
  point->predicted[MEASURED_THROUGHPUT] =
      point->clients > 0 ? measured_loop_throughput(point, point->predicted)
                         : report->run.output_tokens_per_s / (double)measured_gpus(point);
}

static void take_point(MeasuredPoint *point, const Run *run, Arena *arena) {
  const Report *report = &run->trial.report;
  if (!run->simulated)
    measured_refuse(point, reason(run, arena));
  else if (report->run.completed < report->run.requests)
    measured_refuse(point, arena_printf(arena, "%.0f of its %.0f requests could not be served",
                                        report->run.requests - report->run.completed,
                                        report->run.requests));
  else if (point->log)
    take_request(point, &run->requests[point->request]);
  else
    take_figures(point, report);
  if (!point->why) point->extrapolated = report->extrapolated.time_share;
}

static int take_run(void *context, void *slot) {
  Simulation *self = context;
  const Run *run = slot;
  for (size_t i = 0; i < run->n_points; i++) {
    take_point(run->points[i], run, self->arena);
    if (run->points[i]->why)
      self->tally.failed++;
    else
      self->tally.done++;
  }
  tally_show(&self->tally);
  return 0;
}

static void release_run(void *slot) {
  Run *run = slot;
  trial_done(&run->trial);
  leave_family(run->family);
}

int measured_simulate(Measured *self, int jobs, size_t memory, Diag *diag) {
  Simulation simulation = {.points = ARENA_ARRAY(self->arena, MeasuredPoint *, self->n_points),
                           .memory = memory,
                           .arena = self->arena};
  for (size_t i = 0; i < self->n_points; i++)
    if (!self->points[i].why) simulation.points[simulation.n_points++] = &self->points[i];
  qsort(simulation.points, simulation.n_points, sizeof *simulation.points, compare);
  const Campaign campaign = {.jobs = jobs,
                             .ahead = 4,
                             .run_size = sizeof(Run),
                             .next = next_run,
                             .make = make_run,
                             .take = take_run,
                             .release = release_run,
                             .context = &simulation};
  cache_init(&simulation.cache);
  tally_init(&simulation.tally, (int64_t)simulation.n_points);
  const int status = campaign_run(&campaign, self->arena, diag);
  tally_done(&simulation.tally);
  leave_family(simulation.family);
  cache_done(&simulation.cache);
  return status;
}
