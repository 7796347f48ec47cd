/* See waking.h. */
#include "sim/core/waking.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"

void sim_wake(Simulation *self, Instance *instance, Wake why, RequestIx request) {
  const Batcher *batcher = instance->batcher;
  if (instance->loop->hear && (why == WAKE_PREFILL || why == WAKE_DECODE))
    instance->loop->hear(self, instance, request);
  if (!instance_works(instance)) return;
  if (why == WAKE_CHAINED && !batcher->hears_chained) return;
  if (instance->activity == ACTIVITY_DECODE) sim_catch_up(self, instance);
  const InstanceView view = sim_view(self, instance);
  if (batcher->wake(instance->batcher_options, instance->batcher_state, &view, why, request))
    sim_mark(self, instance, MARK_BEGIN);
}
