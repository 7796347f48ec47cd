/* Output analysis of one run: where its start ends, and how sure its means and quantiles are.
 *
 * Observations of a run depend on each other, so their spread says little of the error of a mean.
 * Batches of many of them in order hardly do: a mean is a ratio of sums over batches, whose error
 * the batches' distances from it tell (Law, Simulation Modeling and Analysis, 9.5.3; the ratio
 * estimator of Cochran, Sampling Techniques, 6.3, since batches may differ in size). What lag one
 * correlation is left between batches, where it is more than chance, widens it, by (1 + r) / (1 -
 * r), as in Tafazzoli and Wilson's Skart (2011). */
#ifndef BASE_BATCH_MEANS_H
#define BASE_BATCH_MEANS_H
#include <stddef.h>

/* Two-sided 95% quantile of Student's t; degrees >= 1. */
double student_t95(int degrees);

/* Half of the 95% range of sum / weight, from n batches of `sums` and `weights`, in order. NAN for
 * fewer than `BATCH_MEANS_LEAST` batches. */
enum { BATCH_MEANS_LEAST = 8 };
double batch_means_half_width(const double *sums, const double *weights, size_t n);

/* How many of the first of n means are to be left out, so that the error of the mean of the rest,
 * as if they were independent, is the least: MSER (White 1997; MSER-5 where each is of five
 * observations). At most half of them: n / 2 says that the start has not ended. */
size_t mser(const double *means, size_t n);
#endif
