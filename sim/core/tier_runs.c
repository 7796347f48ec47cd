/* See tier_runs.h. */
#include "sim/core/tier_runs.h"

static int64_t block_size_of(const Instance *instance) {
  return instance->pool->block_size;
}

HostCache *tier_blocks(const Simulation *self, const Connector *connector, int32_t tier) {
  HostCache *blocks = &connector->tiers[tier]->blocks;
  blocks->now = self->now;
  return blocks;
}

static Tick greater(Tick a, Tick b) {
  return a > b ? a : b;
}

/* --- finding */

uint64_t tier_key(const Simulation *self, const Instance *instance, RequestIx ix, int64_t i,
                  int64_t unit) {
  return content_key(&self->memory[ix].content, (i / unit + 1) * unit * block_size_of(instance));
}

/* The first tier that has a block of a request whose first `full` are full. */
static int32_t tier_with(const Simulation *self, const Instance *instance, RequestIx ix, int64_t i,
                         int64_t full) {
  const Connector *connector = instance->scheduler->connector;
  for (int32_t t = 0; t < connector->options.n_tiers; t++) {
    const int64_t unit = connector->tiers[t]->unit;
    if ((i / unit + 1) * unit <= full &&
        host_cache_has(tier_blocks(self, connector, t), tier_key(self, instance, ix, i, unit)))
      return t;
  }
  return -1;
}

static void add_run(Simulation *self, Connector *connector, int32_t tier, int64_t from,
                    int64_t to) {
  TierRun *last = connector->n_found > 0 ? &connector->found[connector->n_found - 1] : NULL;
  if (last && last->tier == tier) {
    last->to = to;
    return;
  }
  ARENA_RESERVE(self->arena, connector->found, connector->found_capacity, connector->n_found + 1);
  connector->found[connector->n_found++] = (TierRun){tier, from, to};
}

bool tier_runs_find(Simulation *self, const Instance *instance, RequestIx ix, int64_t from,
                    int64_t most) {
  Connector *connector = instance->scheduler->connector;
  const int64_t full = request_prefill_tokens(&self->requests.slots[ix]) / block_size_of(instance);
  bool loading = false;
  connector->n_found = 0;
  for (int64_t i = from; i < (most < full ? most : full);) {
    const bool comes =
        instance->cache && connector->loading.n_keys > 0 &&
        key_map_find(&connector->loading, tier_key(self, instance, ix, i, 1)) != NULL;
    const int32_t tier = tier_with(self, instance, ix, i, full);
    if (tier < 0 && !comes) break;
    const int64_t unit = tier < 0 ? 1 : connector->tiers[tier]->unit;
    const int64_t to = (i / unit + 1) * unit;
    add_run(self, connector, tier, i, to);
    loading |= comes;
    i = to;
  }
  return loading;
}

int64_t tier_runs_end(const Connector *self, int64_t otherwise) {
  return self->n_found > 0 ? self->found[self->n_found - 1].to : otherwise;
}

int64_t tier_run_blocks(const KvStore *store, const TierRun *run) {
  return (run->to - 1) / store->unit - run->from / store->unit + 1;
}

/* --- to load or to compute */

/* Seconds that a transfer behind those that are queued has to wait and to move. */
static double passes(const Simulation *self, const CopyQueue *queue, double seconds) {
  return tick_seconds(greater(queue->ends[LINK_TO_GPU] - self->now, 0)) + seconds;
}

double tier_nic_seconds(const Instance *instance, int64_t bytes) {
  return (double)bytes / (double)instance->pool->nic_bandwidth;
}

/* Seconds to load the first `n` runs, as the links are now. */
static double load_seconds(const Simulation *self, const Instance *instance, size_t n) {
  const Connector *connector = instance->scheduler->connector;
  int64_t bytes[KV_STORE_KINDS] = {0}, blocks = 0;
  for (size_t i = 0; i < n; i++) {
    const TierRun *run = &connector->found[i];
    const KvStore *store = connector->tiers[run->tier];
    bytes[run->tier] += tier_run_blocks(store, run) * store->block_bytes;
    blocks += run->to - run->from;
  }
  if (n == 0) return 0;
  const HostLink *link = &instance->pool->host_link;
  const Tick begin = greater(instance->copies->ends[LINK_TO_GPU], self->now);
  const int64_t copied = blocks * instance->pool->kv_block_bytes;
  double most = tick_seconds(begin - self->now) +
                tick_seconds(host_link_ticks(link, NULL, LINK_TO_GPU, copied, begin));
  for (int32_t t = 0; t < connector->options.n_tiers; t++) {
    const KvStore *store = connector->tiers[t];
    if (bytes[t] == 0) continue;
    double seconds = passes(self, &store->link, kv_store_seconds(store, LINK_TO_GPU, bytes[t]));
    if (store->options.kind == KV_STORE_REMOTE) {
      const double nic = passes(self, &connector->nic, tier_nic_seconds(instance, bytes[t]));
      if (nic > seconds) seconds = nic;
    }
    seconds += tick_seconds(store->options.read.latency);
    if (seconds > most) most = seconds;
  }
  return most;
}

/* Seconds that steps with nothing else take for a prompt behind its first `start` tokens. */
static double compute_seconds(const Instance *instance, int64_t start, int64_t prompt) {
  const int64_t most = instance->scheduler->limits.max_tokens;
  double seconds = 0;
  if (start >= prompt) start = prompt - 1;
  while (start < prompt) {
    const int64_t n = prompt - start < most ? prompt - start : most;
    const BatchShape chunk = {.prefill_tokens = n,
                              .prefill_area2 = n * (2 * start + n),
                              .logit_seqs = start + n == prompt};
    seconds += tick_seconds(perfmodel_iteration(instance->perfmodel, &chunk, NULL));
    start += n;
  }
  return seconds;
}

void tier_runs_keep_fastest(const Simulation *self, const Instance *instance, RequestIx ix,
                            int64_t hits) {
  Connector *connector = instance->scheduler->connector;
  const int64_t prompt = request_prefill_tokens(&self->requests.slots[ix]);
  size_t best = connector->n_found;
  double least = 0;
  for (size_t n = connector->n_found + 1; n-- > 0;) {
    const int64_t start = n == 0 ? hits : connector->found[n - 1].to * block_size_of(instance);
    const double seconds =
        load_seconds(self, instance, n) + compute_seconds(instance, start, prompt);
    if (n < connector->n_found && seconds >= least) continue;
    least = seconds;
    best = n;
  }
  connector->n_found = best;
}
