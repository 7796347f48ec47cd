/* Pools that grow and shrink: a scaler (scaling/scaler.h) says at an interval how many machines
 * each should have, and the core starts machines and has them drain. RULES.md has the rules.
 *
 *   off ──► boots ──► up ──► drains ──► off       more are wanted, or fewer
 *
 * A machine is one as it is bought, with all its lanes. `Instance.stops` says of each lane that it
 * is off, or is to be: one that is down then stays away once it is repaired. */
#ifndef SIM_FEATURE_AUTOSCALING_H
#define SIM_FEATURE_AUTOSCALING_H
#include "sim/core/state.h"

/* A machine that has drained, is repaired or starts is off. */
void autoscaling_turn_off(Simulation *self, Instance *machine);
/* Those of its n lanes that are off start, to be up at `end`. */
void autoscaling_start(Simulation *self, Instance *lanes, uint32_t n, Tick end);
#endif
