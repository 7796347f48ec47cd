/* See track.h. */
#include "experiments/timeline/track.h"
#include <string.h>

static Slice together(const Slice *a, const Slice *b) {
  Slice both = *a;
  if (b->begin < both.begin) both.begin = b->begin;
  if (b->end > both.end) both.end = b->end;
  both.busy += b->busy;
  both.n += b->n;
  for (int i = 0; i < SLICE_FIGURES; i++)
    both.figures[i] += b->figures[i];
  return both;
}

static bool joins(const Track *self, const Slice *slice, Tick join) {
  if (self->newest.n == 0 || slice->begin < self->ends) return false;
  const Slice both = together(&self->newest, slice);
  return both.end - both.begin <= join;
}

bool track_takes(const Track *self, const Slice *slice, Tick join) {
  const Tick ends = self->newest.n > 0 ? self->newest.end : self->ends;
  return slice->begin >= ends || joins(self, slice, join);
}

/* Whether it tells of a figure. */
static bool tells(const Slice *slice, FigureKind kind, int64_t value) {
  switch (kind) {
  case FIGURE_NONE:
    break;
  case FIGURE_SUM:
  case FIGURE_TICKS:
    return value != 0;
  case FIGURE_JOINED:
    return slice->n > 1;
  case FIGURE_OWN:
    return slice->n == 1 && value != 0;
  case FIGURE_NUMBER:
    return slice->n == 1;
  }
  return false;
}

void track_end(Track *self, TraceEvents *events) {
  EventArg args[SLICE_FIGURES + 2];
  const Slice *slice = &self->newest;
  int n = 0;
  if (slice->n == 0) return;
  for (int i = 0; i < SLICE_FIGURES; i++) {
    const FigureKind kind = self->figures->figures[i].kind;
    if (!tells(slice, kind, slice->figures[i])) continue;
    args[n++] = (EventArg){.kind = kind == FIGURE_TICKS ? ARG_TICKS : ARG_WHOLE,
                           .key = self->figures->figures[i].key,
                           .whole = slice->figures[i]};
  }
  if (slice->n > 1)
    args[n++] = (EventArg){.kind = ARG_TICKS, .key = "busy_us", .whole = slice->busy};
  args[n] = (EventArg){0};
  events_slice(events, self->id, slice->name, slice->begin, slice->end, args);
  self->ends = slice->end;
  self->newest.n = 0;
}

void track_put(Track *self, const Slice *slice, Tick join, bool goes_on, TraceEvents *events) {
  const bool continues = goes_on && self->newest.n == 1 && self->newest.end == slice->begin;
  if (!continues && !joins(self, slice, join)) {
    track_end(self, events);
    self->newest = *slice;
    return;
  }
  const char *name = self->newest.name;
  const Slice first = self->newest;
  self->newest = together(&self->newest, slice);
  if (strcmp(name, slice->name) != 0) self->newest.name = self->figures->joined;
  if (!continues) return;
  self->newest.n = 1;
  for (int i = 0; i < SLICE_FIGURES; i++)
    if (self->figures->figures[i].kind >= FIGURE_OWN) self->newest.figures[i] = first.figures[i];
}
