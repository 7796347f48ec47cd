/* Terms of two counts: a curve for each of some values of the first, its key, ascending. Between
 * two rows time is linear in the key, beyond the last by its difference to the one before, left of
 * the first its time holds. No row lies below the one before and none falls, but for those of
 * prefill; the last two do not come closer, so that none beyond falls (table_rows.h).
 *
 * Attention of prefill has rows over the new tokens P and curves over the mean span 2A / P, what a
 * token attends to and what its chunk does with it, in SPAN_STEPS per token: at one span time grows
 * with P once the GPU is full, and until then it is that of the keys which are read one after the
 * other, whatever P is. Short spans may take longer than long ones: they are more prompts. Files
 * have 2A in its place.
 *
 * Attention of decodes has rows over their number n and curves over the mean context C / n,
 * likewise; files have C in its place. At equal C it may be faster with more sequences, for one
 * long context is shared by fewer multiprocessors than many short ones. A table of one row says
 * nothing of the number, and has its curve over C. */
#ifndef PERFMODEL_CURVE_TABLE_H
#define PERFMODEL_CURVE_TABLE_H
#include "perfmodel/pwl.h"

/* How far outside the measured range an iteration was; the lines go on in any case. */
typedef enum Extrapolation {
  EXTRAPOLATION_NONE,
  EXTRAPOLATION_NEAR, // from half the lower end up to twice the upper end
  EXTRAPOLATION_FAR,  // beyond that
} Extrapolation;

static inline Extrapolation extrapolation_of(int64_t low, int64_t high, int64_t x) {
  if (x >= low && x <= high) return EXTRAPOLATION_NONE;
  return 2 * x >= low && x <= 2 * high ? EXTRAPOLATION_NEAR : EXTRAPOLATION_FAR;
}

static inline Extrapolation extrapolation_worse(Extrapolation a, Extrapolation b) {
  return a > b ? a : b;
}

typedef struct CurveRow {
  int64_t key;
  Pwl curve;
} CurveRow;

typedef struct CurveTable {
  const CurveRow *rows;
  int32_t n_rows;    // 0: the term is zero
  int64_t low, high; // the measured range of the key
  bool spans;        // curves are over means
} CurveTable;

/* The row of a key as lower + (upper − lower)·numerator/denominator of two that were measured. */
typedef struct RowMix {
  const CurveRow *lower, *upper;
  int64_t numerator, denominator;
} RowMix;

/* Of a table with rows. */
RowMix curve_table_mix(const CurveTable *self, int64_t key);
FineTick row_mix_fine(const RowMix *self, int64_t x);
/* The measured range of the row's x. */
int64_t row_mix_low(const RowMix *self);
int64_t row_mix_high(const RowMix *self);

enum { SPAN_STEPS = 64 };

/* The mean of a sum, 2A or C, of `key` >= 1 tokens or sequences, rounded down. */
int64_t mean_span(int64_t sum, int64_t key);
/* The least sum that has a mean. */
int64_t span_total(int64_t span, int64_t key);

/* Where a sum is on the curves of the row of `key`, and the least sum that is there. */
int64_t curve_table_x(const CurveTable *self, int64_t key, int64_t sum);
int64_t curve_table_sum(const CurveTable *self, int64_t key, int64_t x);
/* Time and flag of a sum in the row of `key`; 0 without rows. */
FineTick curve_table_fine(const CurveTable *self, int64_t key, int64_t sum,
                          Extrapolation *ret_flag);
#endif
