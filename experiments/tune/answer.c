/* What was found, measured on seeds that the search did not see. */
#include "experiments/tune/tune.h"
#include <math.h>
#include <string.h>

static int first_seed(const Tuning *self) {
  return self->same_seeds ? 0 : self->n_seeds;
}

static TunePoint with_value(TunePoint point, int knob, int8_t value) {
  point.at[knob] = value;
  return point;
}

static TuneWish wish_of(const Tuning *self, const TunePoint *point, int seed, int move) {
  const TuneEval *known = tune_find(self, &self->current, 0, 0);
  const bool steps = known && self->step > 0;
  return (TuneWish){.point = *point,
                    .seed = seed,
                    .move = move,
                    .likely = steps ? (int64_t)llround(known->value / self->step) : 0};
}

/* The current values, the best ones, and both with one of the changes more and less. */
static int measure(Tuning *self, const TunePoint *best) {
  const int n = self->n_seeds, first = first_seed(self);
  TuneWish *wishes = ARENA_ARRAY(self->arena, TuneWish, (2 * self->knobs.n + 2) * n);
  int n_wishes = 0;
  for (int s = first; s < first + n; s++) {
    wishes[n_wishes++] = wish_of(self, &self->current, s, 0);
    wishes[n_wishes++] = wish_of(self, best, s, 0);
    for (int k = 0; k < self->knobs.n; k++) {
      if (!tune_changed(self, &self->found, k)) continue;
      const TunePoint alone = with_value(self->current, k, self->found.at[k]);
      const TunePoint without = with_value(*best, k, self->current.at[k]);
      wishes[n_wishes++] = wish_of(self, &alone, s, 0);
      wishes[n_wishes++] = wish_of(self, &without, s, 0);
    }
  }
  return tune_measure(self, wishes, n_wishes);
}

static Difference difference(const Tuning *self, const TunePoint *from, const TunePoint *to) {
  return tune_difference(self, from, to, first_seed(self), self->n_seeds, 0);
}

/* Whether it has a value on every seed, and keeps the limits that the current values keep. */
static bool is_sound(const Tuning *self, const TunePoint *point) {
  const int first = first_seed(self);
  for (int s = first; s < first + self->n_seeds; s++) {
    const TuneEval *of_current = tune_find(self, &self->current, s, 0);
    const TuneEval *eval = tune_find(self, point, s, 0);
    if (!isfinite(eval->value)) return false;
    if (self->keeps_limits && of_current->met && !eval->met) return false;
  }
  return true;
}

/* The change whose loss costs least, if that is nothing beyond chance; -1: there is none. */
static int idle_change(const Tuning *self, const TunePoint *best) {
  int least = -1;
  double least_gain = INFINITY;
  const bool sound = is_sound(self, best);
  for (int k = 0; k < self->knobs.n; k++) {
    if (!tune_changed(self, best, k)) continue;
    const TunePoint without = with_value(*best, k, self->current.at[k]);
    const Difference of = difference(self, &without, best);
    const double gain = objective_gain(&self->objective, of.value);
    if (sound && (!is_sound(self, &without) || tune_gains(self, &of))) continue;
    if (least >= 0 && !(gain < least_gain)) continue; // of equals the first
    least = k;
    least_gain = gain;
  }
  return least;
}

static void fill_answers(Tuning *self, const TunePoint *best) {
  for (int k = 0; k < self->knobs.n; k++) {
    KnobAnswer *answer = &self->answers[k];
    answer->best = best->at[k];
    if (!tune_changed(self, &self->found, k)) continue;
    const TunePoint alone = with_value(self->current, k, self->found.at[k]);
    answer->alone = difference(self, &self->current, &alone);
    if (!tune_changed(self, best, k)) continue;
    const TunePoint without = with_value(*best, k, self->current.at[k]);
    answer->without = difference(self, best, &without);
  }
  self->together = difference(self, &self->current, best);
}

/* The first seed once more with times moved down and up by the error of their model. */
static int measure_moved(Tuning *self, const TunePoint *best) {
  const int seed = first_seed(self);
  const TuneEval *known = tune_find(self, best, seed, 0);
  if (!known || !(known->extrapolated.perfmodel_error > 0)) return 0;
  TuneWish wishes[2 * MOVES];
  for (int m = 0; m < MOVES; m++) {
    wishes[2 * m] = wish_of(self, &self->current, seed, m + 1);
    wishes[2 * m + 1] = wish_of(self, best, seed, m + 1);
  }
  if (tune_measure(self, wishes, 2 * MOVES)) return -1;
  for (int m = 0; m < MOVES; m++)
    self->moved[m] = tune_difference(self, &self->current, best, seed, 1, m + 1);
  return 0;
}

static void add_times(Tuning *self, const TunePoint *point, TimesKnown *times) {
  const int first = first_seed(self);
  for (int s = first; s < first + self->n_seeds; s++) {
    const TuneEval *eval = tune_find(self, point, s, 0);
    if (eval && isfinite(eval->value) && eval->value > 0) times_add(times, &eval->extrapolated);
  }
}

static int count_saturated(const Tuning *self, const TunePoint *point) {
  const int first = first_seed(self);
  int n = 0;
  for (int s = first; s < first + self->n_seeds; s++)
    n += tune_find(self, point, s, 0)->saturated;
  return n;
}

int tune_answer(Tuning *self) {
  TunePoint best = self->found;
  for (int idle = 0; idle >= 0;) {
    if (measure(self, &best)) return -1;
    idle = idle_change(self, &best);
    if (idle >= 0) best = with_value(best, idle, self->current.at[idle]);
  }
  fill_answers(self, &best);
  add_times(self, &self->current, &self->times[0]);
  add_times(self, &best, &self->times[1]);
  self->n_saturated = count_saturated(self, &best);
  if (memcmp(&best, &self->current, sizeof best) == 0) return 0;
  return measure_moved(self, &best);
}
