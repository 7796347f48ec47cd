/* Whether means differ by more than their seeds make them. */
#ifndef EXPERIMENTS_BASE_DIFFERENCE_H
#define EXPERIMENTS_BASE_DIFFERENCE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct Difference {
  double a, b;       // means; NAN: there was nothing
  double value;      // b - a
  double half_width; // of its 95% t-interval; NAN: too few values
  double p;          // of a value at least as large where there is none; NAN likewise
  size_t n;          // pairs, or values of the side that has fewer
  size_t different;  // of those, observations (student.h)
} Difference;

/* What the runs of a side have. */
typedef struct Values {
  const double *all;    // [n]; NAN: left out
  const bool *repeated; // [n], whose outcomes, or those of its pair, are another's
  size_t n;
} Values;

/* Of pairs, as many on both sides; those that lack a value are left out. */
Difference difference_paired(const Values *a, const Values *b);
/* Of values that belong to no pair, by Welch's t-test. */
Difference difference_unpaired(const Values *a, const Values *b);
/* Which of `n` differences hold at 5% for all of them at once (Holm 1979). */
void difference_hold(const Difference *differences, size_t n, bool *ret_hold);
#endif
