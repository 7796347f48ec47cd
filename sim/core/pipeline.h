/* The stages of an instance with pipeline parallelism, and the batches in flight through them.
 *
 * A replica of PP stages is one instance whose scheduler has several batches in flight (flights.h),
 * or PP instances of the cluster, its lanes: each has its own queues, batch and share of the KV
 * memory, as the virtual engines of vLLM V0 do, and all send their batches through the same stages.
 *
 * A batch enters a stage when it has left the one before and the batch ahead of it has left this
 * one; batches never overtake each other. So with lanes of unequal batches the shorter ones wait:
 * the bubbles of a pipeline. The next iteration of a lane begins when its last one has left the
 * last stage. */
#ifndef SIM_CORE_PIPELINE_H
#define SIM_CORE_PIPELINE_H
#include "perfmodel/perfmodel.h"

struct Instance;

/* A decode iteration of a lane that is planned: it begins as the lane's last one ends. */
typedef struct PlannedPass {
  struct Instance *lane;
  Tick at;
  uint64_t order; // of the event of that end among those of its time
} PlannedPass;

typedef struct Pipeline {
  int64_t n_stages;
  Tick *free_at; // [n_stages] when each has let go of the last batch sent into it
  /* Of lanes (lanes.h). */
  struct Instance *first; // of `n_lanes`
  uint32_t n_lanes;
  struct Lane *lanes;  // [n_lanes] reused
  PlannedPass *passes; // planned, in the order in which they begin
  Tick *before;        // [n_stages] of each, what `free_at` was
  size_t n_passes, passes_capacity, before_capacity;
  size_t horizon; // as many are planned at once
} Pipeline;

void pipeline_init(Pipeline *self, int64_t n_stages, Arena *arena);
/* Sends a batch in at `now`: every stage takes `stage` ticks, the last one `last`, and handing on
 * to the next `send`. Ticks from now until it leaves the last stage. `ret_stages` [2 per stage],
 * when it enters and leaves each, may be NULL. */
Tick pipeline_pass(Pipeline *self, Tick now, Tick stage, Tick last, Tick send, Tick *ret_stages);
/* No batch enters a stage but the last before `at`. */
void pipeline_await(Pipeline *self, Tick at);
/* What is in its stages is gone. */
void pipeline_stop(Pipeline *self, Tick now);
#endif
