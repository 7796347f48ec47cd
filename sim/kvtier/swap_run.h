/* The swapping of a decode run, fast: the ticks and counts of layer_swap.h, to the tick, without a
 * mapping table, and without going through the layers when nobody can wait.
 *
 * From the steady state that a run begins in, a swap-in needs the GPU slot that the last swap-out
 * leaves, a swap-out the CPU slot that the last swap-in leaves: in and out take turns. As long as
 * the GPU has a layer to give away they start together, so that swapping is a chain of pairs. Pair
 * i starts at the first layer start X(i) at which pair i - 1 is over; it takes out layer X(i) - 1,
 * whose next turn is X(i) - 1 + n (layers counted through all iterations), and brings in what pair
 * i - m - 1 took out. Only these layers can wait. With m = n - 2 a layer that has waited may be
 * alone on the GPU as it begins: the next comes in then, and what goes out at a later start.
 *
 * Nobody waits, ever after, if (m + 1)·d + e <= n - 1, where a pair takes at most d and a swap-in
 * at most e layers of the shortest iteration: X(i) <= X(i-m-1) + (m + 1)·d, so pair i brings its
 * layer before the start of X(i-m-1) - 1 + n. Then pairs are d layers apart but for the end of an
 * iteration, and what one iteration does follows from where its first pair starts. With m = n - 2
 * it does not hold.
 *
 * A value without pointers: copy it to look ahead. A run begins anew whenever its batch changes;
 * where swapping stands then is arbitrary, and a steady state without slack flatters nobody. */
#ifndef SIM_KVTIER_SWAP_RUN_H
#define SIM_KVTIER_SWAP_RUN_H
#include "sim/core/series.h"
#include "sim/kvtier/layer_swap.h"
#include <stdbool.h>

/* Where swapping stands between two iterations. */
typedef struct SwapState {
  SwapSpec spec;
  Tick began;                     // the next iteration, since the run began
  int64_t base;                   // its first layer
  int64_t incoming;               // turn of the layer that the last swap-in brings
  Tick in_ends, out_ends;         // of the last pair
  bool owes;                      // a swap-in has begun, and the swap-out beside it has not
  int64_t turns[SWAP_LAYERS_MAX]; // ring: next turns of the layers on the CPU or on their way
  uint32_t first;                 // there, oldest first: m + 1, or m when one is owed
} SwapState;

/* Iterations whose ticks, waits included, are a series: the first `count` of a run's. Either each
 * of them waits for longer than spec.wait_tolerance of its compute ticks or none does. */
typedef struct SwapStretch {
  Series series;
  int64_t count;
  bool waits;
} SwapStretch;

/* A decode run: where it stands, and what the last plan has found, so that a plan which is carried
 * out is not gone through again. */
typedef struct SwapRun {
  SwapState state;
  SwapStretch planned; // count 0: nothing
  Series compute;      // it was made for
  SwapState after;     // its iterations
  SwapCounts counts;   // of them
  Tick beyond_compute; // of the iteration that broke it off; 0: none
  SwapState beyond;    // that one
  SwapCounts beyond_counts;
} SwapRun;

/* The steady state of layer_swap_init_steady. With spec.swapped 0 nothing is swapped. */
void swap_run_begin(SwapRun *self, SwapSpec spec);
/* What the next at most `count` > 0 iterations will take whose compute ticks are `compute`: a
 * prefix of them, at least 1. O(m) if nobody can wait; else they are gone through, at most
 * SWAP_STRETCH_MAX of them. */
enum { SWAP_STRETCH_MAX = 16 };
SwapStretch swap_run_plan(SwapRun *self, Series compute, int64_t count);
/* Makes `count` iterations. O(n + d log count) if nobody can wait, else O(m) per iteration; with a
 * constant `compute` only until their pattern repeats. */
SwapCounts swap_run_advance(SwapRun *self, Series compute, int64_t count);
/* Can none of the iterations to come have a layer that waits, if none computes for less than
 * `compute` ticks? Sufficient, proven above; not necessary. */
bool swap_run_is_transparent(const SwapRun *self, Tick compute);
#endif
