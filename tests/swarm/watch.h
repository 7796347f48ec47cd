/* An observer that checks what it is told, on the way and against the books of the run. */
#ifndef TESTS_SWARM_WATCH_H
#define TESTS_SWARM_WATCH_H
#include "sim/sim.h"

typedef struct Watch {
  SimObserver observer;
  struct WatchedMachine *machines; // [n_machines]
  uint32_t n_machines;
  EventLog log;
  uint64_t n_transfers, seen; // a digest of all else, however runs were coalesced
  Total transferred_bytes;
  const char *wrong; // NULL: nothing
} Watch;

void watch_init(Watch *self, const SimConfig *config, Tick interval, Arena *arena);
/* What is wrong with what it was told of a run that is over, nothing of which was left out of its
 * figures; NULL: nothing. */
const char *watch_check(Watch *self, const SimResult *result);
#endif
