/* The front end of an instance whose attention is data-parallel, as vLLM 0.33 has it: which rank a
 * request goes to, and waves (RULES.md, "Ranks in lockstep").
 *
 * Ranks tell a coordinator how many requests run and wait on them. It publishes that now and then;
 * the front end sees what was published, and what it has sent since. A wave is a time in which all
 * ranks step together; the coordinator knows of its beginning and its end. Messages take no time,
 * so publications are made when somebody looks. */
#ifndef SIM_CORE_RANK_FRONT_H
#define SIM_CORE_RANK_FRONT_H
#include "base/arena.h"
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct RankCounts {
  int64_t waiting, running;
  double kv_use; // share of its blocks that is held
} RankCounts;

typedef struct RankFront {
  uint32_t n;
  RankCounts *told;       // [n] by the ranks
  RankCounts *before;     // [n] the same before the newest step of any
  RankCounts *seen;       // [n] by the front end
  bool keeps_before;      // `before` has not been published
  bool changed;           // nor has `told`
  Tick published_at, due; // the last publication, and the next if nobody tells anything
  int64_t wave, counter;  // of the newest step that a rank told of
  int64_t present_wave;   // the coordinator's
  int64_t seen_wave;      // the front end's
  bool runs;              // the wave does
  uint32_t start;         // rank that the next request is offered first
} RankFront;

void rank_front_init(RankFront *self, uint32_t n, Arena *arena);
/* The rank with the lowest score of a request that arrives now; `own` [n] are the unfinished
 * requests of each, and those that `may` [n] not take it are left out. At least one may. */
uint32_t rank_front_pick(RankFront *self, Tick now, const int64_t *own, const bool *may);
/* A request arrives now that goes to a rank anyway. */
void rank_front_send(RankFront *self, Tick now, uint32_t rank);
/* A rank tells of itself, in a step of a wave. */
void rank_front_tell(RankFront *self, Tick now, uint32_t rank, int64_t wave, int64_t counter,
                     RankCounts counts);
/* A wave is over. */
void rank_front_end_wave(RankFront *self, Tick now, int64_t wave);
/* A rank begins a wave; whether the others are to be woken. */
bool rank_front_begin_wave(RankFront *self, Tick now, int64_t wave);
/* The instance has failed: nothing is known of it. */
void rank_front_forget(RankFront *self, Tick now);
#endif
