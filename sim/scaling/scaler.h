/* How many machines the pools should have.
 *
 * A scaler is asked at an interval and sees what pools have to do and what has come and been served
 * since it was asked last. What it wants is held by the core (autoscaling.h) within each pool's
 * bounds and windows; that starts machines and has them drain. Machines are counted as they are
 * bought: all replicas and lanes of one come and go together. */
#ifndef SIM_SCALING_SCALER_H
#define SIM_SCALING_SCALER_H
#include "sim/core/instance.h"

/* A lane, or an instance that has none. */
typedef struct EngineLoad {
  int64_t prefill_tokens; // of prompts assigned to it, not yet prefilled
  int64_t kv_tokens;      // that the blocks hold which are held or promised
  int64_t n_decodes;      // assigned and not finished
  int64_t n_waiting;      // in line for prefill, decode, or room for their KV
} EngineLoad;

/* A pool at present. */
typedef struct PoolLoad {
  const PoolSpec *spec;
  uint32_t n_machines; // on or starting, and not told to go; failed ones until that is detected
  uint32_t n_starting; // of those, that start
  int64_t n_assigned;  // requests with a phase on them that is not finished
  int64_t n_waiting;   // of those here, in line for prefill, decode, or room for their KV
  double kv_machines;  // held or promised KV memory, in whole machines' worth; where it is read
  const EngineLoad *engines; // [n_engines] those that are up, of machines that count; where they
  uint32_t n_engines;        // are read
  uint64_t first_tokens;     // made there since the last time,
  Total ttft_ticks;          // and the sum of their TTFT
} PoolLoad;

typedef struct ScalingView {
  Tick now, interval;
  int64_t max_model_len; // of the model; 0: no limit
  const PoolLoad *pools;
  uint32_t n_pools;
  int64_t n_front; // requests in front of the model, for which no machine is up
  /* Since the last time: */
  uint64_t arrivals;
  int64_t prompt_tokens; // of those
  uint64_t completed, first_tokens;
  int64_t output_tokens;          // of completed requests
  Total ttft_ticks;               // sum over first tokens
  Total e2e_ticks, between_ticks; // sums over completed requests; from first token to last
} ScalingView;

typedef struct Scaler {
  Policy policy;
  /* Whether it can work with these pools, with entries in `diag` otherwise; `at` is where it is
   * named. Optional. */
  int (*check_pools)(const void *state, const PoolSpec *pools, uint32_t n_pools, Place at,
                     Diag *diag);
  /* Whether it reads PoolLoad.kv_machines. Optional: it does not. */
  bool (*reads_kv)(const void *state);
  bool reads_engines;  // PoolLoad.engines
  bool has_no_windows; // nor has its source: a pool that says no `down_window` has none
  /* Whether pools that may have no machine get one while so many requests are in front of them.
   * Optional: no pool may have none, unless `keeps_one`. */
  bool (*wakes)(const void *state, int64_t n_front);
  bool keeps_one; // of all pools of a model one has a machine
  /* Before the first time. Optional. */
  void (*start)(void *state, const ScalingView *view, Arena *arena);
  /* Writes how many machines each pool should have: `wanted`, by pool, preset to n_machines; what
   * it says of pools that are not scaled is not read. NULL: pools stay as they are. */
  void (*plan)(void *state, const ScalingView *view, double *wanted);
  /* How many machines a pool shall have, of which it wants `wanted` and should have `next` by what
   * it wanted before; between its bounds. Optional: `next`. */
  uint32_t (*limit)(void *state, const ScalingView *view, uint32_t pool, uint32_t wanted,
                    uint32_t next);
} Scaler;

/* 0 when a pool of this name, named at `at`, is scaled; else -1 with an entry. */
int scaler_check_pool(const char *name, Place at, const PoolSpec *pools, uint32_t n_pools,
                      Diag *diag);

/* Rows of subtrees of scalers' options. */
extern const OptionSpec schedule_step_options[];
extern const OptionSpec target_pool_options[];
#endif
