/* See speculation.h. */
#include "sim/core/speculation.h"
#include "base/hash.h"

bool speculation_draws(const Speculation *self) {
  for (int32_t i = 0; i < self->num_speculative_tokens; i++)
    if (0 < self->rates[i] && self->rates[i] < 1) return true;
  return false;
}

int32_t speculation_accepted(const Speculation *self, uint64_t seed, uint64_t request, int32_t made,
                             int32_t n) {
  const uint64_t bits = hash_mix(hash_mix(seed ^ hash_mix(request + 1)) + (uint64_t)made);
  const double drawn = (double)(bits >> 11) / (double)(UINT64_C(1) << 53);
  int32_t accepted = 0;
  while (accepted < n && drawn < self->rates[accepted])
    accepted++;
  return accepted;
}
