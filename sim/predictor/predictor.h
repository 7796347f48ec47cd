/* What is known of a request's output before it is made: a range of lengths, and what it costs to
 * know it.
 *
 * Every request is given its prediction on arrival; it is made where the request is prefilled, so
 * its cost lies on the iterations of prefill instances. */
#ifndef SIM_PREDICTOR_PREDICTOR_H
#define SIM_PREDICTOR_PREDICTOR_H
#include "sim/batcher/batcher.h"

/* Output tokens: at least `low`, fewer than `high`. */
typedef struct Prediction {
  int32_t low, high;
  bool disturbs; // making it prolongs the request's prefill
} Prediction;

typedef struct Predictor {
  Policy policy;
  /* `random` is uniform over 64 bits, drawn for this request alone. */
  Prediction (*predict)(const void *state, const Request *request, uint64_t random);
  /* Whole ticks >= 0, perhaps beyond TICK_MAX, by which predicting prolongs the iteration, of
   * `ticks`, that begins on a prefill instance with its `chunks`. Optional: none. */
  double (*cost)(const void *state, const InstanceView *view, Tick ticks);
} Predictor;

/* Whether the chunk that begins is a prompt's first, with which its prediction is made. */
static inline bool prediction_begins(const Request *request) {
  return request->prefilled_tokens == 0 && request->recomputes == 0;
}

/* The end of a predicted range that counts, and the output tokens there. */
typedef enum Estimate { ESTIMATE_LOW, ESTIMATE_HIGH } Estimate;
static inline int32_t prediction_output(const Request *request, Estimate estimate) {
  return estimate == ESTIMATE_LOW ? request->predicted_low : request->predicted_high - 1;
}
#endif
