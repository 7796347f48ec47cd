/* Private to experiments/compare: the values of both sides' figures. */
#ifndef EXPERIMENTS_COMPARE_FIGURES_H
#define EXPERIMENTS_COMPARE_FIGURES_H
#include "experiments/base/difference.h"
#include "experiments/compare/side.h"

/* A figure that both sides have. */
struct Compared {
  const char *name, *unit; // ttft_s.p99, pool.decode.utilization
  size_t rank;             // among those that were asked for
  double *values[2];       // [n_runs of the side]; NAN: not there
  Difference difference;
  bool holds; // for all figures at once
};

/* Fills `figures` with those that were asked for, in that order; -1 with an entry. */
int figures_load(Compare *self, const CompareQuestion *question);
#endif
