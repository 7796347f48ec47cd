/* Transitions of requests that are scheduled step by step (scheduler.h). See lifecycle.h. */
#include "sim/core/counting.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/transition.h"

void life_found_no_room(Simulation *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  machine->totals.kv_waits += !request->waited_for_kv;
  request->waited_for_kv = true;
}

void life_scheduled(Simulation *self, Machine *machine, RequestIx ix, int64_t hits) {
  Request *request = &self->requests.slots[ix];
  if (request->state == REQUEST_WAITS_DECODE) {
    change(self, machine, ix, REQUEST_GENERATES);
    return;
  }
  if (request->prefill_began_at < 0)
    sim_promise_blocks(self, machine, -machine_prompt_blocks(machine, request));
  change(self, machine, ix, REQUEST_COMPUTES);
  if (machine->cache) life_take_hits(self, machine, ix, hits);
}

void life_prefill_began(Simulation *self, const Machine *machine, Request *request) {
  if (request->prefill_began_at >= 0) return;
  request->prefill_began_at = self->now;
  sim_log(self, OUTCOME_PREFILL_BEGIN, request, machine->ix, request_prefill_tokens(request),
          request->cached_tokens);
}

void life_decode_began(Simulation *self, const Machine *machine, Request *request) {
  if (request->decode_began_at >= 0) return;
  request->decode_began_at = self->now;
  sim_log(self, OUTCOME_DECODE_BEGIN, request, machine->ix, 0, 0);
}

void life_generates(Simulation *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool prefilled = request->state == REQUEST_COMPUTES;
  if (request->first_token_at < 0 && request->decode_machine != machine->ix)
    column_add(self->columns.n_assigned, machine->ix, -1);
  life_book_token(self, machine, ix);
  if (prefilled) change(self, machine, ix, REQUEST_GENERATES);
  request->generated_tokens++;
  if (request->state == REQUEST_WAITS_PREFILL)
    column_add(self->columns.pending_tokens, machine->ix, 1);
  if (prefilled) life_observe(self, machine, ix, OBSERVED_PREFILLED);
}

void life_preempted(Simulation *self, Machine *machine, RequestIx ix, RequestIx next,
                    bool evicted) {
  Request *request = &self->requests.slots[ix];
  const bool computes = request->state == REQUEST_COMPUTES;
  sim_release_blocks(self, machine, ix);
  if (computes) column_add(self->columns.pending_tokens, machine->ix, request->prefilled_tokens);
  if (evicted) {
    life_drop_before(self, machine, ix, next);
    return;
  }
  request->preemptions++;
  sim_books(self, request)->preemptions++;
  sim_books(self, request)->restarted_prefills++;
  if (computes && request->prefilled_tokens < request_prefill_tokens(request))
    sim_books(self, request)->dropped_tokens += request->prefilled_tokens;
  sim_log(self, OUTCOME_PREEMPTION, request, machine->ix, request->prefilled_tokens, 0);
  request->prefilled_tokens = 0;
  change_before(self, machine, ix, REQUEST_WAITS_PREFILL, next);
  if (self->keeps_parts) parts_lost(self, ix);
}
