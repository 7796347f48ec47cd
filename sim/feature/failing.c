/* Machines go down, are repaired and start (faults.h), and what was on them is lost; or they drain,
 * or are slow. */
#include "perfmodel/time_scale.h"
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/draining.h"
#include "sim/core/iteration.h"
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
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
  Slowdown *slowdowns; // [n_machines] of it, where it makes them slow
} FaultClock;

typedef struct Loss {
  uint64_t id;
  RequestIx request;
} Loss;

typedef struct Failing {
  FaultClock *clocks; // [config->n_faults]
  Loss *losses;       // reused
  size_t losses_capacity;
} Failing;

static Failing *failing(const Simulation *self) {
  return self->feature_states[FEATURE_failing];
}

/* --- when */

/* The router learns of it once all else of that tick has happened. */
static void set_detection(Simulation *self, const Machine *machine, Tick at) {
  agenda_clear(&self->agenda, EVENT_DETECTION, machine->ix);
  agenda_set_last(&self->agenda, EVENT_DETECTION, machine->ix, at);
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

/* The model of machines that a source makes slow, which are of one pool. */
static const PerfModel *slow_model(Simulation *self, uint32_t source) {
  const FaultSource *specs = self->config->faults, *spec = &specs[source];
  const PoolSpec *pool = self->machines[spec->first].pool;
  const FaultSource *before = source > 0 ? &specs[source - 1] : NULL; // mostly of its kind
  if (before && before->kind == FAULT_SLOW && before->factor == spec->factor &&
      self->machines[before->first].pool == pool)
    return failing(self)->clocks[source - 1].slowdowns[0].perfmodel;
  PerfModel *model = ARENA_NEW(self->arena, PerfModel);
  *model = *pool->perfmodel;
  perfmodel_scale(model, spec->factor, self->arena);
  return model;
}

static void prepare_slowdowns(Simulation *self, uint32_t source) {
  const FaultSource *spec = &self->config->faults[source];
  if (spec->kind != FAULT_SLOW && spec->kind != FAULT_LINK) return;
  Slowdown *slowdowns = ARENA_ARRAY(self->arena, Slowdown, spec->n_machines);
  const PerfModel *model = spec->kind == FAULT_SLOW ? slow_model(self, source) : NULL;
  for (uint32_t i = 0; i < spec->n_machines; i++)
    slowdowns[i] = (Slowdown){.perfmodel = model, .factor = spec->factor};
  failing(self)->clocks[source].slowdowns = slowdowns;
}

static void start(Simulation *self) {
  const SimConfig *config = self->config;
  failing(self)->clocks = ARENA_ARRAY(self->arena, FaultClock, config->n_faults);
  agenda_reserve(&self->agenda, EVENT_FAULT, config->n_faults);
  for (uint32_t i = 0; i < config->n_faults; i++) {
    rng_init(&failing(self)->clocks[i].rng, config->seed ^ (uint64_t)i << 32, "faults");
    prepare_slowdowns(self, i);
    set_next(self, i);
  }
}

/* --- what */

static GroupShape shape_of(const Machine *machine) {
  return machine->role == ROLE_DECODE ? SHAPE_DECODE : SHAPE_PREFILL;
}

/* Machines that a failure of a source takes: its own and, of groups, those of their other shape. */
static uint32_t n_struck(const Simulation *self, const FaultSource *spec) {
  const Machine *first = &self->machines[spec->first];
  if (spec->kind != FAULT_FAIL || !first->group) return spec->n_machines;
  const uint32_t *n = first->group->n_machines;
  return spec->n_machines / n[shape_of(first)] * (n[SHAPE_PREFILL] + n[SHAPE_DECODE]);
}

/* The i-th of them. Groups that lie together do so in both shapes. */
static Machine *struck(const Simulation *self, const FaultSource *spec, uint32_t i) {
  Machine *first = &self->machines[spec->first];
  if (i < spec->n_machines) return first + i;
  const GroupShape other = shape_of(first) == SHAPE_PREFILL ? SHAPE_DECODE : SHAPE_PREFILL;
  return &self->machines[first->group->first[other] + i - spec->n_machines];
}

/* It is down: it begins no iteration. False where it was already. */
static bool go_down(Simulation *self, Machine *machine) {
  const bool was_down = machine->availability >= MACHINE_DOWN;
  if (machine->group) {
    groups_stop(self, machine->group);
  } else if (machine->availability == MACHINE_AWAY) { // it was on its way to another role
    agenda_clear(&self->agenda, EVENT_FLIP, machine->ix);
  }
  tell_goes_away(self, machine);
  agenda_clear(&self->agenda, EVENT_BOOT, machine->ix);
  self->n_down += !machine_is_out(machine);
  if (machine->down_since < 0) machine->down_since = self->now;
  machine->starts_since = -1;
  machine->availability = MACHINE_DOWN;
  sim_deployment_of(self, machine)->knows_roomiest = false;
  return !was_down;
}

/* Until it is known that it has failed its NIC is down. */
static void set_dead(Simulation *self, Machine *machine, bool dead) {
  machine->dead = dead;
  sim_change_nic(self, machine->ix, dead ? 0 : machine->link_factor);
}

static void fail(Simulation *self, Machine *machine) {
  if (machine->n_faults++ > 0 || machine->availability == MACHINE_OFF) return;
  machine->totals.failures += machine == outages_lead(self, machine); // of a group once
  sim_log(self, OUTCOME_FAILURE, NULL, machine->ix, 0, 0);
  if (!go_down(self, machine)) return; // whoever was there has been lost, or will be
  set_dead(self, machine, true);
  sim_hold_up_transfers(self, machine->ix);
  if (machine->pipeline) pipeline_stop(machine->pipeline, self->now);
  sim_break_off(self, machine);
  if (machine == outages_lead(self, machine))
    set_detection(self, machine, self->now + self->config->detection);
}

static bool is_repaired(const Machine *machine) {
  return machine->availability == MACHINE_DOWN && machine->n_faults + machine->n_drains == 0;
}

/* It is repaired, and starts, to be up at `end`. */
static void boot(Simulation *self, Machine *machine, Tick end) {
  machine->availability = MACHINE_BOOTS;
  if (machine != outages_lead(self, machine)) return;
  if (agenda_find(&self->agenda, EVENT_DETECTION, machine->ix))
    set_detection(self, machine, self->now);
  outages_set_boot(self, machine, end);
  sim_log(self, OUTCOME_REPAIR, NULL, machine->ix, 0, 0);
}

/* What nothing holds down any more of the machines of a source starts together; one that is not
 * wanted any more, and has nothing, stays away. */
static void start_repaired(Simulation *self, const FaultSource *spec) {
  const PoolSpec *pool = outages_lead(self, &self->machines[spec->first])->pool;
  const uint32_t n_machines = n_struck(self, spec);
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_machines; i++) {
    Machine *machine = struck(self, spec, i);
    if (!is_repaired(machine)) continue;
    const bool is_empty = column_at(self->columns.n_assigned, machine->ix) == 0;
    if (machine->stops && is_empty && !machine->listed) { // nor may it get any
      autoscaling_turn_off(self, machine);
      continue;
    }
    n += machine->pool == pool;
  }
  if (n == 0) return;
  const Tick end = outages_start_end(self, pool, n, self->now);
  for (uint32_t i = 0; i < n_machines; i++)
    if (is_repaired(struck(self, spec, i))) boot(self, struck(self, spec, i), end);
}

static void want_away(Simulation *self, Machine *machine) {
  if (machine->n_drains++ > 0) return;
  sim_log(self, OUTCOME_DRAIN, NULL, machine->ix, 0, 0);
  if (machine->availability == MACHINE_UP) {
    sim_drain(self, machine, DRAIN_MAINTENANCE);
  } else if (machine->availability >= MACHINE_DOWN) {
    go_down(self, machine); // it may have been about to start
    sim_unlist(self, machine);
  } // else it turns to its new role first
}

static void want_back(Simulation *self, Machine *machine) {
  if (--machine->n_drains > 0) return;
  if (machine->availability == MACHINE_DRAINS && machine_is_out(machine)) {
    sim_stop_draining(self, machine);
    sim_log(self, OUTCOME_UP, NULL, machine->ix, 0, 0);
  }
}

/* A machine that has drained is away. */
static void begin_maintenance(Simulation *self, Machine *machine) {
  if (machine->drains_for != DRAIN_MAINTENANCE) return;
  assert(machine->activity == ACTIVITY_IDLE && machine->n_drains > 0);
  machine->totals.maintenances++;
  sim_log(self, OUTCOME_AWAY, NULL, machine->ix, 0, 0);
  go_down(self, machine);
  outages_lose_memory(self, machine);
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

static void log_slow(Simulation *self, Outcome outcome, const Machine *machine, double factor) {
  sim_log(self, outcome, NULL, machine->ix, (int64_t)(factor * 1e6), 0);
}

static void change_speed(Simulation *self, Machine *machine, Slowdown *slowdown, bool begins) {
  const Slowdown *worst = worst_of(&machine->slowdowns, slowdown, begins);
  machine->perfmodel = worst ? worst->perfmodel : machine->pool->perfmodel;
  log_slow(self, OUTCOME_SLOW, machine, worst ? worst->factor : 1);
  if (machine->activity == ACTIVITY_DECODE) sim_cut_run(self, machine);
}

static void change_link(Simulation *self, Machine *machine, Slowdown *slowdown, bool begins) {
  const bool was_down = machine->link_factor == 0;
  const Slowdown *worst = worst_of(&machine->link_slowdowns, slowdown, begins);
  const double factor = machine->link_factor = worst ? worst->factor : 1;
  if (!machine->dead) sim_change_nic(self, machine->ix, factor);
  outages_of(self)->n_nics_down += (uint32_t)(factor == 0) - was_down;
  log_slow(self, OUTCOME_LINK, machine, factor);
}

/* --- who is lost */

/* Whether it is on a machine, on its way there, or yet to come; or anywhere in its group. */
static bool needs(const Simulation *self, const Request *request, const Machine *machine) {
  const MachineIx m = machine->ix;
  if (request->state == REQUEST_FREE || request->state == REQUEST_AWAITS ||
      request->state == REQUEST_HELD)
    return false;
  if (machine->group) return self->machines[request->prefill_machine].group == machine->group;
  const bool has_left = request->first_token_at >= 0 && request->state != REQUEST_MOVES;
  return request->decode_machine == m || (request->prefill_machine == m && !has_left);
}

typedef bool NeedFn(const Simulation *self, const Request *request, const Machine *machine);

static int by_id(const void *a, const void *b) {
  const Loss *one = a, *other = b;
  const uint64_t x = one->id != other->id ? one->id : one->request;
  const uint64_t y = one->id != other->id ? other->id : other->request; // of two copies
  return (x > y) - (x < y);
}

/* It is or will be prefilled elsewhere, or its KV is still there: another machine decodes it. */
static bool redirect(Simulation *self, const Machine *failed, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const Machine *prefill = &self->machines[request->prefill_machine];
  const bool moves = request->state == REQUEST_MOVES;
  if (request->redirects >= self->config->retry.limit || request->redirects == UINT8_MAX)
    return false;
  if (prefill == failed || prefill->group || (request->first_token_at >= 0 && !moves)) return false;
  const MachineIx decode = sim_other_decode(self, ix);
  if (decode == MACHINE_NONE) return false;
  sim_abandon_transfer(self, ix, true);
  life_redirected(self, request, decode);
  request->redirects++;
  sim_books(self, request)->redirects++;
  sim_log(self, OUTCOME_DISPATCH, request, prefill->ix, decode, 0);
  if (moves) sim_begin_transfer(self, ix);
  return true;
}

static void set_lost(Request *request, const Machine *machine, Tick failed_at) {
  request->lost = true;
  request->lost_with = machine->ix;
  request->failed_at = failed_at;
}

static void lose(Simulation *self, RequestIx ix, const Machine *machine) {
  Request *request = &self->requests.slots[ix];
  if (request_leaves(request)) { // and is about to, but for what the machine held up
    if (request_states[request->state].leaves != LEAVES_WITH_KV) return;
    sim_abandon_transfer(self, ix, true);
    life_left_early(self, ix, 0);
    return;
  }
  if (redirect(self, machine, ix)) return;
  set_lost(request, machine, machine->down_since);
  if (machine->group && request_states[request->state].leaves == LEAVES_WITH_KV)
    life_left_early(self, ix, 0); // its copy has been dropped
  else
    sim_leave(self, ix);
}

/* Those concerned, into Failing.losses, in order of their numbers, whatever their slots. */
static size_t find_losses(Simulation *self, const Machine *machine, NeedFn *concerns) {
  Failing *all = failing(self);
  size_t n = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    if (!concerns(self, &self->requests.slots[i], machine)) continue;
    ARENA_RESERVE(self->arena, all->losses, all->losses_capacity, n + 1);
    all->losses[n++] = (Loss){.id = self->requests.slots[i].id, .request = (RequestIx)i};
  }
  if (n > 1) qsort(all->losses, n, sizeof *all->losses, by_id);
  return n;
}

static void lose_all(Simulation *self, const Machine *machine) {
  const size_t n = find_losses(self, machine, needs);
  for (size_t i = 0; i < n; i++)
    lose(self, failing(self)->losses[i].request, machine);
}

static bool needs_store(const Simulation *self, const Request *request, const Machine *machine) {
  return needs(self, request, machine) && request->store_blocks > 0;
}

/* All that have a place in the store of a group. */
static void lose_stored(Simulation *self, const Group *group) {
  const Machine *machine = &self->machines[group->first[SHAPE_PREFILL]];
  const size_t n = find_losses(self, machine, needs_store);
  for (size_t i = 0; i < n; i++) {
    Request *request = &self->requests.slots[failing(self)->losses[i].request];
    if (request_leaves(request)) continue;
    set_lost(request, machine, self->now);
    sim_leave(self, failing(self)->losses[i].request);
  }
}

/* --- begin and end */

/* Machines of one group lie together: once for each. */
static void change_store(Simulation *self, Machine *machine, bool fails) {
  Group *group = machine->group;
  if (machine->ix != group->first[shape_of(machine)]) return;
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

static void handle_fault(Simulation *self, uint32_t source) {
  const FaultSource *spec = &self->config->faults[source];
  FaultClock *clock = &failing(self)->clocks[source];
  clock->down = !clock->down;
  clock->n_faults += clock->down;
  const uint32_t n_machines = n_struck(self, spec);
  for (uint32_t i = 0; i < n_machines; i++) {
    Machine *machine = struck(self, spec, i);
    if (spec->kind == FAULT_SLOW)
      change_speed(self, machine, &clock->slowdowns[i], clock->down);
    else if (spec->kind == FAULT_LINK)
      change_link(self, machine, &clock->slowdowns[i], clock->down);
    else if (spec->kind == FAULT_STORE)
      change_store(self, machine, clock->down);
    else if (spec->kind == FAULT_DRAIN)
      (clock->down ? want_away : want_back)(self, machine);
    else
      clock->down ? fail(self, machine) : (void)machine->n_faults--;
  }
  if (!clock->down && spec->kind != FAULT_SLOW) start_repaired(self, spec);
  set_next(self, source);
}

static void forget(Simulation *self, Machine *machine) {
  assert(machine->activity == ACTIVITY_IDLE && machine->batch.n_seqs == 0);
  machine->unfinished = false;
  machine->run.booked = 0;
  set_dead(self, machine, false);
  outages_lose_memory(self, machine);
}

/* The router learns that a machine is down. */
static void handle_detection(Simulation *self, uint32_t target) {
  Machine *machine = &self->machines[target];
  assert(machine->activity == ACTIVITY_IDLE);
  outages_each(self, machine, sim_unlist);
  sim_log(self, OUTCOME_DETECTION, NULL, machine->ix, 0, 0);
  if (machine->group) groups_drop_copies(machine->group);
  lose_all(self, machine);
  outages_each(self, machine, forget);
}

static bool is_used(const Simulation *self) {
  return self->config->n_faults > 0;
}

const Feature feature_failing = {
    .name = "failing",
    .state_size = sizeof(Failing),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_FAULT] = handle_fault, [EVENT_DETECTION] = handle_detection},
    .drained = begin_maintenance,
};
