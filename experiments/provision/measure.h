/* Running an offline study: every choice that can be had, of every design, on every seed. */
#ifndef EXPERIMENTS_PROVISION_MEASURE_H
#define EXPERIMENTS_PROVISION_MEASURE_H
#include "experiments/provision/provision.h"

/* As provision_run, which calls it; runs of the database after `last_before` are this study's. */
int provision_measure(const Provision *self, const ProvisionOptions *options, int64_t last_before,
                      DesignOutcome **ret_outcomes, Arena *arena, Diag *diag);
/* The measurement of a choice on the seed that is `seed` after the study's first. */
static inline const Measurement *outcome_measurement(const DesignOutcome *outcome, int seed,
                                                     int64_t choice) {
  return &outcome->measurements[seed * outcome->design->choices.n_points + choice];
}
/* The choices of a design by their throughput on a seed, best first; those that are no answer come
 * last, in their order. Returns [choices.n_points], of which ret_n_ranked may be answers. */
const int64_t *outcome_rank(const DesignOutcome *outcome, int seed, int64_t *ret_n_ranked,
                            Arena *arena);
#endif
