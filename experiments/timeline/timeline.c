/* See timeline.h. What is drawn of a run is chosen here. */
#include "experiments/timeline/timeline.h"
#include "experiments/results/results.h"
#include "experiments/timeline/recorder.h"
#include <stdlib.h>
#include <string.h>

/* ---- Machines by name ---- */

static uint32_t count_machines(const SimConfig *sim) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < sim->n_pools; p++)
    n += sim->pools[p].count;
  return n;
}

static bool choose_pool(const SimConfig *sim, const char *name, bool *chosen) {
  InstanceIx first = 0;
  for (uint32_t p = 0; p < sim->n_pools; first += sim->pools[p].count, p++) {
    if (strcmp(sim->pools[p].name, name) != 0) continue;
    for (uint32_t i = 0; i < sim->pools[p].count; i++)
      chosen[first + i] = true;
    return true;
  }
  return false;
}

/* "5" or "5..7"; -1 when it is neither. */
static int read_range(const char *text, uint64_t *ret_first, uint64_t *ret_last) {
  char *end;
  if (*text < '0' || *text > '9') return -1;
  *ret_first = *ret_last = strtoull(text, &end, 10);
  if (strncmp(end, "..", 2) == 0 && end[2] >= '0' && end[2] <= '9')
    *ret_last = strtoull(end + 2, &end, 10);
  return *end == '\0' ? 0 : -1;
}

static int choose(const SimConfig *sim, const char *item, bool *chosen, Arena *arena, Diag *diag) {
  const uint32_t n = count_machines(sim);
  uint64_t first, last;
  if (choose_pool(sim, item, chosen)) return 0;
  const Place at = place_of_file("--machines");
  if (read_range(item, &first, &last) == 0) {
    if (first > last || last >= n)
      return diag_error(diag, at, "'%s' is outside the instances 0 to %u", item, n - 1);
    for (uint64_t m = first; m <= last; m++)
      chosen[m] = true;
    return 0;
  }
  const char **names = ARENA_ARRAY(arena, const char *, sim->n_pools + 1);
  for (uint32_t p = 0; p < sim->n_pools; p++)
    names[p] = sim->pools[p].name;
  diag_error(diag, at, "'%s' is neither a pool nor an instance such as 3 or 5..7", item);
  diag_hint_near(diag, item, names);
  return -1;
}

const bool *timeline_machines(const Config *config, const char *list, Arena *arena, Diag *diag) {
  const SimConfig *sim = &config->sim;
  const uint32_t n = count_machines(sim);
  bool *chosen = ARENA_ARRAY(arena, bool, n);
  int status = 0;
  for (uint32_t m = 0; m < n && !list; m++)
    chosen[m] = true;
  for (size_t length; list; list = list[length] ? list + length + 1 : NULL) {
    length = strcspn(list, ",");
    status |= choose(sim, arena_copy(arena, list, length), chosen, arena, diag);
  }
  return status ? NULL : chosen;
}

/* ---- How much there is ---- */

enum { COUNTER_SHARE = 5, ABOUT_SAMPLE = 240, SAMPLES_MAX = 2000 };

/* What is tried: from everything on. */
static const int joins_ms[] = {0,   1,   2,    5,    10,   20,    50,    100,
                               200, 500, 1000, 2000, 5000, 10000, 20000, 60000};
enum { JOINS = sizeof joins_ms / sizeof *joins_ms };

static Tick join_of(int i) {
  return joins_ms[i] * (TICKS_PER_SECOND / 1000);
}

/* The run drawn in all of these ways at once, but for those that have become too large. */
typedef struct Survey {
  TimelineOptions options[JOINS];
  Recorder recorders[JOINS];
  int first; // that is not too large, the last in any case
  int64_t size;
} Survey;

static Recorder *next_recorder(Survey *self, int *i) {
  if (*i == self->first && *i + 1 < JOINS && self->recorders[*i].events.bytes > self->size)
    *i = ++self->first;
  return *i < JOINS ? &self->recorders[(*i)++] : NULL;
}

#define FOR_EACH(survey, recorder)                                                                 \
  for (int i = ((Survey *)(survey))->first; (recorder = next_recorder(survey, &i));)

static void survey_iterations(void *survey, const IterationSpan *span) {
  Recorder *recorder;
  FOR_EACH(survey, recorder) recorder_draw_iterations(recorder, span);
}

static void survey_transfer(void *survey, const TransferSpan *span) {
  Recorder *recorder;
  FOR_EACH(survey, recorder) recorder_draw_transfer(recorder, span);
}

static void survey_copy(void *survey, const CopySpan *span) {
  Recorder *recorder;
  FOR_EACH(survey, recorder) recorder_draw_copy(recorder, span);
}

static void survey_outcome(void *survey, Tick at, Outcome outcome, uint64_t request,
                           InstanceIx machine, int64_t a, int64_t b) {
  Recorder *recorder;
  FOR_EACH(survey, recorder) recorder_draw_outcome(recorder, at, outcome, request, machine, a, b);
}

static void survey_group(void *survey, const TimelineRow *row) {
  Recorder *recorder;
  FOR_EACH(survey, recorder) recorder_draw_group(recorder, row);
}

/* 1, 2 or 5 and zeroes, of milliseconds, not below `ticks`. */
static Tick round_up(Tick ticks) {
  static const int steps[] = {1, 2, 5};
  for (Tick unit = TICKS_PER_SECOND / 1000;; unit *= 10)
    for (int i = 0; i < 3; i++)
      if (steps[i] * unit >= ticks) return steps[i] * unit;
}

/* Between samples of the machines that are drawn over `span`. */
static Tick choose_interval(const TimelineOptions *self, const Config *config, Tick span,
                            int64_t size) {
  int64_t n_machines = 0;
  for (uint32_t m = 0; m < count_machines(&config->sim); m++)
    n_machines += self->machines[m];
  int64_t n_samples = size / COUNTER_SHARE / ABOUT_SAMPLE / (n_machines > 0 ? n_machines : 1);
  if (n_samples > SAMPLES_MAX) n_samples = SAMPLES_MAX;
  return round_up(span / (n_samples > 0 ? n_samples : 1));
}

/* Simulates in memory of its own, which goes with it. */
static int simulate(Replay *run, const SimObserver *observer, Arena *arena, Diag *diag) {
  run->config.sim.observer = observer;
  const int status = replay_run(run, arena, diag);
  run->config.sim.observer = NULL;
  return status;
}

int timeline_choose(TimelineOptions *self, Replay *run, int64_t size, Diag *diag) {
  Arena arena;
  arena_init(&arena);
  Survey *survey = ARENA_NEW(&arena, Survey);
  *survey = (Survey){.size = size - size / COUNTER_SHARE};
  for (int i = 0; i < JOINS; i++) {
    survey->options[i] = *self;
    survey->options[i].join = join_of(i);
    recorder_init(&survey->recorders[i], &survey->options[i], &run->config, NULL, &arena);
  }
  const SimObserver observer = {.context = survey,
                                .on_iterations = survey_iterations,
                                .on_transfer = survey_transfer,
                                .on_copy = survey_copy,
                                .on_outcome = survey_outcome,
                                .on_group = survey_group};
  const int status = simulate(run, &observer, &arena, diag);
  const Tick end = survey->recorders[survey->first].counts.end;
  self->join = join_of(survey->first);
  if (self->interval == 0) {
    const Tick to = self->to > 0 && self->to < end ? self->to : end;
    self->interval =
        choose_interval(self, &run->config, to > self->from ? to - self->from : 1, size);
    if (self->interval < self->join) self->interval = self->join;
  }
  arena_done(&arena);
  return status;
}

/* ---- Writing ---- */

/* What is not in the file, for whoever opens it; "" when all is. */
static const char *left_out(const TimelineOptions *self, Arena *arena) {
  if (self->join == 0) return "nothing";
  return arena_printf(arena,
                      "slices that together last no longer than %g s are joined, and arrows of an "
                      "instance closer than that",
                      tick_seconds(self->join));
}

int timeline_write(const TimelineOptions *self, Replay *run, FILE *out, TimelineCounts *ret_counts,
                   Diag *diag) {
  Arena arena;
  arena_init(&arena);
  Recorder recorder;
  recorder_init(&recorder, self, &run->config, out, &arena);
  const int status = simulate(run, &recorder.observer, &arena, diag);
  if (status == 0) {
    recorder_end(&recorder);
    const char *const facts[] = {"run",      run->source,
                                 "digest",   results_hex(run->result.digest, &arena),
                                 "left_out", left_out(self, &arena),
                                 NULL};
    events_end(&recorder.events, facts);
    recorder.counts.bytes = recorder.events.bytes;
    *ret_counts = recorder.counts;
  }
  arena_done(&arena);
  return status;
}
