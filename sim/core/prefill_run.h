/* The iteration with prefill in progress on a machine: how long it lasts. Decodes may take part. */
#ifndef SIM_CORE_PREFILL_RUN_H
#define SIM_CORE_PREFILL_RUN_H
#include "sim/core/state.h"

/* Begins one, which lasts the ticks that it returns. */
Tick engine_begin_prefills(Engine *self, Machine *machine, const BatchShape *shape);
/* It has ended. */
void engine_end_prefills(Engine *self, Machine *machine);
/* The machine has failed: what was booked ahead of it is not to come. */
void engine_break_off_prefills(Engine *self, Machine *machine);
#endif
