/* The rows of decode_attention on their way from the knots of a file to a table: all come onto the
 * knots of all, in whole ticks, and keep these rules:
 *
 *   no row falls in the context, and none lies below the one of fewer sequences;
 *   behind all knots none is flatter than the one before, so that it stays above;
 *   the last row is nowhere flatter than the one before: rows of more sequences go on by the
 *   difference of the two, and must not fall either.
 *
 * A fit demands them as it solves (fit_model.c) and loads what it writes. To break one by more than
 * rounding and solvers do, a millionth of the time, is an error of the file. */
#ifndef PERFMODEL_DECODE_ROWS_H
#define PERFMODEL_DECODE_ROWS_H
#include "perfmodel/perfmodel.h"

/* A row as it is said: right of its knots the last line goes on, left of them the time holds. */
typedef struct RowKnots {
  const PwlKnot *knots; // ascending
  int n;                // at least 1
} RowKnots;

typedef struct DecodeRows {
  int n_rows, n;
  int64_t *x;      // [n], ascending
  Tick *ticks;     // [n_rows][n]
  double *seconds; // [n_rows][n], as said where no rule changed them
} DecodeRows;

enum { DECODE_ROWS_MAX = 1 << 22 }; // numbers of a table

typedef enum DecodeFault {
  DECODE_SOUND,
  DECODE_FALLS_BELOW, // the row before, at this context or in the end
  DECODE_APPROACHES,  // the row before, from this context on; of the last row
} DecodeFault;

/* Rows ascend by sequences. False if there are too many numbers. */
bool decode_rows_init(DecodeRows *self, const RowKnots *rows, int n_rows, Arena *arena);
/* The first rule that a row breaks by more than a millionth, and where. */
DecodeFault decode_rows_fault(const DecodeRows *self, int row, int64_t *ret_context);
/* Raises times until all rules are kept. */
void decode_rows_settle(DecodeRows *self);
#endif
