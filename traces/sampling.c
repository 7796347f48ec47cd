/* See sampling.h. */
#include "traces/sampling.h"
#include "base/rng.h"
#include <stdlib.h>

enum { WINDOWS_MOST = 10000000, DRAWN = 6 };

/* ---- The choice ---- */

/* Rows of each window, from that of the first row on. */
typedef struct Counts {
  int64_t *rows; // [n]
  size_t n, capacity;
  Tick first; // time of the first row
} Counts;

static int count_rows(Counts *self, TraceFile *file, Tick length, Arena *arena, Diag *diag) {
  TraceRow row;
  int status;
  bool any = false;
  while ((status = trace_file_next(file, &row, diag)) > 0) {
    if (!any) self->first = row.at;
    any = true;
    const int64_t at = (row.at - self->first) / length;
    if (at >= WINDOWS_MOST)
      return diag_error(diag, row.place, "the trace has more than %d windows", WINDOWS_MOST);
    ARENA_RESERVE(arena, self->rows, self->capacity, (size_t)at + 1);
    for (; self->n <= (size_t)at; self->n++)
      self->rows[self->n] = 0;
    self->rows[at]++;
  }
  return status;
}

/* A window before it is taken. */
typedef struct Candidate {
  int64_t rows, place;
} Candidate;

static int by_rows(const void *a, const void *b) {
  const Candidate *left = a, *right = b;
  if (left->rows != right->rows) return left->rows < right->rows ? -1 : 1;
  return (left->place > right->place) - (left->place < right->place);
}

static int by_time(const void *a, const void *b) {
  const SampleWindow *left = a, *right = b;
  return (left->start > right->start) - (left->start < right->start);
}

/* Takes one of the candidates of a stratum of `size`, of which `taken` are. */
static void take(TraceSample *self, const Candidate *one, const Counts *counts, int stratum,
                 double weight) {
  self->windows[self->n++] = (SampleWindow){.start = counts->first + one->place * self->length,
                                            .rows = one->rows,
                                            .stratum = stratum,
                                            .weight = weight};
  self->rows += one->rows;
}

/* Draws of [from, to), which are swapped to its front. */
static void draw_stratum(TraceSample *self, Candidate *all, size_t from, size_t to,
                         const Counts *counts, int stratum, Rng *rng) {
  const size_t size = to - from, n = size < DRAWN ? size : DRAWN;
  self->sizes[stratum] = (int64_t)size;
  for (size_t i = from; i < from + n; i++) {
    const size_t other = i + rng_below(rng, to - i);
    const Candidate drawn = all[other];
    all[other] = all[i];
    all[i] = drawn;
    take(self, &drawn, counts, stratum, (double)size / (double)n);
  }
}

/* The first of those with the most rows goes to the end. */
static Candidate *order_candidates(const Counts *counts, Arena *arena) {
  Candidate *all = ARENA_ARRAY(arena, Candidate, counts->n);
  size_t busiest = 0;
  for (size_t i = 0; i < counts->n; i++) {
    all[i] = (Candidate){counts->rows[i], (int64_t)i};
    if (counts->rows[i] > counts->rows[busiest]) busiest = i;
  }
  const Candidate last = all[busiest];
  all[busiest] = all[counts->n - 1];
  all[counts->n - 1] = last;
  qsort(all, counts->n - 1, sizeof *all, by_rows);
  return all;
}

static void choose(TraceSample *self, const Counts *counts, int wanted, uint64_t seed,
                   Arena *arena) {
  const size_t others = counts->n - 1;
  const bool whole = counts->n <= (size_t)wanted;
  const size_t strata = whole ? others : (size_t)(wanted > DRAWN ? (wanted - 1) / DRAWN : 1);
  Candidate *all = order_candidates(counts, arena);
  Rng rng;
  rng_init(&rng, seed, "trace sample");
  self->windows = ARENA_ARRAY(arena, SampleWindow, DRAWN * strata + 1);
  self->sizes = ARENA_ARRAY(arena, int64_t, strata + 1);
  self->n_strata = (int)strata + 1;
  self->sizes[0] = 1;
  take(self, &all[others], counts, 0, 1);
  for (size_t s = 0; s < strata; s++)
    draw_stratum(self, all, others * s / strata, others * (s + 1) / strata, counts, (int)s + 1,
                 &rng);
  qsort(self->windows, (size_t)self->n, sizeof *self->windows, by_time);
}

int sample_choose(TraceSample *ret, const char *path, const TraceReading *reading, Tick length,
                  int wanted, uint64_t seed, Arena *arena, Diag *diag) {
  TraceFile file;
  Counts counts = {0};
  if (trace_file_open(&file, path, reading, arena, diag)) return -1;
  const int status = count_rows(&counts, &file, length, arena, diag);
  trace_file_close(&file);
  if (status < 0) return -1;
  *ret = (TraceSample){.length = length, .n_all = (int64_t)counts.n};
  for (size_t i = 0; i < counts.n; i++)
    ret->rows_all += counts.rows[i];
  choose(ret, &counts, wanted, seed, arena);
  return 0;
}
