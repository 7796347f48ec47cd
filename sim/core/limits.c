/* See limits.h. */
#include "sim/core/limits.h"

/* Requests in flight are what grows, as long as more arrive than are served, so the whole of a
 * trace takes in proportion. */
static void tell_of_memory(Simulation *self, double needed) {
  char limit[32], now[32], all[32];
  bytes_text((double)self->config->memory_limit, limit);
  const double arrived = (double)self->n_arrived;
  const double expected = self->config->expected_requests;
  const double whole = expected > arrived && arrived > 0 ? needed / arrived * expected : needed;
  diag_environment(self->diag, place_of_file(NULL),
                   "the run needs more memory than its limit of %s: %s for %llu requests in flight "
                   "after %.6g s, about %s for the whole workload",
                   limit, bytes_text(needed, now), (unsigned long long)self->requests.n_live,
                   tick_seconds(self->now), bytes_text(whole, all));
  diag_hint(self->diag, "requests that arrive faster than the cluster serves them wait in memory; "
                        "'--memory' sets the limit");
}

void sim_lacks_memory(Simulation *self, size_t growth) {
  if (!self->failed) tell_of_memory(self, (double)self->arena->bytes + (double)growth);
  self->failed = true;
}

void sim_passed_the_end(Simulation *self) {
  if (!self->failed)
    diag_error(self->diag, place_of_file(NULL),
               "the run is longer than 106 days of simulated time, the limit of the simulator");
  self->failed = true;
}

void sim_was_interrupted(Simulation *self) {
  if (!self->failed) diag_interrupted(self->diag);
  self->failed = true;
}
