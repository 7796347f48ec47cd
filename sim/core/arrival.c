/* See arrival.h. */
#include "sim/core/arrival.h"
#include "base/hash.h"
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/encoder.h"
#include "sim/core/front.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/placement.h"
#include <assert.h>

static Tick reaches_router(const Simulation *self) {
  return self->next_row.at + self->config->request_time;
}

/* Whether the encoders of its model can encode each of its inputs. An engine does not start with
 * less room than the longest input of the model needs. */
static bool can_encode(Simulation *self) {
  const TraceRow *row = &self->next_row;
  const uint8_t model = sim_model_of(self->config, row->component);
  const int64_t longest = self->deployments[model].longest_input;
  for (int32_t i = 0; i < row->n_inputs; i++) {
    if (row->inputs[i].tokens <= longest) continue;
    diag_error(self->diag, row->place, "an image of %d tokens is longer than an encoder can take",
               row->inputs[i].tokens);
    diag_hint(
        self->diag,
        "the batcher's max_num_encoder_input_tokens and encoder_cache_size allow %lld; in vLLM "
        "they are at least the longest image of the model",
        (long long)longest);
    return false;
  }
  return true;
}

/* False when none is known of. */
static bool pull(Simulation *self) {
  const int rc = trace_next(self->config->trace, &self->next_row, self->diag);
  self->source_told = false;
  if (rc < 0 || (rc > 0 && !can_encode(self))) self->failed = true;
  if (rc <= 0 || self->failed) return false;
  assert(reaches_router(self) >= self->now && self->next_row.prompt_tokens > 0 &&
         self->next_row.output_tokens > 0);
  agenda_set_arrival(&self->agenda, reaches_router(self), self->n_arrived);
  return true;
}

void sim_pull(Simulation *self) {
  self->gathers = pull(self) && reaches_router(self) == self->now;
}

/* Who gathers still does: what comes instead of a row is later than now, and so was the row. */
void sim_pull_again(Simulation *self) {
  TraceSource *source = self->config->trace;
  if (agenda_find(&self->agenda, EVENT_ARRIVAL, 0)) source->put_back(source, &self->next_row);
  pull(self);
}

/* What its tokens are, for caches and routers. */
static void keep_content(Simulation *self, RequestIx ix) {
  if (!self->keeps_content) return;
  ARENA_RESERVE(self->arena, self->memory, self->memory_capacity, self->requests.n_slots);
  const SavedCaches *saved = self->config->saved_caches;
  const uint64_t id = self->requests.slots[ix].id;
  content_set(&self->memory[ix].content, &self->next_row, saved ? hash_fold(saved->salt, id) : id,
              self->arena);
  content_mark(&self->memory[ix].content, self->next_row.inputs, self->next_row.n_inputs,
               self->arena);
  content_adapt(&self->memory[ix].content, self->requests.slots[ix].adapter);
}

/* Its own, else that of its class. */
static int32_t priority_of(const SimConfig *config, const TraceRow *row) {
  if (row->priority != 0 || config->n_classes == 0) return row->priority;
  return (int32_t)config->classes[config->components[row->component].class].priority;
}

static void arrive_at_component(Simulation *self, uint16_t component, int32_t output_tokens) {
  ComponentMetrics *class = sim_class_books(self, component);
  component_metrics_arrive(&self->components[component], output_tokens);
  if (class) component_metrics_arrive(class, output_tokens);
}

static RequestIx make_request(Simulation *self) {
  const int32_t wanted = sim_output_tokens(self->config, &self->next_row);
  const int32_t allowed = sim_max_tokens(self->config, &self->next_row);
  const int32_t max_tokens = ask_limits_output(self, &self->next_row, allowed);
  const int32_t output_tokens = max_tokens < wanted ? max_tokens : wanted;
  tell_row_comes(self);
  const RequestIx ix = request_table_take(&self->requests);
  Request *request = &self->requests.slots[ix];
  request->id = self->n_arrived++;
  Metrics *metrics = sim_books(self, request);
  metrics->cut_outputs += wanted < self->next_row.output_tokens;
  metrics->degraded += output_tokens < wanted;
  if (self->config->n_components > 0 && metrics == &self->metrics)
    arrive_at_component(self, self->next_row.component, output_tokens);
  demand_add(&metrics->asked, output_tokens);
  if (metrics->good_limits.share > 0) hours_arrive(&metrics->hours, self->next_row.at);
  if (self->batches && metrics == &self->metrics) batches_arrive(self->batches, metrics);
  request->arrived_at = self->next_row.at;
  if (self->keeps_parts) parts_begin(self, ix);
  request->prompt_tokens = self->next_row.prompt_tokens;
  request->output_tokens = output_tokens;
  request->max_tokens = max_tokens;
  request->ignores_eos = self->next_row.ignores_eos;
  request->component = self->next_row.component;
  request->model = sim_model_of(self->config, request->component);
  request->session = self->next_row.session;
  request->turn = self->next_row.turn;
  if (metrics != &self->metrics) self->warmed_up_at = request->arrived_at;
  request->ends_session = self->next_row.ends_session;
  request->session_good = self->next_row.session_good;
  request->session_began_at = self->next_row.session_began_at;
  sim_session_books(self, request)->asked.sessions += request->session > 0 && request->turn == 0;
  request->ticket = self->next_row.ticket;
  request->local_kv = self->next_row.local_kv;
  request->priority = priority_of(self->config, &self->next_row);
  request->patience = self->next_row.patience;
  request->first_token_patience = self->next_row.first_token_patience;
  tell_arrived(self, ix);
  keep_content(self, ix);
  encoding_arrived(self, ix, &self->next_row);
  Deployment *deployment = sim_deployment(self, request);
  const uint64_t random = hash_mix(hash_mix(self->config->seed) + request->id);
  const Prediction prediction =
      self->predictor->predict(deployment->predictor_state, request, random);
  request->predicted_low = prediction.low;
  request->predicted_high = prediction.high;
  request->disturbed = prediction.disturbs;
  metrics->predicted_right +=
      prediction.low <= request->output_tokens && request->output_tokens < prediction.high;
  if (metrics->first_arrival_at < 0) metrics->first_arrival_at = request->arrived_at;
  metrics->last_arrival_at = request->arrived_at;
  sim_log(self, OUTCOME_ARRIVAL, request, INSTANCE_NONE, request->prompt_tokens,
          request->output_tokens);
  return ix;
}

void sim_handle_arrival(Simulation *self, uint32_t target) {
  (void)target;
  if (!sim_has_memory(self, request_table_growth(&self->requests))) return;
  const RequestIx ix = make_request(self);
  const Request *request = &self->requests.slots[ix];
  const Rejection rejection = placement_rejection(self, request);
  if (rejection) life_rejected(self, ix, rejection);
  const bool admitted = !rejection && ask_admits(self, ix);
  const bool taken = admitted && front_takes(self, request);
  if (taken)
    sim_place(self, ix);
  else if (admitted)
    front_hold(self, ix);
  if (request->state != REQUEST_FREE) tell_came_in(self, ix);
  sim_pull(self);
  if (taken) sim_wake_placed(self, ix);
}
