/* What is known of a request's output before it is made: a range of lengths, and what it costs to
 * know it.
 *
 * Every request is given its prediction on arrival; it is made where the request is prefilled, so
 * its cost lies on the iterations of prefill machines. */
#ifndef SIM_PREDICTOR_PREDICTOR_H
#define SIM_PREDICTOR_PREDICTOR_H
#include "perfmodel/perfmodel.h"
#include "sim/policy.h"
#include "sim/request.h"

/* Output tokens: at least `low`, fewer than `high`. */
typedef struct Prediction {
  int32_t low, high;
} Prediction;

typedef struct Predictor {
  Policy policy;
  /* `random` is uniform over 64 bits, drawn for this request alone. */
  Prediction (*predict)(const void *state, const Request *request, uint64_t random);
  /* Ticks by which predicting prolongs an iteration of `ticks` on a prefill machine, in which the
   * prefill of `n_begun` requests begins, with `begun_tokens` of prompt in all. Optional: none. */
  Tick (*cost)(const void *state, const PerfModel *perfmodel, Tick ticks, int64_t n_begun,
               int64_t begun_tokens);
} Predictor;
#endif
