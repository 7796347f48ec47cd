/* See encoder.h. */
#include "sim/core/encoder.h"
#include <assert.h>

void encoder_init(Encoder *self, int64_t size, Arena *arena) {
  *self = (Encoder){.arena = arena,
                    .size = size,
                    .n_free = size,
                    .n_freeable = size,
                    .unused = OUTPUT_NONE,
                    .oldest = OUTPUT_NONE,
                    .newest = OUTPUT_NONE};
}

/* --- outputs */

static EncoderOutput *output_of(const Encoder *self, uint64_t id) {
  const uint32_t *place = key_map_find(&self->places, id);
  return place ? &self->outputs[*place] : NULL;
}

static void unlink_output(Encoder *self, const EncoderOutput *output) {
  *(output->older == OUTPUT_NONE ? &self->oldest : &self->outputs[output->older].newer) =
      output->newer;
  *(output->newer == OUTPUT_NONE ? &self->newest : &self->outputs[output->newer].older) =
      output->older;
}

static void link_newest(Encoder *self, EncoderOutput *output) {
  const uint32_t ix = (uint32_t)(output - self->outputs);
  output->older = self->newest;
  output->newer = OUTPUT_NONE;
  *(self->newest == OUTPUT_NONE ? &self->oldest : &self->outputs[self->newest].newer) = ix;
  self->newest = ix;
}

static void evict_oldest(Encoder *self) {
  const uint32_t ix = self->oldest;
  EncoderOutput *output = &self->outputs[ix];
  unlink_output(self, output);
  key_map_remove(&self->places, output->id);
  self->n_free += output->tokens;
  output->newer = self->unused;
  self->unused = ix;
}

static EncoderOutput *add_output(Encoder *self, const TraceInput *input) {
  uint32_t ix = self->unused;
  if (ix == OUTPUT_NONE) {
    ARENA_RESERVE(self->arena, self->outputs, self->capacity, (size_t)self->n_used + 1);
    ix = self->n_used++;
  } else {
    self->unused = self->outputs[ix].newer;
  }
  *key_map_put(&self->places, input->id, self->arena) = ix;
  self->n_free -= input->tokens;
  self->n_freeable -= input->tokens;
  self->outputs[ix] = (EncoderOutput){.id = input->id, .tokens = input->tokens};
  return &self->outputs[ix];
}

/* --- references */

/* The input that says whether the request refers to the output of the `i`-th. */
static RequestInput *first_named(RequestInputs *inputs, size_t i) {
  size_t first = 0;
  while (inputs->items[first].of.id != inputs->items[i].of.id)
    first++;
  return &inputs->items[first];
}

static void refer(RequestInputs *inputs, size_t i, EncoderOutput *output) {
  RequestInput *input = first_named(inputs, i);
  if (input->refers) return;
  input->refers = true;
  output->references++;
}

static bool is_cached(Encoder *self, RequestInputs *inputs, size_t i) {
  EncoderOutput *output = output_of(self, inputs->items[i].of.id);
  if (!output) return false;
  if (output->references == 0) {
    unlink_output(self, output);
    self->n_freeable -= output->tokens;
  }
  refer(inputs, i, output);
  return true;
}

void encoder_leave(Encoder *self, RequestInputs *inputs, int64_t computed) {
  for (size_t i = 0; i < inputs->n; i++) {
    const TraceInput *of = &inputs->items[i].of;
    RequestInput *input = first_named(inputs, i);
    if (of->place + of->tokens > computed || !input->refers) continue;
    input->refers = false;
    EncoderOutput *output = output_of(self, of->id);
    if (--output->references > 0) continue;
    link_newest(self, output);
    self->n_freeable += output->tokens;
  }
}

/* --- steps */

static bool is_chosen(const Encoder *self, const RequestInputs *inputs, uint64_t id) {
  for (size_t i = 0; i < self->n_chosen; i++)
    if (inputs->items[self->chosen[i]].of.id == id) return true;
  return false;
}

/* Whether there is room for so many tokens that are to be encoded; it is made. */
static bool make_room(Encoder *self, int64_t tokens) {
  if (tokens > self->n_free && tokens > self->n_freeable) return false;
  while (tokens > self->n_free)
    evict_oldest(self);
  return true;
}

int64_t encoder_fit(Encoder *self, RequestInputs *inputs, int64_t computed, int64_t tokens,
                    int64_t budget) {
  int64_t chosen_tokens = 0;
  self->n_chosen = 0;
  for (size_t i = 0; i < inputs->n; i++) {
    const TraceInput *input = &inputs->items[i].of;
    if (input->place >= computed + tokens) break;
    if (input->place + input->tokens <= computed || is_chosen(self, inputs, input->id) ||
        is_cached(self, inputs, i))
      continue;
    const int64_t more = chosen_tokens + input->tokens;
    if (more > budget || !make_room(self, more)) {
      const int64_t before = input->place - computed;
      return before > 0 ? before : 0;
    }
    chosen_tokens = more;
    ARENA_RESERVE(self->arena, self->chosen, self->chosen_capacity, self->n_chosen + 1);
    self->chosen[self->n_chosen++] = i;
  }
  return tokens;
}

int64_t encoder_take(Encoder *self, RequestInputs *inputs, uint64_t *ret_inputs) {
  int64_t tokens = 0;
  for (size_t k = 0; k < self->n_chosen; k++) {
    const size_t i = self->chosen[k];
    const TraceInput *input = &inputs->items[i].of;
    refer(inputs, i, add_output(self, input));
    tokens += input->tokens;
    if (i < 64) *ret_inputs |= UINT64_C(1) << i;
  }
  self->n_chosen = 0;
  return tokens;
}

void encoder_audit(const Encoder *self, int64_t n_references) {
  int64_t held = 0, idle = 0;
  size_t n_idle = 0;
  for (uint32_t ix = self->oldest; ix != OUTPUT_NONE; ix = self->outputs[ix].newer) {
    const EncoderOutput *output = &self->outputs[ix];
    assert(output->references == 0 && output_of(self, output->id) == output);
    idle += output->tokens;
    n_idle++;
  }
  for (size_t i = 0; i < self->places.n_slots; i++) {
    if (self->places.slots[i].key == 0) continue;
    const EncoderOutput *output = &self->outputs[self->places.slots[i].value];
    n_references -= output->references;
    n_idle -= output->references == 0;
    held += output->references > 0 ? output->tokens : 0;
  }
  assert(n_references == 0 && n_idle == 0);
  assert(self->n_free >= 0 && self->n_free + idle == self->n_freeable);
  assert(self->n_freeable + held == self->size);
}

/* --- requests */

static RequestInputs *inputs_of(const Simulation *self, RequestIx ix) {
  return &self->inputs[ix];
}

/* Room for the inputs of a request; memory of its slot is reused. */
static RequestInputs *reserve_inputs(Simulation *self, RequestIx ix, size_t n) {
  const size_t before = self->inputs_capacity;
  ARENA_RESERVE(self->arena, self->inputs, self->inputs_capacity, (size_t)ix + 1);
  for (size_t i = before; i < self->inputs_capacity; i++)
    self->inputs[i] = (RequestInputs){0};
  RequestInputs *inputs = inputs_of(self, ix);
  ARENA_RESERVE(self->arena, inputs->items, inputs->capacity, n);
  inputs->n = n;
  return inputs;
}

void encoding_start(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  const int64_t size = scheduler->limits.encoder_cache_size;
  const int64_t longest = lesser(size, scheduler->limits.encoder_tokens);
  Deployment *deployment = sim_deployment_of(self, instance);
  scheduler->encoder = ARENA_NEW(self->arena, Encoder);
  encoder_init(scheduler->encoder, size, self->arena);
  deployment->longest_input = lesser(deployment->longest_input, longest);
}

void encoding_arrived(Simulation *self, RequestIx ix, const TraceRow *row) {
  if (row->n_inputs == 0) return;
  RequestInputs *inputs = reserve_inputs(self, ix, (size_t)row->n_inputs);
  for (size_t i = 0; i < inputs->n; i++)
    inputs->items[i] = (RequestInput){.of = row->inputs[i]};
  self->requests.slots[ix].has_inputs = true;
}

void encoding_copied(Simulation *self, RequestIx ix, RequestIx copy) {
  if (!self->requests.slots[ix].has_inputs) return;
  RequestInputs *inputs = reserve_inputs(self, copy, inputs_of(self, ix)->n);
  for (size_t i = 0; i < inputs->n; i++)
    inputs->items[i] = (RequestInput){.of = inputs_of(self, ix)->items[i].of};
}

int64_t encoding_fit(Simulation *self, Instance *instance, Decision *decision, RequestIx ix,
                     int64_t computed, int64_t tokens) {
  Encoder *encoder = instance->scheduler->encoder;
  if (!encoder || !self->requests.slots[ix].has_inputs) return tokens;
  const int64_t fit =
      encoder_fit(encoder, inputs_of(self, ix), computed, tokens, decision->encoder);
  decision->wants_encoder |= fit < tokens;
  return fit;
}

void encoding_take(Simulation *self, Instance *instance, Decision *decision, RequestIx ix,
                   ScheduledItem *item) {
  Encoder *encoder = instance->scheduler->encoder;
  if (!encoder || !self->requests.slots[ix].has_inputs) return;
  item->encoded = (int32_t)encoder_take(encoder, inputs_of(self, ix), &item->encodes);
  decision->encoder -= item->encoded;
}

void encoding_leave(Simulation *self, Instance *instance, RequestIx ix, int64_t computed) {
  Encoder *encoder = instance->scheduler ? instance->scheduler->encoder : NULL;
  if (encoder && self->requests.slots[ix].has_inputs)
    encoder_leave(encoder, inputs_of(self, ix), computed);
}

int64_t encoding_references(const Simulation *self, RequestIx ix) {
  int64_t n = 0;
  if (!self->requests.slots[ix].has_inputs) return 0;
  for (size_t i = 0; i < inputs_of(self, ix)->n; i++)
    n += inputs_of(self, ix)->items[i].refers;
  return n;
}
