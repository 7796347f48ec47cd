/* Decode iterations of the lanes of a pipeline, planned together (README.md, "Pipelines").
 *
 * The end of an iteration hangs on the other lanes, so no lane can say by itself how long a run
 * takes. But while all that lanes do is to decode, what each does next is known: the passes through
 * the stages follow from one another, in the order in which iterations end. `lanes_plan` goes
 * through them without events and makes them iterations of the present part of each lane's run,
 * with their ends one by one in DecodeRun.ends. It stops at the first end that may bring something
 * else: of a run, of an iteration with prefill, of a piece of the performance model.
 *
 * What happens meanwhile changes nothing of an iteration that has begun. Passes that begin later
 * are undone, the last first, when a batch is sent into the stages, a run is cut, or the stages are
 * emptied; so each lane goes on where it would have without a plan. */
#ifndef SIM_CORE_LANES_H
#define SIM_CORE_LANES_H
#include "sim/core/state.h"

/* `n` lanes share its stages. */
void lanes_init(Pipeline *self, Instance *first, uint32_t n, Arena *arena);
/* Plans what lanes that decode do next; the events of all are set. */
void lanes_plan(Simulation *self, Pipeline *pipeline);
/* Undoes all passes that have not begun by now. */
void lanes_drop_plan(Simulation *self, Pipeline *pipeline);
/* Undoes passes until the present part of a lane's run has at most so many iterations. */
void lanes_shorten(Simulation *self, const Instance *lane, int64_t part);
#endif
