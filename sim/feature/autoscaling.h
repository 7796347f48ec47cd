/* Pools that grow and shrink: a scaler (scaling/scaler.h) says at an interval how many machines
 * each should have, and the core starts machines and has them drain. RULES.md has the rules.
 *
 *   off ──► boots ──► up ──► drains ──► off       more are wanted, or fewer
 *
 * A machine is one as it is bought, with all its lanes. `Machine.stops` says of each lane that it
 * is off, or is to be: one that is down then stays away once it is repaired. */
#ifndef SIM_FEATURE_AUTOSCALING_H
#define SIM_FEATURE_AUTOSCALING_H
#include "sim/core/state.h"

/* The machines that pools do not begin with are off. */
void engine_begin_off(Engine *self);
/* Sets the first time at which the scaler is asked; nothing is kept where there is none. */
void engine_start_scaling(Engine *self);
/* The scaler is asked. */
void engine_handle_scaling(Engine *self);
/* A machine that has drained, is repaired or starts is off. */
void engine_turn_off(Engine *self, Machine *machine);
/* The time that a machine is off is booked up to now, if it is. */
void engine_book_off(Engine *self, Machine *machine);

/* private: what the scaler sees of requests */
void scaling_book_arrival(Scaling *self, const Request *request);
void scaling_book_first_token(Scaling *self, const PoolSpec *pool, const Request *request);
void scaling_book_completed(Scaling *self, const RequestRecord *record);
#endif
