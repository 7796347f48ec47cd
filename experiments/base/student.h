/* Student's t: how far a mean of few values may be off. */
#ifndef EXPERIMENTS_BASE_STUDENT_H
#define EXPERIMENTS_BASE_STUDENT_H

#include <stdbool.h>
#include <stddef.h>

/* A mean as its values come; zeroed: none. Runs with equal outcomes are one observation, however
 * many seeds gave them: the mean is of all values, its error that of so many different ones. */
typedef struct Moments {
  double mean, squares; // squares: of distances from the mean
  size_t n, n_repeated; // values, and those of them whose runs repeat another's outcomes
} Moments;

void moments_add(Moments *self, double value, bool repeated);
/* How many of them count as observations. */
static inline size_t moments_different(const Moments *self) {
  return self->n - self->n_repeated;
}
/* The squared error of the mean; NAN of fewer than two different values. */
double moments_error(const Moments *self);
/* The half-width of its 95% t-interval; NAN likewise. */
double moments_half_width(const Moments *self);

/* The two-sided 95% quantile, by degrees of freedom, which need not be whole; NAN below 1. */
double student_quantile(double degrees);
/* The probability of a t at least as far from 0; NAN below 1 degree of freedom. */
double student_p(double t, double degrees);
#endif
