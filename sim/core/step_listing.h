/* Steps of a scheduler request by request, for those who want to know: SimConfig.on_step, and an
 * executor, which runs them. Kept only then, when each step is an event. */
#ifndef SIM_CORE_STEP_LISTING_H
#define SIM_CORE_STEP_LISTING_H
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

/* A decision begins; somebody is preempted for it; its batch takes part; it is made. */
void engine_begin_listing(Engine *self, Step *step);
void engine_list_preempted(Engine *self, Step *step, RequestIx request);
void engine_list_batch(Engine *self, const Machine *machine, Step *step);
void engine_list_step(Engine *self, const Machine *machine, Step *step);
/* The step begins now, or is empty. */
void engine_tell_step(Engine *self, const Machine *machine, const Step *step, Tick end);
/* Those of it that prefill, or that decode, into `sequences` unless that is NULL; how many. */
size_t step_sequences(const Step *step, bool prefills, BatchSequence *sequences);
#endif
