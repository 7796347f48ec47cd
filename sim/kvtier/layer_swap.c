/* See layer_swap.h. Hottest and coldest are found by going through the layers in the order of their
 * next turn: that they leave the CPU in the order they came (Pie §3.3) is a result, not a rule. */
#include "sim/kvtier/layer_swap.h"
#include <stdbool.h>

void swap_counts_add(SwapCounts *self, const SwapCounts *other, int64_t times) {
  self->iterations += times * other->iterations;
  self->waited_iterations += times * other->waited_iterations;
  self->ticks += times * other->ticks;
  self->blocked += times * other->blocked;
  self->waits += times * other->waits;
  self->swaps_in += times * other->swaps_in;
  self->swaps_out += times * other->swaps_out;
  self->violations += times * other->violations;
}

/* --- the beginning */

static void init(LayerSwap *self, SwapSpec spec) {
  assert(spec.layers >= 3 && spec.layers <= SWAP_LAYERS_MAX);
  assert(spec.swapped >= 0 && spec.swapped <= spec.layers - 2);
  assert(spec.in > 0 && spec.out > 0 && spec.outside >= 0);
  *self = (LayerSwap){.spec = spec, .in.layer = LAYER_NONE, .out.layer = LAYER_NONE};
  for (int32_t slot = spec.layers - spec.swapped; slot > 0; slot--)
    self->gpu_free[self->n_gpu_free++] = slot - 1;
  for (int32_t slot = spec.swapped > 0 ? spec.swapped + 2 : 0; slot > 0; slot--)
    self->cpu_free[self->n_cpu_free++] = slot - 1;
}

static void place(LayerSwap *self, int32_t layer, LayerPlace where) {
  LayerEntry *entry = &self->table[layer];
  const bool on_gpu = where == LAYER_ON_GPU;
  *entry = (LayerEntry){where, LAYER_NONE, LAYER_NONE, 0};
  if (on_gpu)
    entry->gpu_slot = self->gpu_free[--self->n_gpu_free];
  else
    entry->cpu_slot = self->cpu_free[--self->n_cpu_free];
}

void layer_swap_init(LayerSwap *self, SwapSpec spec) {
  init(self, spec);
  for (int32_t layer = 0; layer < spec.layers; layer++)
    place(self, layer, layer < spec.layers - spec.swapped ? LAYER_ON_GPU : LAYER_ON_CPU);
}

void layer_swap_init_steady(LayerSwap *self, SwapSpec spec) {
  init(self, spec);
  int32_t j = 1;
  for (int32_t layer = 0; layer < spec.layers; layer++) {
    const bool on_cpu = spec.swapped > 0 && j <= spec.swapped + 1 &&
                        layer == j * (spec.layers - 1) / (spec.swapped + 2);
    place(self, layer, on_cpu ? LAYER_ON_CPU : LAYER_ON_GPU);
    j += on_cpu;
  }
}

/* --- transfers */

static void tell(const LayerSwap *self, SwapEventKind kind, int32_t layer, Tick at) {
  if (self->observe) self->observe(self->context, (SwapEvent){kind, at, layer});
}

static void switch_entry(LayerEntry *entry, LayerPlace where, Tick at) {
  entry->place = where;
  entry->since = at;
}

/* The transfer's first phase: memory on the other side. */
static void begin_in(LayerSwap *self, int32_t layer) {
  LayerEntry *entry = &self->table[layer];
  entry->gpu_slot = self->gpu_free[--self->n_gpu_free];
  switch_entry(entry, LAYER_GOES_IN, self->now);
  self->in = (SwapTransfer){layer, self->now + self->spec.in};
  tell(self, SWAP_IN_BEGIN, layer, self->now);
}

static void begin_out(LayerSwap *self, int32_t layer) {
  LayerEntry *entry = &self->table[layer];
  entry->cpu_slot = self->cpu_free[--self->n_cpu_free];
  switch_entry(entry, LAYER_GOES_OUT, self->now);
  self->out = (SwapTransfer){layer, self->now + self->spec.out};
  tell(self, SWAP_OUT_BEGIN, layer, self->now);
}

/* The second: the table switches, the memory left behind is free. */
static void end_transfers(LayerSwap *self) {
  if (self->in.layer != LAYER_NONE && self->in.ends <= self->now) {
    LayerEntry *entry = &self->table[self->in.layer];
    self->cpu_free[self->n_cpu_free++] = entry->cpu_slot;
    entry->cpu_slot = LAYER_NONE;
    switch_entry(entry, LAYER_ON_GPU, self->in.ends);
    tell(self, SWAP_IN_END, self->in.layer, self->in.ends);
    self->in.layer = LAYER_NONE;
  }
  if (self->out.layer != LAYER_NONE && self->out.ends <= self->now) {
    LayerEntry *entry = &self->table[self->out.layer];
    self->gpu_free[self->n_gpu_free++] = entry->gpu_slot;
    entry->gpu_slot = LAYER_NONE;
    switch_entry(entry, LAYER_ON_CPU, self->out.ends);
    tell(self, SWAP_OUT_END, self->out.layer, self->out.ends);
    self->out.layer = LAYER_NONE;
  }
}

/* --- decisions at the start of layer `turn` */

/* Layers until the turn of `layer` comes. */
static int32_t heat(const LayerSwap *self, int32_t turn, int32_t layer) {
  return layer >= turn ? layer - turn : layer - turn + self->spec.layers;
}

/* LAYER_NONE if there is none, here and below. */
static int32_t hottest_on_cpu(const LayerSwap *self, int32_t turn) {
  for (int32_t i = 0; i < self->spec.layers; i++) {
    const int32_t layer = (turn + i) % self->spec.layers;
    if (self->table[layer].place == LAYER_ON_CPU) return layer;
  }
  return LAYER_NONE;
}

static int32_t coldest_on_gpu(const LayerSwap *self, int32_t turn) {
  for (int32_t i = 1; i < self->spec.layers; i++) {
    const int32_t layer = (turn - i + self->spec.layers) % self->spec.layers;
    if (self->table[layer].place == LAYER_ON_GPU) return layer;
  }
  return LAYER_NONE;
}

static bool hotter_on_cpu(const LayerSwap *self, int32_t turn, int32_t layer) {
  const int32_t other = hottest_on_cpu(self, turn);
  return other != LAYER_NONE && heat(self, turn, other) < heat(self, turn, layer);
}

/* What a layer start has still to decide. */
typedef struct Decision {
  bool in, out;
} Decision;

static void decide(LayerSwap *self, int32_t turn, Decision *open, SwapCounts *counts) {
  const int32_t head = hottest_on_cpu(self, turn);
  const bool needed = head != LAYER_NONE && head >= turn; // later layers are the next token's
  if (open->in && self->in.layer == LAYER_NONE && head != LAYER_NONE && self->n_gpu_free > 0) {
    begin_in(self, head);
    open->in = false;
    counts->swaps_in++;
    counts->violations += !needed;
  }
  if (!open->out || self->out.layer != LAYER_NONE || self->n_cpu_free == 0) return;
  const int32_t coldest = coldest_on_gpu(self, turn);
  if (coldest == LAYER_NONE || !hotter_on_cpu(self, turn, coldest)) return;
  begin_out(self, coldest);
  open->out = false;
  counts->swaps_out++;
  counts->violations += !needed;
}

static Tick next_end(const LayerSwap *self) {
  Tick next = TICK_MAX;
  if (self->in.layer != LAYER_NONE) next = self->in.ends;
  if (self->out.layer != LAYER_NONE && self->out.ends < next) next = self->out.ends;
  assert(next < TICK_MAX && next > self->now);
  return next;
}

/* Layer `turn` has its turn: decisions, and ticks until it is on the GPU. One that has waited looks
 * once more for what comes in as it begins, for it may have waited for its own decision; the layer
 * that computed last is still the same. */
static Tick arrive(LayerSwap *self, int32_t turn, SwapCounts *counts) {
  const Tick arrived = self->now;
  Decision open = {true, true};
  end_transfers(self);
  decide(self, turn, &open, counts);
  if (self->table[turn].place != LAYER_ON_GPU) {
    tell(self, SWAP_WAIT, turn, self->now);
    while (self->table[turn].place != LAYER_ON_GPU) {
      self->now = next_end(self);
      end_transfers(self);
      decide(self, turn, &open, counts);
    }
    open.in = true;
    decide(self, turn, &open, counts);
  }
  tell(self, SWAP_COMPUTE, turn, self->now);
  return self->now - arrived;
}

Tick layer_swap_iterate(LayerSwap *self, Tick compute, SwapCounts *counts) {
  const Tick began = self->now;
  Tick blocked = 0;
  for (int32_t layer = 0; layer < self->spec.layers; layer++) {
    self->now = began + blocked + swap_layer_start(&self->spec, compute, layer);
    const Tick wait = arrive(self, layer, counts);
    counts->waits += wait > 0;
    blocked += wait;
  }
  self->now = began + blocked + compute;
  counts->iterations++;
  counts->waited_iterations += blocked > 0;
  counts->blocked += blocked;
  counts->ticks += compute + blocked;
  return compute + blocked;
}

/* --- audit */

void layer_swap_audit(const LayerSwap *self) {
  bool gpu[SWAP_LAYERS_MAX] = {0}, cpu[SWAP_LAYERS_MAX] = {0};
  int32_t n_gpu = self->n_gpu_free, n_cpu = self->n_cpu_free;
  for (int32_t i = 0; i < self->n_gpu_free; i++)
    gpu[self->gpu_free[i]] = true;
  for (int32_t i = 0; i < self->n_cpu_free; i++)
    cpu[self->cpu_free[i]] = true;
  for (int32_t layer = 0; layer < self->spec.layers; layer++) {
    const LayerEntry *entry = &self->table[layer];
    assert((entry->gpu_slot == LAYER_NONE) == (entry->place == LAYER_ON_CPU));
    assert((entry->cpu_slot == LAYER_NONE) == (entry->place == LAYER_ON_GPU));
    assert((entry->place == LAYER_GOES_IN) == (self->in.layer == layer));
    assert((entry->place == LAYER_GOES_OUT) == (self->out.layer == layer));
    if (entry->gpu_slot != LAYER_NONE) {
      assert(!gpu[entry->gpu_slot]);
      gpu[entry->gpu_slot] = true;
      n_gpu++;
    }
    if (entry->cpu_slot != LAYER_NONE) {
      assert(!cpu[entry->cpu_slot]);
      cpu[entry->cpu_slot] = true;
      n_cpu++;
    }
  }
  const int32_t m = self->spec.swapped;
  assert(n_gpu == self->spec.layers - m && n_cpu == (m > 0 ? m + 2 : 0));
}
