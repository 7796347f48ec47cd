/* See copying.h. */
#include "sim/core/copying.h"
#include "sim/books/observing.h"
#include "sim/core/decode_run.h"
#include "sim/core/limits.h"

Tick sim_copy(Simulation *self, Machine *machine, LinkDirection direction, int64_t bytes,
              Tick from) {
  const bool beside_tier =
      machine->moves_kv && machine->activity != ACTIVITY_IDLE && machine->run.moves[direction];
  const Tick ready = machine->copies->ends[direction]; // from when on the link is free
  const Tick end = host_link_queue(&machine->pool->host_link, machine->copies, direction, bytes,
                                   from, beside_tier);
  if (sim_passes_the_end(self, (double)(end - self->now))) return self->now;
  sim_observe_copy(self, machine, direction, from > ready ? from : ready, end, bytes);
  if (machine->moves_kv) sim_replan_tier(self, machine);
  return end;
}
