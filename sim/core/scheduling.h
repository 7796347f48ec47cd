/* What a scheduler decides, and the beginning and end of its steps. See scheduler.h. */
#ifndef SIM_CORE_SCHEDULING_H
#define SIM_CORE_SCHEDULING_H
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

/* A request that is given up leaves the scheduler, whatever steps have of it; the tokens that those
 * which have not ended make of it, for nobody. On an instance that has failed they make none. In
 * withdrawing.c. */
int32_t scheduler_withdraw(Simulation *self, Instance *instance, RequestIx request);
/* Items of a request in a step are forgotten; the tokens that it makes by itself in that. In
 * withdrawing.c. */
int32_t step_scrub(Step *step, RequestIx request);
/* Of an instance with no request left: what it had decided never runs, and what ran has not ended.
 * In withdrawing.c. */
void scheduler_forget(Instance *instance);
/* Whether something that has come may change the next decision. */
bool scheduler_wake(const InstanceView *view, Wake why, RequestIx request);

/* Decides the next step; it may be empty. Whether somebody was preempted for it. In deciding.c. */
bool scheduler_decide(Simulation *self, Instance *instance, Step *step);
/* The most iterations of the batch until a decision may admit the first of those that wait though
 * nothing else happens: what a run makes may be what its prompt begins with. INT64_MAX: however
 * many there are. In admitting.c. */
int64_t scheduler_watch(const Simulation *self, const Instance *instance);
/* Those of the batch that have made their last token in the step leave it. In deciding.c. */
void scheduler_end_sequences(Simulation *self, Instance *instance, Step *step);
/* It leaves the batch, and is in no further step. In deciding.c. */
void scheduler_leave_batch(Simulation *self, Instance *instance, RequestIx request);
/* Before whom a request waits that has given way: ahead of its likes. In deciding.c. */
RequestIx scheduler_head_for(const Simulation *self, const Instance *instance,
                             const Request *request);
/* Has it pause or go on from its next decision on. In pausing.c. */
void scheduler_pause(Simulation *self, Instance *instance, const PauseSpec *pause);
/* It decides a step: what it was told to do holds. In pausing.c. */
void scheduler_hear_pauses(Simulation *self, Instance *instance, Step *decided);
/* Enters it among those that are scheduled alone. In deciding.c. */
void scheduler_schedule_alone(Simulation *self, Instance *instance, RequestIx request);
/* Takes it out of those. In deciding.c. */
void scheduler_forget_alone(Scheduler *scheduler, RequestIx request);
/* Whether a request makes its last token with the batch in a step; `step` may be NULL. In
 * deciding.c. */
bool step_ends(const Step *step, RequestIx request);
#endif
