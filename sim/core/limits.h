/* What a run may take: memory, simulated time, and the patience of its user. What passes a limit
 * fails the run, in a sentence. */
#ifndef SIM_CORE_LIMITS_H
#define SIM_CORE_LIMITS_H
#include "sim/core/state.h"

/* As a figure of people, "21 GiB". */
static inline const char *bytes_text(double bytes, char text[32]) {
  units_format(text, 32, DIM_BYTES, bytes);
  return text;
}

/* private: fails the run. */
void sim_lacks_memory(Simulation *self, size_t growth);
void sim_passed_the_end(Simulation *self);
void sim_was_interrupted(Simulation *self);

/* Whether the run may hold `growth` bytes more than it does; that it may not stops it. */
static inline bool sim_has_memory(Simulation *self, size_t growth) {
  const size_t limit = self->config->memory_limit;
  if (limit == 0 || (growth < limit && self->arena->bytes <= limit - growth)) return true;
  sim_lacks_memory(self, growth);
  return false;
}

/* Whether `ticks` from now lie past the end of simulated time, 106 days; that stops the run. */
static inline bool sim_passes_the_end(Simulation *self, double ticks) {
  if (ticks < 0.999 * (double)(TICK_MAX - self->now)) return false;
  sim_passed_the_end(self);
  return true;
}

/* Whether the user wants the run to end; that stops it. */
static inline bool sim_is_interrupted(Simulation *self) {
  const volatile sig_atomic_t *interrupted = self->config->interrupted;
  if (!interrupted || *interrupted == 0) return false;
  sim_was_interrupted(self);
  return true;
}
#endif
