/* Rows of a timeline, on which slices follow each other, and slices that are joined where there are
 * too many: neighbours that together last no longer than the track's limit become one, with sums of
 * their figures and the time that was really busy.
 *
 * A track holds back its newest slice until it knows that nothing joins it. */
#ifndef EXPERIMENTS_TIMELINE_TRACK_H
#define EXPERIMENTS_TIMELINE_TRACK_H
#include "experiments/timeline/events.h"

enum { SLICE_FIGURES = 8 };

typedef enum FigureKind {
  FIGURE_NONE,
  FIGURE_SUM,    // added up where slices are joined, left out when 0
  FIGURE_JOINED, // the same, of joined slices alone
  FIGURE_TICKS,  // added up, a time
  FIGURE_OWN,    // of a slice by itself, left out of joined ones and when 0
  FIGURE_NUMBER, // the same that may be 0: who it is
} FigureKind;

/* What slices of a track tell of themselves, by their figures. */
typedef struct SliceFigures {
  const char *joined; // name of joined slices that had different ones
  struct {
    FigureKind kind;
    const char *key;
  } figures[SLICE_FIGURES];
} SliceFigures;

typedef struct Slice {
  const char *name; // lives on
  Tick begin, end, busy;
  int64_t n; // slices in it, 0: none
  int64_t figures[SLICE_FIGURES];
} Slice;

typedef struct Track {
  TrackId id;
  const SliceFigures *figures;
  Slice newest; // held back
  Tick ends;    // of those before
} Track;

/* Whether a slice can come next, joined with the newest or after it. */
bool track_takes(const Track *self, const Slice *slice, Tick join);
/* Puts it there: joins it where both last at most `join` together, or where it `goes_on` with what
 * the newest was, by itself. */
void track_put(Track *self, const Slice *slice, Tick join, bool goes_on, TraceEvents *events);
/* Writes the newest. */
void track_end(Track *self, TraceEvents *events);
#endif
