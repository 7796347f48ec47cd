/* Student's t: how far a mean of few values may be off. */
#ifndef EXPERIMENTS_BASE_STUDENT_H
#define EXPERIMENTS_BASE_STUDENT_H

#include <stddef.h>

/* A mean as its values come; zeroed: none. */
typedef struct Moments {
  double mean, squares; // squares: of distances from the mean
  size_t n;
} Moments;

void moments_add(Moments *self, double value);
/* The squared error of the mean; NAN of fewer than two values. */
double moments_error(const Moments *self);
/* The half-width of its 95% t-interval; NAN likewise. */
double moments_half_width(const Moments *self);

/* The two-sided 95% quantile, by degrees of freedom, which need not be whole; NAN below 1. */
double student_quantile(double degrees);
/* The probability of a t at least as far from 0; NAN below 1 degree of freedom. */
double student_p(double t, double degrees);
#endif
