/* Instances go down, are repaired and start (faults.h), and what was on them is lost; or they
 * drain, or are slow. */
#include "perfmodel/time_scale.h"
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/draining.h"
#include "sim/core/iteration.h"
#include "sim/core/lanes.h"
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
#include "sim/core/lockstep.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/moving.h"
#include "sim/core/pipeline.h"
#include "sim/core/placement.h"
#include "sim/core/roles.h"
#include "sim/feature/autoscaling.h"
#include "sim/feature/features.h"
#include "sim/feature/groups.h"
#include "sim/feature/outages.h"
#include <assert.h>
#include <stdlib.h>

/* A source of faults, as far as it has come. */
typedef struct FaultClock {
  Rng rng;
  size_t n_faults; // so far
  bool down;
  Slowdown *slowdowns; // of all its instances, part after part, where it makes them slow
} FaultClock;

/* The times of a pool, made slower: the last that were. */
typedef struct SlowModel {
  double factor;
  const PerfModel *model; // NULL: none was
} SlowModel;

typedef struct Loss {
  uint64_t id;
  RequestIx request;
} Loss;

typedef struct Failing {
  FaultClock *clocks;     // [config->n_faults]
  SlowModel *slow_models; // [config->n_pools]
  Loss *losses;           // reused
  size_t losses_capacity;
} Failing;

static Failing *failing(const Simulation *self) {
  return self->feature_states[FEATURE_failing];
}

/* --- when */

/* The router learns of it once all else of that tick has happened. */
static void set_detection(Simulation *self, const Instance *instance, Tick at) {
  agenda_clear(&self->agenda, EVENT_DETECTION, instance->ix);
  agenda_set_last(&self->agenda, EVENT_DETECTION, instance->ix, at);
}

/* After `ticks`; there is none past the end of simulated time. */
static void set_after(Simulation *self, uint32_t source, Tick ticks) {
  if (ticks < TICK_MAX - self->now)
    agenda_set(&self->agenda, EVENT_FAULT, source, self->now + ticks);
}

static void set_next(Simulation *self, uint32_t source) {
  const FaultSource *spec = &self->config->faults[source];
  FaultClock *clock = &failing(self)->clocks[source];
  if (spec->n_spans == 0)
    set_after(self, source, lifetime_draw(clock->down ? &spec->down : &spec->up, &clock->rng));
  else if (clock->down)
    set_after(self, source, spec->spans[clock->n_faults - 1].until - self->now);
  else if (clock->n_faults < spec->n_spans)
    set_after(self, source, spec->spans[clock->n_faults].from - self->now);
}

/* The model of a pool's instances while they are slow. */
static const PerfModel *slow_model(Simulation *self, const PoolSpec *pool, double factor) {
  SlowModel *last = &failing(self)->slow_models[pool - self->config->pools];
  if (last->model && last->factor == factor) return last->model;
  PerfModel *model = ARENA_NEW(self->arena, PerfModel);
  *model = *pool->perfmodel;
  perfmodel_scale(model, factor, self->arena);
  *last = (SlowModel){factor, model};
  return model;
}

static void prepare_slowdowns(Simulation *self, uint32_t source) {
  const FaultSource *spec = &self->config->faults[source];
  if (spec->kind != FAULT_SLOW && spec->kind != FAULT_LINK) return;
  uint32_t n = 0;
  for (uint32_t k = 0; k <= spec->n_others; k++)
    n += fault_part(spec, k).n_instances;
  Slowdown *slowdowns = ARENA_ARRAY(self->arena, Slowdown, n);
  failing(self)->clocks[source].slowdowns = slowdowns;
  for (uint32_t k = 0; k <= spec->n_others; k++) {
    const FaultPart part = fault_part(spec, k);
    const PoolSpec *pool = self->instances[part.first].pool;
    const PerfModel *model = spec->kind == FAULT_SLOW ? slow_model(self, pool, spec->factor) : NULL;
    for (uint32_t i = 0; i < part.n_instances; i++)
      *slowdowns++ = (Slowdown){.perfmodel = model, .factor = spec->factor};
  }
}

static void start(Simulation *self) {
  const SimConfig *config = self->config;
  failing(self)->clocks = ARENA_ARRAY(self->arena, FaultClock, config->n_faults);
  failing(self)->slow_models = ARENA_ARRAY(self->arena, SlowModel, config->n_pools);
  agenda_reserve(&self->agenda, EVENT_FAULT, config->n_faults);
  for (uint32_t i = 0; i < config->n_faults; i++) {
    rng_init(&failing(self)->clocks[i].rng, config->seed ^ (uint64_t)i << 32, "faults");
    prepare_slowdowns(self, i);
    set_next(self, i);
  }
}

/* --- what */

static GroupShape shape_of(const Instance *instance) {
  return instance->role == ROLE_DECODE ? SHAPE_DECODE : SHAPE_PREFILL;
}

/* Instances that a fault takes with a part of its source: those and, of groups that fail, those of
 * their other shape. */
static uint32_t n_struck(const Simulation *self, FaultKind kind, FaultPart part) {
  const Instance *first = &self->instances[part.first];
  if (kind != FAULT_FAIL || !first->group) return part.n_instances;
  const uint32_t *n = first->group->n_instances;
  return part.n_instances / n[shape_of(first)] * (n[SHAPE_PREFILL] + n[SHAPE_DECODE]);
}

/* The i-th of them. Groups that lie together do so in both shapes. */
static Instance *struck(const Simulation *self, FaultPart part, uint32_t i) {
  Instance *first = &self->instances[part.first];
  if (i < part.n_instances) return first + i;
  const GroupShape other = shape_of(first) == SHAPE_PREFILL ? SHAPE_DECODE : SHAPE_PREFILL;
  return &self->instances[first->group->first[other] + i - part.n_instances];
}

/* It is down: it begins no iteration. False where it was already. */
static bool go_down(Simulation *self, Instance *instance) {
  const bool was_down = instance->availability >= INSTANCE_DOWN;
  if (instance->group) {
    groups_stop(self, instance->group);
  } else if (instance->availability == INSTANCE_AWAY) { // it was on its way to another role
    agenda_clear(&self->agenda, EVENT_FLIP, instance->ix);
  }
  tell_goes_away(self, instance);
  agenda_clear(&self->agenda, EVENT_BOOT, instance->ix);
  self->n_down += !instance_is_out(instance);
  if (instance->down_since < 0) instance->down_since = self->now;
  instance->starts_since = -1;
  instance->availability = INSTANCE_DOWN;
  sim_deployment_of(self, instance)->knows_roomiest = false;
  return !was_down;
}

/* Until it is known that it has failed its NIC is down. */
static void set_dead(Simulation *self, Instance *instance, bool dead) {
  instance->dead = dead;
  sim_change_nic(self, instance->ix, dead ? 0 : instance->link_factor);
}

/* It stops, to be found out about at `detected`. */
static void stop(Simulation *self, Instance *instance, Tick detected) {
  if (!go_down(self, instance)) return; // whoever was there has been lost, or will be
  set_dead(self, instance, true);
  sim_hold_up_transfers(self, instance->ix);
  if (instance->loop->cut) instance->loop->cut(self, instance);
  if (instance->pipeline) lanes_drop_plan(self, instance->pipeline);
  if (instance->pipeline) pipeline_stop(instance->pipeline, self->now);
  sim_break_off(self, instance);
  if (instance == outages_lead(self, instance)) set_detection(self, instance, detected);
}

/* Other ranks find out as soon as they go on without it. */
static void fail(Simulation *self, Instance *instance) {
  if (instance->n_faults++ > 0 || instance->availability == INSTANCE_OFF) return;
  instance->totals.failures += instance == outages_lead(self, instance); // of a group once
  sim_log(self, OUTCOME_FAILURE, NULL, instance->ix, 0, 0);
  stop(self, instance,
       self->now +
           (instance->pool->shrinks ? instance->pool->rank_recovery : self->config->detection));
}

static bool is_repaired(const Instance *instance) {
  return instance->availability == INSTANCE_DOWN && instance->n_faults + instance->n_drains == 0;
}

/* It is repaired, and starts, to be up at `end`. */
static void boot(Simulation *self, Instance *instance, Tick end) {
  instance->availability = INSTANCE_BOOTS;
  if (instance != outages_lead(self, instance)) return;
  if (agenda_find(&self->agenda, EVENT_DETECTION, instance->ix))
    set_detection(self, instance, self->now);
  outages_set_boot(self, instance, end);
  sim_log(self, OUTCOME_REPAIR, NULL, instance->ix, 0, 0);
}

/* What nothing holds down any more of a part of a source starts together; one that is not wanted
 * any more, and has nothing, stays away. */
static void start_repaired(Simulation *self, FaultKind kind, FaultPart part) {
  const PoolSpec *pool = outages_lead(self, &self->instances[part.first])->pool;
  const uint32_t n_instances = n_struck(self, kind, part);
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_instances; i++) {
    Instance *instance = struck(self, part, i);
    if (!is_repaired(instance)) continue;
    const bool is_empty = column_at(self->columns.n_assigned, instance->ix) == 0;
    if (instance->stops && is_empty && !instance->listed) { // nor may it get any
      autoscaling_turn_off(self, instance);
      continue;
    }
    n += instance->pool == pool;
  }
  if (n == 0) return;
  const Tick end = outages_start_end(self, pool, n, self->now);
  for (uint32_t i = 0; i < n_instances; i++)
    if (is_repaired(struck(self, part, i))) boot(self, struck(self, part, i), end);
}

/* --- ranks that fail alone */

/* Of a source's instances that are ranks of one: whether the i-th is the first. */
static bool begins_lockstep(const Simulation *self, FaultPart part, uint32_t i) {
  const Instance *instance = &self->instances[part.first + i];
  return i == 0 || instance->lockstep != (instance - 1)->lockstep;
}

static uint32_t n_without_faults(const Lockstep *lockstep) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < lockstep->n; i++)
    n += lockstep->first[i].n_faults == 0;
  return n;
}

/* So few are left that none of them works, nor starts. */
static void stop_all(Simulation *self, Lockstep *lockstep) {
  const Tick detected = self->now + self->config->detection;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    Instance *rank = &lockstep->first[i];
    if (rank->availability != INSTANCE_DOWN) stop(self, rank, detected);
    if (rank->dead && rank->down_since == self->now) set_detection(self, rank, detected);
  }
  lockstep->loses = false;
  lockstep->failed |= !lockstep->too_few; // until all that stopped then are found out about
  lockstep->too_few = true;
}

static void boot_ranks(Simulation *self, Lockstep *lockstep) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < lockstep->n; i++)
    n += is_repaired(&lockstep->first[i]);
  if (n == 0 || (lockstep->too_few && !lockstep_fits(lockstep, n_without_faults(lockstep)))) return;
  const Tick end = outages_start_end(self, lockstep->first->pool, n, self->now);
  for (uint32_t i = 0; i < lockstep->n; i++) {
    Instance *rank = &lockstep->first[i];
    if (is_repaired(rank))
      boot(self, rank, end);
    else if (lockstep->too_few && agenda_find(&self->agenda, EVENT_DETECTION, rank->ix))
      set_detection(self, rank, self->now);
  }
}

/* Ranks have failed: the others go on, if they have places for all experts. */
static void review_ranks(Simulation *self, FaultPart part) {
  for (uint32_t i = 0; i < part.n_instances; i++) {
    Lockstep *lockstep = self->instances[part.first + i].lockstep;
    if (!begins_lockstep(self, part, i)) continue;
    const uint32_t n = lockstep->too_few ? n_without_faults(lockstep) : lockstep->n_alive;
    if ((lockstep->too_few || lockstep->loses) && !lockstep_fits(lockstep, n)) {
      stop_all(self, lockstep);
      boot_ranks(self, lockstep); // with those that were about to come up they may be enough
    } else if (lockstep->loses) {
      lockstep_shrink(self, lockstep);
    }
  }
}

/* Ranks are repaired: they start, if with those that go on, or start too, they are enough. */
static void start_ranks(Simulation *self, FaultPart part) {
  for (uint32_t i = 0; i < part.n_instances; i++)
    if (begins_lockstep(self, part, i)) boot_ranks(self, self->instances[part.first + i].lockstep);
}

static void want_away(Simulation *self, Instance *instance) {
  if (instance->n_drains++ > 0) return;
  sim_log(self, OUTCOME_DRAIN, NULL, instance->ix, 0, 0);
  if (instance->availability == INSTANCE_UP) {
    sim_drain(self, instance, DRAIN_MAINTENANCE);
  } else if (instance->availability >= INSTANCE_DOWN) {
    go_down(self, instance); // it may have been about to start
    sim_unlist(self, instance);
  } // else it turns to its new role first
}

static void want_back(Simulation *self, Instance *instance) {
  if (--instance->n_drains > 0) return;
  if (instance->availability == INSTANCE_DRAINS && instance_is_out(instance)) {
    sim_stop_draining(self, instance);
    sim_log(self, OUTCOME_UP, NULL, instance->ix, 0, 0);
  }
}

/* An instance that has drained is away. */
static void begin_maintenance(Simulation *self, Instance *instance) {
  if (instance->drains_for != DRAIN_MAINTENANCE) return;
  assert(instance->activity == ACTIVITY_IDLE && instance->n_drains > 0);
  instance->totals.maintenances++;
  sim_log(self, OUTCOME_AWAY, NULL, instance->ix, 0, 0);
  go_down(self, instance);
  outages_lose_memory(self, instance);
}

/* One begins or ends; the worst of those that there are then, NULL: none. A NIC that is down is
 * worse than any that is slow. */
static const Slowdown *worst_of(Slowdown **first, Slowdown *slowdown, bool begins) {
  Slowdown **link = first;
  while (!begins && *link != slowdown)
    link = &(*link)->next;
  if (begins) slowdown->next = *first;
  *link = begins ? slowdown : slowdown->next;
  const Slowdown *worst = *first;
  for (const Slowdown *other = worst; other; other = other->next)
    if (worst->factor > 0 && (other->factor > worst->factor || other->factor == 0)) worst = other;
  return worst;
}

static void log_slow(Simulation *self, Outcome outcome, const Instance *instance, double factor) {
  sim_log(self, outcome, NULL, instance->ix, (int64_t)(factor * 1e6), 0);
}

static void change_speed(Simulation *self, Instance *instance, Slowdown *slowdown, bool begins) {
  const Slowdown *worst = worst_of(&instance->slowdowns, slowdown, begins);
  instance->perfmodel = worst ? worst->perfmodel : instance->pool->perfmodel;
  log_slow(self, OUTCOME_SLOW, instance, worst ? worst->factor : 1);
  if (instance->activity == ACTIVITY_DECODE) sim_cut_run(self, instance);
}

static void change_link(Simulation *self, Instance *instance, Slowdown *slowdown, bool begins) {
  const bool was_down = instance->link_factor == 0;
  const Slowdown *worst = worst_of(&instance->link_slowdowns, slowdown, begins);
  const double factor = instance->link_factor = worst ? worst->factor : 1;
  if (!instance->dead) sim_change_nic(self, instance->ix, factor);
  outages_of(self)->n_nics_down += (uint32_t)(factor == 0) - was_down;
  log_slow(self, OUTCOME_LINK, instance, factor);
}

/* --- who is lost */

/* Whether it is on an instance, on its way there, or yet to come; or anywhere in its group. */
static bool needs(const Simulation *self, const Request *request, const Instance *instance) {
  const InstanceIx m = instance->ix;
  if (request->state == REQUEST_FREE || request->state == REQUEST_AWAITS ||
      request->state == REQUEST_HELD)
    return false;
  if (instance->group) return self->instances[request->prefill_instance].group == instance->group;
  const bool has_left = request->first_token_at >= 0 && request->state != REQUEST_MOVES;
  return request->decode_instance == m || (request->prefill_instance == m && !has_left);
}

typedef bool NeedFn(const Simulation *self, const Request *request, const Instance *instance);

static int by_id(const void *a, const void *b) {
  const Loss *one = a, *other = b;
  const uint64_t x = one->id != other->id ? one->id : one->request;
  const uint64_t y = one->id != other->id ? other->id : other->request; // of two copies
  return (x > y) - (x < y);
}

/* It is or will be prefilled elsewhere, or its KV is still there: another instance decodes it. */
static bool redirect(Simulation *self, const Instance *failed, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const Instance *prefill = &self->instances[request->prefill_instance];
  const bool moves = request->state == REQUEST_MOVES;
  if (request->redirects >= self->config->retry.limit || request->redirects == UINT8_MAX)
    return false;
  if (prefill == failed || prefill->group || (request->first_token_at >= 0 && !moves)) return false;
  const InstanceIx decode = sim_other_decode(self, ix);
  if (decode == INSTANCE_NONE) return false;
  sim_abandon_transfer(self, ix, true);
  life_redirected(self, request, decode);
  request->redirects++;
  sim_books(self, request)->redirects++;
  sim_log(self, OUTCOME_DISPATCH, request, prefill->ix, decode, 0);
  if (moves) sim_begin_transfer(self, ix);
  return true;
}

static void set_lost(Request *request, const Instance *instance, Tick failed_at) {
  request->lost = true;
  request->lost_with = instance->ix;
  request->failed_at = failed_at;
}

static void lose(Simulation *self, RequestIx ix, const Instance *instance) {
  Request *request = &self->requests.slots[ix];
  if (request_leaves(request)) { // and is about to, but for what the instance held up
    if (request_states[request->state].leaves != LEAVES_WITH_KV) return;
    sim_abandon_transfer(self, ix, true);
    life_left_early(self, ix, 0);
    return;
  }
  if (redirect(self, instance, ix)) return;
  set_lost(request, instance, instance->down_since);
  if (instance->group && request_states[request->state].leaves == LEAVES_WITH_KV)
    life_left_early(self, ix, 0); // its copy has been dropped
  else
    sim_leave(self, ix);
}

/* Those concerned, into Failing.losses, in order of their numbers, whatever their slots. */
static size_t find_losses(Simulation *self, const Instance *instance, NeedFn *concerns) {
  Failing *all = failing(self);
  size_t n = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    if (!concerns(self, &self->requests.slots[i], instance)) continue;
    ARENA_RESERVE(self->arena, all->losses, all->losses_capacity, n + 1);
    all->losses[n++] = (Loss){.id = self->requests.slots[i].id, .request = (RequestIx)i};
  }
  if (n > 1) qsort(all->losses, n, sizeof *all->losses, by_id);
  return n;
}

static void lose_all(Simulation *self, const Instance *instance) {
  const size_t n = find_losses(self, instance, needs);
  for (size_t i = 0; i < n; i++)
    lose(self, failing(self)->losses[i].request, instance);
}

static bool needs_store(const Simulation *self, const Request *request, const Instance *instance) {
  return needs(self, request, instance) && request->store_blocks > 0;
}

/* All that have a place in the store of a group. */
static void lose_stored(Simulation *self, const Group *group) {
  const Instance *instance = &self->instances[group->first[SHAPE_PREFILL]];
  const size_t n = find_losses(self, instance, needs_store);
  for (size_t i = 0; i < n; i++) {
    Request *request = &self->requests.slots[failing(self)->losses[i].request];
    if (request_leaves(request)) continue;
    set_lost(request, instance, self->now);
    sim_leave(self, failing(self)->losses[i].request);
  }
}

/* --- begin and end */

/* Instances of one group lie together: once for each. */
static void change_store(Simulation *self, Instance *instance, bool fails) {
  Group *group = instance->group;
  if (instance->ix != group->first[shape_of(instance)]) return;
  const bool was_down = group->n_store_faults > 0;
  group->n_store_faults += fails ? 1 : -1u;
  const bool is_down = group->n_store_faults > 0;
  if (was_down == is_down) return;
  outages_of(self)->n_stores_down += is_down ? 1 : -1u;
  sim_log(self, OUTCOME_STORE, NULL, group->first[SHAPE_PREFILL], is_down, 0);
  if (is_down) {
    groups_stay_in_decode(self, group);
    lose_stored(self, group);
  }
  sim_mark_idle(self, group);
  sim_mark_group(self, group);
}

static void change(Simulation *self, const FaultSource *spec, Instance *instance,
                   Slowdown *slowdown, bool begins) {
  switch (spec->kind) {
  case FAULT_SLOW:
    change_speed(self, instance, slowdown, begins);
    break;
  case FAULT_LINK:
    change_link(self, instance, slowdown, begins);
    break;
  case FAULT_STORE:
    change_store(self, instance, begins);
    break;
  case FAULT_DRAIN:
    (begins ? want_away : want_back)(self, instance);
    break;
  default:
    begins ? fail(self, instance) : (void)instance->n_faults--;
  }
}

static void handle_fault(Simulation *self, uint32_t source) {
  const FaultSource *spec = &self->config->faults[source];
  FaultClock *clock = &failing(self)->clocks[source];
  clock->down = !clock->down;
  clock->n_faults += clock->down;
  Slowdown *slowdown = clock->slowdowns;
  for (uint32_t k = 0; k <= spec->n_others; k++) {
    const FaultPart part = fault_part(spec, k);
    const uint32_t n_instances = n_struck(self, spec->kind, part);
    for (uint32_t i = 0; i < n_instances; i++)
      change(self, spec, struck(self, part, i), slowdown ? slowdown++ : NULL, clock->down);
    if (spec->kind == FAULT_FAIL && clock->down && self->instances[part.first].pool->shrinks)
      review_ranks(self, part);
  }
  for (uint32_t k = 0; k <= spec->n_others && !clock->down && spec->kind != FAULT_SLOW; k++) {
    const FaultPart part = fault_part(spec, k);
    if (self->instances[part.first].pool->shrinks)
      start_ranks(self, part);
    else
      start_repaired(self, spec->kind, part);
  }
  set_next(self, source);
}

static void forget(Simulation *self, Instance *instance) {
  assert(instance->activity == ACTIVITY_IDLE && instance->batch.n_seqs == 0);
  instance->unfinished = false;
  instance->run.booked = 0;
  set_dead(self, instance, false);
  outages_lose_memory(self, instance);
}

/* The router learns that an instance is down. */
static void handle_detection(Simulation *self, uint32_t target) {
  Instance *instance = &self->instances[target];
  assert(instance->activity == ACTIVITY_IDLE);
  outages_each(self, instance, sim_unlist);
  sim_log(self, OUTCOME_DETECTION, NULL, instance->ix, 0, 0);
  if (instance->group) groups_drop_copies(instance->group);
  lose_all(self, instance);
  outages_each(self, instance, forget);
}

static bool is_used(const Simulation *self) {
  return self->config->n_faults > 0;
}

const Feature feature_failing = {
    .state_size = sizeof(Failing),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_FAULT] = handle_fault, [EVENT_DETECTION] = handle_detection},
    .drained = begin_maintenance,
};
