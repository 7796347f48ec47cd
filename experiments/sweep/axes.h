/* The `sweep:` block of a configuration: axes, and the points that they span.
 *
 *     sweep:
 *       pools.prefill.count: 1..40 step 3           # a range; its last value if a step meets it
 *       workload.arrivals.rate: [70 /s, 100 /s]     # a list
 *       shape:                                      # keys that move together
 *         pools.decode.count: 1..3
 *         pools.decode.tensor_parallel_size: [8, 4, 2]
 *       design:                                     # named sets of values
 *         base: {}
 *         large: {pools.prefill.count: 60, policies.batcher: {name: mixed}}
 *
 * A name over a map of maps is an axis of designs, one over a map of lists or ranges is an axis of
 * keys that move together; everything else is the path of a configuration key. A range is
 * `FIRST..LAST [step STEP]`, with a unit behind any of the numbers, and may stand in a list. Points
 * are numbered from 0, the last axis moves fastest. Shard K of N has the points whose number is
 * K - 1 modulo N. */
#ifndef EXPERIMENTS_SWEEP_AXES_H
#define EXPERIMENTS_SWEEP_AXES_H
#include "experiments/config/config.h"

enum { AXIS_CHOICES_MAX = 100000, SWEEP_POINTS_MAX = 10000000 };

/* One place on an axis. */
typedef struct Choice {
  const char *label; // "17", "70 /s", a design's name; of several keys "1, 8"
  Setting *settings; // [n_settings]
  int n_settings;
} Choice;

typedef struct Axis {
  const char *name; // the key, or the name over a map
  Setting *keys;    // [n_keys], each key that a choice may set, where it first stands
  Choice *choices;  // [n_choices]
  int n_keys, n_choices;
} Axis;

typedef struct Sweep {
  Axis *axes; // [n_axes]
  int n_axes;
  int64_t n_points;
  int n_settings_max; // of one point
} Sweep;

/* Binds the value of `sweep:`; all problems at once. Lives in `arena`, and points into `block`. */
int sweep_bind(Sweep *self, const Node *block, Arena *arena, Diag *diag);
/* Where `point` is on axis `axis`. */
const Choice *sweep_choice(const Sweep *self, int64_t point, int axis);
/* All settings of a point into ret_settings[n_settings_max]; returns how many. */
int sweep_settings(const Sweep *self, int64_t point, Setting *ret_settings);
/* "pools.prefill.count=17 design=large". */
const char *sweep_label(const Sweep *self, int64_t point, Arena *arena);
/* How many points shard `shard` of `n_shards` has, and its i-th one. */
int64_t sweep_shard_points(const Sweep *self, int64_t shard, int64_t n_shards);
static inline int64_t sweep_shard_point(int64_t shard, int64_t n_shards, int64_t i) {
  return shard - 1 + i * n_shards;
}
#endif
