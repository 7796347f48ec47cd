/* What each group of GPUs did when, and what lay in both tiers of its KV memory.
 *
 * A group is looked at when the clock has left a tick in which its activity changed, and at the
 * multiples of an interval; of what is seen a row is kept where it differs from the group's last,
 * so each row holds until the next one. Looking changes nothing: a run with a timeline has the
 * outcomes of one without. Coalesced and stepped runs have the same rows. */
#ifndef SIM_BOOKS_TIMELINE_H
#define SIM_BOOKS_TIMELINE_H
#include "sim/core/group.h"

typedef struct TimelineRow {
  Tick at;
  GroupIx group;
  GroupShape shape;
  GroupActivity activity;
  int64_t gpu_blocks;   // held on the instances of the shape
  int64_t store_blocks; // held or booked
  int64_t n_prompts;    // wait for prefill or are in one
  int64_t n_decoding;   // assigned to instances that decode
} TimelineRow;

typedef struct Timeline {
  Tick interval;     // 0: rows are kept for nobody, an observer alone is told
  TimelineRow *rows; // in order of time
  size_t n_rows, capacity;
  TimelineRow *newest; // [groups] of each; `at` is -1 when there is none
} Timeline;
#endif
