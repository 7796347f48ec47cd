/* See waking.h. */
#include "sim/core/waking.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"

void sim_wake(Simulation *self, Machine *machine, Wake why, RequestIx request) {
  const Batcher *batcher = machine->batcher;
  if (!machine_works(machine)) return;
  if (why == WAKE_CHAINED && !batcher->hears_chained) return;
  if (machine->activity == ACTIVITY_DECODE) sim_catch_up(self, machine);
  const MachineView view = sim_view(self, machine);
  if (batcher->wake(machine->batcher_options, machine->batcher_state, &view, why, request))
    sim_mark(self, machine, MARK_BEGIN);
}
