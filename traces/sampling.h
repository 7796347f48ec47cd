/* A sample of a long trace: windows of it, by the rates that it has.
 *
 * The trace is cut into windows of equal length from its first row on. The busiest one, the first
 * of them, is always taken. The others are put in order of their number of rows and cut into
 * strata of as equal numbers of windows as can be; of each stratum six windows are drawn without
 * replacement, from a stream of the seed, or all that it has. A trace with as few windows as are
 * wanted is taken whole. */
#ifndef TRACES_SAMPLING_H
#define TRACES_SAMPLING_H
#include "traces/trace_file.h"

typedef struct SampleWindow {
  Tick start;    // in the trace's own time
  int64_t rows;  // that arrive in it
  int stratum;   // 0: the busiest alone
  double weight; // windows of its stratum over those that were taken of it
} SampleWindow;

typedef struct TraceSample {
  Tick length;           // of a window
  SampleWindow *windows; // [n], in order of time
  int n, n_strata;
  int64_t *sizes;         // [n_strata]: windows of each
  int64_t n_all;          // windows of the trace
  int64_t rows, rows_all; // of the windows that were taken; of the trace
} TraceSample;

/* Reads the file through. 0, or -1 with entries: it has more than ten million windows. */
int sample_choose(TraceSample *ret, const char *path, const TraceReading *reading, Tick length,
                  int wanted, uint64_t seed, Arena *arena, Diag *diag);
#endif
