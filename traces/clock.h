/* How the times of a trace are written, and reading them: exact, whatever the unit. */
#ifndef TRACES_CLOCK_H
#define TRACES_CLOCK_H
#include "traces/fields.h"
#include <stdbool.h>

typedef enum TraceClock {
  CLOCK_AUTO, // told by the first time: clock_of
  CLOCK_ISO,  // 2024-05-10T12:00:00.25Z: a space for the T, any fraction, Z, +02:00 or no zone
  CLOCK_S,    // numbers from a zero of the file's own, which is kept
  CLOCK_MS,
  CLOCK_US,
  CLOCK_NS,
  CLOCK_EPOCH_S, // numbers since 1970, or any other day; the first row arrives at 0
  CLOCK_EPOCH_MS,
  CLOCK_EPOCH_US,
  CLOCK_EPOCH_NS,
  CLOCKS
} TraceClock;

extern const char *const clock_choices[]; // as TraceClock, NULL-terminated

/* The unit that the name of a column ends in, as arrival_time_ns does: CLOCK_S to CLOCK_NS; else
 * CLOCK_AUTO. */
TraceClock clock_of_name(const char *name);
/* What a time is by its looks: a date, or a number of the unit, or, when that is CLOCK_AUTO, of one
 * that its magnitude tells: since 1970 when it is 10^8 s (1973) or more of some unit, else seconds.
 * CLOCK_AUTO: neither. */
TraceClock clock_of(Field field, TraceClock unit);
/* Whether the first row arrives at 0. */
bool clock_is_wall(TraceClock clock);
/* "a number of seconds": "'timestamp' must be …" in a message. */
const char *clock_name(TraceClock clock);
/* False when it is not written so; not of CLOCK_AUTO. */
bool clock_read(TraceClock clock, Field field, TraceTime *ret_time);
#endif
