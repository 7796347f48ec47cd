/* Models that share GPUs in turn: of all instances, so many are awake at a time; the others sleep,
 * as in vLLM's sleep mode (RULES.md, "Sleep mode"). A model for whose requests no instance is awake
 * asks for one; another model's, that has been up for the minimum residence, drains and sleeps for
 * it.
 *
 *   asleep (off) ──► wakes (boots) ──► up ──► drains ──► asleep
 *
 * What an instance takes to fall asleep is a part of the wake of the next one on its GPUs. */
#include "sim/core/draining.h"
#include "sim/feature/autoscaling.h"
#include "sim/feature/features.h"
#include "sim/feature/outages.h"
#include <assert.h>

/* The pool of a model. */
typedef struct SleepPool {
  const PoolSpec *spec;
  Deployment *deployment;
  InstanceIx first;
  uint32_t lanes, n_units;
  uint32_t n_coming; // units that will wake once others sleep
  Tick *up_at;       // [n_units] of those that are awake or wake
  Tick rank;         // of a look: -1, it was looked at
} SleepPool;

/* What a unit is at. */
typedef enum UnitState { UNIT_ASLEEP, UNIT_WAKES, UNIT_UP, UNIT_DRAINS } UnitState;

typedef struct Switching {
  SleepPool *pools; // [n_pools]
  uint32_t n_pools;
  uint32_t *coming; // [n_units] a ring of pools for which units drain, in the order of the askers
  uint32_t first_coming, n_coming, n_units;
} Switching;

static Switching *switching(const Simulation *self) {
  return self->feature_states[FEATURE_switching];
}

static Instance *lanes_of(const Simulation *self, const SleepPool *pool, uint32_t i) {
  return &self->instances[pool->first + i * pool->lanes];
}

static UnitState state_of(const Simulation *self, const SleepPool *pool, uint32_t i) {
  const Instance *lanes = lanes_of(self, pool, i);
  uint32_t n_off = 0;
  bool boots = false;
  for (uint32_t k = 0; k < pool->lanes; k++) {
    n_off += lanes[k].availability == INSTANCE_OFF;
    boots |= lanes[k].availability == INSTANCE_BOOTS;
  }
  if (n_off == pool->lanes) return UNIT_ASLEEP;
  return lanes[0].stops ? UNIT_DRAINS : boots ? UNIT_WAKES : UNIT_UP;
}

static uint32_t count(const Simulation *self, const SleepPool *pool, UnitState from, UnitState to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < pool->n_units; i++) {
    const UnitState state = state_of(self, pool, i);
    n += from <= state && state <= to;
  }
  return n;
}

static uint32_t count_awake(const Simulation *self) {
  const Switching *all = switching(self);
  uint32_t n = 0;
  for (uint32_t p = 0; p < all->n_pools; p++)
    n += count(self, &all->pools[p], UNIT_WAKES, UNIT_DRAINS);
  return n;
}

/* Those that have requests, or are to get some. */
static uint32_t count_here(const Simulation *self, const SleepPool *pool) {
  return count(self, pool, UNIT_WAKES, UNIT_UP) + pool->n_coming;
}

/* --- when */

/* After all else of that tick; a look that is to come sooner remains. */
static void look_at(Simulation *self, Tick at) {
  const Event *next = agenda_find(&self->agenda, EVENT_SWITCH, 0);
  if (next && next->at <= at) return;
  agenda_clear(&self->agenda, EVENT_SWITCH, 0);
  agenda_set_last(&self->agenda, EVENT_SWITCH, 0, at);
}

static Tick end_of_residence(const Simulation *self, const SleepPool *pool, uint32_t i) {
  const Tick residence = self->config->sleep.min_residence;
  return pool->up_at[i] < TICK_MAX - residence ? pool->up_at[i] + residence : TICK_MAX;
}

/* --- one wakes, one sleeps */

/* The first that sleeps, once `asleep` ticks have passed in which another falls asleep. */
static void wake(Simulation *self, SleepPool *pool, Tick asleep) {
  uint32_t i = 0;
  while (state_of(self, pool, i) != UNIT_ASLEEP)
    i++;
  Instance *lanes = lanes_of(self, pool, i);
  const Tick ticks = asleep + pool->spec->wake_ticks;
  const Tick end = ticks < TICK_MAX - self->now ? self->now + (ticks > 0 ? ticks : 1) : TICK_MAX;
  for (uint32_t k = 0; k < pool->lanes; k++)
    lanes[k].stops = false;
  autoscaling_start(self, lanes, pool->lanes, end);
  pool->up_at[i] = end;
}

static void let_drain(Simulation *self, const SleepPool *pool, uint32_t i) {
  Instance *lanes = lanes_of(self, pool, i);
  for (uint32_t k = 0; k < pool->lanes; k++) {
    lanes[k].stops = true;
    lanes[k].totals.scale_downs++;
    sim_log(self, OUTCOME_STOP, NULL, lanes[k].ix, 0, 0);
    sim_drain(self, &lanes[k], DRAIN_STOP);
  }
}

static SleepPool *pool_of(const Simulation *self, const Instance *instance) {
  SleepPool *pool = switching(self)->pools;
  while (pool->spec != instance->pool)
    pool++;
  return pool;
}

/* The pool that asked first gets the GPUs of one that has drained. */
static void see_drained(Simulation *self, Instance *instance) {
  Switching *all = switching(self);
  const SleepPool *pool = pool_of(self, instance);
  autoscaling_turn_off(self, instance);
  if (state_of(self, pool, (instance->ix - pool->first) / pool->lanes) != UNIT_ASLEEP) return;
  assert(all->n_coming > 0);
  SleepPool *next = &all->pools[all->coming[all->first_coming]];
  all->first_coming = (all->first_coming + 1) % all->n_units;
  all->n_coming--;
  next->n_coming--;
  wake(self, next, pool->spec->sleep_ticks);
  look_at(self, self->now);
}

/* --- who asks, and who gives way */

static int64_t load_of(const Simulation *self, const SleepPool *pool, uint32_t i, bool waiting) {
  const Instance *lanes = lanes_of(self, pool, i);
  int64_t n = 0;
  for (uint32_t k = 0; k < pool->lanes; k++)
    n += waiting ? lanes[k].prefill_queue.count + lanes[k].decode_queue.count
                 : column_at(self->columns.n_assigned, lanes[k].ix);
  return n;
}

/* Whether a pool wants one more, that it has. */
static bool asks(const Simulation *self, const SleepPool *pool) {
  const double queue = self->config->sleep.queue;
  const uint32_t n = count_here(self, pool);
  if (count(self, pool, UNIT_ASLEEP, UNIT_ASLEEP) <= pool->n_coming) return false;
  if (n == 0) return pool->deployment->front.count > 0;
  if (queue == 0) return false;
  int64_t waiting = pool->deployment->front.count;
  for (uint32_t i = 0; i < pool->n_units; i++)
    if (state_of(self, pool, i) == UNIT_UP) waiting += load_of(self, pool, i, true);
  return (double)waiting > queue * n;
}

/* When the first request in front arrived; those with units awake come last. */
static Tick rank_of(const Simulation *self, const SleepPool *pool) {
  const RequestIx first = pool->deployment->front.first;
  const bool alone = count_here(self, pool) == 0 && first != REQUEST_NONE;
  return alone ? self->requests.slots[first].arrived_at : TICK_MAX;
}

typedef struct Victim {
  const SleepPool *pool; // NULL: none
  uint32_t unit;
  int64_t load;
} Victim;

/* The least loaded of other pools whose residence has ended, of equals that which came up first. A
 * pool that has units takes only one that has nothing to do. The look that may find another. */
static Victim find_victim(Simulation *self, const SleepPool *asker) {
  const Switching *all = switching(self);
  const bool idle = count_here(self, asker) > 0;
  Victim best = {0};
  for (uint32_t p = 0; p < all->n_pools; p++) {
    const SleepPool *pool = &all->pools[p];
    for (uint32_t i = 0; i < pool->n_units && pool != asker; i++) {
      const UnitState state = state_of(self, pool, i);
      if (state != UNIT_WAKES && state != UNIT_UP) continue;
      const Tick end = end_of_residence(self, pool, i);
      const int64_t load = load_of(self, pool, i, false);
      if (end > self->now && end < TICK_MAX) look_at(self, end);
      if (end > self->now || state == UNIT_WAKES || (idle && load > 0)) continue;
      if (best.pool && (load > best.load ||
                        (load == best.load && pool->up_at[i] >= best.pool->up_at[best.unit])))
        continue;
      best = (Victim){pool, i, load};
    }
  }
  return best;
}

static void serve(Simulation *self, uint32_t p) {
  Switching *all = switching(self);
  SleepPool *asker = &all->pools[p];
  if (count_awake(self) < self->config->sleep.awake) {
    wake(self, asker, 0);
    return;
  }
  const Victim victim = find_victim(self, asker);
  if (!victim.pool) return;
  all->coming[(all->first_coming + all->n_coming++) % all->n_units] = p;
  asker->n_coming++;
  let_drain(self, victim.pool, victim.unit);
}

/* Who waited longest is looked at first. */
static void handle(Simulation *self, uint32_t target) {
  (void)target;
  const Switching *all = switching(self);
  bool any = self->config->sleep.queue > 0;
  for (uint32_t p = 0; p < all->n_pools; p++)
    any |= all->pools[p].deployment->front.count > 0;
  if (!any) return;
  for (uint32_t p = 0; p < all->n_pools; p++)
    all->pools[p].rank = rank_of(self, &all->pools[p]);
  for (uint32_t n = 0; n < all->n_pools; n++) {
    uint32_t best = 0;
    for (uint32_t p = 1; p < all->n_pools; p++)
      if ((uint64_t)all->pools[p].rank < (uint64_t)all->pools[best].rank) best = p; // -1: last
    all->pools[best].rank = -1;
    if (asks(self, &all->pools[best])) serve(self, best);
  }
}

static void see_request(Simulation *self, RequestIx request) {
  (void)request;
  look_at(self, self->now);
}

/* An instance may have nothing to do. */
static void see_end(Simulation *self, RequestIx request, const RequestRecord *record) {
  (void)request, (void)record;
  if (self->config->sleep.queue > 0) look_at(self, self->now);
}

/* Whether requests in front will have a unit woken. */
static bool wakes(const Simulation *self) {
  const Switching *all = switching(self);
  for (uint32_t p = 0; p < all->n_pools; p++)
    if (all->pools[p].deployment->front.count > 0) return true;
  return false;
}

/* --- the run */

static bool is_used(const Simulation *self) {
  return self->config->sleep.awake > 0;
}

static void start(Simulation *self) {
  const SimConfig *config = self->config;
  Switching *all = switching(self);
  all->n_pools = config->n_pools;
  all->pools = ARENA_ARRAY(self->arena, SleepPool, config->n_pools);
  InstanceIx first = 0;
  for (uint32_t p = 0; p < config->n_pools; first += config->pools[p].count, p++) {
    const PoolSpec *spec = &config->pools[p];
    const uint32_t lanes = pool_lanes(spec), n = spec->count / lanes;
    assert(spec->scaling.max == n && spec->scaling.min == 0 && spec->role == ROLE_MIXED);
    all->pools[p] = (SleepPool){.spec = spec,
                                .deployment = sim_deployment_of(self, &self->instances[first]),
                                .first = first,
                                .lanes = lanes,
                                .n_units = n,
                                .up_at = ARENA_ARRAY(self->arena, Tick, n)};
    all->pools[p].deployment->wakes = true;
    all->n_units += n;
  }
  all->coming = ARENA_ARRAY(self->arena, uint32_t, all->n_units);
  outages_of(self)->wakes = wakes;
  agenda_reserve(&self->agenda, EVENT_SWITCH, 1);
}

/* GPUs are of one unit at a time. */
static void check(const Simulation *self) {
  const Switching *all = switching(self);
  assert(count_awake(self) <= self->config->sleep.awake);
  uint32_t n_draining = 0, n_coming = 0;
  for (uint32_t p = 0; p < all->n_pools; p++) {
    n_draining += count(self, &all->pools[p], UNIT_DRAINS, UNIT_DRAINS);
    n_coming += all->pools[p].n_coming;
  }
  assert(n_draining == all->n_coming && n_coming == all->n_coming);
}

const Feature feature_switching = {
    .state_size = sizeof(Switching),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_SWITCH] = handle},
    .arrived = see_request,
    .came_front = see_request,
    .ended = see_end,
    .drained = see_drained,
    .audits = check,
};
