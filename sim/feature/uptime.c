/* See uptime.h. An instance as it is bought is up while all its lanes are, and while any rank is of
 * each replica that goes on without ranks (PoolSpec.shrinks); one that drains is up until it goes.
 */
#include "sim/feature/uptime.h"
#include "sim/core/lockstep.h"
#include "sim/feature/features.h"
#include <assert.h>

typedef struct UpPool {
  uint32_t *n_away; // [machines] lanes of each that are down, starting or off; or replicas
  uint32_t n_up;    // machines
  Total *ticks;     // [machines + 1] with so many up
} UpPool;

typedef struct UpTimes {
  UpPool *pools;      // [n_pools]
  bool *away;         // [n_instances]
  InstanceIx *firsts; // [n_pools]
  Tick since;         // up to which all is booked
  Tick counted_from;  // what is booked is of the time from then on
} UpTimes;

static UpTimes *times_of(const Simulation *self) {
  return self->feature_states[FEATURE_uptime];
}

static void book(Simulation *self) {
  UpTimes *all = times_of(self);
  if (all->counted_from != self->counted_from) { // what was before does not count
    for (uint32_t p = 0; p < self->config->n_pools; p++)
      for (uint32_t n = 0; n <= pool_machines(&self->config->pools[p]); n++)
        all->pools[p].ticks[n] = 0;
    all->since = all->counted_from = self->counted_from;
  }
  const Tick span = self->now - all->since;
  assert(span >= 0);
  for (uint32_t p = 0; p < self->config->n_pools; p++)
    all->pools[p].ticks[all->pools[p].n_up] += span;
  all->since = self->now;
}

/* Ranks of one that is up while any of them is; 1: there are none. */
static uint32_t ranks_of(const PoolSpec *pool) {
  const uint32_t ranks = pool->shrinks ? pool_ranks(pool) : 1;
  return pool_lanes(pool) % ranks == 0 ? ranks : 1;
}

/* Whether that changes what counts: the rank's replica has lost its last rank, or has its first. */
static bool changes_replica(const Simulation *self, const Instance *instance) {
  const Lockstep *lockstep = instance->lockstep;
  bool others = false;
  for (uint32_t i = 0; ranks_of(instance->pool) > 1 && i < lockstep->n; i++)
    others |= &lockstep->first[i] != instance && !times_of(self)->away[lockstep->first[i].ix];
  return !others;
}

static void change(Simulation *self, const Instance *instance, bool away) {
  UpTimes *all = times_of(self);
  if (all->away[instance->ix] == away) return;
  all->away[instance->ix] = away;
  if (!changes_replica(self, instance)) return;
  book(self);
  const uint32_t p = (uint32_t)(instance->pool - self->config->pools);
  UpPool *pool = &all->pools[p];
  uint32_t *n_away = &pool->n_away[(instance->ix - all->firsts[p]) / pool_lanes(instance->pool)];
  pool->n_up -= *n_away == 0;
  *n_away += away ? 1 : -1u;
  pool->n_up += *n_away == 0;
}

static void go_away(Simulation *self, Instance *instance) {
  change(self, instance, true);
}

void uptime_comes_up(Simulation *self, Instance *instance) {
  if (times_of(self)) change(self, instance, false);
}

static bool is_used(const Simulation *self) {
  return self->config->n_faults > 0;
}

static void start(Simulation *self) {
  UpTimes *all = times_of(self);
  const SimConfig *config = self->config;
  all->pools = ARENA_ARRAY(self->arena, UpPool, config->n_pools);
  all->firsts = ARENA_ARRAY(self->arena, InstanceIx, config->n_pools);
  all->away = ARENA_ARRAY(self->arena, bool, self->n_instances);
  InstanceIx first = 0;
  for (uint32_t p = 0; p < config->n_pools; first += config->pools[p++].count) {
    const uint32_t n = pool_machines(&config->pools[p]);
    all->firsts[p] = first;
    all->pools[p] = (UpPool){.n_away = ARENA_ARRAY(self->arena, uint32_t, n),
                             .n_up = n,
                             .ticks = ARENA_ARRAY(self->arena, Total, n + 1)};
  }
  for (InstanceIx m = 0; m < self->n_instances; m++)
    change(self, &self->instances[m], self->instances[m].availability >= INSTANCE_OFF);
}

static void enter(Simulation *self, SimResult *result) {
  for (uint32_t p = 0; p < result->n_pools; p++)
    result->pools[p].up_ticks = times_of(self)->pools[p].ticks;
}

/* As many are counted as there are, and all of the time is. */
static void check(const Simulation *self) {
  const UpTimes *all = times_of(self);
  for (uint32_t p = 0; p < self->config->n_pools; p++) {
    const PoolSpec *spec = &self->config->pools[p];
    Total ticks = 0;
    uint32_t n_up = 0;
    for (uint32_t n = 0; n <= pool_machines(spec); n++)
      ticks += all->pools[p].ticks[n];
    assert(ticks == all->since - all->counted_from);
    for (uint32_t i = 0; i < spec->count; i += pool_lanes(spec)) {
      const uint32_t each = ranks_of(spec);
      uint32_t n = 0;
      for (uint32_t k = 0; k < pool_lanes(spec); k += each) {
        bool up = false;
        for (uint32_t r = 0; r < each; r++)
          up |= self->instances[all->firsts[p] + i + k + r].availability < INSTANCE_OFF;
        n += up;
      }
      n_up += n == pool_lanes(spec) / each;
    }
    assert(n_up == all->pools[p].n_up);
  }
}

const Feature feature_uptime = {
    .state_size = sizeof(UpTimes),
    .is_used = is_used,
    .start = start,
    .goes_away = go_away,
    .books_close = book,
    .sums_up = enter,
    .audits = check,
};
