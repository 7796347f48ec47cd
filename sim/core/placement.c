/* See placement.h. */
#include "sim/core/placement.h"
#include "sim/core/counting.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/moving.h"
#include "sim/core/roles.h"
#include "sim/core/waking.h"
#include <assert.h>

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

static MachineIx roomiest(const Simulation *self, const Request *request, Phase phase) {
  return deployment_roomiest(sim_deployment(self, request), phase);
}

static bool fits(const Simulation *self, const Request *request, MachineIx m, Phase phase) {
  return m != MACHINE_NONE && phase_blocks(&self->machines[m], request, phase) <=
                                  machine_rank_blocks(&self->machines[m]);
}

static bool is_large(const Simulation *self, const Request *request) {
  return (int64_t)request->prompt_tokens + request->output_tokens >
         sim_deployment(self, request)->smallest_room;
}

/* Whether the store of every group can hold the prompt: the router may pick any of them. */
static bool storable(const Simulation *self, const Request *request) {
  return request->prompt_tokens <= sim_deployment(self, request)->smallest_store;
}

/* The dispatcher's pick, or the roomiest where that is too small. Where roles move, those that
 * decoded when the request arrived may all have moved since: then any may be claimed. */
static MachineIx dispatch(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = sim_deployment(self, request);
  const ClusterView *view = sim_cluster(self, deployment);
  MachineIx decode = MACHINE_NONE;
  if (dispatch_list(view)->count > 0)
    decode = self->dispatcher->pick(deployment->dispatcher_state, view, ix);
  if (!fits(self, request, decode, PHASE_DECODE)) decode = roomiest(self, request, PHASE_DECODE);
  if (!fits(self, request, decode, PHASE_DECODE)) decode = roomiest_of(view, PHASE_DECODE, any);
  sim_claim(self, &self->machines[decode], PHASE_DECODE);
  sim_books(self, request)->dispatches++;
  return decode;
}

MachineIx sim_other_decode(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = sim_deployment(self, request);
  const ClusterView *view = sim_cluster(self, deployment);
  const RoleList *list = dispatch_list(view);
  if (list->count == 0 || self->router->observe) return MACHINE_NONE;
  const MachineIx decode = self->dispatcher->pick
                               ? self->dispatcher->pick(deployment->dispatcher_state, view, ix)
                               : column_least(self->columns.pending_tokens, list);
  const bool good = decode != request->prefill_machine && fits(self, request, decode, PHASE_DECODE);
  return good ? decode : MACHINE_NONE;
}

/* A request of a single token is never decoded, so it stays where it is. */
void sim_dispatch(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool grouped = self->machines[request->prefill_machine].group;
  if (request->decode_machine != MACHINE_NONE || (grouped && request->output_tokens > 1)) return;
  const MachineIx decode =
      request->output_tokens > 1 ? dispatch(self, ix) : request->prefill_machine;
  life_dispatched(self, request, decode);
  sim_log(self, OUTCOME_DISPATCH, request, request->prefill_machine, decode, 0);
}

/* The router's placement, except that a phase too large for the machine it picked goes to the
 * roomiest. */
static Placement place(Simulation *self, RequestIx ix, bool check) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = sim_deployment(self, request);
  tell_router_looks(self, deployment);
  Placement placement =
      self->router->pick(deployment->router_state, sim_cluster(self, deployment), ix);
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

void sim_wake_placed(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Machine *machine = &self->machines[request->prefill_machine];
  if (request->state == REQUEST_RESTORES) return; // its KV has still to come
  if (machine->group) sim_mark_group(self, machine->group);
  sim_wake(self, machine, WAKE_PREFILL, ix);
  if (request->decode_machine == machine->ix) sim_wake(self, machine, WAKE_CHAINED, ix);
}

/* Claims the machines that the placement takes across their roles. */
static void claim(Simulation *self, const Placement *placement) {
  if (!placement->roles_stay) {
    sim_claim(self, &self->machines[placement->prefill], PHASE_PREFILL);
    if (placement->decode != MACHINE_NONE)
      sim_claim(self, &self->machines[placement->decode], PHASE_DECODE);
  } else if (placement->claimed != MACHINE_NONE) {
    sim_claim(self, &self->machines[placement->claimed], PHASE_PREFILL);
    sim_claim(self, &self->machines[placement->claimed], PHASE_DECODE);
  }
}

static void enter(Simulation *self, RequestIx ix, const Placement *placement) {
  life_placed(self, ix, placement->prefill, placement->decode);
  sim_tell_router(self, ix, OBSERVED_PLACED, placement->prefill);
  const bool open = placement->decode == MACHINE_NONE;
  sim_log(self, OUTCOME_PLACEMENT, &self->requests.slots[ix], placement->prefill,
          open ? -1 : (int64_t)placement->decode, 0);
}

/* Where one whose KV is in the checkpoint store goes on, without a prefill; MACHINE_NONE: nowhere.
 * A router that keeps books of its own counts on the prefill that it has chosen a machine for. */
static MachineIx restores_on(Simulation *self, RequestIx ix, const Placement *placement) {
  if (!ask_can_restore(self, ix)) return MACHINE_NONE;
  if (placement->decode == MACHINE_NONE) return sim_other_decode(self, ix);
  const bool split = placement->prefill != placement->decode;
  return split && self->router->observe ? MACHINE_NONE : placement->decode;
}

/* On the machine that decodes it, where its KV is read. */
static void restore(Simulation *self, RequestIx ix, const Placement *placement, MachineIx decode) {
  if (placement->prefill == placement->decode)
    claim(self, placement);
  else
    sim_claim(self, &self->machines[decode], PHASE_DECODE);
  life_restores(self, ix, decode);
  sim_tell_router(self, ix, OBSERVED_PLACED, decode);
  sim_log(self, OUTCOME_PLACEMENT, &self->requests.slots[ix], decode, decode, 1);
  sim_restore(self, ix);
}

void sim_place(Simulation *self, RequestIx ix) {
  const Placement placement = place(self, ix, is_large(self, &self->requests.slots[ix]));
  const MachineIx restored = restores_on(self, ix, &placement);
  if (restored != MACHINE_NONE) {
    restore(self, ix, &placement, restored);
    return;
  }
  claim(self, &placement);
  enter(self, ix, &placement);
  tell_routed(self, ix);
}

/* Who decodes what `prefill` prefills in place of the request's own machine. */
static MachineIx other_decode(const Simulation *self, const Request *request, MachineIx prefill,
                              const ClusterView *view) {
  if (self->machines[prefill].role == ROLE_MIXED) return prefill;
  if (self->dispatcher->pick) return MACHINE_NONE; // it is asked later
  if (request->decode_machine != request->prefill_machine) return request->decode_machine;
  return column_least(self->columns.pending_tokens, &view->by_role[ROLE_DECODE]);
}

Placement sim_other_placement(Simulation *self, RequestIx ix) {
  static const Role prefilling[] = {ROLE_PREFILL, ROLE_MIXED};
  const Placement none = {.prefill = MACHINE_NONE};
  const Request *request = &self->requests.slots[ix];
  const ClusterView *view = sim_cluster(self, sim_deployment(self, request));
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

Rejection placement_rejection(const Simulation *self, const Request *request) {
  const int64_t context = sim_model(self->config, request->model)->max_model_len;
  if (context > 0 && request->prompt_tokens >= context) return REJECTED_CONTEXT;
  if (!is_large(self, request)) return REJECTED_NOT;
  for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++)
    if (!fits(self, request, roomiest(self, request, phase), phase)) return REJECTED_KV_MEMORY;
  return storable(self, request) ? REJECTED_NOT : REJECTED_STORE;
}

bool sim_can_resume(const Simulation *self, const Request *request) {
  Request longer = *request;
  longer.prompt_tokens += request->generated_tokens;
  return (!is_large(self, request) ||
          fits(self, &longer, roomiest(self, &longer, PHASE_PREFILL), PHASE_PREFILL)) &&
         storable(self, &longer);
}

void sim_place_on(Simulation *self, RequestIx ix, const Placement *placement) {
  enter(self, ix, placement);
  sim_wake_placed(self, ix);
}
