/* Where KV lives when it does not fit in an instance's HBM.
 *
 * A tier decides who gives way: a running decode batch that cannot grow by one more token asks for
 * victims until it can. A victim's KV is dropped, and it is prefilled again (prompt and output so
 * far) on the same instance, ahead of requests that have not run; or, where the tier swaps, it goes
 * to the instance's CPU memory and the request waits in `swapped` until the batcher lets it return.
 *
 * A tier that also moves KV between the instance's GPUs and its CPU has the hooks below
 * `instance_state_size`, with a state for each instance. It says what iterations take whose compute
 * time is known, and how many blocks of KV the instance holds, which may change between iterations.
 * The core asks before iterations begin and tells what came of it: as many as were planned, or
 * fewer where a run was cut. A plan may not depend on how many iterations it is asked for, so that
 * runs may be cut anywhere and --step gives the same. */
#ifndef SIM_KVTIER_KVTIER_H
#define SIM_KVTIER_KVTIER_H
#include "sim/batcher/batcher.h"

/* Iterations about to begin: one with prefill in it, or those of a decode run. */
typedef struct TierLoad {
  Tick now;               // they begin
  int64_t kv_blocks;      // that the instance has; more than wanted while a shrink goes on
  int64_t done;           // iterations of this run before; 0 begins one
  int64_t prefill_tokens; // padding included; 0 in a decode run
  int64_t decode_seqs, context_tokens; // at the first iteration; each adds decode_seqs tokens
  Tick overhead;                       // of the compute ticks, outside the model's layers
  const CopyQueue *copies;             // over the instance's link to its CPU
} TierLoad;

/* What they take, the tier's work included; holds for the first `count` of them. */
typedef struct TierSpan {
  Series series;
  int64_t count;
  bool moves[LINK_DIRECTIONS]; // that way, all the time
} TierSpan;

/* Iterations that have ended. */
typedef struct TierWork {
  Series compute; // without the tier's work
  int64_t count;
  Tick ticks;        // they took
  int64_t tokens;    // of output they made
  int64_t kv_blocks; // that the instance has
} TierWork;

/* Bytes over the instance's link to its CPU. */
typedef struct TierTraffic {
  int64_t in, out; // to the GPU, to the CPU
} TierTraffic;

struct KvTier {
  Policy policy;
  /* One request of the batch, of `blocked` or of `decode_queue`, or one between chunks of its
   * prefill without a transfer, to give up its KV; REQUEST_NONE only when there is none. NULL:
   * nobody ever does, and a full instance waits; only for batchers that reserve the whole
   * output. */
  RequestIx (*pick)(void *state, const InstanceView *view);
  bool swaps; // a victim's KV goes to CPU memory; it is dropped only when that is full
  /* Whether a pool can have it: -1 with entries at `at`. Optional. */
  int (*check)(const void *state, const PoolSpec *pool, Place at, Diag *diag);
  /* The share of the weights that it keeps in CPU memory, whose room on the GPUs is among
   * PoolSpec.kv_blocks. Optional: none. */
  double (*weights_on_cpu)(const void *state);
  /* The rest is there whole or not at all. */
  size_t instance_state_size; // zeroed, one per instance
  /* Before anything else, once per instance of a pool that passes `check`. Returns the blocks that
   * the instance begins with; it will never want fewer than `ret_least`. */
  int64_t (*start)(const void *state, void *instance_state, const PoolSpec *pool,
                   int64_t *ret_least);
  /* What at most `count` > 0 iterations take whose compute times are `compute`: a prefix, >= 1. */
  TierSpan (*plan)(const void *state, void *instance_state, const TierLoad *load, Series compute,
                   int64_t count);
  /* Iterations of the last plan have ended. Adds to `traffic`; returns the blocks it wants the
   * instance to have from now on. Growth is immediate; a shrink takes blocks as they become
   * free. */
  int64_t (*advance)(const void *state, void *instance_state, const TierWork *work,
                     TierTraffic *traffic);
  /* Of the instance's blocks those that are on the CPU, in parts of blocks of all layers rounded
   * down; asserts that both sides hold their part. */
  int64_t (*cpu_blocks)(const void *state, const void *instance_state, const Instance *instance);
};

/* A `pick`: the last to arrive, REQUEST_NONE when nobody holds KV. Needs no state. */
RequestIx kvtier_newest(void *state, const InstanceView *view);
static inline bool kvtier_moves(const KvTier *self) {
  return self->plan != NULL;
}
#endif
