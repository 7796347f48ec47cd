/* The answer of a plan over each window of a sampled trace, and what the whole trace then has.
 *
 * A window is a run of its own. It begins a while before the window and ends as long after it, so
 * that those who arrive in it find the cluster and the others as they are in the trace; only they
 * count. Prefix caches begin empty in each. */
#include "experiments/plan/sampled.h"
#include "experiments/campaign/campaign.h"
#include "experiments/plan/plan.h"
#include <math.h>
#include <string.h>

/* Before and after a window: a part of it, and at least so long. */
enum { PART_OF_WINDOW = 4, LEAST_S = 60 };

static const char *const figure_names[SAMPLED_FIGURES] = {"ttft", "tpot", "e2e"};

typedef struct Values {
  double *values; // [n]
  size_t n, capacity;
} Values;

/* A window while it is simulated. */
typedef struct Seen {
  Values of[SAMPLED_FIGURES];
  Tick from, to; // arrivals that count
  Arena *arena;
} Seen;

static void add(Seen *self, int figure, double value) {
  Values *to = &self->of[figure];
  ARENA_RESERVE(self->arena, to->values, to->capacity, to->n + 1);
  to->values[to->n++] = value;
}

/* Fits SimConfig.on_request. What is never served is infinitely slow, as for limits. */
static int see_request(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  Seen *self = context;
  (void)so_far, (void)diag;
  if (record->arrived_at < self->from || record->arrived_at >= self->to) return 0;
  const bool served = !record->rejected && !record->cancelled && record->last_token_at >= 0;
  const double ttft = tick_seconds(record->first_token_at - record->arrived_at);
  const double decoding = tick_seconds(record->last_token_at - record->first_token_at);
  add(self, SAMPLED_TTFT, served ? ttft : INFINITY);
  add(self, SAMPLED_E2E, served ? ttft + decoding : INFINITY);
  if (record->output_tokens > 1)
    add(self, SAMPLED_TPOT, served ? decoding / (record->output_tokens - 1) : INFINITY);
  return 0;
}

int sampled_window(SampleSeen ret[SAMPLED_FIGURES], Tick start, Tick length, const Config *answer,
                   Arena *keep, Diag *diag) {
  Tick around = length / PART_OF_WINDOW;
  if (around < LEAST_S * TICKS_PER_SECOND) around = LEAST_S * TICKS_PER_SECOND;
  const Tick from = start > around ? start - around : 0;
  Seen seen = {.from = start - from, .to = start - from + length, .arena = keep};
  Trial trial;
  trial_init(&trial);
  Arena *arena = &trial.arena;
  Node *root = node_copy(answer->root, arena);
  Node *workload = (Node *)node_find(root, "workload");
  node_take(workload, "windows");
  node_take(workload, "window");
  const char *const changes[] = {
      arena_printf(arena, "workload.start=%.12f s", tick_seconds(from)),
      arena_printf(arena, "workload.duration=%.12f s", tick_seconds(seen.to + around)), NULL};
  int status = config_bind(&trial.config, answer->path, root,
                           &(ConfigChanges){.assignments = changes, .seed = -1, .tie_seed = -1},
                           answer->cache, arena, &trial.diag);
  if (status == 0) {
    trial.config.sim.memory_limit = answer->sim.memory_limit;
    trial.config.sim.on_request = see_request;
    trial.config.sim.on_request_context = &seen;
    status = trial_run(&trial);
  }
  for (int f = 0; f < SAMPLED_FIGURES; f++)
    ret[f] = (SampleSeen){seen.of[f].values, seen.of[f].n};
  diag_append(diag, &trial.diag);
  trial_done(&trial);
  return status;
}

static int figure_of(const SloSpec *spec) {
  if (!spec->metric || slo_is_share(spec) || spec->component > 0) return -1;
  for (int f = 0; f < SAMPLED_FIGURES; f++)
    if (strcmp(spec->metric->name, figure_names[f]) == 0) return f;
  return -1;
}

/* Half of two ranges on one side, which are independent. */
static double both(double one, double other) {
  return isfinite(one) && isfinite(other) ? hypot(one, other) : INFINITY;
}

typedef struct WindowSeen {
  SampleSeen of[SAMPLED_FIGURES];
} WindowSeen;

static SampledLimit estimate(const TraceSample *sample, const WindowSeen *seen,
                             const Answer *answer, int limit, Arena *arena) {
  const SloOutcome *slo = &answer->slos[limit];
  const int figure = figure_of(slo->spec);
  SampledLimit ret = {.spec = slo->spec};
  if (figure < 0) return ret;
  SampleSeen *values = ARENA_ARRAY(arena, SampleSeen, (size_t)sample->n);
  for (int w = 0; w < sample->n; w++)
    values[w] = seen[w].of[figure];
  ret.known = true;
  ret.of = slo->spec->statistic == SLO_MEAN
               ? sample_mean(sample, values, arena)
               : sample_quantile(sample, values, slo->spec->quantile, arena);
  ret.low = ret.of.low;
  ret.high = ret.of.high;
  const double value = ret.of.value;
  double below = 0, above = 0; // by the error of the times, of what the search saw
  for (int i = 0; i < MOVES && answer->moved_slos[i]; i++) {
    const double moved = answer->moved_slos[i][limit].value / slo->value - 1;
    below = fmax(below, -moved);
    above = fmax(above, moved);
  }
  ret.low = fmax(value - both(value - ret.of.low, value * below), 0);
  ret.high = value + both(ret.of.high - value, value * above);
  return ret;
}

int plan_sampled(Sampled *ret, const TraceSample *sample, const Answer *answer,
                 const Config *config, Arena *arena, Diag *diag) {
  WindowSeen *seen = ARENA_ARRAY(arena, WindowSeen, (size_t)sample->n);
  *ret = (Sampled){.sample = sample,
                   .limits = ARENA_ARRAY(arena, SampledLimit, (size_t)answer->n_slos),
                   .n_limits = answer->n_slos};
  for (int w = 0; w < sample->n; w++)
    if (sample->windows[w].rows > 0 &&
        sampled_window(seen[w].of, sample->windows[w].start, sample->length, config, arena, diag))
      return -1;
  for (int i = 0; i < answer->n_slos; i++)
    ret->limits[i] = estimate(sample, seen, answer, i, arena);
  return 0;
}

const char *sampled_verdict(const SampledLimit *self) {
  const double limit = self->spec->limit;
  if (!self->known || isnan(self->of.value)) return "not estimated";
  if (self->of.high < limit) return "met";
  return self->of.low >= limit ? "missed" : "undecided";
}
