/* Layer-exact swapping of KV cache between GPU and CPU memory while layers execute (Pie §3.2–3.3).
 *
 * A model's n layers run one after the other, iteration after iteration. The GPU has room for the
 * KV of n - m layers, the CPU for m + 2; a layer in flight holds a slot on both sides, so that with
 * one swap in each direction two GPU slots and two CPU slots are the buffers of Pie §3.3. Decisions
 * fall at layer starts, once per layer and direction: as a layer arrives, or, while it waits, as
 * soon as a transfer ends; for the swap-in once more as a layer that has waited begins. The hottest
 * layer on the CPU comes in if a GPU slot is free; the coldest on the GPU goes out if a CPU slot is
 * free, unless every layer on the CPU is colder. A layer waits until the mapping table shows it on
 * the GPU; an entry switches when its transfer has ended.
 *
 * This is the reference: O(n) per layer. swap_run.h gives the same ticks and counts faster. */
#ifndef SIM_KVTIER_LAYER_SWAP_H
#define SIM_KVTIER_LAYER_SWAP_H
#include "base/units.h"
#include <assert.h>
#include <stdbool.h>

enum { SWAP_LAYERS_MAX = 256, LAYER_NONE = -1 };

typedef struct SwapSpec {
  int32_t layers;  // n, from 3 to SWAP_LAYERS_MAX
  int32_t swapped; // m, from 0 (no swapping) to n - 2 (one GPU slot receives, one sends)
  Tick in, out;    // for one layer to the GPU, to the CPU; > 0
  Tick outside;    // of an iteration's compute ticks: after its last layer (the engine's overhead)
  double wait_tolerance; // share of its compute that an iteration may wait without it counting
} SwapSpec;

/* What iterations took and did; sums, so that parts add up. */
typedef struct SwapCounts {
  int64_t iterations, waited_iterations; // all of them; those in which a layer waited
  Tick ticks, blocked;                   // compute and waits; waits alone
  int64_t waits;                         // layers that waited
  int64_t swaps_in, swaps_out;           // begun, one layer each
  int64_t violations; // begun when no layer on the CPU was still needed for the token (§3.4.2)
} SwapCounts;

void swap_counts_add(SwapCounts *self, const SwapCounts *other, int64_t times);

/* Ticks from an iteration's first layer to the start of layer `layer` when nobody waits: layers
 * share what is not `outside` evenly, remainders spread. `layer` up to n; `compute` > outside. */
static inline Tick swap_layer_start(const SwapSpec *spec, Tick compute, int64_t layer) {
  assert(compute > spec->outside);
  return (compute - spec->outside) * layer / spec->layers;
}

/* Does an iteration that waits for `blocked` and computes for `compute` ticks count as one that
 * waits? */
static inline bool swap_waits(const SwapSpec *spec, Tick blocked, Tick compute) {
  return (double)blocked > spec->wait_tolerance * (double)compute;
}

typedef enum LayerPlace { LAYER_ON_GPU, LAYER_ON_CPU, LAYER_GOES_IN, LAYER_GOES_OUT } LayerPlace;

/* A row of the mapping table. A pointer is valid when its side holds the layer whole. */
typedef struct LayerEntry {
  LayerPlace place;
  int32_t gpu_slot, cpu_slot; // LAYER_NONE: no memory there
  Tick since;                 // when `place` became what it is
} LayerEntry;

typedef enum SwapEventKind {
  SWAP_COMPUTE,   // a layer begins
  SWAP_WAIT,      // a layer that is not on the GPU has its turn
  SWAP_IN_BEGIN,  // towards the GPU
  SWAP_IN_END,    // the layer is on the GPU
  SWAP_OUT_BEGIN, // towards the CPU
  SWAP_OUT_END,   // the layer is on the CPU
} SwapEventKind;

typedef struct SwapEvent {
  SwapEventKind kind;
  Tick at; // when it happened; ends are reported when next somebody looks
  int32_t layer;
} SwapEvent;

typedef struct SwapTransfer {
  int32_t layer; // LAYER_NONE: idle
  Tick ends;
} SwapTransfer;

typedef struct LayerSwap {
  SwapSpec spec;
  LayerEntry table[SWAP_LAYERS_MAX];
  int32_t gpu_free[SWAP_LAYERS_MAX], cpu_free[SWAP_LAYERS_MAX]; // stacks of slots
  int32_t n_gpu_free, n_cpu_free;
  SwapTransfer in, out;
  Tick now;
  void (*observe)(void *context, SwapEvent event); // NULL: nobody
  void *context;
} LayerSwap;

/* Links idle, the last m layers on the CPU, as Fig. 4 begins. No arena: a plain value. */
void layer_swap_init(LayerSwap *self, SwapSpec spec);
/* The steady state that runs begin from (swap_run.h): links idle; m + 1 layers on the CPU, the j-th
 * of them (from 1) layer floor(j(n - 1)/(m + 2)). */
void layer_swap_init_steady(LayerSwap *self, SwapSpec spec);
/* Runs one iteration; adds to `counts`. Returns its ticks, waits included. */
Tick layer_swap_iterate(LayerSwap *self, Tick compute, SwapCounts *counts);
/* Asserts that each layer is in one place, each slot has one owner, and none is lost. */
void layer_swap_audit(const LayerSwap *self);
#endif
