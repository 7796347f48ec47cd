/* See prefill_run.h. */
#include "sim/core/prefill_run.h"
#include "sim/books/observing.h"
#include "sim/books/parts.h"
#include "sim/core/decode_run.h"
#include "sim/core/limits.h"
#include "sim/core/tier.h"

/* What predicting the outputs of the prompts that begin here adds to their iteration. */
static Tick prediction_ticks(Simulation *self, const Machine *machine, Tick ticks) {
  if (!self->predictor->cost || machine->role != ROLE_PREFILL) return 0;
  const MachineView view = sim_view(self, machine);
  const void *state = sim_deployment_of(self, machine)->predictor_state;
  const double more = self->predictor->cost(state, &view, ticks);
  return sim_passes_the_end(self, (double)ticks + more) ? 0 : (Tick)more;
}

/* An iteration with prefill in it, of which `ticks` are booked. */
static void add_prefills(const Machine *machine, const BatchShape *shape, Tick ticks,
                         MachineTotals *totals) {
  totals->prefill_iterations++;
  totals->prefill_ticks += ticks;
  if (shape->decode_seqs > 0) totals->mixed_ticks += ticks;
  totals->prefill_tokens += shape->prefill_tokens - machine->padding.prefill_tokens;
  totals->padding_tokens += machine->padding.prefill_tokens;
  totals->decode_tokens += shape->decode_seqs - machine->padding.decode_seqs;
}

Tick sim_begin_prefills(Simulation *self, Machine *machine, const BatchShape *shape) {
  DecodeRun *run = &machine->run;
  run->began_at = run->part_began_at = self->now;
  run->done = run->booked = 0;
  run->part = 1;
  run->goes_on = false;
  sim_observe_begin(self, machine, shape, false);
  Tick ticks = sim_iteration_ticks(self, machine, shape, 0);
  ticks += prediction_ticks(self, machine, ticks);
  if (self->keeps_parts) parts_prefills_begin(self, machine, shape, ticks);
  run->series = run->compute = (Series){.first = ticks};
  run->tokens = shape->logit_seqs - machine->padding.decode_seqs;
  if (machine->moves_kv) {
    sim_plan_tier(self, machine, shape);
    ticks = sim_passes_the_end(self, (double)run->series.first) ? 1 : run->series.first;
  }
  run->stall = sim_stall(self, machine, ticks);
  ticks += run->stall;
  machine->activity = ACTIVITY_PREFILL;
  add_prefills(machine, shape, ticks, &machine->totals);
  run->shape = *shape;
  agenda_set(&self->agenda, EVENT_ITERATION, machine->ix, self->now + ticks);
  return ticks;
}

/* Of one that goes on no more: its time. */
static void book_time(Machine *machine, Tick now) {
  const DecodeRun *run = &machine->run;
  sim_book_batch_tokens(machine, run->shape.prefill_tokens + run->shape.decode_seqs, run->began_at,
                        now);
}

void sim_end_prefills(Simulation *self, Machine *machine) {
  sim_book_first_gaps(self, machine, self->now);
  book_time(machine, self->now);
}

void sim_break_off_prefills(Simulation *self, Machine *machine) {
  const DecodeRun *run = &machine->run;
  const Tick end = agenda_find(&self->agenda, EVENT_ITERATION, machine->ix)->at;
  const Tick ticks = self->now - run->began_at, work = run->modelled;
  MachineTotals ahead = {.stall_ticks = run->stall > ticks ? run->stall - ticks : 0};
  add_prefills(machine, &run->shape, end - self->now, &ahead);
  ahead.extrapolated_iterations[run->extrapolation] = 1;
  ahead.extrapolated_ticks[run->extrapolation] = work - sim_worked_ticks(ticks, run->stall, work);
  machine_totals_subtract(&machine->totals, &ahead);
  if (machine->counted_from > self->now) machine_totals_subtract(&machine->before, &ahead);
  book_time(machine, self->now);
}
