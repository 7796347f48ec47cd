/* Nothing is known of a request's output. */
#include "sim/predictor/predictor.h"

static Prediction predict(const void *state, const Request *request, uint64_t random) {
  (void)state, (void)request, (void)random;
  return (Prediction){.high = INT32_MAX};
}

const Predictor predictor_none = {
    .policy = {.name = "none", .help = "Predicts nothing."},
    .predict = predict,
};
