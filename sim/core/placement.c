/* See placement.h. */
#include "sim/core/placement.h"
#include "sim/core/counting.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/moving.h"
#include "sim/core/rank_spread.h"
#include "sim/core/reports.h"
#include "sim/core/roles.h"
#include "sim/core/waking.h"
#include <assert.h>

/* Blocks a whole phase of the request needs on an instance of this kind, at its largest. */
static int64_t phase_blocks(const Instance *instance, const Request *request, Phase phase) {
  const int64_t tokens =
      (int64_t)request->prompt_tokens + (phase == PHASE_PREFILL ? 1 : request->output_tokens);
  if (instance->kv_groups) return kv_groups_most(instance->kv_groups, tokens - 1);
  return instance_held_blocks(instance, tokens);
}

/* Of the instances with `covers`, the one with the most room; INSTANCE_NONE if there is none. */
static InstanceIx roomiest_of(const ClusterView *view, Phase phase,
                              bool (*covers)(const Instance *instance, Phase phase)) {
  InstanceIx best = INSTANCE_NONE;
  int64_t most = -1;
  for (uint32_t i = 0; i < view->n_members; i++) {
    const InstanceIx m = view->members[i];
    const Instance *instance = &view->instances[m];
    const int64_t room = instance_room(instance);
    if (!instance_takes_requests(instance) || room <= most || !covers(instance, phase)) continue;
    best = m;
    most = room;
  }
  return best;
}

static bool belongs_to(const Instance *instance, Phase phase) {
  return role_covers(instance->home, phase);
}

static bool any(const Instance *instance, Phase phase) {
  (void)instance, (void)phase;
  return true;
}

InstanceIx deployment_roomiest(Deployment *self, Phase phase) {
  for (int p = PHASE_PREFILL; p <= PHASE_DECODE && !self->knows_roomiest; p++)
    self->roomiest[p] = roomiest_of(&self->view, (Phase)p, belongs_to);
  self->knows_roomiest = true;
  return self->roomiest[phase];
}

static InstanceIx roomiest(const Simulation *self, const Request *request, Phase phase) {
  return deployment_roomiest(sim_deployment(self, request), phase);
}

static bool fits(const Simulation *self, const Request *request, InstanceIx m, Phase phase) {
  return m != INSTANCE_NONE && phase_blocks(&self->instances[m], request, phase) <=
                                   instance_rank_blocks(&self->instances[m]);
}

static bool is_large(const Simulation *self, const Request *request) {
  return (int64_t)request->prompt_tokens + request->output_tokens >
         sim_deployment(self, request)->smallest_room;
}

/* Whether the store of every group can hold the prompt: the router may pick any of them. */
static bool storable(const Simulation *self, const Request *request) {
  return request->prompt_tokens <= sim_deployment(self, request)->smallest_store;
}

/* The rank of an instance that its front end sends a request to; routers that know what the ranks
 * have in their caches choose it themselves. */
static InstanceIx choose_rank(Simulation *self, InstanceIx picked, RequestIx ix) {
  const Instance *instance = &self->instances[picked];
  if (!instance->lockstep) return picked;
  if (!self->router->knows_content) return rank_spread_pick(self, instance, ix);
  rank_spread_send(self, instance);
  return picked;
}

/* The dispatcher's pick, or the roomiest where that is too small. Where roles move, those that
 * decoded when the request arrived may all have moved since: then any may be claimed. */
static InstanceIx dispatch(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = sim_deployment(self, request);
  const ClusterView *view = sim_cluster(self, deployment);
  InstanceIx decode = INSTANCE_NONE;
  if (dispatch_list(view)->count > 0)
    decode = self->dispatcher->pick(deployment->dispatcher_state, view, ix);
  if (!fits(self, request, decode, PHASE_DECODE)) decode = roomiest(self, request, PHASE_DECODE);
  if (!fits(self, request, decode, PHASE_DECODE)) decode = roomiest_of(view, PHASE_DECODE, any);
  decode = choose_rank(self, decode, ix);
  sim_claim(self, &self->instances[decode], PHASE_DECODE);
  sim_books(self, request)->dispatches++;
  return decode;
}

InstanceIx sim_other_decode(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = sim_deployment(self, request);
  const ClusterView *view = sim_cluster(self, deployment);
  const RoleList *list = dispatch_list(view);
  if (list->count == 0 || self->router->observe) return INSTANCE_NONE;
  const InstanceIx decode = self->dispatcher->pick
                                ? self->dispatcher->pick(deployment->dispatcher_state, view, ix)
                                : column_least(self->columns.pending_tokens, list);
  const bool good =
      decode != request->prefill_instance && fits(self, request, decode, PHASE_DECODE);
  return good ? decode : INSTANCE_NONE;
}

/* A request of a single token is never decoded, so it stays where it is. */
void sim_dispatch(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool grouped = self->instances[request->prefill_instance].group;
  if (request->decode_instance != INSTANCE_NONE || (grouped && request->output_tokens > 1)) return;
  const InstanceIx decode =
      request->output_tokens > 1 ? dispatch(self, ix) : request->prefill_instance;
  life_dispatched(self, request, decode);
  sim_log(self, OUTCOME_DISPATCH, request, request->prefill_instance, decode, 0);
}

static void choose_ranks(Simulation *self, Placement *placement, RequestIx ix) {
  const bool split = placement->decode != placement->prefill;
  placement->prefill = choose_rank(self, placement->prefill, ix);
  if (!split)
    placement->decode = placement->prefill;
  else if (placement->decode != INSTANCE_NONE)
    placement->decode = choose_rank(self, placement->decode, ix);
}

/* Reports of a deployment's columns; NULL: its router sees those themselves. */
static Reports *column_reports(const Deployment *deployment) {
  Reports *reports = deployment->view.reports;
  return reports && reports->of_columns ? reports : NULL;
}

/* The router's placement, except that a phase too large for the instance it picked goes to the
 * roomiest. */
static Placement place(Simulation *self, RequestIx ix, bool check) {
  const Request *request = &self->requests.slots[ix];
  Deployment *deployment = sim_deployment(self, request);
  tell_router_looks(self, deployment);
  const ClusterView *view = sim_cluster(self, deployment);
  Reports *reports = column_reports(deployment);
  if (reports) view = reports_view(reports);
  Placement placement = self->router->pick(deployment->router_state, view, ix);
  if (check && !fits(self, request, placement.prefill, PHASE_PREFILL))
    placement.prefill = roomiest(self, request, PHASE_PREFILL);
  const Group *group = self->instances[placement.prefill].group;
  if (group && self->instances[placement.prefill].role == ROLE_DECODE)
    placement.prefill = group->first[SHAPE_PREFILL];
  if (group || (self->dispatcher->pick && placement.decode != placement.prefill))
    placement.decode = INSTANCE_NONE;
  else if (check && !fits(self, request, placement.decode, PHASE_DECODE))
    placement.decode = roomiest(self, request, PHASE_DECODE);
  choose_ranks(self, &placement, ix);
  return placement;
}

void sim_wake_placed(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Instance *instance = &self->instances[request->prefill_instance];
  if (request->state == REQUEST_RESTORES) return; // its KV has still to come
  if (instance->group) sim_mark_group(self, instance->group);
  sim_wake(self, instance, WAKE_PREFILL, ix);
  if (request->decode_instance == instance->ix) sim_wake(self, instance, WAKE_CHAINED, ix);
}

/* Claims the instances that the placement takes across their roles. */
static void claim(Simulation *self, const Placement *placement) {
  if (!placement->roles_stay) {
    sim_claim(self, &self->instances[placement->prefill], PHASE_PREFILL);
    if (placement->decode != INSTANCE_NONE)
      sim_claim(self, &self->instances[placement->decode], PHASE_DECODE);
  } else if (placement->claimed != INSTANCE_NONE) {
    sim_claim(self, &self->instances[placement->claimed], PHASE_PREFILL);
    sim_claim(self, &self->instances[placement->claimed], PHASE_DECODE);
  }
}

/* Whether an instance can run a part of a request that is cut. */
static bool runs_parts(const Simulation *self, const Request *request, InstanceIx m) {
  const Instance *instance = &self->instances[m];
  const PoolSpec *pool = instance->pool;
  return instance->batcher->goes_on_with_prompts && !instance->batcher->finish &&
         pool->pipeline_stages <= 1 && pool->attention_ranks <= 1 && pool->ranks <= 1 &&
         pool->scaling.max == 0 && !instance->moves_kv && !instance->group &&
         fits(self, request, m, PHASE_DECODE);
}

static bool may_be_cut(const Simulation *self, const Request *request, const Placement *placement) {
  const SimConfig *config = self->config;
  return placement->cut > 0 && placement->decode != INSTANCE_NONE &&
         placement->prefill != placement->decode && config->n_faults == 0 &&
         config->n_groups == 0 && config->hedge.after == 0 && config->checkpoint.bandwidth == 0 &&
         config->sleep.awake == 0 && config->flow.watermark == 0 &&
         !self->pool_policy->moves_roles && !self->pool_policy->review_role &&
         !self->pool_policy->watch && runs_parts(self, request, placement->prefill) &&
         runs_parts(self, request, placement->decode);
}

/* Places it with its cut. A part of which nothing would be left for the other instance is all of
 * it; a cut at the end of the prompt is the one between prefill and decode. */
static void place_parts(Simulation *self, RequestIx ix, const Placement *placement) {
  const Request *request = &self->requests.slots[ix];
  const InstanceIx first = placement->prefill, second = placement->decode;
  const int64_t cut = placement->cut, prompt = request->prompt_tokens;
  if (cut == prompt) {
    life_placed(self, ix, first, second);
  } else if (cut >= prompt + request->output_tokens - 1) {
    life_placed(self, ix, first, first);
  } else {
    life_cut(self, ix, (int32_t)cut, second);
    life_placed(self, ix, first, cut < prompt ? second : first);
  }
}

static void enter(Simulation *self, RequestIx ix, const Placement *placement) {
  if (may_be_cut(self, &self->requests.slots[ix], placement))
    place_parts(self, ix, placement);
  else
    life_placed(self, ix, placement->prefill, placement->decode);
  sim_tell_router(self, ix, OBSERVED_PLACED, placement->prefill);
  const bool open = placement->decode == INSTANCE_NONE;
  const Request *request = &self->requests.slots[ix];
  sim_log(self, OUTCOME_PLACEMENT, request, placement->prefill,
          open ? -1 : (int64_t)request->decode_instance, 0);
}

/* Where one whose KV is in the checkpoint store goes on, without a prefill; INSTANCE_NONE: nowhere.
 * A router that keeps books of its own counts on the prefill that it has chosen an instance for. */
static InstanceIx restores_on(Simulation *self, RequestIx ix, const Placement *placement) {
  if (!ask_can_restore(self, ix)) return INSTANCE_NONE;
  if (placement->decode == INSTANCE_NONE) return sim_other_decode(self, ix);
  const bool split = placement->prefill != placement->decode;
  return split && self->router->observe ? INSTANCE_NONE : placement->decode;
}

/* On the instance that decodes it, where its KV is read. */
static void restore(Simulation *self, RequestIx ix, const Placement *placement, InstanceIx decode) {
  if (placement->prefill == placement->decode)
    claim(self, placement);
  else
    sim_claim(self, &self->instances[decode], PHASE_DECODE);
  life_restores(self, ix, decode);
  sim_tell_router(self, ix, OBSERVED_PLACED, decode);
  sim_log(self, OUTCOME_PLACEMENT, &self->requests.slots[ix], decode, decode, 1);
  sim_restore(self, ix);
}

static void carry_out(Simulation *self, RequestIx ix, const Placement *placement) {
  const InstanceIx restored = restores_on(self, ix, placement);
  if (restored != INSTANCE_NONE) {
    restore(self, ix, placement, restored);
    return;
  }
  claim(self, placement);
  enter(self, ix, placement);
  tell_routed(self, ix);
}

void sim_place(Simulation *self, RequestIx ix) {
  const Placement placement = place(self, ix, is_large(self, &self->requests.slots[ix]));
  Reports *reports = column_reports(sim_deployment(self, &self->requests.slots[ix]));
  if (!reports) {
    carry_out(self, ix, &placement);
    return;
  }
  const InstanceIx decode = placement.decode;
  const bool two = decode != INSTANCE_NONE && decode != placement.prefill;
  int64_t prefills[REPORTED], decodes[REPORTED];
  reports_figures(reports, placement.prefill, prefills);
  if (two) reports_figures(reports, decode, decodes);
  carry_out(self, ix, &placement);
  reports_sent(reports, placement.prefill, prefills);
  if (two) reports_sent(reports, decode, decodes);
}

/* Who decodes what `prefill` prefills in place of the request's own instance. */
static InstanceIx other_decode(const Simulation *self, const Request *request, InstanceIx prefill,
                               const ClusterView *view) {
  if (self->instances[prefill].role == ROLE_MIXED) return prefill;
  if (self->dispatcher->pick) return INSTANCE_NONE; // it is asked later
  if (request->decode_instance != request->prefill_instance) return request->decode_instance;
  return column_least(self->columns.pending_tokens, &view->by_role[ROLE_DECODE]);
}

Placement sim_other_placement(Simulation *self, RequestIx ix) {
  static const Role prefilling[] = {ROLE_PREFILL, ROLE_MIXED};
  const Placement none = {.prefill = INSTANCE_NONE};
  const Request *request = &self->requests.slots[ix];
  const ClusterView *view = sim_cluster(self, sim_deployment(self, request));
  Column *pending = self->columns.pending_tokens;
  InstanceIx best = INSTANCE_NONE;
  for (int i = 0; i < 2; i++) {
    const InstanceIx m =
        column_least_but(pending, &view->by_role[prefilling[i]], request->prefill_instance);
    if (m == INSTANCE_NONE) continue;
    if (best == INSTANCE_NONE || column_at(pending, m) < column_at(pending, best)) best = m;
  }
  if (best == INSTANCE_NONE || !fits(self, request, best, PHASE_PREFILL)) return none;
  const InstanceIx decode = other_decode(self, request, best, view);
  const bool open = decode == INSTANCE_NONE && self->dispatcher->pick;
  if (!open && !fits(self, request, decode, PHASE_DECODE)) return none;
  return (Placement){.prefill = best, .decode = decode};
}

/* Whether an instance that has the room is off, and starts for requests in front. */
static bool fits_asleep(const Simulation *self, const Request *request) {
  const ClusterView *view = &sim_deployment(self, request)->view;
  for (uint32_t i = 0; i < view->n_members; i++) {
    const Instance *instance = &view->instances[view->members[i]];
    if (instance->pool->scaling.min == 0 && instance->pool->scaling.max > 0 &&
        fits(self, request, instance->ix, PHASE_DECODE))
      return true;
  }
  return false;
}

bool placement_fits(const Simulation *self, const Request *request) {
  if (!is_large(self, request)) return true;
  for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++)
    if (!fits(self, request, roomiest(self, request, phase), phase)) return false;
  return true;
}

Rejection placement_rejection(const Simulation *self, const Request *request) {
  const int64_t context = sim_model(self->config, request->model)->max_model_len;
  if (context > 0 && request->prompt_tokens >= context) return REJECTED_CONTEXT;
  if (!is_large(self, request)) return REJECTED_NOT;
  if (!placement_fits(self, request) &&
      !(sim_deployment(self, request)->wakes && fits_asleep(self, request)))
    return REJECTED_KV_MEMORY;
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
