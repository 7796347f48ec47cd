/* See prefill_run.h. */
#include "sim/core/prefill_run.h"
#include "sim/books/observing.h"
#include "sim/books/parts.h"
#include "sim/core/decode_run.h"
#include "sim/core/limits.h"
#include "sim/core/loop.h"
#include "sim/core/tier.h"

/* What predicting the outputs of the prompts that begin here adds to their iteration. */
static Tick prediction_ticks(Simulation *self, const Instance *instance, Tick ticks) {
  if (!self->predictor->cost || instance->role != ROLE_PREFILL) return 0;
  const InstanceView view = sim_view(self, instance);
  const void *state = sim_deployment_of(self, instance)->predictor_state;
  const double more = self->predictor->cost(state, &view, ticks);
  return sim_passes_the_end(self, (double)ticks + more) ? 0 : (Tick)more;
}

/* What sending its KV layer by layer adds to an iteration: each layer waits until the one before is
 * on its way. Loops that have said how long it lasts have it without. */
static Tick sync_ticks(Simulation *self, Instance *instance) {
  const PoolSpec *pool = instance->pool;
  if (!instance->run.sends_layers) return 0;
  instance->run.sends_layers = false;
  if (instance->loop->ticks) return 0;
  const double ticks = (double)pool->kv_layer_sync * (double)pool->num_hidden_layers;
  return sim_passes_the_end(self, ticks) ? 0 : (Tick)ticks;
}

/* An iteration with prefill in it, of which `ticks` are booked. */
static void add_prefills(const Instance *instance, const BatchShape *shape, Tick ticks,
                         InstanceTotals *totals) {
  totals->prefill_iterations++;
  totals->prefill_ticks += ticks;
  totals->milliwatt_ticks += (Total)ticks * instance->run.milliwatts;
  if (shape->decode_seqs > 0) totals->mixed_ticks += ticks;
  totals->prefill_tokens += shape->prefill_tokens - instance->padding.prefill_tokens;
  totals->padding_tokens += instance->padding.prefill_tokens + instance->padding.decode_seqs;
  totals->decode_tokens += shape->decode_seqs - instance->padding.decode_seqs;
}

/* The mean of one GPU; 0 where its model does not say it. */
static int64_t milliwatts_of(const Instance *instance, const BatchShape *shape) {
  const PerfModel *model = instance->perfmodel;
  return model->power ? power_of_iteration(model, shape, &instance->busiest) : 0;
}

Tick sim_begin_prefills(Simulation *self, Instance *instance, const BatchShape *shape) {
  DecodeRun *run = &instance->run;
  run->began_at = run->part_began_at = self->now;
  run->done = run->booked = 0;
  run->part = 1;
  run->goes_on = false;
  sim_observe_begin(self, instance, shape, false);
  Tick ticks = sim_iteration_ticks(self, instance, shape, 0);
  ticks += prediction_ticks(self, instance, ticks);
  ticks += sync_ticks(self, instance);
  if (self->keeps_parts) parts_prefills_begin(self, instance, shape, ticks);
  run->series = run->compute = (Series){.first = ticks};
  run->tokens = shape->logit_seqs - instance->padding.decode_seqs;
  if (instance->moves_kv) {
    sim_plan_tier(self, instance, shape);
    ticks = sim_passes_the_end(self, (double)run->series.first) ? 1 : run->series.first;
  }
  run->stall = sim_stall(self, instance, ticks);
  ticks += run->stall;
  instance->activity = ACTIVITY_PREFILL;
  if (instance->cache) prefix_cache_stir(instance->cache);
  run->milliwatts = milliwatts_of(instance, shape);
  add_prefills(instance, shape, ticks, &instance->totals);
  run->shape = *shape;
  run->ends_at = self->now + ticks;
  agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, run->ends_at);
  return ticks;
}

/* Of one that goes on no more: its time. */
static void book_time(Instance *instance, Tick now) {
  const DecodeRun *run = &instance->run;
  sim_book_batch_tokens(instance, run->shape.prefill_tokens + run->shape.decode_seqs, run->began_at,
                        now);
}

void sim_stretch_prefills(Instance *instance, Tick until) {
  DecodeRun *run = &instance->run;
  const Tick more = until - run->ends_at, mixed = run->shape.decode_seqs > 0 ? more : 0;
  const bool left_out = instance->counted_from == run->ends_at; // the warm-up ended in it
  instance->totals.prefill_ticks += more;
  instance->totals.milliwatt_ticks += (Total)more * run->milliwatts;
  instance->totals.mixed_ticks += mixed;
  run->ends_at = until;
  if (!left_out) return;
  instance->before.prefill_ticks += more;
  instance->before.milliwatt_ticks += (Total)more * run->milliwatts;
  instance->before.mixed_ticks += mixed;
  instance->counted_from = until;
}

void sim_end_prefills(Simulation *self, Instance *instance) {
  instance->loop->book_gaps(self, instance, self->now);
  book_time(instance, self->now);
}

void sim_break_off_prefills(Simulation *self, Instance *instance) {
  const DecodeRun *run = &instance->run;
  const Tick end = run->ends_at;
  const Tick ticks = self->now - run->began_at, work = run->modelled;
  InstanceTotals ahead = {.stall_ticks = run->stall > ticks ? run->stall - ticks : 0};
  add_prefills(instance, &run->shape, end - self->now, &ahead);
  ahead.extrapolated_iterations[run->extrapolation] = 1;
  ahead.extrapolated_ticks[run->extrapolation] = work - sim_worked_ticks(ticks, run->stall, work);
  instance_totals_subtract(&instance->totals, &ahead);
  if (run->began_at < instance->counted_from) instance_totals_subtract(&instance->before, &ahead);
  book_time(instance, self->now);
}
