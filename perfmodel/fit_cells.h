/* What a cell of a measured grid takes: its own sample, or lines between others.
 *
 * Lines go along the row (one key), along the column (one x: prompts or sequences as long), and of
 * prefill along the ray on which x is in proportion to the key: prompts of other lengths and as
 * many. Times are the larger of a floor and of work, and so convex along each of them: a line
 * between two samples is an upper bound, and of several the least is nearest. Along rays, where
 * work grows with the square, the line of time per token is one too. Lines that go on from two
 * samples on one side are lower bounds; where samples are sparse the cell is half way between the
 * two bounds. Only where nothing reaches the cell do lines go on beyond samples. */
#ifndef PERFMODEL_FIT_CELLS_H
#define PERFMODEL_FIT_CELLS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct FitSample {
  int64_t key, x;
  double y, weight;
} FitSample;

/* The samples of one key, x ascending; at least one. */
typedef struct FitSpan {
  const FitSample *first;
  int n;
} FitSpan;

typedef struct FitCell {
  double y;
  bool known; // not from beyond all samples
} FitCell;

/* The cell of `x` in a row of at least two samples, or in the first, if the next has two: one of
 * one sample has the cells of the next elsewhere. `rows` ascend by key. `prefill`: key and x are
 * tokens and spans of prefill (curve_table.h). Of others columns are not asked within their rows:
 * they follow their noise, and rows are finer. */
FitCell fit_cell(const FitSpan *rows, int n_rows, int row, int64_t x, bool prefill, bool sparse);
#endif
