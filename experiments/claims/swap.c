/* Figures of swapping between GPU and CPU memory that need no run: formulas, the link, and what
 * layers do in the first iteration (Pie §3). Arguments that make no sense give NAN: no value. */
#include "experiments/claims/claims.h"
#include "sim/core/host_link.h"
#include "sim/kvtier/expansion.h"
#include "sim/kvtier/layer_swap.h"
#include <math.h>

static bool is_model(double layers, double swapped) {
  return layers >= 3 && layers <= SWAP_LAYERS_MAX && swapped >= 0 && swapped <= layers - 2;
}

/* ---- Formulas ---- */

static double ratio(ExpansionFormula formula, const double *arguments) {
  if (!is_model(arguments[0], arguments[1])) return NAN;
  const ExpansionRatio exact =
      expansion_ratio(formula, (int32_t)arguments[0], (int32_t)arguments[1]);
  return (double)exact.over / (double)exact.under;
}

/* expansion(layers, swapped). */
static double expansion(const Config *config, const double *arguments, int n_arguments) {
  (void)config, (void)n_arguments;
  return ratio(EXPANSION_PLAIN, arguments);
}

static double expansion_refined(const Config *config, const double *arguments, int n_arguments) {
  (void)config, (void)n_arguments;
  return ratio(EXPANSION_REFINED, arguments);
}

/* ---- The link ---- */

/* link_share(bytes): of the rate to the GPUs of a transfer without end, on a machine of the first
 * pool. */
static double link_share(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const HostLink *link = &config->sim.pools[0].host_link;
  const double bytes = arguments[0];
  if (!(bytes >= 1 && bytes <= 1e15) || link->options.to_gpu <= 0) return NAN;
  const double seconds = tick_seconds(host_link_ticks(link, NULL, LINK_TO_GPU, (int64_t)bytes, 0));
  return bytes / seconds / host_link_rate(link, NULL, LINK_TO_GPU, 0);
}

/* ---- Layers ---- */

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

static double begins_at(SwapEventKind kind, const double *arguments) {
  const double layers = arguments[0], turn = arguments[3];
  if (!is_model(layers, arguments[1]) || !is_ratio(arguments[2]) || turn < 1 || turn > layers)
    return NAN;
  Look self = {.kind = kind, .turn = (int32_t)turn};
  observe(&self, layers, arguments[1], arguments[2], 1);
  return self.found;
}

/* swap_out_at(layers, swapped, ratio, turn): the layer that begins to go to the CPU as layer `turn`
 * begins, both counted from 1; 0: none does. */
static double swap_out_at(const Config *config, const double *arguments, int n_arguments) {
  (void)config, (void)n_arguments;
  return begins_at(SWAP_OUT_BEGIN, arguments);
}

static double swap_in_at(const Config *config, const double *arguments, int n_arguments) {
  (void)config, (void)n_arguments;
  return begins_at(SWAP_IN_BEGIN, arguments);
}

/* layers_away(layers, swapped, ratio): how many layers execute while one is off the GPU, from the
 * start of its way out to the end of its way in; the mean of many. */
static double layers_away(const Config *config, const double *arguments, int n_arguments) {
  (void)config, (void)n_arguments;
  if (!is_model(arguments[0], arguments[1]) || !is_ratio(arguments[2])) return NAN;
  Look self = {0};
  observe(&self, arguments[0], arguments[1], arguments[2], ITERATIONS);
  return (double)self.away / (double)self.stays / LAYER_TICKS;
}

const ModelFigure claim_swap_figures[] = {
    {"expansion", 2, 2, expansion},
    {"expansion_refined", 2, 2, expansion_refined},
    {"link_share", 1, 1, link_share},
    {"swap_out_at", 4, 4, swap_out_at},
    {"swap_in_at", 4, 4, swap_in_at},
    {"layers_away", 3, 3, layers_away},
    {0},
};
