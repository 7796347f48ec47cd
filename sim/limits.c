/* See limits.h. */
#include "sim/limits.h"

/* As a figure of people, "21 GiB". */
static const char *bytes_text(double bytes, char text[32]) {
  units_format(text, 32, DIM_BYTES, bytes);
  return text;
}

/* Machines are made before anything can be counted, and take the most of a cluster without
 * requests: themselves, a number for each place in a block, and what a router keeps of each. */
bool limits_allow_machines(const SimConfig *config, const Arena *arena, Diag *diag) {
  double bytes = (double)arena->bytes, machines = 0;
  const PolicyChoice router = sim_policy(config, POLICY_ROUTER);
  size_t (*of_router)(const void *) = ((const Router *)router.policy)->machine_bytes;
  const size_t more = of_router ? of_router(router.state) : 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    machines += pool->count;
    bytes += (double)pool->count *
             (double)(sizeof(Machine) + (size_t)pool->block_size * sizeof(int32_t) + more);
  }
  if (config->memory_limit == 0 || bytes <= (double)config->memory_limit) return true;
  char limit[32], needed[32];
  diag_environment(diag, place_of_file(NULL),
                   "the run needs more memory than its limit of %s: %s for %.0f instances alone",
                   bytes_text((double)config->memory_limit, limit), bytes_text(bytes, needed),
                   machines);
  return false;
}

/* Requests in flight are what grows, as long as more arrive than are served, so the whole of a
 * trace takes in proportion. */
static void tell_of_memory(Engine *self, double needed) {
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

void engine_lacks_memory(Engine *self, size_t growth) {
  if (!self->failed) tell_of_memory(self, (double)self->arena->bytes + (double)growth);
  self->failed = true;
}

void engine_passed_the_end(Engine *self) {
  if (!self->failed)
    diag_error(self->diag, place_of_file(NULL),
               "the run is longer than 106 days of simulated time, the limit of the simulator");
  self->failed = true;
}

void engine_was_interrupted(Engine *self) {
  if (!self->failed) diag_interrupted(self->diag);
  self->failed = true;
}
