/* What a whole trace has, estimated from what a sample of its windows has (traces/sampling.h): the
 * combined ratio estimator (Cochran, Sampling Techniques, 3rd ed., §6.11). A share or a mean R is
 * Σ W y / Σ W n, where a window stands for W others and y is the sum over its n rows. Its variance
 * is, of the residuals e = y − R n,
 *
 *   Σ_h m_h² (1 − k_h / m_h) s_h² / k_h / (Σ W n)²
 *
 * over strata with m_h windows of which k_h were taken, s_h² being the variance of e in the
 * stratum. Degrees of freedom are Satterthwaite's (§5.4). A quantile is that of the weighted rows;
 * its interval is between the quantiles at the ends of the interval of the share below it
 * (Woodruff 1952). */
#ifndef EXPERIMENTS_PLAN_SAMPLED_H
#define EXPERIMENTS_PLAN_SAMPLED_H
#include "experiments/provision/provision.h"
#include "traces/sampling.h"

/* What was seen of the rows of a window: values, INFINITY of what never came. */
typedef struct SampleSeen {
  const double *values; // [n]
  size_t n;
} SampleSeen;

typedef struct SampleEstimate {
  double value, low, high; // 95%; low = high = value where all of the trace was seen
} SampleEstimate;

/* `seen` [sample->n]. The mean of the trace's values; NAN without any. */
SampleEstimate sample_mean(const TraceSample *self, const SampleSeen *seen, Arena *arena);
/* Their quantile, 0 < q <= 1: the least value that a share of q does not exceed. */
SampleEstimate sample_quantile(const TraceSample *self, const SampleSeen *seen, double q,
                               Arena *arena);

enum { SAMPLED_TTFT, SAMPLED_TPOT, SAMPLED_E2E, SAMPLED_FIGURES };
/* Simulates `length` from `start` on of the trace that `config` replays, windows or not: the values
 * of those who arrive in it. -1 with entries. */
int sampled_window(SampleSeen ret[SAMPLED_FIGURES], Tick start, Tick length, const Config *config,
                   Arena *arena, Diag *diag);

/* A limit of the answer over the whole trace. */
typedef struct SampledLimit {
  const SloSpec *spec;
  bool known;        // false: it is of no mean and no quantile of TTFT, TPOT or E2E
  SampleEstimate of; // by which windows were drawn
  double low, high;  // by that and the error of the times, as independent of each other
} SampledLimit;

typedef struct Sampled {
  const TraceSample *sample;
  SampledLimit *limits; // [n_limits], as the answer has them
  int n_limits;
} Sampled;

/* Simulates each window on the cluster of an answer, whose configuration `config` replays the
 * windows of the sample. -1 with entries. */
int plan_sampled(Sampled *ret, const TraceSample *sample, const Answer *answer,
                 const Config *config, Arena *arena, Diag *diag);
/* "met", "missed", "undecided" where the limit is within the 95% range, or "not estimated". */
const char *sampled_verdict(const SampledLimit *self);
#endif
