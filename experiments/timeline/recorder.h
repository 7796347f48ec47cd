/* An observer that draws what it is told of (timeline.h). A process for each pool has a row per
 * machine; further ones have rows for what machines send, for links to CPU memory and for groups of
 * GPUs. */
#ifndef EXPERIMENTS_TIMELINE_RECORDER_H
#define EXPERIMENTS_TIMELINE_RECORDER_H
#include "base/key_map.h"
#include "experiments/timeline/timeline.h"
#include "experiments/timeline/track.h"

/* Transfers overlap: as many rows as there are at once. */
typedef struct Lanes {
  Track *tracks;
  size_t n, capacity;
} Lanes;

enum { COUNTERS = 3, COUNTER_LINES = 2 };

typedef struct MachineRow {
  const PoolSpec *pool;
  uint32_t pid;
  bool shown, keeps_cache, is_second_shape;
  Track track;
  Lanes sent;
  Track copied[LINK_DIRECTIONS]; // of the first machine on a link; without a tid: none yet
  Tick arrow_at;                 // of the newest arrow from here, -1: none
  const char *away;              // what it does in place of iterations, if it does; NULL: nothing
  Tick away_at;                  // since when
  const char *counters[COUNTERS];
  int64_t counted[COUNTERS][COUNTER_LINES]; // as last drawn
} MachineRow;

typedef struct GroupRow {
  const char *name, *counter;
  bool shown;
  Track track;
  TimelineRow newest; // `at` since when it does this, -1: nothing is known
  int64_t counted[COUNTER_LINES];
} GroupRow;

/* KV of a request that is prefilled and not decoded yet. */
typedef struct Arrow {
  InstanceIx from;
  Tick from_at;
  TrackId link; // without a tid: over none yet
  Tick link_at;
  uint32_t next_free;
} Arrow;

typedef struct Arrows {
  KeyMap of_request; // 1 + place in `items`, by 1 + id
  Arrow *items;
  size_t n, capacity;
  uint32_t first_free; // 1 + place; 0: none
} Arrows;

/* Processes after those of the pools, named when they get a row. */
typedef enum OtherProcess {
  PROCESS_SENT,
  PROCESS_COPIED,
  PROCESS_GROUPS,
  OTHER_PROCESSES
} OtherProcess;

typedef struct Recorder {
  SimObserver observer;
  const TimelineOptions *options;
  const Config *config;
  Arena *arena;
  TraceEvents events;
  MachineRow *machines;
  uint32_t n_machines, next_tid;
  bool named[OTHER_PROCESSES];
  GroupRow *groups;
  uint32_t n_groups;
  Arrows arrows;
  double power;   // of the machines of a pool that were sampled at this moment
  double *powers; // [pools] as last drawn, -1: not yet
  TimelineCounts counts;
} Recorder;

/* `out` is NULL to count alone. Everything lives in `arena`. */
void recorder_init(Recorder *self, const TimelineOptions *options, const Config *config, FILE *out,
                   Arena *arena);
/* Draws what is held back. */
void recorder_end(Recorder *self);

/* private: between the parts of it, one file each */

static inline bool recorder_draws(const Recorder *self, Tick begin, Tick end) {
  return end > self->options->from && (self->options->to == 0 || begin < self->options->to);
}

/* A new row of a process that is not a pool's. */
TrackId recorder_add_row(Recorder *self, OtherProcess process, const char *name, int64_t place);
/* spans.c */
void recorder_draw_iterations(void *recorder, const IterationSpan *span);
void recorder_draw_transfer(void *recorder, const TransferSpan *span);
void recorder_draw_copy(void *recorder, const CopySpan *span);
void recorder_draw_group(void *recorder, const TimelineRow *row);
void recorder_draw_outcome(void *recorder, Tick at, Outcome outcome, uint64_t request,
                           InstanceIx machine, int64_t a, int64_t b);
extern const SliceFigures recorder_group_figures, recorder_machine_figures;
/* Draws what a machine did in place of iterations, up to `at`, if it did. */
void recorder_end_away(Recorder *self, MachineRow *row, Tick at);
/* Draws what a group does as far as it is known, up to `end`. */
void recorder_end_group(Recorder *self, GroupRow *group, Tick end);
/* arrows.c */
void recorder_begin_arrow(Recorder *self, uint64_t request, InstanceIx from, Tick at);
void recorder_bend_arrow(Recorder *self, uint64_t request, TrackId link, Tick at);
/* Draws it, if it leads from one machine to another. */
void recorder_end_arrow(Recorder *self, uint64_t request, InstanceIx to, Tick at);
void recorder_drop_arrow(Recorder *self, uint64_t request);
/* counters.c */
void recorder_name_counters(const Recorder *self, MachineRow *row, InstanceIx machine);
void recorder_draw_sample(void *recorder, const InstanceSample *sample);
#endif
