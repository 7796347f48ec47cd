/* See placement.h. */
#include "sim/core/placement.h"
#include "base/hash.h"
#include "sim/books/parts.h"
#include "sim/core/front.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/marks.h"
#include "sim/core/moving.h"
#include "sim/core/roles.h"
#include "sim/feature/admission.h"
#include "sim/feature/autoscaling.h"
#include "sim/feature/checkpoint.h"
#include "sim/feature/groups.h"
#include "sim/feature/hedging.h"
#include "sim/feature/patience.h"
#include "sim/feature/warm_up.h"
#include <assert.h>

static Tick reaches_router(const Engine *self) {
  return self->next_row.at + self->config->request_time;
}

/* False when none is known of. */
static bool pull(Engine *self) {
  const int rc = trace_next(self->config->trace, &self->next_row, self->diag);
  self->source_told = false;
  if (rc < 0) self->failed = true;
  if (rc <= 0) return false;
  assert(reaches_router(self) >= self->now && self->next_row.prompt_tokens > 0 &&
         self->next_row.output_tokens > 0);
  agenda_set_arrival(&self->agenda, reaches_router(self), self->n_arrived);
  return true;
}

void engine_pull(Engine *self) {
  self->gathers = pull(self) && reaches_router(self) == self->now;
}

/* Who gathers still does: what comes instead of a row is later than now, and so was the row. */
void engine_pull_again(Engine *self) {
  TraceSource *source = self->config->trace;
  if (agenda_find(&self->agenda, EVENT_ARRIVAL, 0)) source->put_back(source, &self->next_row);
  pull(self);
}

/* Blocks a whole phase of the request needs on a machine of this kind, at its largest. */
static int64_t phase_blocks(const Machine *machine, const Request *request, Phase phase) {
  const int64_t tokens =
      (int64_t)request->prompt_tokens + (phase == PHASE_PREFILL ? 1 : request->output_tokens);
  return machine_held_blocks(machine, tokens);
}

/* Of the machines with `covers`, the one with the most room; MACHINE_NONE if there is none. */
static MachineIx roomiest_of(const ClusterView *view, Phase phase,
                             bool (*covers)(const Machine *machine, Phase phase)) {
  MachineIx best = MACHINE_NONE;
  int64_t most = -1;
  for (uint32_t i = 0; i < view->n_members; i++) {
    const MachineIx m = view->members[i];
    const Machine *machine = &view->machines[m];
    const int64_t room = machine_room(machine);
    if (!machine_takes_requests(machine) || room <= most || !covers(machine, phase)) continue;
    best = m;
    most = room;
  }
  return best;
}

static bool belongs_to(const Machine *machine, Phase phase) {
  return role_covers(machine->home, phase);
}

static bool any(const Machine *machine, Phase phase) {
  (void)machine, (void)phase;
  return true;
}

MachineIx deployment_roomiest(Deployment *self, Phase phase) {
  for (int p = PHASE_PREFILL; p <= PHASE_DECODE && !self->knows_roomiest; p++)
    self->roomiest[p] = roomiest_of(&self->view, (Phase)p, belongs_to);
  self->knows_roomiest = true;
  return self->roomiest[phase];
}

static MachineIx roomiest(const Engine *self, const Request *request, Phase phase) {
  return deployment_roomiest(engine_deployment(self, request), phase);
}

static bool fits(const Engine *self, const Request *request, MachineIx m, Phase phase) {
  return m != MACHINE_NONE && phase_blocks(&self->machines[m], request, phase) <=
                                  machine_rank_blocks(&self->machines[m]);
}

/* Whether the store of every group can hold the prompt: the router may pick any of them. */
static bool storable(const Engine *self, const Request *request) {
  return request->prompt_tokens <= engine_smallest_store(self, request->model);
}

/* Of a request that does not fit everywhere (`large`): why nobody can ever serve it. */
static Rejection rejection_of(Engine *self, const Request *request, bool large) {
  const int64_t context = sim_model(self->config, request->model)->max_model_len;
  if (context > 0 && request->prompt_tokens >= context) return REJECTED_CONTEXT;
  if (!large) return REJECTED_NOT;
  for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++)
    if (!fits(self, request, roomiest(self, request, phase), phase)) return REJECTED_KV_MEMORY;
  return storable(self, request) ? REJECTED_NOT : REJECTED_STORE;
}

/* The dispatcher's pick, or the roomiest where that is too small. Where roles move, those that
 * decoded when the request arrived may all have moved since: then any may be claimed. */
static MachineIx dispatch(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = engine_deployment(self, request);
  const ClusterView *view = engine_cluster(self, deployment);
  MachineIx decode = MACHINE_NONE;
  if (dispatch_list(view)->count > 0)
    decode = self->dispatcher->pick(deployment->dispatcher_state, view, ix);
  if (!fits(self, request, decode, PHASE_DECODE)) decode = roomiest(self, request, PHASE_DECODE);
  if (!fits(self, request, decode, PHASE_DECODE)) decode = roomiest_of(view, PHASE_DECODE, any);
  engine_claim(self, &self->machines[decode], PHASE_DECODE);
  engine_books(self, request)->dispatches++;
  return decode;
}

MachineIx engine_other_decode(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = engine_deployment(self, request);
  const ClusterView *view = engine_cluster(self, deployment);
  const RoleList *list = dispatch_list(view);
  if (list->count == 0 || self->router->observe) return MACHINE_NONE;
  const MachineIx decode = self->dispatcher->pick
                               ? self->dispatcher->pick(deployment->dispatcher_state, view, ix)
                               : column_least(self->columns.pending_tokens, list);
  const bool good = decode != request->prefill_machine && fits(self, request, decode, PHASE_DECODE);
  return good ? decode : MACHINE_NONE;
}

/* A request of a single token is never decoded, so it stays where it is. */
void engine_dispatch(Engine *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool grouped = self->machines[request->prefill_machine].group;
  if (request->decode_machine != MACHINE_NONE || (grouped && request->output_tokens > 1)) return;
  const MachineIx decode =
      request->output_tokens > 1 ? dispatch(self, ix) : request->prefill_machine;
  life_dispatched(self, request, decode);
  engine_log(self, OUTCOME_DISPATCH, request, request->prefill_machine, decode, 0);
}

/* What its tokens are, for caches and routers. */
static void keep_content(Engine *self, RequestIx ix) {
  if (!self->keeps_content) return;
  ARENA_RESERVE(self->arena, self->memory, self->memory_capacity, self->requests.n_slots);
  const SavedCaches *saved = self->config->saved_caches;
  const uint64_t id = self->requests.slots[ix].id;
  content_set(&self->memory[ix].content, &self->next_row, saved ? hash_fold(saved->salt, id) : id,
              self->arena);
  content_adapt(&self->memory[ix].content, self->requests.slots[ix].adapter);
}

/* Its own, else that of its class. */
static int32_t priority_of(const SimConfig *config, const TraceRow *row) {
  if (row->priority != 0 || config->n_classes == 0) return row->priority;
  return (int32_t)config->classes[config->components[row->component].class].priority;
}

static RequestIx admit_row(Engine *self) {
  const int32_t wanted = sim_output_tokens(self->config, &self->next_row);
  const int32_t output_tokens = engine_admitted_tokens(self, &self->next_row, wanted);
  if (self->first_counted == UINT64_MAX &&
      !warm_up_has(&self->config->warm_up, self->n_arrived, self->next_row.at))
    engine_end_warm_up(self);
  const RequestIx ix = request_table_take(&self->requests);
  Request *request = &self->requests.slots[ix];
  request->id = self->n_arrived++;
  Metrics *metrics = engine_books(self, request);
  metrics->cut_outputs += wanted < self->next_row.output_tokens;
  metrics->degraded += output_tokens < wanted;
  if (self->config->n_components > 0 && metrics == &self->metrics)
    self->components[self->next_row.component].requests++;
  demand_add(&metrics->asked, output_tokens);
  if (metrics->good_limits.share > 0) hours_arrive(&metrics->hours, self->next_row.at);
  if (self->batches && metrics == &self->metrics) batches_arrive(self->batches, metrics);
  request->arrived_at = self->next_row.at;
  if (self->keeps_parts) parts_begin(self, ix);
  request->prompt_tokens = self->next_row.prompt_tokens;
  request->output_tokens = output_tokens;
  request->component = self->next_row.component;
  request->model = sim_model_of(self->config, request->component);
  request->session = self->next_row.session;
  request->turn = self->next_row.turn;
  if (metrics != &self->metrics) self->warmed_up_at = request->arrived_at;
  request->ends_session = self->next_row.ends_session;
  request->session_good = self->next_row.session_good;
  request->session_began_at = self->next_row.session_began_at;
  engine_session_books(self, request)->asked.sessions += request->session > 0 && request->turn == 0;
  request->ticket = self->next_row.ticket;
  request->priority = priority_of(self->config, &self->next_row);
  request->patience = self->next_row.patience;
  request->first_token_patience = self->next_row.first_token_patience;
  if (self->config->n_adapters > 0) request->adapter = adapters_draw(self, request);
  keep_content(self, ix);
  Deployment *deployment = engine_deployment(self, request);
  if (deployment->scaling) scaling_book_arrival(deployment->scaling, request);
  const uint64_t random = hash_mix(hash_mix(self->config->seed) + request->id);
  const Prediction prediction =
      self->predictor->predict(deployment->predictor_state, request, random);
  request->predicted_low = prediction.low;
  request->predicted_high = prediction.high;
  metrics->predicted_right +=
      prediction.low <= request->output_tokens && request->output_tokens < prediction.high;
  if (metrics->first_arrival_at < 0) metrics->first_arrival_at = request->arrived_at;
  metrics->last_arrival_at = request->arrived_at;
  engine_log(self, OUTCOME_ARRIVAL, request, MACHINE_NONE, request->prompt_tokens,
             request->output_tokens);
  return ix;
}

/* The router's placement, except that a phase too large for the machine it picked goes to the
 * roomiest. */
static Placement place(Engine *self, RequestIx ix, bool check) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = engine_deployment(self, request);
  engine_see_reports(self, deployment);
  Placement placement =
      self->router->pick(deployment->router_state, engine_cluster(self, deployment), ix);
  if (check && !fits(self, request, placement.prefill, PHASE_PREFILL))
    placement.prefill = roomiest(self, request, PHASE_PREFILL);
  const Group *group = self->machines[placement.prefill].group;
  if (group && self->machines[placement.prefill].role == ROLE_DECODE)
    placement.prefill = group->first[SHAPE_PREFILL];
  if (group || (self->dispatcher->pick && placement.decode != placement.prefill))
    placement.decode = MACHINE_NONE;
  else if (check && !fits(self, request, placement.decode, PHASE_DECODE))
    placement.decode = roomiest(self, request, PHASE_DECODE);
  return placement;
}

static void wake(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Machine *machine = &self->machines[request->prefill_machine];
  if (request->state == REQUEST_RESTORES) return; // its KV has still to come
  if (machine->group) engine_mark_group(self, machine->group);
  engine_wake(self, machine, WAKE_PREFILL, ix);
  if (request->decode_machine == machine->ix) engine_wake(self, machine, WAKE_CHAINED, ix);
}

/* Claims the machines that the placement takes across their roles. */
static void claim(Engine *self, const Placement *placement) {
  if (!placement->roles_stay) {
    engine_claim(self, &self->machines[placement->prefill], PHASE_PREFILL);
    if (placement->decode != MACHINE_NONE)
      engine_claim(self, &self->machines[placement->decode], PHASE_DECODE);
  } else if (placement->claimed != MACHINE_NONE) {
    engine_claim(self, &self->machines[placement->claimed], PHASE_PREFILL);
    engine_claim(self, &self->machines[placement->claimed], PHASE_DECODE);
  }
}

static void enter(Engine *self, RequestIx ix, const Placement *placement) {
  life_placed(self, ix, placement->prefill, placement->decode);
  engine_tell_router(self, ix, OBSERVED_PLACED, placement->prefill);
  const bool open = placement->decode == MACHINE_NONE;
  engine_log(self, OUTCOME_PLACEMENT, &self->requests.slots[ix], placement->prefill,
             open ? -1 : (int64_t)placement->decode, 0);
}

/* Where one whose KV is in the checkpoint store goes on, without a prefill; MACHINE_NONE: nowhere.
 * A router that keeps books of its own counts on the prefill that it has chosen a machine for. */
static MachineIx restores_on(Engine *self, RequestIx ix, const Placement *placement) {
  if (!checkpoint_is_ready(self, ix)) return MACHINE_NONE;
  if (placement->decode == MACHINE_NONE) return engine_other_decode(self, ix);
  const bool split = placement->prefill != placement->decode;
  return split && self->router->observe ? MACHINE_NONE : placement->decode;
}

/* On the machine that decodes it, where its KV is read. */
static void restore(Engine *self, RequestIx ix, const Placement *placement, MachineIx decode) {
  if (placement->prefill == placement->decode)
    claim(self, placement);
  else
    engine_claim(self, &self->machines[decode], PHASE_DECODE);
  life_restores(self, ix, decode);
  engine_tell_router(self, ix, OBSERVED_PLACED, decode);
  engine_log(self, OUTCOME_PLACEMENT, &self->requests.slots[ix], decode, decode, 1);
  engine_restore(self, ix);
}

/* On the machines of the router's choice. */
static void put(Engine *self, RequestIx ix, bool check) {
  const Placement placement = place(self, ix, check);
  const MachineIx restored = restores_on(self, ix, &placement);
  if (restored != MACHINE_NONE) {
    restore(self, ix, &placement, restored);
    return;
  }
  if (!checkpoint_is_ready(self, ix)) checkpoint_forget(self, ix); // not in time
  claim(self, &placement);
  enter(self, ix, &placement);
  if (engine_hedges(self)) hedging_expect(self, ix);
}

/* Who decodes what `prefill` prefills in place of the request's own machine. */
static MachineIx other_decode(const Engine *self, const Request *request, MachineIx prefill,
                              const ClusterView *view) {
  if (self->machines[prefill].role == ROLE_MIXED) return prefill;
  if (self->dispatcher->pick) return MACHINE_NONE; // it is asked later
  if (request->decode_machine != request->prefill_machine) return request->decode_machine;
  return column_least(self->columns.pending_tokens, &view->by_role[ROLE_DECODE]);
}

Placement engine_other_placement(Engine *self, RequestIx ix) {
  static const Role prefilling[] = {ROLE_PREFILL, ROLE_MIXED};
  const Placement none = {.prefill = MACHINE_NONE};
  const Request *request = &self->requests.slots[ix];
  const ClusterView *view = engine_cluster(self, engine_deployment(self, request));
  Column *pending = self->columns.pending_tokens;
  MachineIx best = MACHINE_NONE;
  for (int i = 0; i < 2; i++) {
    const MachineIx m =
        column_least_but(pending, &view->by_role[prefilling[i]], request->prefill_machine);
    if (m == MACHINE_NONE) continue;
    if (best == MACHINE_NONE || column_at(pending, m) < column_at(pending, best)) best = m;
  }
  if (best == MACHINE_NONE || !fits(self, request, best, PHASE_PREFILL)) return none;
  const MachineIx decode = other_decode(self, request, best, view);
  const bool open = decode == MACHINE_NONE && self->dispatcher->pick;
  if (!open && !fits(self, request, decode, PHASE_DECODE)) return none;
  return (Placement){.prefill = best, .decode = decode};
}

static bool is_large(const Engine *self, const Request *request) {
  return (int64_t)request->prompt_tokens + request->output_tokens >
         engine_deployment(self, request)->smallest_room;
}

bool engine_can_resume(const Engine *self, const Request *request) {
  Request longer = *request;
  longer.prompt_tokens += request->generated_tokens;
  return (!is_large(self, request) ||
          fits(self, &longer, roomiest(self, &longer, PHASE_PREFILL), PHASE_PREFILL)) &&
         storable(self, &longer);
}

void engine_place(Engine *self, RequestIx ix) {
  put(self, ix, is_large(self, &self->requests.slots[ix]));
  wake(self, ix);
}

void engine_place_on(Engine *self, RequestIx ix, const Placement *placement) {
  enter(self, ix, placement);
  wake(self, ix);
}

void engine_handle_arrival(Engine *self) {
  if (!engine_has_memory(self, request_table_growth(&self->requests))) return;
  const RequestIx ix = admit_row(self);
  const Request *request = &self->requests.slots[ix];
  const bool large = is_large(self, request);
  const Rejection rejection = rejection_of(self, request, large);
  if (rejection) life_rejected(self, ix, rejection);
  if (rejection || !engine_admit(self, ix)) {
    if (request->state == REQUEST_HELD) engine_set_deadline(self, ix);
    engine_pull(self);
  } else {
    const bool taken = front_is_open(engine_deployment(self, request));
    if (taken)
      put(self, ix, large);
    else
      front_hold(self, ix);
    engine_set_deadline(self, ix);
    engine_pull(self);
    if (taken) wake(self, ix);
  }
}
