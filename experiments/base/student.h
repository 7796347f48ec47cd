/* Student's t: how far a mean of few values may be off. */
#ifndef EXPERIMENTS_BASE_STUDENT_H
#define EXPERIMENTS_BASE_STUDENT_H

/* The two-sided 95% quantile, by degrees of freedom, which need not be whole; NAN below 1. */
double student_quantile(double degrees);
/* The probability of a t at least as far from 0; NAN below 1 degree of freedom. */
double student_p(double t, double degrees);
#endif
