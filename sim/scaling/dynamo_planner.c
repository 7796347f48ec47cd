/* NVIDIA Dynamo's SLA planner: so many prefill and decode machines that the predicted traffic is
 * served within limits on TTFT and ITL (docs.nvidia.com/dynamo, design docs: planner design,
 * throughput-based scaling). The next interval is predicted to be like the last (its constant
 * predictor). Throughputs are those of the performance model instead of a profile's.
 *
 *   prefill = ⌈requests · ISL / interval · min(1, TTFT / expected TTFT) / (ISL / prefill(ISL))⌉
 *   decode  = ⌈requests · OSL / interval / max (n / step(n))⌉
 *             over n with step(n) <= tpot / (ITL / expected ITL), at contexts of ISL + OSL/2
 *
 * What is expected: of TTFT the prefill of a prompt alone, of ITL a step with as many sequences as
 * there were in the last interval (Little's law). TTFT is no limit here: Dynamo chooses by it which
 * engine is deployed, before. Without requests nothing changes. */
#include "sim/scaling/scaler.h"
#include <math.h>

typedef struct State {
  Tick tpot;
  bool corrects;
} State;

/* Means of the last interval. */
typedef struct Traffic {
  double rate; // requests/s
  int64_t isl, osl;
  double ttft, itl, e2e; // seconds
} Traffic;

static Traffic traffic_of(const ScalingView *view) {
  const double arrivals = (double)view->arrivals, completed = (double)view->completed;
  const double gaps = (double)view->output_tokens - completed;
  return (Traffic){
      .rate = arrivals / tick_seconds(view->interval),
      .isl = (int64_t)((double)view->prompt_tokens / arrivals + 0.5),
      .osl = (int64_t)((double)view->output_tokens / completed + 0.5),
      .ttft = total_seconds(view->ttft_ticks) / (double)view->first_tokens,
      .itl = gaps > 0 ? total_seconds(view->between_ticks) / gaps : 0,
      .e2e = total_seconds(view->e2e_ticks) / completed,
  };
}

static double prefill_machines(const State *self, const PoolSpec *spec, const Traffic *traffic) {
  const double prefill_s = tick_seconds(perfmodel_prefill(spec->perfmodel, traffic->isl));
  const double correction = self->corrects ? fmin(1, traffic->ttft / prefill_s) : 1;
  return ceil(traffic->rate * correction * prefill_s / pool_lanes(spec) - 1e-9);
}

static double step_s(const PoolSpec *spec, int64_t n, int64_t context) {
  return tick_seconds(perfmodel_decode_step(spec->perfmodel, n, n * context));
}

static int64_t most_seqs(const PoolSpec *spec, int64_t context) {
  const int64_t fit = pool_kv_seqs(spec, context);
  const int64_t most =
      fit < spec->perfmodel->max_decode_seqs ? fit : spec->perfmodel->max_decode_seqs;
  return most > 1 ? most : 1;
}

/* ITL over what it should have been with the sequences that there were on each lane. */
static double itl_correction(const PoolLoad *pool, const Traffic *traffic, int64_t context) {
  const double lanes = pool_lanes(pool->spec) * fmax(1, pool->n_machines);
  const double seqs = floor(traffic->rate * traffic->e2e / lanes + 0.5);
  const int64_t most = most_seqs(pool->spec, context);
  const int64_t n = seqs < 1 ? 1 : seqs > (double)most ? most : (int64_t)seqs;
  return traffic->itl / step_s(pool->spec, n, context);
}

static double decode_machines(const State *self, const PoolLoad *pool, const Traffic *traffic) {
  const PoolSpec *spec = pool->spec;
  const int64_t context = traffic->isl + traffic->osl / 2;
  const bool corrects = self->corrects && traffic->itl > 0;
  const double correction = corrects ? itl_correction(pool, traffic, context) : 1;
  const double limit = tick_seconds(self->tpot) / correction;
  double best = 1 / step_s(spec, 1, context); // where no step is within the limit
  const int64_t most = most_seqs(spec, context);
  for (int64_t n = 2; n <= most && step_s(spec, n, context) <= limit; n++)
    best = fmax(best, (double)n / step_s(spec, n, context));
  return ceil(traffic->rate * (double)traffic->osl / (best * pool_lanes(spec)) - 1e-9);
}

static void plan(void *state, const ScalingView *view, double *wanted) {
  const State *self = state;
  if (view->arrivals == 0 || view->completed == 0 || view->first_tokens == 0) return;
  const Traffic traffic = traffic_of(view);
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolLoad *pool = &view->pools[p];
    wanted[p] = pool->spec->role == ROLE_PREFILL ? prefill_machines(self, pool->spec, &traffic)
                                                 : decode_machines(self, pool, &traffic);
  }
}

/* One pool for each phase. */
static int check_pools(const void *state, const PoolSpec *pools, uint32_t n_pools, Place at,
                       Diag *diag) {
  (void)state;
  int n[ROLES] = {0};
  for (uint32_t p = 0; p < n_pools; p++)
    n[pools[p].role]++;
  if (n[ROLE_PREFILL] == 1 && n[ROLE_DECODE] == 1 && n[ROLE_MIXED] == 0) return 0;
  diag_error(diag, at, "scaler 'dynamo_planner' needs one prefill pool and one decode pool");
  diag_hint(diag, "the scalers 'target', 'forecast' and 'schedule' support other pools");
  return -1;
}

static const OptionSpec options[] = {
    {"tpot", OPTION_TICKS, offsetof(State, tpot), "50 ms", .min = 1e-6, .max = 3600,
     .help = "Limit on the mean TPOT (Dynamo ITL)."},
    {"correction", OPTION_BOOL, offsetof(State, corrects), "true",
     .help = "Correct the expected times by those of the last interval."},
    {0},
};

const Scaler scaler_dynamo_planner = {
    .policy = {.name = "dynamo_planner",
               .help = "Sets the number of prefill and decode instances for the predicted traffic "
                       "and limits (NVIDIA Dynamo).",
               .state_size = sizeof(State),
               .options = options},
    .check_pools = check_pools,
    .has_no_windows = true,
    .plan = plan,
};
