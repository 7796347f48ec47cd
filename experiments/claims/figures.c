/* The names of figures of a configuration that is bound; record.c has those of a run.
 * experiments/papers/README.md lists them. Arguments that make no sense give NAN: no value. */
#include "experiments/claims/claims.h"
#include "perfmodel/seesaw.h"
#include "sim/core/host_link.h"
#include "sim/kvtier/expansion.h"
#include "sim/kvtier/layer_swap.h"
#include <math.h>
#include <string.h>

/* ---- Batches ---- */

/* Seconds of an iteration; `area2` and `context` are sums over prompts and over decodes. */
static double iteration_s(const PoolSpec *pool, double prefill, double area2, double decodes,
                          double context, double logits) {
  const BatchShape batch = {.prefill_tokens = (int64_t)prefill,
                            .prefill_area2 = (int64_t)area2,
                            .decode_seqs = (int64_t)decodes,
                            .context_tokens = (int64_t)context,
                            .logit_seqs = (int64_t)logits};
  return tick_seconds(perfmodel_iteration(pool->perfmodel, &batch, NULL));
}

/* Equation 1 of Seesaw, seconds per request of one pass. */
static double seconds_per_request(SeesawTimes (*times_of)(const Llm *model,
                                                          const Hardware *hardware,
                                                          int64_t tensor_parallel_size,
                                                          double requests, double tokens),
                                  const Config *config, double requests, double tokens) {
  const PoolConfig *pool = &config->pools[0];
  const SeesawTimes times =
      times_of(&config->model, &pool->hardware, pool->tensor_parallel_size, requests, tokens);
  return seesaw_seconds_per_request(&times, config->model.num_hidden_layers, config_degrees(pool),
                                    requests);
}

/* Equation b_max of the memory that the pool may use. */
static double max_batch(const Config *config, double context) {
  const PoolConfig *pool = &config->pools[0];
  const double memory = pool->kv.gpu_memory_utilization * (double)pool->hardware.gpu_memory_bytes;
  return seesaw_max_batch(&config->model, memory, config_degrees(pool), context);
}

static double quantile(const LengthDistribution *of, double q) {
  if (of->kind == LENGTH_TABLE && of->n_quantiles == 0) return NAN; // of a trace or a mix
  LengthSampler sampler;
  length_sampler_init(&sampler, of);
  return length_at(&sampler, q);
}

/* The share of the link's rate to the GPUs that a transfer without end has. */
static double link_share(const HostLink *link, double bytes) {
  if (!(bytes >= 1 && bytes <= 1e15) || link->options.to_gpu <= 0) return NAN;
  const double seconds = tick_seconds(host_link_ticks(link, NULL, LINK_TO_GPU, (int64_t)bytes, 0));
  return bytes / seconds / host_link_rate(link, NULL, LINK_TO_GPU, 0);
}

/* ---- Layers that are swapped (Pie §3) ---- */

static bool is_model(double layers, double swapped) {
  return layers >= 3 && layers <= SWAP_LAYERS_MAX && swapped >= 0 && swapped <= layers - 2;
}

static double expansion(ExpansionFormula formula, double layers, double swapped) {
  if (!is_model(layers, swapped)) return NAN;
  const ExpansionRatio exact = expansion_ratio(formula, (int32_t)layers, (int32_t)swapped);
  return (double)exact.over / (double)exact.under;
}

enum { LAYER_TICKS = 1000000, ITERATIONS = 64 };

/* What is looked for among the events of some iterations. */
typedef struct Look {
  SwapEventKind kind;         // the start of a transfer that is looked for,
  int32_t turn;               // decided as this layer begins, from 1; 0: none is
  int32_t found;              // the transfer's layer, from 1; 0: none began
  int32_t begun;              // layers that have
  Tick left[SWAP_LAYERS_MAX]; // when layers began to go out; -1: not seen
  Tick away;                  // their stays off the GPU, summed
  int64_t stays;
} Look;

static void look(void *context, SwapEvent event) {
  Look *self = context;
  self->begun += event.kind == SWAP_COMPUTE; // after what is decided at it
  if (event.kind == self->kind && self->begun + 1 == self->turn) self->found = event.layer + 1;
  if (event.kind == SWAP_OUT_BEGIN) self->left[event.layer] = event.at;
  if (event.kind != SWAP_IN_END || self->left[event.layer] < 0) return;
  self->away += event.at - self->left[event.layer];
  self->stays++;
}

/* Lets layers execute, a swap taking as long as `ratio` of them, from where Fig. 4 begins. */
static void observe(Look *self, double layers, double swapped, double ratio, int iterations) {
  const SwapSpec spec = {.layers = (int32_t)layers,
                         .swapped = (int32_t)swapped,
                         .in = llround(ratio * LAYER_TICKS),
                         .out = llround(ratio * LAYER_TICKS)};
  LayerSwap swap;
  SwapCounts counts = {0};
  for (int i = 0; i < SWAP_LAYERS_MAX; i++)
    self->left[i] = -1;
  layer_swap_init(&swap, spec);
  swap.observe = look;
  swap.context = self;
  for (int i = 0; i < iterations; i++)
    layer_swap_iterate(&swap, (Tick)spec.layers * LAYER_TICKS, &counts);
}

static bool is_ratio(double ratio) {
  return ratio >= 0.001 && ratio <= 1000;
}

/* The layer that begins to go out or in as layer `turn` begins, both counted from 1; 0: none. */
static double begins_at(SwapEventKind kind, double layers, double swapped, double ratio,
                        double turn) {
  if (!is_model(layers, swapped) || !is_ratio(ratio) || turn < 1 || turn > layers) return NAN;
  Look self = {.kind = kind, .turn = (int32_t)turn};
  observe(&self, layers, swapped, ratio, 1);
  return self.found;
}

/* How many layers execute while one is off the GPU, from the start of its way out to the end of its
 * way in; the mean of many. */
static double layers_away(double layers, double swapped, double ratio) {
  if (!is_model(layers, swapped) || !is_ratio(ratio)) return NAN;
  Look self = {0};
  observe(&self, layers, swapped, ratio, ITERATIONS);
  return (double)self.away / (double)self.stays / LAYER_TICKS;
}

/* ---- By name ---- */

#define MODEL_FIGURE(name, least, most, value)                                                     \
  static double figure_##name(const Config *config, const double *a, int n) {                      \
    const PoolSpec *pool = &config->sim.pools[0];                                                  \
    (void)pool, (void)a, (void)n;                                                                  \
    return (double)(value);                                                                        \
  }
#include "experiments/claims/figures.def"

static const struct {
  int min_arguments, max_arguments;
  double (*eval)(const Config *config, const double *arguments, int n_arguments);
} figures[] = {
#define MODEL_FIGURE(name, least, most, value) {least, most, figure_##name},
#include "experiments/claims/figures.def"
};

static const char *const names[] = {
#define MODEL_FIGURE(name, least, most, value) #name,
#include "experiments/claims/figures.def"
    NULL};

int claim_model_figure(const Trial *trial, const char *name, const double *arguments,
                       int n_arguments, Place at, double *ret_value, Diag *diag) {
  int i = 0;
  while (names[i] && strcmp(names[i], name) != 0)
    i++;
  if (!names[i]) {
    diag_error(diag, at, "unknown figure '%s'", name);
    diag_hint_near(diag, name, names);
    return -1;
  }
  if (n_arguments < figures[i].min_arguments || n_arguments > figures[i].max_arguments)
    return diag_error(diag, at, "'%s' takes %d to %d arguments, not %d", name,
                      figures[i].min_arguments, figures[i].max_arguments, n_arguments);
  *ret_value = figures[i].eval(&trial->config, arguments, n_arguments);
  return 0;
}
