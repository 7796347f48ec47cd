/* The Trace Event format (JSON object form), which Perfetto and chrome://tracing open, written
 * event by event.
 *
 * Times are in microseconds with three decimals: a tick goes to the nanosecond that it is in, so
 * what follows each other in ticks does so here. Without a file events are counted alone. */
#ifndef EXPERIMENTS_TIMELINE_EVENTS_H
#define EXPERIMENTS_TIMELINE_EVENTS_H
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct TraceEvents {
  FILE *out;     // NULL: none
  int64_t bytes; // of what was written, or about what would have been
  int64_t slices;
  bool any;
} TraceEvents;

/* A row of a process; the process itself when `tid` is 0. */
typedef struct TrackId {
  uint32_t pid, tid; // from 1, a tid is of one row alone
} TrackId;

typedef enum EventArgKind { ARG_END, ARG_WHOLE, ARG_TICKS, ARG_REAL } EventArgKind;

/* A list of them ends with one of kind ARG_END (`{0}`). */
typedef struct EventArg {
  EventArgKind kind;
  const char *key;
  int64_t whole; // ticks are written as microseconds
  double real;
} EventArg;

void events_begin(TraceEvents *self, FILE *out);
/* What a row, or a process, is called, and its place among others. */
void events_name(TraceEvents *self, TrackId track, const char *name, int64_t place);
/* Something that lasts; slices of a row may not overlap. */
void events_slice(TraceEvents *self, TrackId track, const char *name, Tick begin, Tick end,
                  const EventArg *args);
void events_instant(TraceEvents *self, TrackId track, const char *name, Tick at);
/* A point of an arrow: 's' where it begins, 't' on its way, 'f' where it ends, in the slice of the
 * row that lasts at `at`; those of one `id` are an arrow. */
void events_flow(TraceEvents *self, char phase, TrackId track, uint64_t id, Tick at);
/* Values from `at` on, each a line under `name`. */
void events_counter(TraceEvents *self, uint32_t pid, const char *name, Tick at,
                    const EventArg *args);
/* Ends the list and adds what is known of it all, texts under their keys: key, text, …, NULL. */
void events_end(TraceEvents *self, const char *const *facts);
#endif
