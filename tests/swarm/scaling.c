/* Scalers of a cluster, and how its machines start. See draw.h. */
#include "base/yaml.h"
#include "sim/core/starting.h"
#include "sim/policies.h"
#include "sim/scaling/scaler.h"
#include "tests/swarm/draw.h"
#include <assert.h>
#include <string.h>

static const char *milliseconds(Draw *own, int64_t low, int64_t high) {
  return arena_printf(own->arena, "%lld ms", (long long)(between(own, low, high) * own->scale));
}

static const char *draw_target(Draw *own) {
  static const char *const keys[] = {"concurrency", "queue", "kv_use", "ttft"};
  const int64_t key = between(own, 0, 3);
  const double value = rng_uniform(&own->rng);
  const char *text = key == 3   ? milliseconds(own, 1, 2000)
                     : key == 2 ? arena_printf(own->arena, "%.3f", 0.05 + 0.9 * value)
                                : arena_printf(own->arena, "%.3f", 0.5 + 10 * value);
  return arena_printf(own->arena, "{%s: %s, tolerance: %.3f}", keys[key], text,
                      0.3 * rng_uniform(&own->rng));
}

static const char *draw_schedule(Draw *own) {
  const int64_t every = between(own, 1000, 20000);
  const char *steps = "";
  for (int64_t n = between(own, 1, 4), i = 0; i < n; i++)
    steps = arena_printf(own->arena, "%s{at: %lld ms, machines: %lld},", steps,
                         (long long)(every * own->scale * i / n), (long long)between(own, 1, 8));
  return arena_printf(own->arena, "{every: %lld ms, steps: [%s]}", (long long)(every * own->scale),
                      steps);
}

static const char *draw_hpa(Draw *own) {
  static const char *const keys[] = {"concurrency", "queue", "kv_use"};
  const int64_t key = between(own, 0, 2);
  const double target = (key == 2 ? 0.05 : 0.5) + (key == 2 ? 0.9 : 10) * rng_uniform(&own->rng);
  const int64_t up = between(own, 0, 2), down = between(own, 0, 2);
  const char *up_period = milliseconds(own, 1, 2000), *down_period = milliseconds(own, 1, 2000);
  const char *polling = milliseconds(own, 1, 2000), *cooldown = milliseconds(own, 0, 3000);
  return arena_printf(own->arena,
                      "{%s: %.3f, up_percent: %lld, up_machines: %lld, up_period: %s, "
                      "down_percent: %lld, down_machines: %lld, down_period: %s, "
                      "polling_interval: %s, cooldown: %s}",
                      keys[key], target, (long long)up * 50, (long long)up, up_period,
                      (long long)down * 30, (long long)down, down_period, polling, cooldown);
}

static const char *draw_planner(Draw *own) {
  static const char *const targets[] = {"throughput", "latency", "sla", "sla"};
  const char *target = targets[between(own, 0, 3)];
  const bool by_load = one_in(own, 2), by_both = one_in(own, 2);
  const char *ttft = milliseconds(own, 1, 2000), *itl = milliseconds(own, 1, 500);
  const char *throughput = milliseconds(own, 5, 3000), *load = milliseconds(own, 5, 500);
  const double sensitivity = rng_uniform(&own->rng);
  const int64_t step = between(own, 1, 4);
  return arena_printf(own->arena,
                      "{optimization_target: %s, load_scaling: %s, throughput_scaling: %s, "
                      "ttft: %s, tpot: %s, throughput_interval: %s, load_interval: %s, "
                      "max_step: %lld, sensitivity: %.3f}",
                      target, by_load ? "true" : "false", by_load && !by_both ? "false" : "true",
                      ttft, itl, throughput, load, (long long)step, sensitivity);
}

static const char *draw_options(Draw *own, const char *name) {
  if (strcmp(name, "dynamo_planner_modes") == 0) return draw_planner(own);
  if (strcmp(name, "llm_d_wva") == 0) {
    const double up = 0.1 + 0.9 * rng_uniform(&own->rng);
    const double down = 0.1 + 0.9 * rng_uniform(&own->rng);
    return arena_printf(own->arena,
                        "{scale_up_threshold: %.3f, scale_down_boundary: %.3f, "
                        "queue_length_threshold: %lld}",
                        up, down, (long long)between(own, 1, 6));
  }
  if (strcmp(name, "hpa") == 0) return draw_hpa(own);
  if (strcmp(name, "target") == 0) return draw_target(own);
  if (strcmp(name, "schedule") == 0) return draw_schedule(own);
  if (strcmp(name, "forecast") == 0) { // one by one: arguments may be taken in any order
    const char *ahead = milliseconds(own, 1, 5000);
    return arena_printf(own->arena, "{period: %s, ahead: %s}", milliseconds(own, 1000, 20000),
                        ahead);
  }
  if (strcmp(name, "spares") == 0) return "{}";
  return arena_printf(own->arena, "{tpot: %s}", milliseconds(own, 1, 500));
}

static PolicyChoice draw_scaler(Draw *own) {
  const int64_t n = (int64_t)cluster_count_policies(POLICY_SCALER);
  const Policy *policy =
      own->rule ? own->rule->policy : cluster_policies(POLICY_SCALER)[between(own, 1, n - 1)];
  const char *text = draw_options(own, policy->name);
  Diag diag;
  diag_init(&diag);
  const Node *map = yaml_parse("drawn", text, strlen(text), own->arena, &diag);
  void *state = policy_bind(policy, map, place_of_file("drawn"), own->arena, &diag);
  assert(state);
  diag_done(&diag);
  return (PolicyChoice){policy, state};
}

static bool suits(const PolicyChoice *choice, const Cluster *cluster) {
  const Scaler *scaler = (const Scaler *)choice->policy;
  Diag diag;
  diag_init(&diag);
  const bool yes = !scaler->check_pools ||
                   scaler->check_pools(choice->state, cluster->pools, cluster->config.n_pools,
                                       place_of_file("drawn"), &diag) == 0;
  diag_done(&diag);
  return yes;
}

static void draw_start_up(Draw *own, PoolSpec *pool) {
  const int64_t most = magnitude(own, 1, 300);
  if (pool->weight_bytes == 0) pool->weight_bytes = magnitude(own, 1, 1000000000);
  pool->start_up = (StartUp){.boot = ticks_or_zero(own, most),
                             .image = ticks_or_zero(own, most),
                             .capture = ticks_or_zero(own, most),
                             .warm_up = ticks_or_zero(own, most),
                             .weights_from = (int)between(own, WEIGHTS_DISK, WEIGHTS_STORE)};
  if (one_in(own, 2)) pool->start_up.bandwidth = 1 + pool->weight_bytes * between(own, 1, 100);
}

/* A machine must be up before it is to fail again, or nobody ever is: starts that are too long for
 * that, all of a pool's at once, take no time. */
static void shorten_starts(Cluster *self) {
  const SimConfig *config = &self->config;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    for (uint32_t i = 0; i < config->n_faults; i++)
      if (tick_seconds(pool_start_ticks(pool)) * pool->count > config->faults[i].up.mean / 4)
        pool->start_up = (StartUp){0};
  }
}

static PolicyChoice make_target(const Draw *own) {
  const Policy *policy = policy_find(POLICY_SCALER, "target");
  return (PolicyChoice){policy,
                        policy_bind(policy, NULL, place_of_file("drawn"), own->arena, NULL)};
}

/* Pools that may have no machine, and perhaps begin so. */
static void draw_none(Cluster *self, Draw *own) {
  const Scaler *scaler = (const Scaler *)self->config.policies[POLICY_SCALER].policy;
  if (!scaler->wakes && !scaler->keeps_one) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolScaling *scaling = &self->pools[p].scaling;
    if (self->pools[p].role != ROLE_MIXED || one_in(own, 3)) continue;
    scaling->min = 0;
    if (scaler->wakes && one_in(own, 2)) scaling->start = 0;
  }
}

/* Half of the clusters whose machines keep their roles have pools that grow and shrink. */
void cluster_draw_scaling(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "scaling");
  const PolicyChoice none = {.policy = policy_list(POLICY_SCALER)[0]};
  config->policies[POLICY_SCALER] = none;
  if (config->n_groups > 0 || one_in(&own, 2)) return;
  if (config->policies[POLICY_POOL].policy != policy_list(POLICY_POOL)[0]) return;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    draw_start_up(&own, pool);
    pool->lanes = pool_replica_lanes(pool);
    const int64_t most = pool->count / pool->lanes, first = between(&own, 1, most);
    pool->scaling = (PoolScaling){.min = (uint32_t)between(&own, 1, first),
                                  .max = (uint32_t)most,
                                  .start = (uint32_t)first,
                                  .up_window = ticks_or_zero(&own, 500),
                                  .down_window = ticks_or_zero(&own, 500),
                                  .cool_down = ticks_or_zero(&own, 500),
                                  .machine_rate = 0.1 + 50 * rng_uniform(&own.rng)};
  }
  shorten_starts(self);
  config->scaling_interval = magnitude(&own, 5, 500) * MILLISECOND * own.scale;
  config->policies[POLICY_SCALER] = draw_scaler(&own);
  if (!suits(&config->policies[POLICY_SCALER], self))
    config->policies[POLICY_SCALER] = own.rule ? none : make_target(&own);
  draw_none(self, &own);
  self->exact = false; // loads are rounded up
}
