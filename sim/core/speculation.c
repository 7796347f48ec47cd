/* See speculation.h. */
#include "sim/core/speculation.h"
#include "base/hash.h"
#include <string.h>

static const double *rates_named(const Speculation *self, const char *name) {
  for (int i = 0; i < self->n_acceptance; i++) {
    const Acceptance *one = &self->acceptance[i];
    if (!one->name || (name && strcmp(one->name, name) == 0)) return one->rates;
  }
  return NULL;
}

const double *speculation_rates(const Speculation *self, const char *component, const char *class) {
  const double *own = rates_named(self, component);
  return own ? own : rates_named(self, class);
}

bool speculation_draws(const Speculation *self) {
  for (int a = 0; a < self->n_acceptance; a++)
    for (int32_t i = 0; i < self->num_speculative_tokens; i++) {
      const double rate = self->acceptance[a].rates[i];
      if (0 < rate && rate < 1) return true;
    }
  return false;
}

int32_t speculation_accepted(const double *rates, uint64_t seed, uint64_t request, int32_t made,
                             int32_t n) {
  const uint64_t bits = hash_mix(hash_mix(seed ^ hash_mix(request + 1)) + (uint64_t)made);
  const double drawn = (double)(bits >> 11) / (double)(UINT64_C(1) << 53);
  int32_t accepted = 0;
  while (accepted < n && drawn < rates[accepted])
    accepted++;
  return accepted;
}
