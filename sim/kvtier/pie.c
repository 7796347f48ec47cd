/* Pie: the KV of some layers is on the CPU and comes back while other layers compute, so that the
 * KV memory is larger and nobody waits (performance-transparent swapping, §3.3); how many layers is
 * fixed by `expansion` or adapted to the waits and to the output (§3.4).
 *
 * A layer's KV moves whole, filled or not: it is a fixed share of the capacity (§3.1). Who must
 * give way when even the expanded memory is full is prefilled again, as in vLLM, which Pie extends.
 * A run of decodes begins in the steady state of swap_run.h, and so does an iteration with prefill.
 * What a swap takes is as of the beginning of the run, or of the last change of what others take of
 * the link. Requests have to fit into the memory that there always is: the expanded one if it is
 * fixed, that of the GPUs if it adapts. */
#include "sim/kvtier/expansion.h"
#include "sim/kvtier/kvtier.h"
#include "sim/kvtier/swap_run.h"
#include <math.h>

enum { LAYERS_MIN = 3, MILLIONTHS = 1000000 };

typedef struct State {
  double expansion; // 0: adaptive
  int formula;      // ExpansionFormula
  bool layers;
  ExpansionOptions adaptive;
} State;

typedef struct InstanceState {
  const PoolSpec *pool;
  Expansion expansion; // adaptive or, with all of it usable, fixed
  int64_t fixed_blocks;
  int64_t layer_bytes; // moved by one swap
  CopyQueue copies;    // over the link
  Tick until;          // its rate changes
  bool waits;          // as a step counts that does, each planned or none
  SwapRun run;
  LayerSwap exact; // in place of `run` with `layers`
} InstanceState;

/* --- capacity */

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t capacity_with(const State *self, const PoolSpec *pool, int32_t swapped) {
  return expansion_blocks((ExpansionFormula)self->formula, (int32_t)pool->num_hidden_layers,
                          swapped, pool->kv_blocks);
}

/* Blocks on the CPU with its two buffers, when the instance has `blocks`. */
static int64_t cpu_need(const PoolSpec *pool, int32_t swapped, int64_t blocks) {
  const int64_t n = pool->num_hidden_layers;
  return swapped == 0 ? 0 : (blocks * (swapped + 2) + n - 1) / n;
}

/* The most layers that CPU memory allows. */
static int32_t max_swapped(const State *self, const PoolSpec *pool) {
  int32_t swapped = (int32_t)pool->num_hidden_layers - 2;
  while (cpu_need(pool, swapped, capacity_with(self, pool, swapped)) > pool->cpu_kv_blocks)
    swapped--;
  return swapped;
}

static int32_t fixed_swapped(const State *self, const PoolSpec *pool) {
  return expansion_layers((ExpansionFormula)self->formula, (int32_t)pool->num_hidden_layers,
                          self->expansion);
}

static int64_t fixed_blocks(const State *self, const PoolSpec *pool) {
  return pool->kv_blocks * llround(self->expansion * MILLIONTHS) / MILLIONTHS;
}

static int64_t wanted_blocks(const State *self, const InstanceState *instance) {
  if (self->expansion > 0) return instance->fixed_blocks;
  return capacity_with(self, instance->pool, instance->expansion.usable);
}

static int check_fixed(const State *self, const PoolSpec *pool, Place at, Diag *diag) {
  const int32_t swapped = fixed_swapped(self, pool);
  if (swapped < 0)
    return diag_error(
        diag, at,
        "an expansion of %g swaps more layers than the model allows: at most %lld of %lld",
        self->expansion, (long long)pool->num_hidden_layers - 2,
        (long long)pool->num_hidden_layers);
  const int64_t need = cpu_need(pool, swapped, fixed_blocks(self, pool));
  if (need <= pool->cpu_kv_blocks) return 0;
  return diag_error(diag, at,
                    "an expansion of %g needs %lld blocks of KV in CPU memory, which holds %lld",
                    self->expansion, (long long)need, (long long)pool->cpu_kv_blocks);
}

static int check(const void *state, const PoolSpec *pool, Place at, Diag *diag) {
  const State *self = state;
  const int64_t n = pool->num_hidden_layers;
  if (n < LAYERS_MIN || n > SWAP_LAYERS_MAX)
    return diag_error(diag, at, "kvtier 'pie' supports models with %d to %d layers, not %lld",
                      LAYERS_MIN, SWAP_LAYERS_MAX, (long long)n);
  if (pool->cpu_kv_blocks <= 0)
    return diag_error(diag, at, "kvtier 'pie' needs CPU memory, and pool '%s' has none for KV",
                      pool->name);
  const double most = (double)pool->cpu_kv_blocks * (double)pool->kv_block_bytes;
  if (host_link_check(&pool->host_link, most, "kvtier 'pie'", at, diag)) return -1;
  return self->expansion > 0 ? check_fixed(self, pool, at, diag)
                             : expansion_check(&self->adaptive, at, diag);
}

static int64_t start(const void *state, void *instance_state, const PoolSpec *pool,
                     int64_t *ret_least) {
  const State *self = state;
  InstanceState *instance = instance_state;
  instance->pool = pool;
  const bool fixed = self->expansion > 0;
  expansion_init(&instance->expansion, &self->adaptive, (ExpansionFormula)self->formula,
                 (int32_t)pool->num_hidden_layers, fixed ? 0 : max_swapped(self, pool));
  if (fixed) {
    instance->fixed_blocks = fixed_blocks(self, pool);
    instance->expansion.swapped = instance->expansion.usable = fixed_swapped(self, pool);
  }
  *ret_least = fixed ? instance->fixed_blocks : pool->kv_blocks;
  return wanted_blocks(self, instance);
}

static int64_t cpu_blocks(const void *state, const void *instance_state, const Instance *instance) {
  (void)state;
  const InstanceState *self = instance_state;
  const int64_t swapped = self->expansion.swapped, blocks = instance->kv_blocks;
  const int64_t share = blocks * swapped / self->pool->num_hidden_layers;
  const int64_t rest = blocks - self->pool->kv_blocks; // what the GPU cannot hold
  const int64_t cpu = share > rest ? share : rest;
  assert(swapped > 0 ? cpu <= self->pool->cpu_kv_blocks : cpu == 0);
  return cpu;
}

/* --- time */

/* Swapping as the iterations that begin find it. */
static void begin_run(const State *self, InstanceState *instance, const TierLoad *load,
                      Tick compute) {
  const HostLink *link = &instance->pool->host_link;
  const int64_t n = instance->pool->num_hidden_layers;
  const int64_t bytes = load->kv_blocks * instance->pool->kv_block_bytes / n;
  instance->layer_bytes = bytes > 0 ? bytes : 1;
  instance->copies = *load->copies;
  instance->until = host_link_next_change(link, load->copies, load->now);
  const SwapSpec spec = {
      .layers = (int32_t)n,
      .swapped = instance->expansion.swapped,
      .in = host_link_ticks(link, load->copies, LINK_TO_GPU, instance->layer_bytes, load->now),
      .out = host_link_ticks(link, load->copies, LINK_TO_CPU, instance->layer_bytes, load->now),
      .outside = smaller(load->overhead, compute - 1), // the layers take at least a tick
      .wait_tolerance = self->adaptive.wait_tolerance,
  };
  swap_run_begin(&instance->run, spec);
  if (self->layers) layer_swap_init_steady(&instance->exact, spec);
}

/* Were copies queued, and are they under way? */
static bool has_more_copies(const InstanceState *instance, const TierLoad *load) {
  bool more = false;
  for (int direction = 0; direction < LINK_DIRECTIONS; direction++)
    more |= load->copies->ends[direction] > instance->copies.ends[direction] &&
            load->copies->ends[direction] > load->now;
  return more;
}

/* Is swapping not what it was when the run began? */
static bool has_changed(const InstanceState *instance, const TierLoad *load, Tick compute) {
  const SwapSpec *spec = &instance->run.state.spec;
  return load->done == 0 || load->now >= instance->until || compute <= spec->outside ||
         spec->swapped != instance->expansion.swapped || has_more_copies(instance, load);
}

static SwapStretch stretch_of(const State *self, InstanceState *instance, Series compute,
                              int64_t count) {
  if (!self->layers) return swap_run_plan(&instance->run, compute, count);
  LayerSwap ahead = instance->exact;
  SwapCounts counts = {0};
  const Tick compute_ticks = series_sum(compute, 1);
  const Tick ticks = layer_swap_iterate(&ahead, compute_ticks, &counts);
  const bool waits = swap_waits(&ahead.spec, counts.blocked, compute_ticks);
  const Series series = counts.blocked == 0 ? compute : (Series){.first = ticks};
  return (SwapStretch){.series = series, .count = 1, .waits = waits};
}

/* Iterations until the next decision may fall. That of a shrink whose KV has left is the next. */
static int64_t due(const State *self, const InstanceState *instance, int64_t kv_blocks,
                   bool waits) {
  const int64_t steps = expansion_due(&instance->expansion, waits);
  return steps == INT64_MAX && kv_blocks <= wanted_blocks(self, instance) ? 1 : steps;
}

static TierSpan plan(const void *state, void *instance_state, const TierLoad *load, Series compute,
                     int64_t count) {
  const State *self = state;
  InstanceState *instance = instance_state;
  if (has_changed(instance, load, compute.first)) begin_run(self, instance, load, compute.first);
  const SwapStretch stretch = stretch_of(self, instance, compute, count);
  int64_t n = stretch.count;
  instance->waits = stretch.waits;
  if (instance->until < TICK_MAX) // those that begin before
    n = smaller(n, series_ended(stretch.series, instance->until - load->now - 1) + 1);
  if (self->expansion == 0) n = smaller(n, due(self, instance, load->kv_blocks, stretch.waits));
  const bool swaps = instance->run.state.spec.swapped > 0;
  return (TierSpan){stretch.series, n, {swaps, swaps}};
}

static SwapCounts swap_through(const State *self, InstanceState *instance, const TierWork *work) {
  if (!self->layers) return swap_run_advance(&instance->run, work->compute, work->count);
  SwapCounts counts = {0};
  layer_swap_iterate(&instance->exact, series_sum(work->compute, 1), &counts);
  return counts;
}

static int64_t advance(const void *state, void *instance_state, const TierWork *work,
                       TierTraffic *traffic) {
  const State *self = state;
  InstanceState *instance = instance_state;
  const SwapCounts counts = swap_through(self, instance, work);
  assert(counts.iterations == work->count && counts.ticks == work->ticks);
  traffic->in += counts.swaps_in * instance->layer_bytes;
  traffic->out += counts.swaps_out * instance->layer_bytes;
  if (self->expansion > 0) return instance->fixed_blocks;
  const ExpansionStep step = {.steps = work->count,
                              .waited = instance->waits,
                              .fits = work->kv_blocks <= wanted_blocks(self, instance),
                              .swaps = counts.swaps_in + counts.swaps_out,
                              .swaps_in = counts.swaps_in,
                              .violations = counts.violations,
                              .tokens = work->tokens,
                              .ticks = work->ticks,
                              .blocked = counts.blocked};
  expansion_observe(&instance->expansion, &step);
  return wanted_blocks(self, instance);
}

static const OptionSpec options[] = {
    {"expansion", OPTION_REAL, offsetof(State, expansion), .min = 1, .max = 100,
     .help = "Total KV memory as a multiple of the GPU's KV memory.",
     .absent = "adapted to the load"},
    {"formula", OPTION_CHOICE, offsetof(State, formula), "refined", .choices = expansion_formulas,
     .help =
         "Expansion that m of n swapped layers give: n/(n-m) (plain) or (n+4)/(n-m+2) (refined)."},
    {"layers", OPTION_BOOL, offsetof(State, layers), "false",
     .help = "Simulate the swapping of every layer. It serves to check the usual, faster way."},
    EXPANSION_OPTIONS(State, adaptive),
    {0}};

const KvTier kvtier_pie = {
    .policy = {.name = "pie",
               .help = "Swaps the KV of some layers while other layers compute (Pie).",
               .state_size = sizeof(State),
               .options = options},
    .pick = kvtier_newest,
    .check = check,
    .instance_state_size = sizeof(InstanceState),
    .start = start,
    .plan = plan,
    .advance = advance,
    .cpu_blocks = cpu_blocks,
};
