/* Machines go down, are repaired and start (faults.h), and what was on them is lost; or they drain,
 * or are slow. */
#ifndef SIM_FEATURE_FAILING_H
#define SIM_FEATURE_FAILING_H
#include "sim/core/state.h"

/* Sets up the sources, each with its first fault pending. */
void engine_start_faults(Engine *self);
/* The bad time of a source begins or ends. */
void engine_handle_fault(Engine *self, uint32_t source);
/* The router learns that a machine is down. */
void engine_handle_detection(Engine *self, Machine *machine);
/* A machine that has drained is away. */
void engine_begin_maintenance(Engine *self, Machine *machine);
/* A machine's engine has started. */
void engine_handle_boot(Engine *self, Machine *machine);
/* When lanes of a pool are up that begin to start together at `from`. */
Tick engine_started_at(Engine *self, const PoolSpec *pool, uint32_t lanes, Tick from);
/* A machine that starts is up at `at`. */
void engine_set_boot(Engine *self, Machine *machine, Tick at);
/* One that is down or starts is neither any more. */
void engine_end_outage(Engine *self, Machine *machine);
/* What its memory held is gone. */
void machine_forget_kv(Machine *machine);
/* The time that a machine has been down or starting is booked up to now, if it still is. */
void engine_book_down(Engine *self, Machine *machine);
/* Since when it is not booked; now, where all is. */
Tick engine_unbooked_down_since(const Engine *self, const Machine *machine);
/* Whether a request is left that a machine may serve which is down. */
bool engine_waits_for_repair(const Engine *self);
#endif
