/* Kubernetes' HorizontalPodAutoscaler (v1.35, "Horizontal Pod Autoscaling", autoscaling/v2), driven
 * by KEDA 2.20 on lengths of queues, which may leave a pool without machines.
 *
 *   wanted = ⌈machines · figure / target⌉, or machines if |figure/target − 1| <= tolerance
 *
 * The figure is a mean over the machines, those that start included; of several targets the one
 * that wants most counts. What was wanted within the pool's windows holds (autoscaling.h); then
 * policies limit the change: of `up_percent` and `up_machines` the one that allows more, counted
 * from the number of machines `up_period` ago, and the same down. Requests in front of the model
 * count with those of each of its pools.
 *
 * A pool with `min: 0` is *active* while more than `activation` requests count. KEDA looks every
 * `polling_interval`: an active pool without machines gets one, and one that has not been active
 * for `cooldown` loses all; between them the rule above holds, with one machine at least. */
#include "sim/scaling/scaler.h"
#include <assert.h>
#include <math.h>

/* How fast a pool may change in one direction. */
typedef struct ChangePolicy {
  double percent; // of the machines at the beginning of the period; 0: not looked at
  int64_t machines;
  Tick period;
} ChangePolicy;

typedef struct Change {
  Tick at;
  int64_t machines; // more; of those that go negative
} Change;

/* Of a pool. */
typedef struct Changes {
  Change *ring; // [n_ring]
  int64_t n_ring, n;
  Tick active_at; // when it was last active
} Changes;

typedef struct State {
  double concurrency, queue, kv_use; // targets; 0: not looked at
  double tolerance;
  ChangePolicy up, down;
  int64_t activation;
  Tick polling_interval, cooldown;
  Tick polled_at; // -1: never
  Changes *pools; // [view.n_pools]
} State;

static void start(void *state, const ScalingView *view, Arena *arena) {
  State *self = state;
  const Tick period = self->up.period > self->down.period ? self->up.period : self->down.period;
  self->polled_at = -1;
  self->pools = ARENA_ARRAY(arena, Changes, view->n_pools);
  for (uint32_t p = 0; p < view->n_pools; p++) {
    Changes *pool = &self->pools[p];
    pool->n_ring = period / view->interval + 1;
    pool->ring = ARENA_ARRAY(arena, Change, pool->n_ring);
  }
}

/* --- what is wanted */

static double wanted_by(const State *self, double load, double n_machines) {
  const double off = fabs(load - n_machines);
  return off <= self->tolerance * n_machines ? n_machines : ceil(load - 1e-9);
}

static double wanted_of(const State *self, const PoolLoad *pool, int64_t n_front) {
  const double n = pool->n_machines;
  double most = 1;
  if (self->concurrency > 0)
    most = fmax(most, wanted_by(self, (double)(pool->n_assigned + n_front) / self->concurrency, n));
  if (self->queue > 0)
    most = fmax(most, wanted_by(self, (double)(pool->n_waiting + n_front) / self->queue, n));
  if (self->kv_use > 0) most = fmax(most, wanted_by(self, pool->kv_machines / self->kv_use, n));
  return most;
}

/* Requests that KEDA counts: those that wait, where nothing else has a target. */
static int64_t active_requests(const State *self, const PoolLoad *pool, int64_t n_front) {
  const bool by_queue = self->queue > 0 && self->concurrency == 0 && self->kv_use == 0;
  return (by_queue ? pool->n_waiting : pool->n_assigned) + n_front;
}

/* -1: KEDA does not look now. */
static double wanted_by_keda(State *self, const ScalingView *view, uint32_t p) {
  const PoolLoad *pool = &view->pools[p];
  const bool active = active_requests(self, pool, view->n_front) > self->activation;
  if (active) self->pools[p].active_at = view->now;
  if (pool->n_machines == 0) return active;
  return !active && view->now - self->pools[p].active_at >= self->cooldown ? 0 : -1;
}

static void plan(void *state, const ScalingView *view, double *wanted) {
  State *self = state;
  const bool polls = self->polled_at < 0 || view->now - self->polled_at >= self->polling_interval;
  if (polls) self->polled_at = view->now;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolLoad *pool = &view->pools[p];
    const double by_keda =
        polls && pool->spec->scaling.min == 0 ? wanted_by_keda(self, view, p) : -1;
    if (by_keda >= 0)
      wanted[p] = by_keda;
    else if (pool->n_machines > 0)
      wanted[p] = wanted_of(self, pool, view->n_front);
  }
}

static bool wakes(const void *state, int64_t n_front) {
  const State *self = state;
  return n_front > self->activation;
}

static bool reads_kv(const void *state) {
  const State *self = state;
  return self->kv_use > 0;
}

/* --- how fast */

/* Machines that came and went within the period before `now`. */
static int64_t changed_within(const Changes *self, Tick now, Tick period, bool up) {
  int64_t sum = 0;
  for (int64_t i = self->n > self->n_ring ? self->n - self->n_ring : 0; i < self->n; i++) {
    const Change *change = &self->ring[i % self->n_ring];
    if (now - change->at < period && (change->machines > 0) == up) sum += change->machines;
  }
  return sum;
}

/* Without a policy of a direction nothing limits it. */
static int64_t most_allowed(const ChangePolicy *self, int64_t before) {
  if (self->percent == 0 && self->machines == 0) return INT64_MAX;
  const double by_percent = ceil((double)before * (1 + self->percent / 100) - 1e-9);
  const int64_t by_machines = before + self->machines;
  return by_percent > (double)by_machines ? (int64_t)by_percent : by_machines;
}

static int64_t least_allowed(const ChangePolicy *self, int64_t before) {
  if (self->percent == 0 && self->machines == 0) return 0;
  const double by_percent = floor((double)before * (1 - self->percent / 100) + 1e-9);
  const int64_t by_machines = before - self->machines;
  const double least = fmin(by_percent, (double)by_machines);
  return least > 0 ? (int64_t)least : 0;
}

/* KEDA's steps from and to none are not limited, and know no windows. */
static uint32_t limit(void *state, const ScalingView *view, uint32_t p, uint32_t wanted,
                      uint32_t next) {
  State *self = state;
  Changes *pool = &self->pools[p];
  const int64_t present = view->pools[p].n_machines;
  int64_t limited = wanted == 0 || present == 0 ? wanted : next;
  if (wanted > 0 && present > 0 && next > present) {
    const int64_t before = present - changed_within(pool, view->now, self->up.period, true);
    const int64_t most = most_allowed(&self->up, before);
    limited = next < most ? next : most > present ? most : present;
  }
  if (wanted > 0 && present > 0 && next < present) {
    const int64_t before = present - changed_within(pool, view->now, self->down.period, false);
    const int64_t least = least_allowed(&self->down, before);
    limited = next > least ? next : least < present ? least : present;
  }
  if (limited != present)
    pool->ring[pool->n++ % pool->n_ring] = (Change){view->now, limited - present};
  return (uint32_t)limited;
}

/* --- options */

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)map, (void)arena;
  const State *self = state;
  if (self->concurrency > 0 || self->queue > 0 || self->kv_use > 0) return 0;
  diag_error(diag, owner, "scaler 'hpa' needs a target: concurrency, queue or kv_use");
  return diag_hint(diag, "for example {name: hpa, queue: 5}");
}

#define UNSAID "not used"
static const OptionSpec options[] = {
    {"concurrency", OPTION_REAL, offsetof(State, concurrency), .min = 1e-3, .max = 1e6,
     .help = "Target for the requests per instance, waiting ones included.", .absent = UNSAID},
    {"queue", OPTION_REAL, offsetof(State, queue), .min = 1e-3, .max = 1e6,
     .help = "Target for the waiting requests per instance (KEDA threshold).", .absent = UNSAID},
    {"kv_use", OPTION_REAL, offsetof(State, kv_use), .min = 1e-3, .max = 1,
     .help = "Target for the share of the KV memory that is held or promised.", .absent = UNSAID},
    {"tolerance", OPTION_REAL, offsetof(State, tolerance), "0.1", .max = 1,
     .help = "Deviation of the ratio to the target from 1 below which nothing changes."},
    {"up_percent", OPTION_REAL, offsetof(State, up.percent), "100", .max = 1e6,
     .help = "Growth that is allowed within up_period, in percent. Of up_percent and up_machines "
             "the larger one holds; both 0 allow any."},
    {"up_machines", OPTION_INT, offsetof(State, up.machines), "4", .max = 1e6,
     .help = "Number of instances that may start within up_period."},
    {"up_period", OPTION_TICKS, offsetof(State, up.period), "15 s", .min = 1e-3, .max = 1800,
     .help = "Period of the limits on growth."},
    {"down_percent", OPTION_REAL, offsetof(State, down.percent), "100", .max = 100,
     .help = "Shrinking that is allowed within down_period, in percent. Of down_percent and "
             "down_machines the larger one holds; both 0 allow any."},
    {"down_machines", OPTION_INT, offsetof(State, down.machines), "0", .max = 1e6,
     .help = "Number of instances that may stop within down_period."},
    {"down_period", OPTION_TICKS, offsetof(State, down.period), "15 s", .min = 1e-3, .max = 1800,
     .help = "Period of the limits on shrinking."},
    {"activation", OPTION_INT, offsetof(State, activation), "0", .max = 1e9,
     .help = "Number of requests above which a pool with min: 0 is active (KEDA "
             "activationThreshold)."},
    {"polling_interval", OPTION_TICKS, offsetof(State, polling_interval), "30 s", .min = 1e-3,
     .max = 86400,
     .help = "Interval at which a pool with min: 0 gets its first instance or loses its last "
             "(KEDA)."},
    {"cooldown", OPTION_TICKS, offsetof(State, cooldown), "300 s", .max = 7 * 86400.0,
     .help = "Time without activity after which a pool with min: 0 loses all instances (KEDA)."},
    {0},
};

const Scaler scaler_hpa = {
    .policy = {.name = "hpa",
               .help = "Sets the number of instances as Kubernetes' HPA and KEDA do, with limits "
                       "on its changes; none without requests.",
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .reads_kv = reads_kv,
    .wakes = wakes,
    .start = start,
    .plan = plan,
    .limit = limit,
};
