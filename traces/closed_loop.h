/* Clients that wait for answers: so many at once, each of which sends its next request when its
 * last has ended (`--max-concurrency` of vLLM's and InferenceMAX's benchmark clients).
 *
 * Row i of what is asked is the i-th that is sent, whoever sends it: a tick after a client has
 * become free, first come, first served, and, where rows are timed, not before the row's time: a
 * request rate holds while fewer than so many are in flight. */
#ifndef TRACES_CLOSED_LOOP_H
#define TRACES_CLOSED_LOOP_H
#include "base/option.h"
#include "traces/trace.h"
#include <stdbool.h>

/* A client that is turned away, or has given up, is back after this, a round trip: else requests
 * that nobody can serve would be sent at every tick. */
#define CLOSED_LOOP_REFUSED (TICKS_PER_SECOND / 1000)

typedef struct ClosedLoopConfig {
  int64_t clients;  // at least 1; 0: no closed loop
  int64_t requests; // 0: no limit of its own
  Tick ramp;        // client k of n begins at k/n of this
  Tick until;       // nothing is sent from here on; 0: no limit
  bool timed;       // rows are sent at their times, if a client is idle; else these are not used
} ClosedLoopConfig;

extern const OptionSpec closed_loop_options[];

/* Over `rows`, which it closes; without an end if they have none. */
TraceSource *closed_loop_open(const ClosedLoopConfig *config, TraceSource *rows, Arena *arena);
#endif
