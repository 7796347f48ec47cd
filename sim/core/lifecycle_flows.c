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

void life_flows(Simulation *self, Instance *from, RequestIx ix, InstanceIx to) {
  Request *request = &self->requests.slots[ix];
  assert(request->state == REQUEST_RUNS && from->activity == ACTIVITY_IDLE &&
         request->decode_instance == from->ix && to != from->ix);
  life_count_decode(self, request, from, -1);
  column_add(self->columns.n_assigned, from->ix, -1);
  change(self, from, ix, REQUEST_PREFILLED);
  life_made_is_prompt(self, ix, request->generated_tokens - 1); // of the newest there is no KV
  request->generated_tokens = 1;
  request->prefill_instance = from->ix;
  life_dispatched(self, request, to);
}
