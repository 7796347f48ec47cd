/* See replicate.h. */
#include "experiments/provision/replicate.h"
#include "experiments/provision/likely.h"
#include <math.h>
#include <string.h>

ProbeRun *replicate_run(const Replicate *self, const Probe *probe, int domain) {
  for (size_t i = 0; i < self->n_runs; i++)
    if (self->runs[i]->domain == domain && probe_equal(&self->runs[i]->probe, probe))
      return self->runs[i];
  return NULL;
}

static double margin_of(const ProbeRun *run) {
  const SloOutcome *binding = probe_run_binding(run);
  return binding ? binding->margin : INFINITY;
}

ProbeRun *replicate_find(const Replicate *self, const Probe *probe) {
  ProbeRun *least = NULL;
  for (int d = 0, n = 1; d < n; d++) {
    ProbeRun *run = replicate_run(self, probe, d);
    if (!run || run->verdict == PROBE_FAILS) return run;
    if (!least || margin_of(run) < margin_of(least)) least = run;
    n = run->n_domains;
  }
  return least;
}

/* ---- The space of a design ---- */

static bool within_budget(const Provision *self, const Design *design, const int64_t *counts) {
  const Takes takes = design_takes(design, counts);
  return !provision_exceeds(self, &takes);
}

/* What a budget leaves of the design's last count, with so many of the first one of two; less than
 * its range has where that is nothing. */
static int64_t last_count(const Provision *self, const Design *design, int64_t first) {
  const CountRange *range = &design->counts[design->n_counts - 1];
  int64_t counts[COUNTS_MAX] = {first, 0}, *last = &counts[design->n_counts - 1];
  int64_t held = range->low - 1;
  for (int64_t over = range->high + 1; over - held > 1;) {
    *last = held + (over - held) / 2;
    *(within_budget(self, design, counts) ? &held : &over) = *last;
  }
  return held;
}

static int fill_clusters(const Provision *self, const Design *design, Probe *clusters) {
  if (design->n_counts == 0) {
    const bool fits = self->budget_of == OBJECTIVE_THROUGHPUT || within_budget(self, design, NULL);
    return fits;
  }
  const CountRange *last = &design->counts[design->n_counts - 1];
  if (design->n_counts == 1) {
    clusters[0] = (Probe){{last_count(self, design, 0), 0}, 0};
    return clusters[0].counts[0] >= last->low;
  }
  int n = 0;
  for (int64_t first = design->counts[0].low; first <= design->counts[0].high; first++) {
    const int64_t second = last_count(self, design, first);
    if (second < last->low) break;
    // One more of the first for no fewer of the second is never worse.
    if (n > 0 && clusters[n - 1].counts[1] == second) n--;
    clusters[n++] = (Probe){{first, second}, 0};
  }
  return n;
}

/* What an objective is of. */
typedef struct Costs {
  const Provision *provision;
  const Design *design;
  Objective objective;
} Costs;

/* Fits SearchSpace.cost. */
static double cost_of(const void *context, const int64_t *counts) {
  const Costs *self = context;
  const Takes takes = design_takes(self->design, counts);
  const double value = takes_value(&takes, self->objective);
  // Beyond a budget of power: more than anything within it, and no less for more.
  return provision_exceeds(self->provision, &takes) ? 1e12 + value : value;
}

void replicate_begin(const Provision *self, Replicate *replicate, const Answer *likely,
                     Arena *arena) {
  const Design *design = replicate->design;
  SearchSpace *space = &replicate->space;
  *space = (SearchSpace){.n_counts = design->n_counts, .has_start = likely != NULL};
  int64_t candidates = 1;
  for (int i = 0; i < design->n_counts; i++) {
    space->low[i] = design->counts[i].low;
    space->high[i] = design->counts[i].high;
    space->each[i] = takes_value(&design->each[i], self->objective);
    if (i == 0) candidates += space->high[i] - space->low[i];
    if (likely) space->start.counts[i] = likely->counts[i];
  }
  if (!likely) likely_counts(self, design, space->likely);
  if (self->objective != OBJECTIVE_THROUGHPUT) {
    Costs *costs = ARENA_NEW(arena, Costs);
    *costs = (Costs){self, design, self->objective};
    space->cost = cost_of;
    space->cost_context = costs;
    return;
  }
  Probe *clusters = ARENA_ARRAY(arena, Probe, candidates);
  space->clusters = clusters;
  space->n_clusters = fill_clusters(self, design, clusters);
  space->rate_low = (int64_t)ceil(self->rate_from / self->tolerance - 1e-9);
  space->rate_high = (int64_t)floor(self->rate_to / self->tolerance + 1e-9);
  const double rate = likely ? likely->rate : self->base_rate;
  const int64_t start = llround(rate / self->tolerance);
  space->start.rate = start < space->rate_low    ? space->rate_low
                      : start > space->rate_high ? space->rate_high
                                                 : start;
}

/* ---- Terms ---- */

void replicate_begin_alone(Replicate *self, const Probe *answer) {
  self->space = (SearchSpace){
      .n_counts = self->design->n_counts, .has_start = true, .start = *answer, .each = {1, 1}};
  for (int i = 0; i < SEARCH_DIMENSIONS; i++)
    self->space.low[i] = self->space.high[i] = answer->counts[i];
}

/* How much less a run has left of the limit that binds the other one; 0: no less. */
static double lost_margin(const Replicate *screen, const Probe *answer, const ProbeRun *base) {
  const ProbeRun *run = replicate_find(screen, answer);
  const SloOutcome *binding = probe_run_binding(base);
  if (!run || !binding) return 0;
  const double lost = binding->margin - run->slos[binding - base->slos].margin;
  return lost > 0 ? lost : 0; // also not if it is not a number
}

MovedTerms replicate_moved(const Replicate *first, const Replicate *screens,
                           const double error[TERM_MOVES]) {
  MovedTerms moved = {0};
  const Probe *answer = &first->result.answer;
  const ProbeRun *base = replicate_find(first, answer);
  double lost[TERM_MOVES] = {0}, all = 0, squares = 0;
  memcpy(moved.error, error, sizeof moved.error);
  for (int g = 0; g < TERM_SCREENS; g++) {
    lost[g] = error[g] > 0 ? lost_margin(&screens[g], answer, base) : 0;
    if (error[g] > 0) all += lost[g] / error[g];
  }
  lost[MOVE_SUM] = all * error[MOVE_SUM]; // of all terms at once
  for (int g = 0; g < TERM_MOVES; g++)
    squares += lost[g] * lost[g];
  // Where nothing moves the limit, all of it counts.
  for (int g = 0; g < TERM_MOVES; g++)
    moved.part.by[g] = squares > 0 ? lost[g] / sqrt(squares) : error[g] > 0;
  return moved;
}

/* ---- Its answer ---- */

/* Of two probes of a search for counts the one with less of the first count, then of the second. */
static bool has_less(const Probe *a, const Probe *b) {
  return a->counts[0] != b->counts[0] ? a->counts[0] < b->counts[0] : a->counts[1] < b->counts[1];
}

/* The failing run nearest to the answer among those that ask more of the cluster. Steps are in the
 * order of the search, which the number of threads does not change; runs are not. */
static const ProbeRun *next_failure(const Replicate *self, const Probe *answer) {
  const Probe *nearest = NULL;
  int64_t least = INT64_MAX;
  for (int i = 0; i < self->result.n_steps; i++) {
    const SearchStep *step = &self->result.steps[i];
    const int64_t fewer[] = {answer->counts[0] - step->probe.counts[0],
                             answer->counts[1] - step->probe.counts[1],
                             step->probe.rate - answer->rate};
    if (step->verdict != PROBE_FAILS || fewer[0] < 0 || fewer[1] < 0 || fewer[2] < 0) continue;
    const int64_t distance = fewer[0] + fewer[1] + fewer[2];
    const bool as_near = self->space.n_clusters == 0 && distance == least;
    if (distance > least || (distance == least && !(as_near && has_less(&step->probe, nearest))))
      continue;
    least = distance;
    nearest = &step->probe;
  }
  return nearest ? replicate_find(self, nearest) : NULL;
}

Answer replicate_answer(const Provision *self, const Replicate *replicate) {
  if (!replicate->result.found) return (Answer){0};
  const Design *design = replicate->design;
  const Probe *probe = &replicate->result.answer;
  static const ProbeRun inferred; // as it may be with times moved
  const ProbeRun *run = replicate_find(replicate, probe), *failure = next_failure(replicate, probe);
  if (!run) run = &inferred;
  const SloOutcome *binding = probe_run_binding(run);
  const double rate = provision_probe_rate(self, probe);
  Answer answer = {.found = true,
                   .open_ended = self->objective == OBJECTIVE_THROUGHPUT &&
                                 probe->rate >= replicate->space.rate_high,
                   .rate = rate > 0              ? rate
                           : self->base_rate > 0 ? self->base_rate
                                                 : NAN,
                   .run = probe_run_kept(run),
                   .fleet = design->fixed,
                   .binds = binding ? binding->spec->name : NULL,
                   .margin = binding ? binding->margin : NAN,
                   .next_fails = failure ? probe_run_binding(failure)->spec->name : NULL,
                   .kv = probe_run_pressure(run),
                   .slos = run->slos,
                   .n_slos = run->n_slos};
  answer.fleet.takes = design_takes(design, probe->counts);
  for (int i = 0; i < design->n_counts; i++) {
    answer.counts[i] = probe->counts[i];
    answer.fleet.n[design->roles[i]] += probe->counts[i];
  }
  return answer;
}
