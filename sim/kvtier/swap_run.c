/* See swap_run.h. */
#include "sim/kvtier/swap_run.h"

/* --- the ring of layers off the GPU */

static uint32_t ring_size(const SwapState *self) {
  return (uint32_t)self->spec.swapped + !self->owes;
}

/* The i-th oldest. */
static int64_t turn_of(const SwapState *self, uint32_t i) {
  return self->turns[(self->first + i) % SWAP_LAYERS_MAX];
}

static int64_t head(const SwapState *self) {
  return turn_of(self, 0);
}

static Tick longer(Tick a, Tick b) {
  return a > b ? a : b;
}

static Tick pair_ends(const SwapState *self) {
  return longer(self->in_ends, self->out_ends);
}

void swap_run_begin(SwapRun *self, SwapSpec spec) {
  assert(spec.layers >= 3 && spec.layers <= SWAP_LAYERS_MAX && spec.swapped <= spec.layers - 2);
  SwapState *state = &self->state;
  state->spec = spec;
  state->began = state->in_ends = state->out_ends = 0;
  state->owes = false;
  state->base = 0;
  state->incoming = LAYER_NONE;
  state->first = 0;
  for (int32_t j = 1; j <= spec.swapped + 1; j++)
    state->turns[j - 1] = j * (spec.layers - 1) / (spec.swapped + 2);
  self->planned.count = 0;
  self->beyond_compute = 0;
}

/* --- one iteration */

/* Which directions the present decision may still begin. */
typedef struct Open {
  bool in, out;
} Open;

/* When the next transfer can begin: a GPU slot is free once the swap-out beside the last swap-in is
 * over, and that follows the swap-out before it. */
static inline Tick next_begin(const SwapState *self) {
  return self->owes ? self->out_ends : pair_ends(self);
}

/* What layer `layer` begins at `now`, as decide() of layer_swap.c has it. */
static inline void decide(SwapState *self, int64_t layer, Tick now, Open *open,
                          SwapCounts *counts) {
  if (now < next_begin(self)) return;
  const bool needed = head(self) < self->base + self->spec.layers;
  if (open->in && !self->owes) {
    self->incoming = head(self);
    self->first++;
    self->in_ends = now + self->spec.in;
    self->owes = true;
    open->in = false;
    counts->swaps_in++;
    counts->violations += !needed;
  }
  if (!open->out || !self->owes) return;
  self->owes = false;
  self->turns[(self->first + ring_size(self) - 1) % SWAP_LAYERS_MAX] =
      layer - 1 + self->spec.layers;
  self->out_ends = now + self->spec.out;
  open->out = false;
  counts->swaps_out++;
  counts->violations += !needed;
}

static inline bool is_off_gpu(const SwapState *self, int64_t layer, Tick now) {
  return layer == head(self) || (layer == self->incoming && now < self->in_ends);
}

/* A layer arrives at `now`; returns when it begins. It waits for its own swap-in to end, and looks
 * whenever another transfer can begin. */
static Tick pass(SwapState *self, int64_t layer, Tick now, SwapCounts *counts) {
  Open open = {true, true};
  decide(self, layer, now, &open, counts);
  if (!is_off_gpu(self, layer, now)) return now;
  do {
    const Tick begin = next_begin(self);
    const bool comes = layer == self->incoming;
    now = comes && (begin <= now || self->in_ends < begin) ? self->in_ends : begin;
    decide(self, layer, now, &open, counts);
  } while (is_off_gpu(self, layer, now));
  open.in = true; // as it begins
  decide(self, layer, now, &open, counts);
  return now;
}

static void iterate(SwapState *self, Tick compute, SwapCounts *counts) {
  assert(compute > self->spec.outside);
  const int64_t n = self->spec.layers, end = self->base + n;
  const Tick layers = compute - self->spec.outside, share = layers / n, rest = layers % n;
  Tick start = self->began, carried = 0, blocked = 0; // start: layer's, those waited for included
  Tick begin = next_begin(self);
  for (int64_t layer = self->base, first = head(self); layer < end; layer++) {
    if (start >= begin || layer == first || layer == self->incoming) {
      const Tick wait = pass(self, layer, start, counts) - start;
      counts->waits += wait > 0;
      blocked += wait;
      start += wait;
      begin = next_begin(self);
      first = head(self);
    }
    carried += rest;
    start += share + (carried >= n);
    carried -= carried >= n ? n : 0;
  }
  self->began += compute + blocked;
  self->base = end;
  counts->iterations++;
  counts->waited_iterations += blocked > 0;
  counts->blocked += blocked;
  counts->ticks += compute + blocked;
}

/* --- when nobody can wait */

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Layers of at least `layer_ticks` that a pair lasts at most. */
static int64_t pair_layers(const SwapSpec *spec, Tick layer_ticks) {
  return ceil_div(longer(spec->in, spec->out), layer_ticks);
}

static bool is_transparent(const SwapState *self, Tick compute) {
  const SwapSpec *spec = &self->spec;
  if (spec->swapped == 0) return true;
  assert(compute > spec->outside);
  const Tick layer_ticks = (compute - spec->outside) / spec->layers;
  if (layer_ticks == 0) return false;
  const int64_t d = pair_layers(spec, layer_ticks), e = ceil_div(spec->in, layer_ticks);
  const int64_t m = spec->swapped;
  if ((m + 1) * d + e > spec->layers - 1) return false;
  assert(!self->owes);
  if (self->incoming >= self->base &&
      self->in_ends - self->began > (self->incoming - self->base) * layer_ticks)
    return false;
  const int64_t next = ceil_div(longer(pair_ends(self) - self->began, 0), layer_ticks);
  for (uint32_t i = 0; i < ring_size(self); i++)
    if (turn_of(self, i) - self->base < next + i * d + e) return false;
  return true;
}

/* The first layer of an iteration that starts, without waits, `after` ticks into it or later; at
 * least n if there is none. */
static int64_t layer_at(const SwapSpec *spec, Tick compute, Tick after) {
  if (after <= 0) return 0;
  const Tick layers = compute - spec->outside;
  if (after > layers) return spec->layers;
  return (after * spec->layers + layers - 1) / layers;
}

/* Iterations in which nobody waits and pairs are d layers apart, but for the last of an iteration,
 * which is followed by the next iteration's first. */
typedef struct Regular {
  const SwapSpec *spec;
  Series compute;
  int64_t d;
} Regular;

/* Layer of the last pair of an iteration whose first is `first`. */
static int64_t last_pair(const Regular *self, int64_t first) {
  return first + (self->spec->layers - 1 - first) / self->d * self->d;
}

/* Layer of the first pair of an iteration when the last of the one before, which takes as long to
 * the tick, is `last`. */
static int64_t first_pair_after(const Regular *self, int64_t last, Tick ticks) {
  const Tick done = ticks - swap_layer_start(self->spec, ticks, last);
  const Tick left = longer(self->spec->in, self->spec->out) - done;
  return layer_at(self->spec, ticks, left);
}

/* Are the first `count` iterations regular, and all transitions between them alike? All quantities
 * are monotonic in an iteration's ticks, so that the shortest and the longest decide. */
static bool is_regular(const Regular *self, int64_t count) {
  const SwapSpec *spec = self->spec;
  const Tick longest = series_longest(self->compute, count);
  if (ceil_div((longest - spec->outside) * (self->d - 1), spec->layers) >=
      longer(spec->in, spec->out))
    return false;
  for (int64_t last = spec->layers - self->d; count > 1 && last < spec->layers; last++)
    if (first_pair_after(self, last, self->compute.first) != first_pair_after(self, last, longest))
      return false;
  return true;
}

static int64_t regular_count(const Regular *self, int64_t count) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (is_regular(self, middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* What an iteration does whose first pair is `first`. The head of a pair left m + 1 pairs earlier,
 * and is the next token's unless that was before this iteration's layer 1. */
static SwapCounts regular_counts(const Regular *self, int64_t first) {
  const int64_t pairs = (last_pair(self, first) - first) / self->d + 1;
  const int64_t early = pairs - self->spec->swapped - 1 - (first == 0);
  return (SwapCounts){.iterations = 1,
                      .swaps_in = pairs,
                      .swaps_out = pairs,
                      .violations = early > 0 ? 2 * early : 0};
}

/* Sums up `count` regular iterations, the first of which has its first pair at `first`, by the
 * cycle that the first pairs run into. Returns the first pairs of the last two iterations. */
static void regular_sum(const Regular *self, int64_t first, int64_t count, SwapCounts *counts,
                        int64_t ret_last_two[2]) {
  SwapCounts before[SWAP_LAYERS_MAX]; // sums when a first pair was met
  int64_t met_at[SWAP_LAYERS_MAX] = {0};
  bool may_skip = true;
  for (int64_t i = 0; i < count; i++) {
    if (may_skip && met_at[first] > 0) {
      SwapCounts cycle = *counts;
      swap_counts_add(&cycle, &before[first], -1);
      const int64_t length = i + 1 - met_at[first];
      const int64_t times = longer((count - i - 2) / length, 0);
      swap_counts_add(counts, &cycle, times);
      i += times * length;
      may_skip = false;
    }
    met_at[first] = i + 1;
    before[first] = *counts;
    const SwapCounts one = regular_counts(self, first);
    swap_counts_add(counts, &one, 1);
    ret_last_two[0] = ret_last_two[1];
    ret_last_two[1] = first;
    first = first_pair_after(self, last_pair(self, first), self->compute.first);
  }
}

/* The ring and the pair in flight after the last two iterations, whose first pairs are given. */
static void regular_state(SwapState *self, const Regular *regular, int64_t count,
                          const int64_t last_two[2]) {
  const int64_t n = self->spec.layers;
  const Tick last_ticks = series_at(regular->compute, count - 1);
  const int64_t last = last_pair(regular, last_two[1]);
  int64_t layer = last, base = self->base + n * (count - 1), first = last_two[1];
  for (uint32_t i = ring_size(self); i > 0; i--) {
    self->turns[(self->first + i - 1) % SWAP_LAYERS_MAX] = base + layer - 1 + n;
    layer -= regular->d;
    if (layer >= first) continue;
    base -= n;
    first = last_two[0];
    layer = last_pair(regular, first);
  }
  self->incoming = base + layer - 1 + n;
  self->began += series_sum(regular->compute, count);
  const Tick began = self->began - last_ticks + swap_layer_start(&self->spec, last_ticks, last);
  self->base += n * count;
  self->in_ends = began + self->spec.in;
  self->out_ends = began + self->spec.out;
}

/* Makes as many regular iterations as `count` begin with, in a state that is transparent for them.
 * Returns how many: 0 or at least 2. */
static int64_t jump(SwapState *self, Series compute, int64_t count, SwapCounts *counts) {
  const SwapSpec *spec = &self->spec;
  const Tick layer_ticks = (compute.first - spec->outside) / spec->layers;
  const Regular regular = {spec, compute, pair_layers(spec, layer_ticks)};
  const int64_t n = regular_count(&regular, count);
  if (n < 2) return 0;
  int64_t first = layer_at(spec, compute.first, pair_ends(self) - self->began), last_two[2] = {0};
  regular_sum(&regular, first, n, counts, last_two);
  counts->ticks += series_sum(compute, n);
  regular_state(self, &regular, n, last_two);
  return n;
}

/* --- when somebody may wait and iterations are all alike */

static bool same_phase(const SwapState *a, const SwapState *b) {
  if (longer(a->out_ends - a->began, 0) != longer(b->out_ends - b->began, 0)) return false;
  if (a->owes != b->owes || a->incoming - a->base != b->incoming - b->base) return false;
  if (longer(a->in_ends - a->began, 0) != longer(b->in_ends - b->began, 0)) return false;
  for (uint32_t i = 0; i < ring_size(a); i++)
    if (turn_of(a, i) - a->base != turn_of(b, i) - b->base) return false;
  return true;
}

/* The same phase, `iterations` and `ticks` later. */
static void shift(SwapState *self, int64_t iterations, Tick ticks) {
  const int64_t layers = iterations * self->spec.layers;
  self->began += ticks;
  self->in_ends += ticks;
  self->out_ends += ticks;
  self->base += layers;
  self->incoming += layers;
  for (uint32_t i = 0; i < ring_size(self); i++)
    self->turns[(self->first + i) % SWAP_LAYERS_MAX] += layers;
}

/* `count` iterations of `compute` ticks each. An earlier state is kept and replaced ever more
 * rarely (Brent 1980); once it comes back, all but a rest is known. */
static void repeat(SwapState *self, Tick compute, int64_t count, SwapCounts *counts) {
  SwapState kept = *self;
  SwapCounts since = {0};
  int64_t patience = 1;
  for (; count > 0; count--) {
    iterate(self, compute, &since);
    if (!same_phase(self, &kept)) {
      if (since.iterations < patience) continue;
      kept = *self;
      patience *= 2;
    } else {
      const int64_t times = (count - 1) / since.iterations;
      swap_counts_add(counts, &since, times);
      shift(self, times * since.iterations, times * since.ticks);
      count -= times * since.iterations; // what is left is shorter than the period
    }
    swap_counts_add(counts, &since, 1);
    since = (SwapCounts){0};
  }
  swap_counts_add(counts, &since, 1);
}

/* --- runs */

bool swap_run_is_transparent(const SwapRun *self, Tick compute) {
  return is_transparent(&self->state, compute);
}

static SwapCounts advance(SwapState *self, Series compute, int64_t count) {
  enum { WORTH_A_JUMP = 4 };
  if (self->spec.swapped == 0)
    return (SwapCounts){.iterations = count, .ticks = series_sum(compute, count)};
  SwapCounts counts = {0};
  while (count > 0) {
    int64_t n = 0;
    if (count >= WORTH_A_JUMP && is_transparent(self, compute.first))
      n = jump(self, compute, count, &counts);
    if (n == 0 && series_is_even(compute)) {
      n = count;
      repeat(self, compute.first, n, &counts);
    } else if (n == 0) {
      n = 1;
      iterate(self, series_sum(compute, 1), &counts);
    }
    compute = series_after(compute, n);
    count -= n;
  }
  return counts;
}

SwapCounts swap_run_advance(SwapRun *self, Series compute, int64_t count) {
  const bool planned = count == self->planned.count && series_equal(compute, self->compute);
  self->planned.count = 0;
  if (planned) {
    self->state = self->after;
    return self->counts;
  }
  self->beyond_compute = 0;
  return advance(&self->state, compute, count);
}

/* Makes an iteration beyond those that are planned; the one that broke off the last plan has been
 * made. */
static SwapCounts look(SwapRun *self, Tick ticks) {
  if (self->planned.count == 0 && ticks == self->beyond_compute) return self->beyond_counts;
  self->beyond = self->planned.count == 0 ? self->state : self->after;
  self->beyond_compute = ticks;
  self->beyond_counts = (SwapCounts){0};
  iterate(&self->beyond, ticks, &self->beyond_counts);
  return self->beyond_counts;
}

SwapStretch swap_run_plan(SwapRun *self, Series compute, int64_t count) {
  assert(count > 0 && compute.step >= 0);
  if (is_transparent(&self->state, compute.first)) return (SwapStretch){compute, count, false};
  SwapStretch *stretch = &self->planned;
  *stretch = (SwapStretch){.count = 0};
  self->compute = compute;
  self->counts = (SwapCounts){0};
  if (count > SWAP_STRETCH_MAX) count = SWAP_STRETCH_MAX;
  bool was_blocked = false;
  for (Tick last = 0; stretch->count < count; stretch->count++) {
    const Tick ticks = series_at(compute, stretch->count);
    const SwapCounts one = look(self, ticks);
    const bool waits = swap_waits(&self->state.spec, one.blocked, ticks);
    const Tick step = one.ticks - last;
    const bool blocked = one.blocked > 0;
    if (stretch->count == 0)
      *stretch =
          (SwapStretch){.series = blocked ? (Series){.first = one.ticks} : compute, .waits = waits};
    else if (waits != stretch->waits || blocked != was_blocked ||
             (blocked && (step < 0 || (stretch->count > 1 && step != stretch->series.step))))
      break;
    else if (blocked)
      stretch->series.step = step;
    last = one.ticks;
    was_blocked = blocked;
    swap_counts_add(&self->counts, &one, 1);
    self->after = self->beyond;
    self->beyond_compute = 0;
  }
  return *stretch;
}
