/* An event is a value: when, in which order among equals, and whose handler it is.
 *
 * Each (kind, target) has at most one event pending, so a pending event is a timer that can be set
 * anew; what is to happen lives with the target. Order is (at, order): `order` is the insertion
 * number `seq`, or a permutation of it under --tie-seed. Arrivals are numbered as if the whole
 * trace had been inserted before the run began, so they come first among equal times. */
#ifndef SIM_CORE_EVENT_H
#define SIM_CORE_EVENT_H
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum EventKind {
  EVENT_ARRIVAL,   // target 0: the next request of the trace
  EVENT_ITERATION, // target: instance, whose iteration or decode run ends
  EVENT_TRANSFER,  // target: transfer, one of whose stages ends
  EVENT_FLIP,      // target: instance, which has its new role
  EVENT_MONITOR,   // target 0: loads are broadcast
  EVENT_REPORT,    // target 0: instances report to the router
  EVENT_COPY,      // target: group, where somebody waits for the end of a copy
  EVENT_TURN,      // target: group, which has its new shape
  EVENT_FAULT,     // target: source of faults, which goes down or is repaired
  EVENT_DETECTION, // target: instance, which the router learns to be down
  EVENT_BOOT,      // target: instance, whose engine has started
  EVENT_RETRY,     // target 0: the earliest request to be tried again
  EVENT_ADMISSION, // target 0: somebody who is held may come in, after all else of its tick
  EVENT_HEDGE,     // target 0: the earliest copy of a request that waits (hedging.c)
  EVENT_SCALING,   // target 0: the scaler is asked, after all else of its tick
  EVENT_PAUSE,     // target 0: the next pause of schedulers, before all else but arrivals
  EVENT_CONNECTOR, // target: instance without a step, one of whose KV loads or stores ends
  EVENT_PATIENCE,  // target 0: the earliest deadline of a request, after all else of its tick
  EVENT_SWITCH,    // target 0: who shall wake is decided, after all else of its tick (switching.c)
  EVENT_HOUR,      // target 0: an hour ends, after all else of its tick (metering.c)
  EVENT_KINDS,
} EventKind;

typedef struct Event {
  Tick at;
  uint64_t order; // among equal times
  uint64_t seq;   // insertion number
  uint32_t kind;  // EventKind
  uint32_t target;
} Event;
_Static_assert(sizeof(Event) == 32, "two events to a cache line");
#endif
