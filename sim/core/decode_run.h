/* The iteration or decode run in progress on an instance: how long it lasts, and what of it is
 * done.
 *
 * A batch of decodes alone runs until a sequence finishes, KV memory runs out or something must
 * join; inside one piece of the performance model that is an arithmetic series, so a run is one
 * event per piece, its parts. In --step mode each iteration is an event and the end of the run is
 * found by looking, not by arithmetic; batches, plans and outcomes are the same. */
#ifndef SIM_CORE_DECODE_RUN_H
#define SIM_CORE_DECODE_RUN_H
#include "sim/core/run_part.h"
#include "sim/core/state.h"

/* Has the configuration's executor run an iteration, `done` iterations of a decode run beyond those
 * that the batch knows of. Its ticks, or negative when it failed. In executor.c. */
Tick sim_execute(Simulation *self, const Instance *instance, const BatchShape *shape, int64_t done);
/* The same of each stage of its pipeline but the last; of that `ret_last`. In executor.c. */
Tick sim_execute_stage(Simulation *self, const Instance *instance, const BatchShape *shape,
                       Tick *ret_last);
/* Ticks until a batch that enters the pipeline now has left it; `ret_stages` as in pipeline_pass.
 * Negative: its executor failed. */
Tick sim_pass_pipeline(Simulation *self, const Instance *instance, const BatchShape *shape,
                       Tick *ret_stages, Extrapolation *ret_extrapolation);
/* Adds to `totals` the ticks and the draw of what an instance computes until `at`, which is now or
 * later, that are not booked yet; less those that are booked ahead. */
void sim_meter_run(const Instance *instance, Tick at, InstanceTotals *totals);
/* An instance is idle from now on, or no more; it may be so already. */
void sim_book_idleness(Simulation *self, Instance *instance, bool idle);
/* What an iteration that begins now waits for copies, booked, before its `work` ticks. */
Tick sim_await_copies(Simulation *self, Instance *instance, Tick work);
static inline Tick sim_stall(Simulation *self, Instance *instance, Tick work) {
  return instance->copied_at > self->now ? sim_await_copies(self, instance, work) : 0;
}
/* Ticks of one iteration, its extrapolation booked; of a run, that after `done` beyond those that
 * the batch knows of. */
Tick sim_iteration_ticks(Simulation *self, Instance *instance, const BatchShape *shape,
                         int64_t done);
/* The iterations of the run in progress that have begun by now, the present one included. */
int64_t sim_begun_iterations(const Simulation *self, const Instance *instance);
/* Fits the length of a decode run in progress to a change of free_blocks. */
void sim_refit_run(Simulation *self, Instance *instance);
/* Has the tier plan the iterations after the present one of a decode run in progress anew. */
void sim_replan_tier(Simulation *self, Instance *instance);
/* Cuts a decode run in progress to end with its present iteration. */
void sim_cut_run(Simulation *self, Instance *instance);
/* Begins a run of the batch. Where somebody has given way for it (`made_room`) it is one iteration
 * long. */
void sim_begin_run(Simulation *self, Instance *instance, bool made_room);
/* Begins decodes of a scheduler's step: a run of one iteration, or of at most `review` of the same
 * batch, which has taken part in `lag` further steps already. It `goes_on` with what the run before
 * it was of: then its iterations end at the nearest tick of the sum since that began. */
void sim_begin_steps(Simulation *self, Instance *instance, const BatchShape *shape, int64_t review,
                     bool goes_on);
/* The event of the present part has come: books it. True when the run ends with it; else the next
 * part has begun. */
bool sim_end_part(Simulation *self, Instance *instance, bool resized);
/* Books the tokens of an iteration from a time to another, as far as they are counted. */
void sim_book_batch_tokens(Instance *instance, int64_t tokens, Tick from, Tick to);
/* Ticks that the model's work in an iteration has taken which is broken off after `ticks`, the
 * first `stall` of which it waited. */
Tick sim_worked_ticks(Tick ticks, Tick stall, Tick work);
/* The instance has failed: the run ends in its present iteration, of which nothing is made. True
 * when the tier wants another capacity. */
bool sim_break_off_run(Simulation *self, Instance *instance);
/* The warm-up ends: iterations of the present part up to the one in progress are of it. */
void sim_leave_part_out(const Simulation *self, Instance *instance);

/* The only iteration of the present part waits to end beyond its own time: it lasts until now. */
void sim_stretch_run(const Simulation *self, Instance *instance);
/* Microseconds that end between two times: as they are summed it does not matter how a run is cut.
 * A pool's ticks would not fit a histogram's counters. */
static inline uint64_t microseconds_between(Tick from, Tick to) {
  const Tick microsecond = TICKS_PER_SECOND / 1000000;
  return (uint64_t)(to / microsecond - from / microsecond);
}
#endif
