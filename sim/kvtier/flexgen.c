/* FlexGen as the Pie paper runs it (Pie §2.3, §5.7): weights, and KV if one wants, are on the CPU,
 * and each layer waits for the copies that it needs. On a GH200 its policies put the weights there
 * (§5.7), which is the default. With W and K the shares that are there, each of n layers adds
 *
 *     s(W·weights/n)/to_gpu + s(K·KV of the context/n)/to_gpu + s(K·KV of the new tokens/n)/to_cpu
 *
 * to its compute time, where s(b) = b + half_size is what a copy of b bytes costs (host_link.h).
 * These are the terms of FlexGen's cost model (Sheng et al. 2023, §4.3) for weights and KV. Its
 * max(), which stands for copies and compute at the same time, is a sum here, as swapping on demand
 * overlaps nothing; with `overlap` it is that max: of compute, of what comes in and of what goes
 * out. Attention is computed on the GPU. Activations stay there. flexgen_policy.h searches shares.
 *
 * What weights leave of the GPU's memory, KV has (kv_capacity): capacity is bounded by both sides;
 * the layer that computes is counted to the activations. Sharing
 * the weights of an iteration among many sequences is the batcher's (request_level, `padded`). */
#include "sim/kvtier/kvtier.h"
#include <assert.h>

typedef struct State {
  double weights_on_cpu, kv_on_cpu; // shares
  bool overlap;
} State;

typedef struct InstanceState {
  const PoolSpec *pool;
  int64_t blocks;
  int64_t in_bytes, in_bytes_step; // to the GPU: of the next iteration; more in each after it
  int64_t out_bytes;
} InstanceState;

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Whole bytes of a share. */
static int64_t share_of(double share, int64_t bytes) {
  return (int64_t)(share * (double)bytes);
}

static int64_t cpu_memory(const PoolSpec *pool) {
  return pool->cpu_kv_blocks * pool->kv_block_bytes;
}

/* Blocks that both memories have room for. */
static int64_t capacity(const State *self, const PoolSpec *pool) {
  const int64_t weights = share_of(self->weights_on_cpu, pool->weight_bytes);
  const double gpu = (double)pool->kv_blocks;
  const double cpu = (double)((cpu_memory(pool) - weights) / pool->kv_block_bytes);
  if (self->kv_on_cpu <= 0) return (int64_t)gpu;
  const double by_cpu = cpu / self->kv_on_cpu;
  const double by_gpu = self->kv_on_cpu < 1 ? gpu / (1 - self->kv_on_cpu) : by_cpu;
  return (int64_t)(by_gpu < by_cpu ? by_gpu : by_cpu);
}

static int check(const void *state, const PoolSpec *pool, Place at, Diag *diag) {
  const State *self = state;
  const int64_t weights = share_of(self->weights_on_cpu, pool->weight_bytes);
  if (host_link_check(&pool->host_link, (double)cpu_memory(pool), "kvtier 'flexgen'", at, diag))
    return -1;
  if (cpu_memory(pool) < weights)
    return diag_error(
        diag, at,
        "kvtier 'flexgen' keeps %lld bytes of weights in CPU memory, which has room for %lld",
        (long long)weights, (long long)cpu_memory(pool));
  if (capacity(self, pool) >= 1) return 0;
  return diag_error(diag, at, "kvtier 'flexgen' has no room in CPU memory for a block of KV");
}

static int64_t start(const void *state, void *instance_state, const PoolSpec *pool,
                     int64_t *ret_least) {
  InstanceState *instance = instance_state;
  instance->pool = pool;
  instance->blocks = capacity(state, pool);
  *ret_least = instance->blocks;
  return instance->blocks;
}

static int64_t cpu_blocks(const void *state, const void *instance_state, const Instance *instance) {
  const State *self = state;
  const int64_t cpu = share_of(self->kv_on_cpu, instance->kv_blocks);
  assert(((const InstanceState *)instance_state)->blocks == instance->kv_blocks);
  return smaller(cpu, instance->pool->cpu_kv_blocks);
}

/* --- time */

/* Ticks of the copies of an iteration, one for each layer, that move `bytes` altogether. */
static Tick copy_ticks(const PoolSpec *pool, const TierLoad *load, LinkDirection direction,
                       int64_t bytes) {
  const HostLink *link = &pool->host_link;
  const double extra = (double)link->options.half_size * (double)pool->num_hidden_layers;
  const double rate = host_link_rate(link, load->copies, direction, load->now);
  return tick_from_seconds(((double)bytes + extra) / rate);
}

/* Times of an iteration that are lines: the i-th takes first + step·i. */
typedef struct Line {
  Tick first, step;
} Line;

/* Whether iteration `i` takes the copies of `line` longer than what it is held against. */
static bool is_longer(Line line, const Series *compute, Line other, int64_t i) {
  const Tick ticks = line.first + line.step * i;
  return fine_from_ticks(ticks) > series_fine(*compute, i) && ticks >= other.first + other.step * i;
}

/* The longest of compute and copies each way, for as many of `count` iterations as it is. */
static Series longest(Series compute, Line in, Line out, int64_t *count) {
  const Line lines[] = {in, out}, others[] = {out, in};
  for (int k = 0; k < 2; k++) {
    if (!is_longer(lines[k], &compute, others[k], 0)) continue;
    int64_t low = 1, high = *count; // the last that it is
    while (low < high) {
      const int64_t middle = low + (high - low + 1) / 2;
      if (is_longer(lines[k], &compute, others[k], middle - 1))
        low = middle;
      else
        high = middle - 1;
    }
    *count = low;
    return (Series){.first = lines[k].first, .step = lines[k].step, .carry = compute.carry};
  }
  int64_t low = 1, high = *count;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2, i = middle - 1;
    if (is_longer(in, &compute, out, i) || is_longer(out, &compute, in, i))
      high = middle - 1;
    else
      low = middle;
  }
  *count = low;
  return compute;
}

static TierSpan plan(const void *state, void *instance_state, const TierLoad *load, Series compute,
                     int64_t count) {
  const State *self = state;
  InstanceState *instance = instance_state;
  const PoolSpec *pool = instance->pool;
  const HostLink *link = &pool->host_link;
  const Tick now = load->now;
  const int64_t token = share_of(self->kv_on_cpu, pool->kv_bytes_per_token);
  const int64_t weights = share_of(self->weights_on_cpu, pool->weight_bytes);
  const Tick per_token =
      tick_from_seconds((double)token / host_link_rate(link, load->copies, LINK_TO_GPU, now));
  instance->in_bytes = weights + token * load->context_tokens;
  instance->in_bytes_step = token * load->decode_seqs;
  instance->out_bytes = token * (load->prefill_tokens + load->decode_seqs);
  Line in = {.step = per_token * load->decode_seqs}, out = {0};
  if (weights > 0) in.first += copy_ticks(pool, load, LINK_TO_GPU, weights);
  if (token > 0 && load->context_tokens > 0)
    in.first += copy_ticks(pool, load, LINK_TO_GPU, 0) + per_token * load->context_tokens;
  if (token > 0) out.first = copy_ticks(pool, load, LINK_TO_CPU, instance->out_bytes);
  Series series = compute;
  if (self->overlap) {
    series = longest(compute, in, out, &count);
  } else {
    series.first += in.first + out.first;
    series.step += in.step;
  }
  const Tick change = host_link_next_change(link, load->copies, now);
  if (change < TICK_MAX) // those that begin before
    count = smaller(count, series_ended(series, change - now - 1) + 1);
  return (TierSpan){series, count, {weights > 0 || token > 0, token > 0}};
}

static int64_t advance(const void *state, void *instance_state, const TierWork *work,
                       TierTraffic *traffic) {
  (void)state;
  const InstanceState *instance = instance_state;
  const int64_t n = work->count;
  traffic->in += n * instance->in_bytes + n * (n - 1) / 2 * instance->in_bytes_step;
  traffic->out += n * instance->out_bytes;
  return instance->blocks;
}

static double weights_on_cpu(const void *state) {
  return ((const State *)state)->weights_on_cpu;
}

static const OptionSpec options[] = {
    {"weights_on_cpu", OPTION_REAL, offsetof(State, weights_on_cpu), "1", .max = 1,
     .help = "Share of the weights that is copied from the CPU in every iteration."},
    {"kv_on_cpu", OPTION_REAL, offsetof(State, kv_on_cpu), "0", .max = 1,
     .help = "Share of the KV that is copied from the CPU in every iteration."},
    {"overlap", OPTION_BOOL, offsetof(State, overlap), "false",
     .help =
         "Copy while layers compute, so that an iteration takes as long as the longest of compute, "
         "copies in and copies out."},
    {0}};

const KvTier kvtier_flexgen = {
    .policy = {.name = "flexgen",
               .help =
                   "Copies weights and KV from the CPU on demand while compute waits (FlexGen).",
               .state_size = sizeof(State),
               .options = options},
    .pick = kvtier_newest,
    .check = check,
    .weights_on_cpu = weights_on_cpu,
    .instance_state_size = sizeof(InstanceState),
    .start = start,
    .plan = plan,
    .advance = advance,
    .cpu_blocks = cpu_blocks,
};
