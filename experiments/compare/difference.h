/* Private to experiments/compare: whether means differ by more than their seeds make them. */
#ifndef EXPERIMENTS_COMPARE_DIFFERENCE_H
#define EXPERIMENTS_COMPARE_DIFFERENCE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct Difference {
  double a, b;       // means; NAN: there was nothing
  double value;      // b - a
  double half_width; // of its 95% t-interval; NAN: too few values
  double p;          // of a value at least as large where there is none; NAN likewise
  size_t n;          // pairs, or values of the side that has fewer
} Difference;

/* Of pairs; those that lack a value are left out. */
Difference difference_paired(const double *a, const double *b, size_t n);
/* Of values that belong to no pair, by Welch's t-test; NAN are left out. */
Difference difference_unpaired(const double *a, size_t n_a, const double *b, size_t n_b);
/* Which of `n` differences hold at 5% for all of them at once (Holm 1979). */
void difference_hold(const Difference *differences, size_t n, bool *ret_hold);
#endif
