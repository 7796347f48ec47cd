/* See observing.h. */
#include "sim/books/observing.h"
#include "sim/core/loop.h"

void sim_start_observing(Simulation *self) {
  const SimObserver *observer = self->config->observer;
  if (observer) {
    self->log.listener = observer->on_outcome;
    self->log.context = observer->context;
  }
  if (observer && observer->on_iterations)
    self->watched = ARENA_ARRAY(self->arena, IterationSpan, self->n_instances);
}

/* ---- Iterations ---- */

void sim_observe_begin(Simulation *self, const Instance *instance, const BatchShape *shape,
                       bool goes_on) {
  if (!self->watched) return;
  self->watched[instance->ix] = (IterationSpan){
      .instance = instance->ix,
      .begin = self->now,
      .shape = *shape,
      .n_prompts = shape->prefill_tokens > 0 ? instance->loop->count_prompts(instance) : 0,
      .stall = -(Tick)instance->totals.stall_ticks,
      .goes_on = goes_on};
}

void sim_observe_end(Simulation *self, const Instance *instance, int64_t n_iterations) {
  if (!self->watched) return;
  IterationSpan *span = &self->watched[instance->ix];
  if (span->begin == self->now && n_iterations == 0) return; // broken off as it began
  span->end = self->now;
  span->n_iterations = n_iterations;
  span->stall += (Tick)instance->totals.stall_ticks;
  self->config->observer->on_iterations(self->config->observer->context, span);
}

/* ---- Links ---- */

void sim_observe_transfer(const Simulation *self, const Transfer *transfer, int64_t bytes,
                          bool arrived) {
  const SimObserver *observer = self->config->observer;
  if (!observer || !observer->on_transfer) return;
  const TransferSpan span = {.request = self->requests.slots[transfer->request].id,
                             .from = transfer->from,
                             .to = transfer->to,
                             .begin = transfer->began_at,
                             .end = self->now,
                             .bytes = bytes,
                             .arrived = arrived};
  observer->on_transfer(observer->context, &span);
}

/* The instances that share it lie together, the first shape of a group before the second. */
static InstanceIx first_on_link(const Simulation *self, const Instance *instance) {
  const Group *group = instance->group;
  if (group) return group->first[SHAPE_PREFILL];
  InstanceIx ix = instance->ix;
  while (ix > 0 && self->instances[ix - 1].copies == instance->copies)
    ix--;
  return ix;
}

void sim_observe_copy(const Simulation *self, const Instance *instance, LinkDirection direction,
                      Tick begin, Tick end, int64_t bytes) {
  const SimObserver *observer = self->config->observer;
  if (!observer || !observer->on_copy) return;
  const CopySpan span = {.instance = instance->ix,
                         .link = first_on_link(self, instance),
                         .direction = direction,
                         .begin = begin,
                         .end = end,
                         .bytes = bytes};
  observer->on_copy(observer->context, &span);
}
