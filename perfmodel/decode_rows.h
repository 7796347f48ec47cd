/* The rules that the rows of decode_attention keep, for those that a fit makes and those that a
 * file brings:
 *
 *   no row falls in the context, and none lies below the one of fewer sequences;
 *   behind all knots none is flatter than the one before, so that it stays above;
 *   the last row is nowhere flatter than the one before: rows of more sequences go on by the
 *   difference of the two, and must not fall either.
 *
 * The fit demands them of seconds as it solves (fit_model.c), decode_rows_settle of the ticks that
 * these become, and the loader of what it reads. Knots may be rounded to ticks: rows that come
 * closer by one tick break no rule. */
#ifndef PERFMODEL_DECODE_ROWS_H
#define PERFMODEL_DECODE_ROWS_H
#include "perfmodel/perfmodel.h"

/* Raises `ticks`, [n_rows][n] at knots that all rows share, rows ascending by sequences, until they
 * keep the rules. */
void decode_rows_settle(int n_rows, int n, Tick *ticks);
/* The first context at which `row` is faster than `before`, or has the flatter end; -1: none. */
int64_t decode_row_falls_below(const DecodeRow *row, const DecodeRow *before);
/* Of the last row and the one before: the first context from which they come closer; -1: none. */
int64_t decode_rows_approach(const DecodeRow *row, const DecodeRow *before);
#endif
