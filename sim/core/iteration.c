/* See iteration.h. */
#include "sim/core/iteration.h"
#include "sim/books/observing.h"
#include "sim/books/parts.h"
#include "sim/core/decode_run.h"
#include "sim/core/flights.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/prefill_run.h"
#include "sim/core/roles.h"
#include "sim/core/tier.h"
#include <assert.h>

void sim_begin(Simulation *self, Instance *instance) {
  if (instance->activity == ACTIVITY_IDLE)
    instance->loop->begin(self, instance);
  else if (instance->activity == ACTIVITY_DECODE)
    sim_cut_run(self, instance);
}

void sim_handle_iteration(Simulation *self, uint32_t target) {
  Instance *instance = &self->instances[target];
  if (!instance->loop->goes_on || !instance->loop->goes_on(self, instance))
    sim_end_iteration(self, instance);
}

void sim_end_iteration(Simulation *self, Instance *instance) {
  const bool prefills = instance->activity == ACTIVITY_PREFILL;
  const bool resized =
      instance->moves_kv && sim_advance_tier(instance, self->now - instance->run.part_began_at);
  if (prefills) sim_end_prefills(self, instance);
  if (!prefills && !sim_end_part(self, instance, resized)) return; // the run goes on
  sim_observe_end(self, instance, prefills ? 1 : instance->run.done);
  instance->activity = ACTIVITY_IDLE;
  sim_mark(self, instance, MARK_BEGIN);
  if (instance->availability == INSTANCE_DRAINS) sim_mark(self, instance, MARK_DRAIN);
  if (self->keeps_parts) parts_iterations_end(self, instance, prefills);
  const bool changes = instance->loop->end(self, instance, prefills);
  if (resized) sim_fit_capacity(self, instance);
  if (!changes) return;
  sim_admit_inbound(self, instance);
  sim_review_role(self, instance);
}

void sim_break_off(Simulation *self, Instance *instance) {
  flights_catch_up(self, instance);
  if (instance->loop->fail) instance->loop->fail(instance);
  if (instance->activity == ACTIVITY_IDLE) return;
  const bool prefills = instance->activity == ACTIVITY_PREFILL;
  const bool resized = !prefills && sim_break_off_run(self, instance);
  if (prefills) sim_break_off_prefills(self, instance);
  agenda_clear(&self->agenda, EVENT_ITERATION, instance->ix);
  instance->activity = ACTIVITY_IDLE;
  sim_observe_end(self, instance, instance->run.done);
  sim_book_idleness(self, instance, true);
  if (self->keeps_parts) parts_broken_off(self, instance);
  if (instance->copied_at > self->now) instance->copied_at = self->now;
  if (instance->counted_from > self->now) instance->counted_from = self->now;
  instance->loop->break_off(self, instance);
  if (resized) sim_fit_capacity(self, instance);
}
