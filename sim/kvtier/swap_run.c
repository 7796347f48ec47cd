/* See swap_run.h. */
#include "sim/kvtier/swap_run.h"

/* --- the ring of layers off the GPU */

static uint32_t ring_size(const SwapRun *self) {
  return (uint32_t)self->spec.swapped + !self->owes;
}

/* The i-th oldest. */
static int64_t turn_of(const SwapRun *self, uint32_t i) {
  return self->turns[(self->first + i) % SWAP_LAYERS_MAX];
}

static int64_t head(const SwapRun *self) {
  return turn_of(self, 0);
}

static Tick longer(Tick a, Tick b) {
  return a > b ? a : b;
}

static Tick pair_ends(const SwapRun *self) {
  return longer(self->in_ends, self->out_ends);
}

void swap_run_begin(SwapRun *self, SwapSpec spec) {
  assert(spec.layers >= 3 && spec.layers <= SWAP_LAYERS_MAX && spec.swapped <= spec.layers - 2);
  self->spec = spec;
  self->began = self->in_ends = self->out_ends = 0;
  self->owes = false;
  self->base = 0;
  self->incoming = LAYER_NONE;
  self->first = 0;
  for (int32_t j = 1; j <= spec.swapped + 1; j++)
    self->turns[j - 1] = j * (spec.layers - 1) / (spec.swapped + 2);
}

/* --- one iteration */

/* Which directions the present decision may still begin. */
typedef struct Open {
  bool in, out;
} Open;

/* What layer `layer` begins at `now`, as decide() of layer_swap.c has it. A GPU slot is free when
 * the swap-out beside the last swap-in is over. */
static void decide(SwapRun *self, int64_t layer, Tick now, Open *open, SwapCounts *counts) {
  const bool needed = head(self) < self->base + self->spec.layers;
  if (open->in && !self->owes && now >= pair_ends(self)) {
    self->incoming = head(self);
    self->first++;
    self->in_ends = now + self->spec.in;
    self->owes = true;
    open->in = false;
    counts->swaps_in++;
    counts->violations += !needed;
  }
  if (!open->out || !self->owes || now < self->out_ends) return;
  self->owes = false;
  self->turns[(self->first + ring_size(self) - 1) % SWAP_LAYERS_MAX] =
      layer - 1 + self->spec.layers;
  self->out_ends = now + self->spec.out;
  open->out = false;
  counts->swaps_out++;
  counts->violations += !needed;
}

static bool is_off_gpu(const SwapRun *self, int64_t layer, Tick now) {
  return layer == head(self) || (layer == self->incoming && now < self->in_ends);
}

/* The next end of a transfer in flight at `now`. */
static Tick next_end(const SwapRun *self, Tick now) {
  if (self->in_ends <= now) return self->out_ends;
  if (self->out_ends <= now) return self->in_ends;
  return self->in_ends < self->out_ends ? self->in_ends : self->out_ends;
}

/* A layer arrives at `now`; returns when it begins. */
static Tick pass(SwapRun *self, int64_t layer, Tick now, SwapCounts *counts) {
  Open open = {true, true};
  decide(self, layer, now, &open, counts);
  if (!is_off_gpu(self, layer, now)) return now;
  do {
    now = next_end(self, now);
    decide(self, layer, now, &open, counts);
  } while (is_off_gpu(self, layer, now));
  open.in = true; // as it begins
  decide(self, layer, now, &open, counts);
  return now;
}

static void iterate(SwapRun *self, Tick compute, SwapCounts *counts) {
  assert(compute > self->spec.outside);
  const int64_t n = self->spec.layers;
  const Tick layers = compute - self->spec.outside, share = layers / n, rest = layers % n;
  Tick start = self->began, carried = 0, blocked = 0; // start: layer's, had nobody waited
  for (int64_t i = 0; i < n; i++) {
    const Tick wait = pass(self, self->base + i, start + blocked, counts) - (start + blocked);
    counts->waits += wait > 0;
    blocked += wait;
    carried += rest;
    start += share + (carried >= n);
    carried -= carried >= n ? n : 0;
  }
  self->began += compute + blocked;
  self->base += n;
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

bool swap_run_is_transparent(const SwapRun *self, Tick compute) {
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
static void regular_state(SwapRun *self, const Regular *regular, int64_t count,
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
static int64_t jump(SwapRun *self, Series compute, int64_t count, SwapCounts *counts) {
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

static bool same_phase(const SwapRun *a, const SwapRun *b) {
  if (longer(a->out_ends - a->began, 0) != longer(b->out_ends - b->began, 0)) return false;
  if (a->owes != b->owes || a->incoming - a->base != b->incoming - b->base) return false;
  if (longer(a->in_ends - a->began, 0) != longer(b->in_ends - b->began, 0)) return false;
  for (uint32_t i = 0; i < ring_size(a); i++)
    if (turn_of(a, i) - a->base != turn_of(b, i) - b->base) return false;
  return true;
}

/* The same phase, `iterations` and `ticks` later. */
static void shift(SwapRun *self, int64_t iterations, Tick ticks) {
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
static void repeat(SwapRun *self, Tick compute, int64_t count, SwapCounts *counts) {
  SwapRun kept = *self;
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

SwapCounts swap_run_advance(SwapRun *self, Series compute, int64_t count) {
  enum { WORTH_A_JUMP = 4 };
  if (self->spec.swapped == 0)
    return (SwapCounts){.iterations = count, .ticks = series_sum(compute, count)};
  SwapCounts counts = {0};
  while (count > 0) {
    int64_t n = 0;
    if (count >= WORTH_A_JUMP && swap_run_is_transparent(self, compute.first))
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

SwapStretch swap_run_plan(const SwapRun *self, Series compute, int64_t count) {
  assert(count > 0 && compute.step >= 0);
  if (swap_run_is_transparent(self, compute.first)) return (SwapStretch){compute, count, false};
  SwapRun ahead = *self;
  SwapStretch stretch = {.count = 0};
  bool was_blocked = false;
  if (count > SWAP_STRETCH_MAX) count = SWAP_STRETCH_MAX;
  for (Tick last = 0; stretch.count < count; stretch.count++) {
    const Tick ticks = series_at(compute, stretch.count);
    SwapCounts one = {0};
    iterate(&ahead, ticks, &one);
    const bool waits = swap_waits(&self->spec, one.blocked, ticks);
    const Tick step = one.ticks - last;
    const bool blocked = one.blocked > 0;
    if (stretch.count == 0)
      stretch =
          (SwapStretch){.series = blocked ? (Series){.first = one.ticks} : compute, .waits = waits};
    else if (waits != stretch.waits || blocked != was_blocked ||
             (blocked && (step < 0 || (stretch.count > 1 && step != stretch.series.step))))
      break;
    else if (blocked)
      stretch.series.step = step;
    last = one.ticks;
    was_blocked = blocked;
  }
  return stretch;
}

int64_t swap_run_ended(const SwapRun *self, Series compute, int64_t count, Tick elapsed) {
  SwapRun ahead = *self;
  int64_t ended = 0;
  while (ended < count) {
    const SwapStretch stretch = swap_run_plan(&ahead, compute, count - ended);
    const int64_t n = series_ended(stretch.series, elapsed);
    if (n < stretch.count) return ended + n;
    elapsed -= series_sum(stretch.series, stretch.count);
    ended += stretch.count;
    swap_run_advance(&ahead, compute, stretch.count);
    compute = series_after(compute, stretch.count);
  }
  return ended;
}
