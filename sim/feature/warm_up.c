/* The start of a run that is simulated and not counted: until the first request arrives that is not
 * of SimConfig.warm_up, without one until the first of all. Its requests are booked apart for as
 * long as they live (core/counting.h); what instances did before it ended is left out when all is
 * summed up. Outcomes know nothing of it. */
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/flights.h"
#include "sim/core/loop.h"
#include "sim/core/memory.h"
#include "sim/core/tier.h"
#include "sim/feature/features.h"
#include <assert.h>

static void leave_instance_out(Simulation *self, Instance *instance) {
  sim_catch_up_cache(self, instance); // what a run has taken of it
  sim_book_capacity(self, instance);
  flights_catch_up(self, instance);
  instance->totals.max_kv_blocks = instance->totals.max_cpu_blocks = 0;
  instance->before = instance->totals;
  sim_book_capacity(self, instance); // what it has at most from now on
  instance->counted_from = self->now;
  if (instance->activity == ACTIVITY_DECODE) sim_leave_part_out(self, instance);
  if (instance->activity == ACTIVITY_PREFILL) instance->counted_from = instance->run.ends_at;
}

static void look_for_start(Simulation *self, Tick next);

/* Nobody need look before each event any more. */
static void stop_looking(Simulation *self) {
  Hooks *hooks = &self->hooks;
  assert(hooks->event_comes[hooks->n_event_comes - 1] == look_for_start);
  hooks->n_event_comes--;
}

/* From the next request on they are counted. */
static void end(Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    Instance *instance = &self->instances[m];
    if (instance->loop->cut) instance->loop->cut(self, instance);
  }
  self->first_counted = self->n_arrived;
  stop_looking(self);
  tell_books_close(self);
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    leave_instance_out(self, &self->instances[m]);
    if (m == 0 || self->instances[m].batch_tokens != self->instances[m - 1].batch_tokens)
      histogram_init(self->instances[m].batch_tokens, self->arena);
  }
  self->counted_from = self->now;
  for (uint32_t g = 0; g < self->n_groups; g++) {
    Group *group = &self->groups[g];
    group->totals.most_stored_blocks = group->spec->store_blocks - group->free_blocks;
    group->before = group->totals;
  }
}

/* It has not ended, and a row may be pending: before the event at `next` it ends where that row is
 * counted and arrives before, though it reaches the router later: when all events of the tick of
 * its arrival have happened. */
static void look_for_start(Simulation *self, Tick next) {
  if (!agenda_find(&self->agenda, EVENT_ARRIVAL, 0) || self->next_row.at >= next) return;
  if (warm_up_has(&self->config->warm_up, self->n_arrived, self->next_row.at)) return;
  const Tick now = self->now;
  const uint64_t reached = self->reached;
  if (now <= self->next_row.at) { // all that happens in the tick of the arrival has happened
    self->now = self->next_row.at;
    self->reached = UINT64_MAX;
  }
  end(self);
  self->now = now;
  self->reached = reached;
}

static void look_at_row(Simulation *self) {
  const Tick at = self->next_row.at;
  if (sim_warms_up(self) && !warm_up_has(&self->config->warm_up, self->n_arrived, at)) end(self);
}

static void end_at_last(Simulation *self) {
  if (sim_warms_up(self)) end(self);
}

const Feature feature_warm_up = {
    .event_comes = look_for_start,
    .row_comes = look_at_row,
    .run_ends = end_at_last,
};
