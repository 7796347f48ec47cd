/* The keys `uplink`, `oversubscription` and `rails` of `domains`: links that instances share above
 * their NICs (sim/core/uplinks.h).
 *
 * A domain has one switch, or one for each rail: the GPUs of a machine are divided evenly over the
 * rails, in order, and those of all machines of the domain that are on one rail hang on its switch.
 * The instances of a machine have its GPUs in order, and so have the attention ranks of an
 * instance. */
#include "base/hash.h"
#include "experiments/config/faults.h"
#include <math.h>

/* GPUs of an instance, from the first of the machines that it lies on. */
typedef struct GpuRange {
  int64_t first, n;
} GpuRange;

static GpuRange gpus_of(const PoolConfig *pool, uint32_t instance) {
  const int64_t gpus = parallelism_gpus(config_degrees(pool)), lanes = pool->spec.lanes;
  const uint32_t in_block = instance % faults_share(pool).instances;
  const int64_t each = pool->spec.ranks > 1 ? gpus / lanes : gpus;
  const int64_t lane = pool->spec.ranks > 1 ? in_block % lanes : 0;
  return (GpuRange){in_block / lanes * gpus + lane * each, each > 0 ? each : 1};
}

static uint32_t switches_of(const DomainLevel *level) {
  return level->has_uplinks ? level->n * level->rails : 0;
}

/* Calls of it go through all machines in order: those of an instance from `machine` on. */
static void add_shares(const Config *self, const PoolConfig *pool, GpuRange range, uint32_t machine,
                       double *shares) {
  uint32_t first = 0;
  for (uint32_t l = 0; l < self->n_levels; first += switches_of(&self->levels[l++])) {
    const DomainLevel *level = &self->levels[l];
    if (!level->has_uplinks) continue;
    const int64_t gpus = pool->hardware.num_gpus;
    for (int64_t g = range.first; g < range.first + range.n; g++) {
      const uint32_t domain = level->of_machine[machine + g / gpus];
      const uint32_t rail = (uint32_t)(g % gpus * level->rails / gpus);
      shares[first + domain * level->rails + rail] += 1 / (double)range.n;
    }
  }
}

/* Of all instances, of each those that are not 0. */
static void fill_shares(Config *self, Arena *arena) {
  Uplinks *uplinks = &self->sim.uplinks;
  uint32_t *first = ARENA_ARRAY(arena, uint32_t, uplinks->n_instances + 1);
  double *shares = ARENA_ARRAY(arena, double, uplinks->n);
  UplinkShare *all = NULL;
  size_t capacity = 0;
  uint32_t n = 0, machine = 0, ix = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    const PoolConfig *pool = &self->pools[p];
    const MachineShare block = faults_share(pool);
    for (uint32_t i = 0; i < pool->spec.count; i++) {
      for (uint32_t s = 0; s < uplinks->n; s++)
        shares[s] = 0;
      add_shares(self, pool, gpus_of(pool, i), machine, shares);
      for (uint32_t s = 0; s < uplinks->n; s++) {
        if (shares[s] == 0) continue;
        ARENA_RESERVE(arena, all, capacity, n + 1);
        all[n++] = (UplinkShare){s, shares[s]};
      }
      first[++ix] = n;
      if (i + 1 == pool->spec.count || (i + 1) % block.instances == 0) machine += block.machines;
    }
  }
  uplinks->first = first;
  uplinks->shares = all;
}

/* ---- Bandwidth ---- */

/* Bytes/s of the NICs of all machines in each domain. */
static double *sum_nics(const Config *self, const DomainLevel *level, Arena *arena) {
  double *sums = ARENA_ARRAY(arena, double, level->n);
  uint32_t machine = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    const PoolConfig *pool = &self->pools[p];
    const MachineShare block = faults_share(pool);
    const uint32_t blocks = (pool->spec.count + block.instances - 1) / block.instances;
    for (uint32_t m = blocks * block.machines; m > 0; m--)
      sums[level->of_machine[machine++]] += (double)pool->hardware.nic_bandwidth;
  }
  return sums;
}

/* Of each domain: what is written, or its NICs over what they are oversubscribed by. */
static double *bandwidths(const Config *self, const DomainLevel *level, Arena *arena) {
  double *sums = sum_nics(self, level, arena);
  for (uint32_t d = 0; d < level->n; d++)
    sums[d] = level->uplink > 0 ? (double)level->uplink : sums[d] / level->oversubscription;
  return sums;
}

static void fill_bandwidths(Config *self, Arena *arena) {
  Uplinks *uplinks = &self->sim.uplinks;
  int64_t *bandwidth = ARENA_ARRAY(arena, int64_t, uplinks->n);
  uint32_t n = 0;
  for (uint32_t l = 0; l < self->n_levels; l++) {
    const DomainLevel *level = &self->levels[l];
    if (!level->has_uplinks) continue;
    const double *each = bandwidths(self, level, arena);
    for (uint32_t i = 0; i < level->n * level->rails; i++) {
      const int64_t rate = llround(each[i / level->rails] / level->rails);
      bandwidth[n++] = rate > 0 ? rate : 1; // nothing lies there
    }
  }
  uplinks->bandwidth = bandwidth;
}

/* ---- What instances over several machines exchange ---- */

/* Adds what each domain has to carry out while all instances of a pool exchange at the rate of
 * their NICs: what a machine sends goes evenly to the others of its instance. */
static void add_exchange(const PoolConfig *pool, const DomainLevel *level, uint32_t machine,
                         double *loads) {
  const MachineShare block = faults_share(pool);
  const double others = (double)block.machines - 1;
  for (uint32_t b = 0; b < pool->spec.count / block.instances; b++, machine += block.machines)
    for (uint32_t k = 0; k < block.machines; k++) {
      const uint32_t domain = level->of_machine[machine + k];
      double outside = 0;
      for (uint32_t j = 0; j < block.machines; j++)
        outside += level->of_machine[machine + j] != domain;
      loads[domain] += outside / others * (double)pool->hardware.nic_bandwidth;
    }
}

static uint32_t machines_of(const PoolConfig *pool) {
  const MachineShare block = faults_share(pool);
  return (pool->spec.count + block.instances - 1) / block.instances * block.machines;
}

/* How many times as long the exchange of each pool takes on account of one kind of domains. */
static void slow_exchange(const Config *self, const DomainLevel *level, double *slower,
                          Arena *arena) {
  double *loads = ARENA_ARRAY(arena, double, level->n);
  const double *rates = bandwidths(self, level, arena);
  uint32_t machine = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; machine += machines_of(&self->pools[p++]))
    if (self->pools[p].nnodes > 1) add_exchange(&self->pools[p], level, machine, loads);
  machine = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; machine += machines_of(&self->pools[p++]))
    for (uint32_t m = 0; self->pools[p].nnodes > 1 && m < machines_of(&self->pools[p]); m++) {
      const uint32_t domain = level->of_machine[machine + m];
      slower[p] = fmax(slower[p], loads[domain] / rates[domain]);
    }
}

static int reload_times(Config *self, PoolConfig *pool, double slower, Arena *arena, Diag *diag) {
  Hardware *hardware = ARENA_NEW(arena, Hardware);
  *hardware = pool->hardware;
  hardware->nic_slowdown = slower;
  hardware->digest = hash_fold(hardware->digest, hash_bytes(&slower, sizeof slower));
  PerfModelInputs inputs = pool->times;
  inputs.hardware = hardware;
  pool->spec.perfmodel =
      config_load_perfmodel(self, inputs, &pool->engine, pool->times_at, arena, diag);
  return pool->spec.perfmodel ? 0 : -1;
}

static int reload_all(Config *self, Arena *arena, Diag *diag) {
  double *slower = ARENA_ARRAY(arena, double, self->sim.n_pools);
  for (uint32_t l = 0; l < self->n_levels; l++)
    if (self->levels[l].has_uplinks) slow_exchange(self, &self->levels[l], slower, arena);
  int status = 0;
  PoolSpec *specs = ARENA_ARRAY(arena, PoolSpec, self->sim.n_pools);
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    specs[p] = self->sim.pools[p];
    if (slower[p] <= 1) continue;
    status |= reload_times(self, &self->pools[p], slower[p], arena, diag);
    specs[p].perfmodel = self->pools[p].spec.perfmodel;
  }
  self->sim.pools = specs;
  return status;
}

/* ---- All of it ---- */

static int check_level(const Config *self, const DomainLevel *level, const Node *node, Diag *diag) {
  const Place at = config_place(node, level->uplink > 0 ? "uplink" : "oversubscription");
  if (self->sim.n_groups > 0)
    return diag_error(diag, at, "'%s' has an uplink, which groups do not support", level->name);
  if (self->sim.network_path == NETWORK_NVLINK)
    return diag_error(diag, at,
                      "'%s' has an uplink, which KV does not take with 'path: nvlink' of the "
                      "network",
                      level->name);
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    const Hardware *hardware = &self->pools[p].hardware;
    if (hardware->num_gpus % level->rails != 0)
      return diag_error(diag, config_place(node, "rails"),
                        "%u rails do not divide the %lld GPUs of machine '%s'", level->rails,
                        (long long)hardware->num_gpus, hardware->name);
    if (level->uplink == 0 && hardware->nic_bandwidth == 0)
      return diag_error(diag, at, "machine '%s' has no nic_bandwidth; set 'uplink'",
                        hardware->name);
  }
  return 0;
}

int faults_bind_uplinks(FaultBinder *binder, const Node *domains) {
  Config *self = binder->config;
  uint32_t n = 0, n_instances = 0;
  for (uint32_t l = 0; l < self->n_levels; n += switches_of(&self->levels[l++])) {
    const DomainLevel *level = &self->levels[l];
    if (level->has_uplinks &&
        check_level(self, level, node_find(domains, level->name), binder->diag))
      return -1;
  }
  for (uint32_t p = 0; p < self->sim.n_pools; p++)
    n_instances += self->pools[p].spec.count;
  if (n == 0) return 0;
  self->sim.uplinks = (Uplinks){.n = n, .n_instances = n_instances};
  fill_bandwidths(self, binder->arena);
  fill_shares(self, binder->arena);
  return reload_all(self, binder->arena, binder->diag);
}
