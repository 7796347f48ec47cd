/* Runs that are as long as their figures need (`workload.duration: auto`), and that leave out the
 * start which they find (`warm: auto`).
 *
 * A run is simulated from its beginning, again and longer: until half of the 95% range of each
 * figure asked for is within the precision wanted, what is counted lasts several times the longest
 * E2E, and nothing before the end of the start, by MSER-5, is counted; or until it was saturated
 * twice, or with `precision: limits` missed one twice beyond doubt; or the workload is over, or it
 * has as many requests as it may. So it is the run of `requests: N` and `warm: {requests: K}` that
 * it says it is, and as pure a function of its configuration. */
#ifndef EXPERIMENTS_CAMPAIGN_STEADY_H
#define EXPERIMENTS_CAMPAIGN_STEADY_H
#include "experiments/report/report.h"

/* The next run. */
typedef struct Steady {
  const LengthConfig *length;
  int64_t requests, left_out;
  bool hopeless; // so the last one seemed
} Steady;

/* What a run showed. */
typedef struct Pass {
  int64_t arrived;    // requests, of which those after the warm-up are counted
  FoundStart start;   //
  bool hopeless;      // saturated, or a limit is lost
  bool saturated;     //
  double least_known; // share; NAN: not known
  double e2es;        // how long counted requests arrived, in longest E2Es
} Pass;

void steady_init(Steady *self, const LengthConfig *length);
Pass steady_pass(const Report *report);
/* Whether there is to be another run, after one of `self`, which it then is. Else why not. */
bool steady_goes_on(Steady *self, const Pass *pass, LengthEnd *ret_end);
#endif
