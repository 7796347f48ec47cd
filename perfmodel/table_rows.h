/* The rows of a table (curve_table.h) on their way from the knots of a file: all come onto the
 * knots of all, in whole ticks, and keep these rules:
 *
 *   no row falls, and none lies below the one before, at equal means;
 *   behind all knots none is flatter than the one before, so that it stays above;
 *   the last row is nowhere flatter than the one before: rows beyond go on by the difference of
 *   the two, and must not fall either.
 *
 * Rows of prefill may fall, but not behind all knots: as many tokens in shorter prompts are more
 * prompts, each of which takes whole tiles of its queries. They may lie below the one before, the
 * last one excepted: kernels of few queries are others than those of many, and may be slower. Those
 * that are lower by less than a thousandth are raised. The last rule is not asked of them.
 *
 * A fit demands them as it solves (fit_model.c) and loads what it writes. To break one by more than
 * rounding and solvers do, a fifty-thousandth of the time, is an error of the file. */
#ifndef PERFMODEL_TABLE_ROWS_H
#define PERFMODEL_TABLE_ROWS_H
#include "perfmodel/curve_table.h"

/* A row as it is said: right of its knots the last line goes on, left of them the time holds. */
typedef struct RowKnots {
  const PwlKnot *knots; // ascending
  int n;                // at least 1
} RowKnots;

typedef struct TableRows {
  int n_rows, n;
  bool may_fall;
  int64_t *x;      // [n], ascending
  Tick *ticks;     // [n_rows][n]
  double *seconds; // [n_rows][n], as said where no rule changed them
} TableRows;

enum { TABLE_ROWS_MAX = 1 << 22 }; // numbers of a table

typedef enum TableFault {
  TABLE_SOUND,
  TABLE_FALLS_BELOW, // the row before, at this x or in the end
  TABLE_APPROACHES,  // the row before, from this x on; of the last row
} TableFault;

/* False if there are too many numbers. */
bool table_rows_init(TableRows *self, const RowKnots *rows, int n_rows, bool may_fall,
                     Arena *arena);
/* The first rule that a row breaks by more than that, and where. */
TableFault table_rows_fault(const TableRows *self, int row, int64_t *ret_x);
/* Raises times until all rules are kept. */
void table_rows_settle(TableRows *self);
#endif
