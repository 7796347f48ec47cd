/* Arrival, routing, roles, and the end of a request: the cluster's side of the engine. */
#include "sim/engine.h"
#include <assert.h>

void engine_pull(Engine *self) {
  const int rc = trace_next(self->config->trace, &self->next_row, self->diag);
  if (rc < 0) self->failed = true;
  if (rc <= 0) return;
  assert(self->next_row.at >= self->now && self->next_row.prompt_tokens > 0 &&
         self->next_row.output_tokens > 0);
  agenda_set_arrival(&self->agenda, self->next_row.at, self->metrics.asked.requests);
}

/* Blocks a whole phase of the request needs on a machine of this kind, at its largest. */
static int64_t phase_blocks(const Machine *machine, const Request *request, Phase phase) {
  const int64_t tokens =
      (int64_t)request->prompt_tokens + (phase == PHASE_PREFILL ? 1 : request->output_tokens);
  return blocks_of(machine, tokens);
}

/* The machine that may serve the phase and has the most room for it; MACHINE_NONE if none covers
 * it. */
static MachineIx roomiest(const Engine *self, Phase phase) {
  MachineIx best = MACHINE_NONE;
  int64_t most = -1;
  for (MachineIx m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    const int64_t room = machine->pool->kv_blocks * machine->pool->block_size;
    if (!role_covers(machine->home, phase) || room <= most) continue;
    best = m;
    most = room;
  }
  return best;
}

static bool fits(const Engine *self, const Request *request, MachineIx m, Phase phase) {
  return m != MACHINE_NONE &&
         phase_blocks(&self->machines[m], request, phase) <= self->machines[m].pool->kv_blocks;
}

/* False when no machine can ever hold one of the phases. */
static bool servable(const Engine *self, const Request *request) {
  return fits(self, request, roomiest(self, PHASE_PREFILL), PHASE_PREFILL) &&
         fits(self, request, roomiest(self, PHASE_DECODE), PHASE_DECODE);
}

static void change_role(Engine *self, Machine *machine, Role role) {
  if (machine->role == role) return;
  engine_log(self, OUTCOME_ROLE, NULL, machine->ix, machine->role, role);
  cluster_move(&self->view, machine->ix, machine->role, role);
  machine->role = role;
  machine->role_since = self->now;
  self->metrics.role_changes++;
}

static void claim(Engine *self, Machine *machine, Phase phase) {
  if (role_covers(machine->role, phase)) return;
  assert(self->pool->moves_roles); // a router may not place across roles that stay
  Role role = self->pool->claim(self->states[POLICY_POOL], &self->view, machine, phase);
  assert(role_covers(role, phase));
  change_role(self, machine, role);
}

void engine_settle(Engine *self, Machine *machine) {
  if (!self->pool->settle) return;
  Role home = machine->home;
  const bool idle = self->view.n_present[machine->ix] == 0;
  Role role = self->pool->settle(self->states[POLICY_POOL], &self->view, machine, idle, &home);
  machine->home = home;
  change_role(self, machine, role);
}

static void assign(Engine *self, Request *request, Placement placement) {
  Machine *prefill = &self->machines[placement.prefill];
  Machine *decode = &self->machines[placement.decode];
  request->prefill_machine = placement.prefill;
  request->decode_machine = placement.decode;
  prefill->n_prefills++;
  decode->n_decodes++;
  self->view.pending_tokens[placement.prefill] += request->prompt_tokens;
  self->view.pending_tokens[placement.decode]++;
  self->view.n_assigned[placement.prefill]++;
  self->view.n_present[placement.prefill]++;
  engine_promise_blocks(self, prefill, phase_blocks(prefill, request, PHASE_PREFILL));
  if (prefill == decode) return;
  self->view.n_assigned[placement.decode]++;
  engine_promise_blocks(self, decode, phase_blocks(decode, request, PHASE_PREFILL));
}

static RequestRecord record_of(const Request *request, bool rejected) {
  return (RequestRecord){.id = request->id,
                         .prompt_tokens = request->prompt_tokens,
                         .output_tokens = request->output_tokens,
                         .prefill_machine = request->prefill_machine,
                         .decode_machine = request->decode_machine,
                         .arrived_at = request->arrived_at,
                         .prefill_began_at = request->prefill_began_at,
                         .first_token_at = request->first_token_at,
                         .decode_began_at = request->decode_began_at,
                         .last_token_at = rejected ? -1 : request->last_token_at,
                         .preemptions = request->preemptions,
                         .evictions = request->evictions,
                         .rejected = rejected};
}

void engine_retire(Engine *self, RequestIx ix, bool rejected) {
  const Request *request = &self->requests.slots[ix];
  const RequestRecord record = record_of(request, rejected);
  if (rejected) {
    engine_log(self, OUTCOME_REJECTION, request, MACHINE_NONE, record.prompt_tokens,
               record.output_tokens);
    self->metrics.rejected++;
  } else {
    engine_log(self, OUTCOME_LAST_TOKEN, request, request->decode_machine, 0, 0);
    metrics_complete(&self->metrics, &record);
  }
  request_table_release(&self->requests, ix);
  const SimConfig *config = self->config;
  if (self->failed || self->stopped || !config->on_request) return;
  const int status =
      config->on_request(config->on_request_context, &record, &self->metrics, self->diag);
  self->failed = status < 0;
  self->stopped = status > 0;
}

/* Drops a request that can never be served; false when that stops the run. A prompt that no machine
 * can hold is an error of a trace file, which has a place to point at; drawn at random it is
 * counted like any other. */
static bool reject(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const MachineIx most = roomiest(self, PHASE_PREFILL);
  const bool prompt_fits = fits(self, request, most, PHASE_PREFILL);
  if (!prompt_fits && self->next_row.place.path) {
    const Machine *machine = &self->machines[most];
    diag_error(self->diag, self->next_row.place,
               "a prompt of %d tokens is larger than the KV memory of any machine (at most %lld "
               "tokens, on '%s')",
               request->prompt_tokens,
               (long long)(machine->pool->kv_blocks * machine->pool->block_size - 1),
               machine->pool->name);
    self->failed = true;
    return false;
  }
  engine_retire(self, ix, true);
  return true;
}

static RequestIx admit_row(Engine *self) {
  const RequestIx ix = request_table_take(&self->requests);
  Request *request = &self->requests.slots[ix];
  request->id = self->metrics.asked.requests;
  demand_add(&self->metrics.asked, self->next_row.output_tokens);
  request->arrived_at = self->now;
  request->prompt_tokens = request->prefill_tokens = self->next_row.prompt_tokens;
  request->output_tokens = self->next_row.output_tokens;
  self->view.requests = self->requests.slots;
  if (self->metrics.first_arrival_at < 0) self->metrics.first_arrival_at = self->now;
  engine_log(self, OUTCOME_ARRIVAL, request, MACHINE_NONE, request->prompt_tokens,
             request->output_tokens);
  return ix;
}

/* The router's placement, except that a phase too large for the machine it picked goes to the
 * roomiest. */
static Placement place(Engine *self, RequestIx ix, bool check) {
  Placement placement = self->router->pick(self->states[POLICY_ROUTER], &self->view, ix);
  const Request *request = &self->requests.slots[ix];
  if (check && !fits(self, request, placement.prefill, PHASE_PREFILL))
    placement.prefill = roomiest(self, PHASE_PREFILL);
  if (check && !fits(self, request, placement.decode, PHASE_DECODE))
    placement.decode = roomiest(self, PHASE_DECODE);
  return placement;
}

void engine_handle_arrival(Engine *self) {
  const RequestIx ix = admit_row(self);
  Request *request = &self->requests.slots[ix];
  const bool large = (int64_t)request->prompt_tokens + request->output_tokens > self->smallest_room;
  if (large && !servable(self, request)) {
    if (reject(self, ix)) engine_pull(self);
    return;
  }
  const Placement placement = place(self, ix, large);
  if (!placement.roles_stay) {
    claim(self, &self->machines[placement.prefill], PHASE_PREFILL);
    claim(self, &self->machines[placement.decode], PHASE_DECODE);
  }
  assign(self, request, placement);
  engine_log(self, OUTCOME_PLACEMENT, request, placement.prefill, placement.decode, 0);
  engine_pull(self);
  Machine *machine = &self->machines[placement.prefill];
  request_queue_push(&machine->prefill_queue, self->requests.slots, ix);
  engine_wake(self, machine, WAKE_PREFILL, ix);
  if (placement.decode == placement.prefill) engine_wake(self, machine, WAKE_CHAINED, ix);
}
