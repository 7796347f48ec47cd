/* Models that take turns on the same GPUs: `sleep` (sim/feature/switching.c). Times of vLLM's sleep
 * mode are those of its own benchmark ("Zero-Reload Model Switching with vLLM Sleep Mode",
 * 2025-10-26; vLLM 0.11.0, one A100 with 32 GB/s to its CPU): Qwen3-0.6B and Phi-3-vision, 1.2 and
 * 8.3 GB in BF16, wake from level 1 in 0.26 and 0.82 s, from level 2 in 0.85 and 2.58 s. So weights
 * come with 12.7 GB/s, 0.4 of the link's peak, after 0.17 s, or from disk after 0.56 s. */
#include "experiments/config/config.h"
#include "sim/policies.h"
#include "sim/scaling/scaler.h"
#include <math.h>
#include <string.h>

#define MS (TICKS_PER_SECOND / 1000)
static const Tick WAKE_TIMES[] = {170 * MS, 560 * MS}; // by level
static const Tick SLEEP_TIME = 170 * MS;

#define SLEEP(field, kind, ...) OPTION_OF(SleepConfig, field, kind, __VA_ARGS__)

const OptionSpec config_sleep_options[] = {
    SLEEP(instances, OPTION_INT, .required = true, .min = 1, .max = 1e6,
          .help =
              "Number of instances that are awake at a time, of all pools together: so many sets "
              "of GPUs there are. Each pool begins with count instances awake."),
    SLEEP(level, OPTION_INT, .fallback = "1", .min = 1, .max = 2,
          .help = "Level of sleep (vLLM): the weights go to CPU memory (1), or are dropped and "
                  "loaded again as start_up.weights says (2)."),
    SLEEP(min_residence, OPTION_TICKS, .fallback = "10 s", .max = 86400,
          .help = "Minimum time that an instance is up before it has to sleep for another model."),
    SLEEP(queue, OPTION_REAL, .fallback = "0", .max = 1e6,
          .help = "Number of waiting requests per instance of a model above which another one "
                  "wakes, if an instance of another model has nothing to do. 0 means never."),
    SLEEP(efficiency, OPTION_REAL, .fallback = "0.4", .min = 0.01, .max = 1,
          .help = "Share of the peak bandwidth to CPU memory that copies of weights reach."),
    SLEEP(sleep_time, OPTION_TICKS, .max = 3600,
          .help = "Time to fall asleep, beside the copy of the weights.", .absent = "0.17 s"),
    SLEEP(wake_time, OPTION_TICKS, .max = 3600,
          .help = "Time to wake, beside the copy or the load of the weights.",
          .absent = "0.17 s at level 1, 0.56 s at level 2"),
    {0}};

int config_bind_sleep(Config *self, const Node *node, Diag *diag) {
  SleepConfig *sleep = &self->sleep;
  if (option_bind(config_sleep_options, node, NULL, node->at, sleep, diag)) return -1;
  if (!node_find(node, "sleep_time")) sleep->sleep_time = SLEEP_TIME;
  if (!node_find(node, "wake_time")) sleep->wake_time = WAKE_TIMES[sleep->level - 1];
  self->sim.sleep = (SleepOptions){.awake = (uint32_t)sleep->instances,
                                   .min_residence = sleep->min_residence,
                                   .queue = sleep->queue};
  return 0;
}

/* ---- Of a pool ---- */

static int64_t unit_gpus(const PoolConfig *pool) {
  return parallelism_gpus(config_degrees(pool));
}

/* Ticks of all replicas' weights, each over the links of its GPUs. */
static Tick copy_ticks(const SleepConfig *self, const PoolSpec *spec, int64_t bandwidth) {
  const double seconds = (double)spec->weight_bytes / (self->efficiency * (double)bandwidth);
  return (Tick)llround(seconds * (double)TICKS_PER_SECOND);
}

static Tick load_ticks(const PoolConfig *pool) {
  const StartUp weights = {.weights_from = pool->spec.start_up.weights_from,
                           .bandwidth = pool->spec.start_up.bandwidth};
  const int64_t replicas = pool->data_parallel_size;
  return start_up_alone(&weights, replicas * pool->spec.weight_bytes,
                        replicas * pool->spec.nic_bandwidth);
}

int config_fill_sleep(const Config *self, const Node *node, PoolConfig *pool, Diag *diag) {
  const SleepConfig *sleep = &self->sleep;
  PoolSpec *spec = &pool->spec;
  const HostLinkOptions *link = &spec->host_link.options;
  if (sleep->instances == 0) return 0;
  spec->sleep_ticks = sleep->sleep_time;
  spec->wake_ticks = sleep->wake_time;
  if (sleep->level == 1 && (link->to_gpu == 0 || link->to_cpu == 0))
    return diag_error(diag, config_place(node, "machine"),
                      "machine '%s' does not say its bandwidth to CPU memory, which level 1 of "
                      "'sleep' needs",
                      pool->hardware.name);
  if (sleep->level == 1) {
    spec->sleep_ticks += copy_ticks(sleep, spec, link->to_cpu);
    spec->wake_ticks += copy_ticks(sleep, spec, link->to_gpu);
    return 0;
  }
  if (spec->start_up.bandwidth == 0)
    return diag_error(diag, config_place(node, "start_up"),
                      "level 2 of 'sleep' needs 'start_up.weights' of pool '%s': where its weights "
                      "are loaded from",
                      spec->name);
  spec->wake_ticks += load_ticks(pool);
  return 0;
}

/* ---- What suits it ---- */

/* All but one model sleep in the CPU memory of each set of GPUs. */
static int check_memory(const Config *self, const Node *node, Diag *diag) {
  double all = 0, least = INFINITY, room = INFINITY;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    const PoolConfig *pool = &self->pools[p];
    const double bytes = (double)(pool->data_parallel_size * pool->spec.weight_bytes);
    const double machines = (double)unit_gpus(pool) / (double)pool->hardware.num_gpus;
    all += bytes;
    least = fmin(least, bytes);
    room = fmin(room, machines * (double)pool->hardware.cpu_memory_bytes);
  }
  if (self->sleep.level == 2 || all - least <= room) return 0;
  char needed[32], there_is[32];
  units_format(needed, sizeof needed, DIM_BYTES, all - least);
  units_format(there_is, sizeof there_is, DIM_BYTES, room);
  diag_error(diag, node->key_at,
             "the weights of the models that sleep take %s of CPU memory, of which the GPUs of one "
             "instance have %s",
             needed, there_is);
  return diag_hint(diag, "level 2 drops them: sleep: {level: 2}");
}

static int check_pool(const Config *self, uint32_t p, Diag *diag) {
  const PoolConfig *pool = &self->pools[p], *first = &self->pools[0];
  const Node *map = node_find(node_find(self->root, "pools"), pool->spec.name);
  if (pool->spec.role != ROLE_MIXED)
    return diag_error(diag, config_place(map, "role"),
                      "a pool that sleeps must serve both phases: role: mixed");
  if (pool->scaling || pool->spares > 0)
    return diag_error(diag, map->key_at, "'sleep' cannot be used with 'scaling' or 'spares'");
  if (unit_gpus(pool) != unit_gpus(first) || strcmp(pool->hardware.name, first->hardware.name) != 0)
    return diag_error(diag, map->key_at,
                      "instances that take turns must have the same GPUs: %lld of '%s' in pool "
                      "'%s', %lld of '%s' in '%s'",
                      (long long)unit_gpus(pool), pool->hardware.name, pool->spec.name,
                      (long long)unit_gpus(first), first->hardware.name, first->spec.name);
  for (uint32_t q = 0; q < p; q++)
    if (self->pools[q].spec.model == pool->spec.model)
      return diag_error(diag, map->key_at, "with 'sleep' a model has one pool");
  return 0;
}

int config_check_sleep(const Config *self, Diag *diag) {
  const Node *node = node_find(self->root, "sleep");
  const Scaler *scaler = (const Scaler *)sim_policy(&self->sim, POLICY_SCALER).policy;
  const Node *scaling = node_find(self->root, "scaling");
  const char *other = scaler->plan || scaling ? "a scaler"
                      : sim_policy(&self->sim, POLICY_POOL).policy != policy_list(POLICY_POOL)[0]
                          ? "a pool policy"
                      : self->sim.n_groups > 0 ? "'groups'"
                      : self->sim.n_faults > 0 ? "faults"
                                               : NULL;
  if (other) return diag_error(diag, node->key_at, "'sleep' cannot be used with %s", other);
  int status = 0;
  int64_t awake = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    status |= check_pool(self, p, diag);
    awake += self->pools[p].count;
  }
  if (awake > self->sleep.instances)
    status |= diag_error(diag, config_place(node, "instances"),
                         "%lld instances begin awake, of at most %lld", (long long)awake,
                         (long long)self->sleep.instances);
  return status ? status : check_memory(self, node, diag);
}
