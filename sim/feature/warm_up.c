/* See warm_up.h. */
#include "sim/feature/warm_up.h"
#include "sim/core/decode_run.h"
#include "sim/core/memory.h"
#include "sim/core/tier.h"
#include "sim/feature/autoscaling.h"
#include "sim/feature/failing.h"
#include "sim/feature/groups.h"

int64_t engine_counted_seqs(const Engine *self, const Machine *machine) {
  const Batch *batch = &machine->batch;
  if (metrics_ended(&self->warm_up_metrics) == self->warm_up_metrics.asked.requests)
    return (int64_t)batch->n_seqs;
  int64_t n = 0;
  for (size_t i = 0; i < batch->n_seqs; i++)
    n += engine_counts(self, &self->requests.slots[batch->entries[i].request]);
  return n;
}

/* Those that began in the tick of the last arrival before it ended are not counted either. */
Metrics *engine_session_books(Engine *self, const Request *request) {
  return request->session_began_at <= self->warmed_up_at ? &self->warm_up_metrics : &self->metrics;
}

static void leave_machine_out(Engine *self, Machine *machine) {
  engine_catch_up_cache(self, machine); // what a run has taken of it
  engine_book_capacity(self, machine);
  engine_book_down(self, machine);
  engine_book_off(self, machine);
  machine->totals.max_kv_blocks = machine->totals.max_cpu_blocks = 0;
  machine->before = machine->totals;
  engine_book_capacity(self, machine); // what it has at most from now on
  machine->counted_from = self->now;
  if (machine->activity == ACTIVITY_DECODE) engine_leave_part_out(self, machine);
  if (machine->activity == ACTIVITY_PREFILL)
    machine->counted_from = agenda_find(&self->agenda, EVENT_ITERATION, machine->ix)->at;
}

void engine_look_for_start(Engine *self, Tick next) {
  if (self->next_row.at >= next) return;
  if (warm_up_has(&self->config->warm_up, self->n_arrived, self->next_row.at)) return;
  const Tick now = self->now;
  const uint64_t reached = self->reached;
  if (now <= self->next_row.at) { // all that happens in the tick of the arrival has happened
    self->now = self->next_row.at;
    self->reached = UINT64_MAX;
  }
  engine_end_warm_up(self);
  self->now = now;
  self->reached = reached;
}

void engine_end_warm_up(Engine *self) {
  self->first_counted = self->n_arrived;
  for (MachineIx m = 0; m < self->n_machines; m++) {
    leave_machine_out(self, &self->machines[m]);
    if (m == 0 || self->machines[m].batch_tokens != self->machines[m - 1].batch_tokens)
      histogram_init(self->machines[m].batch_tokens, self->arena);
  }
  self->counted_from = self->now;
  for (uint32_t g = 0; g < self->n_groups; g++) {
    Group *group = &self->groups[g];
    engine_book_group(self, group);
    group->totals.most_stored_blocks = group->spec->store_blocks - group->free_blocks;
    group->before = group->totals;
  }
}
