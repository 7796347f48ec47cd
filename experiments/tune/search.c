/* The descent from the current values: races along one knob at a time. */
#include "experiments/tune/tune.h"
#include <math.h>
#include <string.h>

/* Values of a knob of which every one is tried at once; rounds at most; and what is given up on one
 * seed: what is worse by more than this share. */
enum { FEW_VALUES = 5, ROUNDS_MAX = 64, OUT = INT16_MAX };
static const double LOST_SHARE = 0.1;
/* On one seed a difference by more than this share counts as one in what is said of a knob. */
static const double SEEN_SHARE = 0.02;
/* Of the rate that another point holds, below which none is looked for. */
static const double RATE_FLOOR = 0.8;

typedef struct Candidate {
  TunePoint point;
  int knob, value;
  int rank; // among those of its knob, the most promising first
  bool alive;
  Difference difference; // from where the search is
} Candidate;

typedef struct Search {
  Tuning *tuning;
  TunePoint at;
  bool hopeless[TUNE_KNOBS_MAX][TUNE_VALUES_MAX];
  Candidate *all; // [n] of a round
  int n;
} Search;

/* ---- Wishes ---- */

static int64_t steps_of(const Tuning *self, const TunePoint *point, int seed) {
  const TuneEval *eval = tune_find(self, point, seed, 0);
  return eval && self->step > 0 ? (int64_t)llround(eval->value / self->step) : 0;
}

static TuneWish wish_of(const Search *self, const TunePoint *point, int seed) {
  const int64_t likely = steps_of(self->tuning, &self->at, seed);
  return (TuneWish){.point = *point,
                    .seed = seed,
                    .likely = likely,
                    .low = (int64_t)(RATE_FLOOR * (double)likely)};
}

/* A point on all seeds of the search. */
static int measure_whole(Search *self, const TunePoint *point) {
  Tuning *tuning = self->tuning;
  TuneWish *wishes = ARENA_ARRAY(tuning->arena, TuneWish, tuning->n_seeds);
  const int64_t likely = steps_of(tuning, &self->at, 0);
  for (int s = 0; s < tuning->n_seeds; s++)
    wishes[s] = (TuneWish){.point = *point, .seed = s, .likely = likely};
  return tune_measure(tuning, wishes, tuning->n_seeds);
}

/* ---- A race ---- */

static double gain_of(const Search *self, const Candidate *candidate) {
  return objective_gain(&self->tuning->objective, candidate->difference.value);
}

/* Whether a run of it has no value, or misses limits that must be kept. */
static bool is_refused(const Search *self, const Candidate *candidate, int n_seeds) {
  const Tuning *tuning = self->tuning;
  for (int s = 0; s < n_seeds; s++) {
    const TuneEval *eval = tune_find(tuning, &candidate->point, s, 0);
    if (!eval || !isfinite(eval->value) || eval->bounded || (tuning->keeps_limits && !eval->met))
      return true;
  }
  return false;
}

static bool is_lost(const Search *self, const Candidate *candidate) {
  const Difference *of = &candidate->difference;
  const double gain = gain_of(self, candidate);
  if (isnan(of->half_width)) return gain < -LOST_SHARE * fabs(of->a);
  return gain + of->half_width < 0;
}

/* What is said of a knob, one change from the current values. */
static void note_tried(Search *self, const Candidate *candidate, bool refused) {
  Tuning *tuning = self->tuning;
  KnobTried *tried = &tuning->tried[candidate->knob];
  const Difference *of = &candidate->difference;
  const double gain = gain_of(self, candidate);
  const double worst = objective_gain(&tuning->objective, tried->worst.value),
               best = objective_gain(&tuning->objective, tried->best.value);
  const bool told_apart = isnan(of->half_width) ? fabs(of->value) > SEEN_SHARE * fabs(of->a)
                                                : fabs(of->value) > of->half_width;
  const bool none = of->n == 0 || !isfinite(of->value);
  tried->any_effect |= refused || none || told_apart;
  if (!refused && !none &&
      (tried->best.n == 0 || of->n > tried->best.n || (of->n == tried->best.n && gain > best))) {
    tried->best = *of;
    tried->best_value = candidate->value;
  }
  if (tried->worst_lost || !(none || tried->worst.n == 0 || gain < worst)) return;
  const TuneEval *eval = tune_find(tuning, &candidate->point, 0, 0);
  tried->worst = *of;
  tried->worst_value = candidate->value;
  tried->worst_lost = none;
  tried->worst_bounded = eval && eval->bounded;
}

/* Ranks those of a knob that are alive by their gains. */
static void rank(Search *self) {
  for (int i = 0; i < self->n; i++) {
    Candidate *one = &self->all[i];
    one->rank = 0;
    for (int k = 0; k < self->n; k++) {
      const Candidate *other = &self->all[k];
      if (k == i || other->knob != one->knob || !other->alive) continue;
      const double ours = gain_of(self, one), theirs = gain_of(self, other);
      one->rank += theirs > ours || (theirs == ours && k < i);
    }
  }
}

/* How many simulations a point takes on a seed, on average so far. */
static double cost_of(const Tuning *self) {
  const double evals = (double)self->n_evals, runs = (double)self->n_runs;
  return evals > 0 && runs > evals ? runs / evals : 1;
}

/* Leaves as many alive as the budget has room for on `n_seeds` more, the most promising of each
 * knob first. */
static void keep_to_budget(Search *self, int n_seeds) {
  Tuning *tuning = self->tuning;
  const double left = (double)(tuning->budget - tuning->n_runs);
  double room = floor(left / cost_of(tuning) / n_seeds);
  for (int r = 0, any = 1; any; r++) {
    any = 0;
    for (int i = 0; i < self->n; i++) {
      Candidate *candidate = &self->all[i];
      any |= candidate->alive && candidate->rank > r;
      if (!candidate->alive || candidate->rank != r) continue;
      if (room-- >= 1) continue;
      candidate->alive = false;
      tuning->out_of_budget = true;
    }
  }
}

static int measure_alive(Search *self, int from, int to) {
  Tuning *tuning = self->tuning;
  TuneWish *wishes = ARENA_ARRAY(tuning->arena, TuneWish, self->n * (to - from) + 1);
  int n = 0;
  for (int s = from; s < to; s++)
    for (int i = 0; i < self->n; i++)
      if (self->all[i].alive) wishes[n++] = wish_of(self, &self->all[i].point, s);
  return tune_measure(tuning, wishes, n);
}

/* Compares on the seeds so far; those that are lost are dropped, and the worse half of each knob
 * unless it is the `last` time. */
static void judge(Search *self, int n_seeds, bool last) {
  const Tuning *tuning = self->tuning;
  const bool from_current = memcmp(&self->at, &tuning->current, sizeof self->at) == 0;
  for (int i = 0; i < self->n; i++) {
    Candidate *candidate = &self->all[i];
    if (!candidate->alive) continue;
    candidate->difference = tune_difference(tuning, &self->at, &candidate->point, 0, n_seeds, 0);
    const bool refused = is_refused(self, candidate, n_seeds);
    if (from_current) note_tried(self, candidate, refused);
    if (!refused && !is_lost(self, candidate)) continue;
    candidate->alive = false;
    self->hopeless[candidate->knob][candidate->value] |= n_seeds == 1;
  }
  rank(self);
  for (int i = 0; i < self->n && !last; i++) {
    int n_alive = 0;
    for (int k = 0; k < self->n; k++)
      n_alive += self->all[k].alive && self->all[k].knob == self->all[i].knob;
    if (self->all[i].rank >= (n_alive + 1) / 2) self->all[i].rank = OUT; // so that the count stays
  }
  for (int i = 0; i < self->n; i++)
    self->all[i].alive &= self->all[i].rank != OUT;
}

/* Whether a value is due: all are, or every second one of many, from where the search is, and both
 * ends. */
static bool is_due(const Knob *knob, int at, int value, bool coarse) {
  if (!coarse || !knob->ordered || knob->n_values <= FEW_VALUES) return true;
  return (value - at) % 2 == 0 || value == 0 || value == knob->n_values - 1;
}

/* The values that are due, the nearest of each knob first. */
static void collect(Search *self, bool coarse) {
  const Tuning *tuning = self->tuning;
  self->n = 0;
  for (int k = 0; k < tuning->knobs.n; k++) {
    const Knob *knob = &tuning->knobs.items[k];
    const int at = self->at.at[k];
    for (int v = 0; v < knob->n_values; v++) {
      const int distance = v > at ? v - at : at - v;
      if (v == at || !is_due(knob, at, v, coarse) || knob->values[v].why_not ||
          self->hopeless[k][v])
        continue;
      Candidate *candidate = &self->all[self->n++];
      *candidate = (Candidate){.point = self->at, .knob = k, .value = v, .alive = true};
      candidate->point.at[k] = (int8_t)v;
      candidate->rank = distance;
    }
  }
}

/* On the first seed, on half of them, on all. */
static int race(Search *self) {
  Tuning *tuning = self->tuning;
  const int n = tuning->n_seeds, rungs[] = {1, (n + 1) / 2, n};
  int done = 0;
  for (int r = 0; r < 3; r++) {
    if (rungs[r] == done) continue;
    keep_to_budget(self, rungs[r] - done);
    if (measure_alive(self, done, rungs[r])) return -1;
    done = rungs[r];
    judge(self, done, done == n);
  }
  return 0;
}

/* The candidate that gains most, beyond chance; NULL: none does. */
static const Candidate *winner(const Search *self) {
  const Candidate *best = NULL;
  for (int i = 0; i < self->n; i++) {
    const Candidate *candidate = &self->all[i];
    if (!candidate->alive || !tune_gains(self->tuning, &candidate->difference)) continue;
    if (!best || gain_of(self, candidate) > gain_of(self, best)) best = candidate;
  }
  return best;
}

/* ---- The current values ---- */

/* The step of a rate: about a hundredth of what the current values hold on the first seed. */
static int find_step(Search *self) {
  Tuning *tuning = self->tuning;
  const double base = tuning->load.base_rate > 0 ? tuning->load.base_rate : 1;
  tuning->step = provision_round_down(base / 20);
  const TuneWish wish = {.point = tuning->current, .likely = (int64_t)llround(base / tuning->step)};
  if (tune_measure(tuning, &wish, 1)) return -1;
  const double held = tune_find(tuning, &tuning->current, 0, 0)->value;
  if (!(held > 0)) {
    diag_error(tuning->diag, place_of_file(tuning->base.path),
               "the current values meet the limits at no rate, down to %g %s", tuning->step,
               tuning->objective.unit);
    return diag_hint(tuning->diag, "relax the limits, or tune for --objective goodput");
  }
  tuning->step = provision_round_down(held / 100);
  tuning->n_evals = 0; // in other steps
  tuning->index = (KeyMap){0};
  const TuneWish again = {.point = tuning->current,
                          .likely = (int64_t)llround(held / tuning->step)};
  return tune_measure(tuning, &again, 1);
}

static int measure_current(Search *self) {
  Tuning *tuning = self->tuning;
  if (tuning->objective.kind == TUNE_RATE && find_step(self)) return -1;
  if (measure_whole(self, &tuning->current)) return -1;
  tuning->keeps_limits = tuning->objective.kind != TUNE_RATE &&
                         tuning->objective.kind != TUNE_GOODPUT && tuning->config.slo->n_specs > 0;
  for (int s = 0; s < tuning->n_seeds; s++) {
    const TuneEval *eval = tune_find(tuning, &tuning->current, s, 0);
    tuning->keeps_limits &= eval->met;
    if (isfinite(eval->value)) continue;
    diag_error(tuning->diag, place_of_file(tuning->base.path),
               "'%s' has no value with the current values: requests are rejected or never finish",
               tuning->objective.name);
    return diag_hint(tuning->diag, "tune for --objective throughput, or reduce the load");
  }
  return 0;
}

int tune_search(Tuning *self) {
  Search search = {.tuning = self, .at = self->current};
  search.all = ARENA_ARRAY(self->arena, Candidate, TUNE_KNOBS_MAX * TUNE_VALUES_MAX);
  if (measure_current(&search)) return -1;
  bool coarse = true;
  for (int round = 0; round < ROUNDS_MAX && !self->out_of_budget; round++) {
    collect(&search, coarse);
    if (race(&search)) return -1;
    const Candidate *best = winner(&search);
    if (!best && !coarse) break;
    if (best)
      search.at = best->point;
    else
      coarse = false;
  }
  self->found = search.at;
  self->n_search_runs = self->n_runs;
  return 0;
}
