/* The runs of a prefix cache (prefix_cache.h) and which of them have blocks of a segment. */
#ifndef SIM_CORE_CACHE_RUNS_H
#define SIM_CORE_CACHE_RUNS_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t BlockIx; // of a run, or of a block that is held by itself
#define BLOCK_NONE  UINT32_MAX
#define BLOCK_BLANK (UINT32_MAX - 1) // one that is not registered

/* Blocks `first` to first + n - 1 of beginnings that end in a segment. */
typedef struct CacheRun {
  uint64_t id;        // of the segment; 0: not registered
  int64_t registered; // a number that is larger later
  int32_t first, n;
  int32_t references;               // to each of them
  BlockIx next, previous;           // in the queue of free blocks; its last block goes first
  BlockIx next_same, previous_same; // with this id, by `first`
  BlockIx rest;                     // what was last cut off from its end
} CacheRun;

typedef struct CacheSlot {
  uint64_t id;   // 0: empty
  BlockIx first; // of its list
} CacheSlot;

typedef struct CacheRuns {
  Arena *arena;
  CacheRun *items; // those below n_used
  size_t capacity;
  BlockIx n_used, unused; // of which those from `unused` on stand for nothing, through `next`
  CacheSlot *slots;       // a power of two of them, linear probing
  size_t n_slots, n_ids;
  int64_t n_registered; // times
} CacheRuns;

static inline int64_t cache_run_end(const CacheRun *run) {
  return (int64_t)run->first + run->n;
}

/* A new one, like this; it stands for nothing any more. */
BlockIx cache_runs_begin(CacheRuns *self, CacheRun run);
void cache_runs_end(CacheRuns *self, BlockIx run);
/* It is registered last of all; it is registered no more; what was cut off from another run of its
 * list is behind that. */
void cache_runs_join(CacheRuns *self, BlockIx run);
void cache_runs_leave(CacheRuns *self, BlockIx run);
void cache_runs_link(CacheRuns *self, BlockIx run, BlockIx previous);
/* The first with an id, or BLOCK_NONE; the first with the id of one. */
BlockIx cache_runs_list(const CacheRuns *self, uint64_t id);
BlockIx cache_runs_first(const CacheRuns *self, BlockIx run);
/* Of a list from `at` on without `but`, the run in which block i is found: the first registered. It
 * is that up to *ret_until. BLOCK_NONE: i is in none, nor are blocks up to there. */
BlockIx cache_runs_find(const CacheRuns *self, BlockIx at, BlockIx but, int64_t i,
                        int64_t *ret_until);
/* Whether a run of a list from `at` on without two, registered at `since` or later, has blocks from
 * `from` on up to `until`. */
bool cache_runs_overlap(const CacheRuns *self, BlockIx at, BlockIx but, BlockIx nor, int64_t from,
                        int64_t until, int64_t since);
/* Asserts that lists are in order; how many different blocks they have. */
int64_t cache_runs_audit(const CacheRuns *self);
#endif
