/* See copying.h. */
#include "sim/core/copying.h"
#include "sim/books/observing.h"
#include "sim/core/decode_run.h"
#include "sim/core/limits.h"

Tick sim_copy(Simulation *self, Instance *instance, LinkDirection direction, int64_t bytes,
              Tick from) {
  const bool beside_tier =
      instance->moves_kv && instance->activity != ACTIVITY_IDLE && instance->run.moves[direction];
  const Tick ready = instance->copies->ends[direction]; // from when on the link is free
  const Tick end = host_link_queue(&instance->pool->host_link, instance->copies, direction, bytes,
                                   from, beside_tier);
  if (sim_passes_the_end(self, (double)(end - self->now))) return self->now;
  sim_observe_copy(self, instance, direction, from > ready ? from : ready, end, bytes);
  if (instance->moves_kv) sim_replan_tier(self, instance);
  return end;
}
