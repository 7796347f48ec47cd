/* A run drawn over time, as events that Perfetto opens (events.h): what each machine and link did,
 * arrows from prefill by way of the KV's transfer to decode, and counters of what waits and lies
 * where.
 *
 * The run is simulated as it is drawn, so that no more of it is held than what is going on. */
#ifndef EXPERIMENTS_TIMELINE_TIMELINE_H
#define EXPERIMENTS_TIMELINE_TIMELINE_H
#include "experiments/replay/replay.h"

typedef struct TimelineOptions {
  Tick from, to;        // slices that are not over before or begin after are drawn; `to` 0: all
  const bool *machines; // [machines] that are drawn, and what goes from them or to them
  Tick join;     // slices that together last no longer are one, and arrows are as far apart; 0: all
  Tick interval; // between samples
} TimelineOptions;

/* What was drawn. */
typedef struct TimelineCounts {
  int64_t slices, slices_drawn; // before any were joined, and after
  int64_t arrows, arrows_drawn;
  int64_t bytes; // about, where nothing was written
  Tick end;      // of the last slice
} TimelineCounts;

/* The machines of a list such as "prefill,3,5..7": pools, and machines by their numbers. NULL with
 * entries in `diag`; a NULL list: all. */
const bool *timeline_machines(const Config *config, const char *list, Arena *arena, Diag *diag);
/* Chooses `join`, and `interval` where that is 0, so that about `size` bytes hold all: simulates
 * the run for it. -1 with entries. */
int timeline_choose(TimelineOptions *self, Replay *run, int64_t size, Diag *diag);
/* Simulates the run and writes it. -1 with entries; whether `out` was written to without error is
 * the caller's to look at. */
int timeline_write(const TimelineOptions *self, Replay *run, FILE *out, TimelineCounts *ret_counts,
                   Diag *diag);
#endif
