/* See uplinks.h. */
#include "sim/core/uplinks.h"
#include <stdbool.h>

static size_t count(const Uplinks *self, uint32_t instance) {
  return instance < self->n_instances ? self->first[instance + 1] - self->first[instance] : 0;
}

static const UplinkShare *shares_of(const Uplinks *self, uint32_t instance) {
  return instance < self->n_instances ? &self->shares[self->first[instance]] : self->shares;
}

size_t uplinks_most_crossings(const Uplinks *self, uint32_t from, uint32_t to) {
  return count(self, from) + count(self, to);
}

size_t uplinks_cross(const Uplinks *self, uint32_t from, uint32_t to, Crossing *ret) {
  const UplinkShare *out = shares_of(self, from), *in = shares_of(self, to);
  const UplinkShare *const out_end = out + count(self, from), *const in_end = in + count(self, to);
  size_t n = 0;
  while (out < out_end || in < in_end) {
    const bool leaves = in == in_end || (out < out_end && out->uplink <= in->uplink);
    const bool comes = out == out_end || (in < in_end && in->uplink <= out->uplink);
    const uint32_t uplink = leaves ? out->uplink : in->uplink;
    const double part = (leaves ? out->share : 0) - (comes ? in->share : 0);
    if (part > 0) ret[n++] = (Crossing){2 * uplink, part};
    if (part < 0) ret[n++] = (Crossing){2 * uplink + 1, -part};
    out += leaves;
    in += comes;
  }
  return n;
}
