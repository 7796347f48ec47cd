/* What is known of the iteration times that the figures of a claim rest on. */
#include "experiments/claims/claims.h"
#include <math.h>

/* Of a configuration that was bound and not run. */
static void add_model(TimesKnown *times, const Config *config) {
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PerfModel *model = config->sim.pools[i].perfmodel;
    times_add(times, &(ExtrapolatedFigures){.perfmodel_error = model->held_out_error,
                                            .perfmodel_measured = model->measured});
  }
}

TimesKnown claim_times(const Claim *self, ClaimColumn column) {
  TimesKnown times = {0};
  for (int s = 0; s < self->n_sources; s++) {
    const ClaimSource *source = &self->sources[s];
    if (!source->outcomes[column].wanted) continue;
    const SourceOutcome *outcome = &(source->twin ? source->twin : source)->outcomes[column];
    if (outcome->gap) continue;
    if (source->kind == SOURCE_MODEL) add_model(&times, &outcome->bound->config);
    for (int i = 0; outcome->runs && i < source->n_runs; i++)
      run_record_times(outcome->runs[i], &times);
  }
  return times;
}
