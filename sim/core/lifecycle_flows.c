/* A running request goes on elsewhere: see lifecycle.h. */
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/transition.h"
#include <assert.h>

void life_made_is_prompt(Simulation *self, RequestIx ix, int32_t tokens) {
  Request *request = &self->requests.slots[ix];
  ARENA_RESERVE(self->arena, self->delivered, self->delivered_capacity, self->requests.n_slots);
  if (request->resumed_tokens == 0)
    self->delivered[ix] = (Delivered){.prefill_began_at = request->prefill_began_at,
                                      .first_token_at = request->first_token_at};
  request->resumed_tokens += tokens;
  request->prompt_tokens += tokens;
  request->output_tokens -= tokens;
  request->max_tokens -= tokens;
}

static void flow(Simulation *self, Instance *from, RequestIx ix, InstanceIx to) {
  Request *request = &self->requests.slots[ix];
  assert(request->state == REQUEST_PREFILLED && request->decode_instance == from->ix &&
         to != from->ix);
  life_count_decode(self, request, from, -1);
  column_add(self->columns.n_assigned, from->ix, -1);
  life_made_is_prompt(self, ix, request->generated_tokens - 1); // of the newest there is no KV
  request->generated_tokens = 1;
  request->prefill_instance = from->ix;
  life_dispatched(self, request, to);
}

void life_flows(Simulation *self, Instance *from, RequestIx ix, InstanceIx to) {
  assert(self->requests.slots[ix].state == REQUEST_RUNS && from->activity == ACTIVITY_IDLE);
  change(self, from, ix, REQUEST_PREFILLED);
  flow(self, from, ix, to);
}

/* --- requests that are cut in two */

void life_cut(Simulation *self, RequestIx ix, int32_t tokens, InstanceIx to) {
  Request *request = &self->requests.slots[ix];
  assert(tokens > 0 && tokens < request->prompt_tokens + request->output_tokens - 1 &&
         tokens != request->prompt_tokens && request->cut == CUT_NONE);
  ARENA_RESERVE(self->arena, self->cuts, self->cuts_capacity, self->requests.n_slots);
  self->cuts[ix] = (CutRequest){.prompt_tokens = request->prompt_tokens,
                                .output_tokens = request->output_tokens,
                                .max_tokens = request->max_tokens,
                                .to = to};
  if (tokens < request->prompt_tokens) {
    request->cut = CUT_PROMPT;
    request->prompt_tokens = tokens;
  } else { // the KV of its last token is computed by the second part
    request->cut = CUT_OUTPUT;
    request->output_tokens = request->max_tokens = tokens - request->prompt_tokens + 1;
  }
}

void life_made_whole(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const CutRequest *whole = &self->cuts[ix];
  request->prompt_tokens = whole->prompt_tokens;
  request->output_tokens = whole->output_tokens;
  request->max_tokens = whole->max_tokens;
  request->cut = CUT_NONE;
}

void life_first_part_ended(Simulation *self, Instance *from, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const InstanceIx to = self->cuts[ix].to;
  if (request->state != REQUEST_PREFILLED) change(self, from, ix, REQUEST_PREFILLED);
  if (request->cut == CUT_PROMPT) {
    request->last_token_at = self->now; // its KV is on its way from here on
  } else {
    life_made_whole(self, ix);
    flow(self, from, ix, to);
  }
  sim_log(self, OUTCOME_DISPATCH, request, from->ix, to, request->prompt_tokens);
}

/* The first there that has not begun. */
static RequestIx first_not_begun(const Simulation *self, const Instance *instance) {
  const Request *slots = self->requests.slots;
  RequestIx ix = instance->prefill_queue.first;
  while (ix != REQUEST_NONE && (slots[ix].prefilled_tokens > 0 || slots[ix].loading))
    ix = slots[ix].next;
  return ix;
}

void life_second_part_waits(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Instance *to = &self->instances[request->decode_instance];
  column_add(self->columns.n_assigned, request->prefill_instance, -1);
  request->prefill_instance = to->ix;
  const int32_t first = request->prompt_tokens;
  life_made_whole(self, ix);
  if (request->state == REQUEST_WAITS_PREFILL) {
    column_add(self->columns.pending_tokens, to->ix, request->prompt_tokens - first);
    return;
  }
  to->n_started++;
  change_before(self, to, ix, REQUEST_WAITS_PREFILL, first_not_begun(self, to));
}
