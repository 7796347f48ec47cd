/* Instances that are out: down, starting or off, for whatever reason (faults.h, autoscaling.c):
 * when they are up again, and the time that they are not. */
#ifndef SIM_FEATURE_OUTAGES_H
#define SIM_FEATURE_OUTAGES_H
#include "sim/core/state.h"

typedef struct Outages {
  Tick *stores_free_at;   // [n_pools] when a store is done with what it was asked (starting.h)
  uint32_t n_nics_down;   // KV over them waits
  uint32_t n_stores_down; // of groups
  /* Whether a scaler will start an instance for requests in front. NULL: there is no scaler. */
  bool (*wakes)(const Simulation *self);
} Outages;

Outages *outages_of(const Simulation *self);

/* When lanes of a pool are up that begin to start together at `from`. */
Tick outages_start_end(const Simulation *self, const PoolSpec *pool, uint32_t lanes, Tick from);
/* An instance that starts is up at `at`; never, at TICK_MAX. */
void outages_set_boot(Simulation *self, const Instance *instance, Tick at);
/* One that is down or starts is neither any more. */
void outages_end(Simulation *self, Instance *instance);
/* The time that it is off is booked up to now, if it is. */
void outages_book_off(Simulation *self, Instance *instance);
/* What its memory held is gone. */
void outages_lose_memory(Simulation *self, Instance *instance);
/* The instance whose events are those of all that fail and start as one. */
Instance *outages_lead(const Simulation *self, Instance *instance);
/* To an instance, or to all of its group. */
void outages_each(Simulation *self, Instance *instance, void (*act)(Simulation *, Instance *));
#endif
