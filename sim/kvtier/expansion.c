/* See expansion.h. With a small trial_growth, capacity may grow by less than the min_gain of
 * tokens/s that is asked for, and tokens/s grow more slowly than capacity: so no more is asked for
 * than half of what capacity grew. */
#include "sim/kvtier/expansion.h"
#include <assert.h>
#include <math.h>

/* --- formulas */

const char *const expansion_formulas[] = {"plain", "refined", NULL};

ExpansionRatio expansion_ratio(ExpansionFormula formula, int32_t layers, int32_t swapped) {
  assert(layers >= 3 && swapped >= 0 && swapped <= layers - 2);
  if (swapped == 0) return (ExpansionRatio){1, 1};
  if (formula == EXPANSION_PLAIN) return (ExpansionRatio){layers, layers - swapped};
  return (ExpansionRatio){layers + 4, layers - swapped + 2};
}

int64_t expansion_blocks(ExpansionFormula formula, int32_t layers, int32_t swapped,
                         int64_t blocks) {
  assert(blocks >= 0 && blocks < INT64_C(1) << 53);
  const ExpansionRatio ratio = expansion_ratio(formula, layers, swapped);
  return blocks * ratio.over / ratio.under;
}

int32_t expansion_layers(ExpansionFormula formula, int32_t layers, double wanted) {
  enum { MILLIONTHS = 1000000 };
  assert(wanted >= 0 && wanted < 1e6);
  const int64_t least = llround(wanted * MILLIONTHS);
  for (int32_t swapped = 0; swapped <= layers - 2; swapped++) {
    const ExpansionRatio ratio = expansion_ratio(formula, layers, swapped);
    if (ratio.over * MILLIONTHS >= least * ratio.under) return swapped;
  }
  return -1;
}

static double factor(const Expansion *self, int32_t swapped) {
  const ExpansionRatio ratio = expansion_ratio(self->formula, self->layers, swapped);
  return (double)ratio.over / (double)ratio.under;
}

/* --- changes */

int expansion_check(const ExpansionOptions *options, Place at, Diag *diag) {
  if (options->wait_steps <= options->wait_horizon) return 0;
  return diag_error(diag, at, "'wait_steps' must be at most 'wait_horizon', which is %lld",
                    (long long)options->wait_horizon);
}

void expansion_init(Expansion *self, const ExpansionOptions *options, ExpansionFormula formula,
                    int32_t layers, int32_t max_swapped) {
  assert(max_swapped >= 0 && max_swapped <= layers - 2);
  *self = (Expansion){
      .options = *options, .formula = formula, .layers = layers, .max_swapped = max_swapped};
}

static void clear_window(Expansion *self) {
  self->wait_bits = 0;
  self->steps = self->swaps = self->violations = self->tokens = self->ticks = self->blocked = 0;
}

static void begin_change(Expansion *self, ExpansionChange change) {
  self->change = change;
  self->to_swap = self->layers;
  clear_window(self);
}

/* Also what was given back in vain, after which growth goes on. */
static void grow(Expansion *self, int32_t to, ExpansionTrial trial) {
  assert(to > self->swapped && to <= self->max_swapped);
  self->held = false;
  self->swapped = to;
  self->trial = trial;
  begin_change(self, CHANGE_GROWS);
}

/* Whoever shrinks does not grow until the next probe. */
static void shrink(Expansion *self, int32_t to, ExpansionTrial trial) {
  assert(to >= 0 && to < self->swapped);
  if (self->usable > to) self->usable = to;
  self->trial = trial;
  self->held = true;
  self->held_steps = 0;
  begin_change(self, CHANGE_SHRINKS);
}

/* Once all layers were swapped a larger capacity is usable; a smaller one is when nothing is held
 * beyond it. Then a new window begins. */
static void end_change(Expansion *self, bool fits) {
  if (self->to_swap > 0 || (self->change == CHANGE_SHRINKS && !fits)) return;
  if (self->change == CHANGE_GROWS)
    self->usable = self->swapped;
  else
    self->swapped = self->usable;
  self->change = CHANGE_NONE;
  clear_window(self);
}

/* --- decisions */

static bool waits_too_often(const Expansion *self, uint64_t bits) {
  const int64_t horizon = self->options.wait_horizon;
  if (horizon < 64) bits &= (UINT64_C(1) << horizon) - 1;
  int64_t n = 0;
  for (; bits; bits &= bits - 1)
    n++;
  return n >= self->options.wait_steps;
}

/* Is more of the window lost to waits than may go to violations? */
static bool blocks_too_long(const Expansion *self) {
  return (double)self->blocked > self->options.violation_ratio * (double)self->ticks;
}

/* Of capacity, from `low` layers to `high`. */
static double growth(const Expansion *self, int32_t low, int32_t high) {
  return factor(self, high) / factor(self, low) - 1;
}

static double min_gain(const Expansion *self, int32_t low, int32_t high) {
  return fmin(self->options.min_gain, growth(self, low, high) / 2);
}

static bool wants_more(const Expansion *self) {
  if (self->held || self->swapped >= self->max_swapped) return false;
  if (self->swapped == 0) return true; // no layer on the CPU is ever needed
  return (double)self->violations > self->options.violation_ratio * (double)self->swaps;
}

/* Is the trial one of growth that has yet to add what can be told from noise? */
static bool grows_on(const Expansion *self) {
  return self->trial == TRIAL_UP &&
         growth(self, self->record.swapped, self->swapped) < self->options.trial_growth;
}

/* A window is over. */
static void decide(Expansion *self) {
  const double rate = self->ticks > 0 ? (double)self->tokens / (double)self->ticks : 0;
  const ExpansionRecord record = self->record;
  const int32_t swapped = self->swapped;
  const bool judges = !grows_on(self);
  const ExpansionTrial trial = judges ? self->trial : TRIAL_NONE;
  if (judges) self->record = (ExpansionRecord){rate, swapped};
  self->trial = TRIAL_NONE;
  if (swapped > 0 && blocks_too_long(self))
    shrink(self, swapped - 1, TRIAL_NONE);
  else if (trial == TRIAL_UP && rate < record.rate * (1 + min_gain(self, record.swapped, swapped)))
    shrink(self, record.swapped, TRIAL_DOWN);
  else if (trial == TRIAL_DOWN &&
           rate < record.rate * (1 - min_gain(self, swapped, record.swapped)))
    grow(self, record.swapped, TRIAL_NONE);
  else if (wants_more(self))
    grow(self, swapped + 1, TRIAL_UP);
  clear_window(self);
}

int64_t expansion_due(const Expansion *self, bool waits) {
  if (self->change != CHANGE_NONE) return self->to_swap > 0 ? 1 : INT64_MAX;
  const int64_t left = self->options.window - self->steps;
  if (!waits || self->swapped == 0) return left;
  uint64_t bits = self->wait_bits;
  for (int64_t steps = 1; steps < left; steps++) {
    bits = bits << 1 | 1;
    if (waits_too_often(self, bits)) return steps;
  }
  return left;
}

static void book(Expansion *self, const ExpansionStep *step) {
  const int64_t shifted = step->steps < 64 ? step->steps : 64;
  for (int64_t i = 0; i < shifted; i++)
    self->wait_bits = self->wait_bits << 1 | step->waited;
  self->steps += step->steps;
  self->swaps += step->swaps;
  self->violations += step->violations;
  self->tokens += step->tokens;
  self->ticks += step->ticks;
  self->blocked += step->blocked;
  self->to_swap -= step->swaps_in;
  self->held_steps += step->steps;
  if (self->held_steps >= self->options.probe_every) self->held = false;
}

bool expansion_observe(Expansion *self, const ExpansionStep *step) {
  assert(step->steps > 0 && step->steps <= expansion_due(self, step->waited));
  const int32_t swapped = self->swapped, usable = self->usable;
  book(self, step);
  if (self->change != CHANGE_SHRINKS && swapped > 0 && waits_too_often(self, self->wait_bits))
    shrink(self, swapped - 1, TRIAL_NONE);
  else if (self->change != CHANGE_NONE)
    end_change(self, step->fits);
  else if (self->steps == self->options.window)
    decide(self);
  return self->swapped != swapped || self->usable != usable;
}
