/* NVIDIA Dynamo's planner as of version 1.6 (docs.nvidia.com/dynamo v1.6.2: planner guide, planner
 * design; ai-dynamo/dynamo, components/src/dynamo/planner). RULES.md has the rules.
 *
 * With `optimization_target: sla`, throughput scaling has every `throughput_interval`
 *
 *   machines = ⌈predicted rate / rate of a machine within TTFT and ITL⌉, at most `max_step` away,
 *
 * and load scaling every `load_interval` one machine more if all engines' estimated TTFT or ITL is
 * above its limit, one fewer if with the load of N on N − 1 machines each estimate stays within
 * `sensitivity` of it. With both, the first is a floor under the second. The targets `throughput`
 * and `latency` go by thresholds of queued prompt tokens and KV use instead. Times are those of the
 * performance model where Dynamo has a profile and a regression. */
#include "sim/scaling/arima.h"
#include "sim/scaling/scaler.h"
#include <math.h>

typedef enum Target { TARGET_THROUGHPUT, TARGET_LATENCY, TARGET_SLA } Target;
static const char *const targets[] = {"throughput", "latency", "sla", NULL};
static const char *const predictors[] = {"arima", "constant", NULL};

/* Shares of a context and of the KV memory above and below which thresholds act. */
typedef struct Thresholds {
  double prefill_up, prefill_down, kv_up, kv_down;
} Thresholds;
static const Thresholds thresholds[] = {
    [TARGET_THROUGHPUT] = {1, 0.1, 1, 0.6}, [TARGET_LATENCY] = {0.1, 0, 0.4, 0.1}};

/* Of requests, whose means are wanted. */
typedef struct Sums {
  double arrivals, prompt_tokens, completed, output_tokens;
} Sums;

typedef struct State {
  int target, predictor;
  bool by_throughput, by_load;
  Tick ttft, itl;
  Tick throughput_interval, load_interval;
  int64_t max_step;
  double sensitivity;
  Tick throughput_at, load_at; // the last time
  Sums sums, before;           // since then; of the interval before
  Arima rates, isls, osls;
  double *held;  // [n_pools] what is wanted until the next time
  double *floor; // [n_pools]
} State;

static void start(void *state, const ScalingView *view, Arena *arena) {
  State *self = state;
  arima_init(&self->rates, arena);
  arima_init(&self->isls, arena);
  arima_init(&self->osls, arena);
  self->held = ARENA_ARRAY(arena, double, view->n_pools);
  self->floor = ARENA_ARRAY(arena, double, view->n_pools);
  for (uint32_t p = 0; p < view->n_pools; p++)
    self->held[p] = view->pools[p].spec->scaling.start;
}

/* --- times */

/* Prompts and outputs of the size that is expected, on an engine. */
typedef struct Expected {
  const PerfModel *perfmodel;
  double isl, osl;
  int64_t most_seqs, max_kv; // of an engine: sequences, tokens
} Expected;

static int64_t rounded(double tokens) {
  return tokens < 1 ? 1 : (int64_t)(tokens + 0.5);
}

static Expected expected_of(const PoolSpec *spec, double isl, double osl) {
  const int64_t context = rounded(isl + osl / 2), fit = pool_kv_seqs(spec, context);
  const int64_t most = spec->perfmodel->max_decode_seqs;
  return (Expected){.perfmodel = spec->perfmodel,
                    .isl = isl,
                    .osl = osl,
                    .most_seqs = fit < 1      ? 1
                                 : fit < most ? fit
                                              : most,
                    .max_kv = spec->kv_blocks * spec->block_size};
}

/* An iteration of `prompt` tokens and n decodes with `context` tokens in all. */
static double iteration_s(const Expected *self, double prompt, double n, double context) {
  const int64_t tokens = prompt > 0 ? rounded(prompt) : 0;
  const int64_t most = self->perfmodel->max_decode_seqs;
  const int64_t seqs = n < 1 ? 0 : n > (double)most ? most : (int64_t)(n + 0.5);
  const BatchShape batch = {.prefill_tokens = tokens,
                            .prefill_area2 = tokens * rounded(self->isl),
                            .decode_seqs = seqs,
                            .context_tokens = seqs > 0 ? rounded(context) : 0,
                            .logit_seqs = seqs + (tokens > 0)};
  return tick_seconds(perfmodel_iteration(self->perfmodel, &batch, NULL));
}

static double prompt_s(const Expected *self) {
  return tick_seconds(perfmodel_prefill(self->perfmodel, rounded(self->isl)));
}

/* --- by throughput */

/* Requests/s of an engine that prefills; where a prompt takes longer than TTFT allows, at least so
 * many times more machines. */
static double prefill_machines(const State *self, const PoolSpec *spec, double rate,
                               const Expected *expected) {
  const double prefill = prompt_s(expected);
  const double late = ceil(prefill / tick_seconds(self->ttft) - 1e-9);
  return fmax(ceil(rate * prefill / pool_lanes(spec) - 1e-9),
              prefill > tick_seconds(self->ttft) ? late : 1);
}

/* Of n sequences that decode, with the prompts that come meanwhile where the engine prefills too.
 */
static double step_s(const Expected *self, double n, bool prefills) {
  const double prompts = prefills ? n * self->isl / self->osl : 0;
  return iteration_s(self, prompts, n, n * (self->isl + self->osl / 2));
}

/* The most requests/s at which it keeps ITL, and TTFT if it prefills; those of one sequence where
 * none does. */
static double engine_rate(const State *self, const Expected *expected, bool prefills) {
  const double itl = tick_seconds(self->itl), ttft = tick_seconds(self->ttft);
  double best = 1 / step_s(expected, 1, prefills) / expected->osl;
  for (int64_t n = 2; n <= expected->most_seqs; n++) {
    const double step = step_s(expected, (double)n, prefills);
    const double context = (double)n * (expected->isl + expected->osl / 2);
    if (step > itl) break;
    if (prefills && iteration_s(expected, expected->isl, (double)n, context) > ttft) break;
    best = fmax(best, (double)n / step / expected->osl);
  }
  return best;
}

static double machines_for(const State *self, const PoolSpec *spec, double rate, double isl,
                           double osl) {
  const Expected expected = expected_of(spec, isl, osl);
  if (spec->role == ROLE_PREFILL) return prefill_machines(self, spec, rate, &expected);
  const double engine = engine_rate(self, &expected, spec->role == ROLE_MIXED);
  return fmax(1, ceil(rate / (engine * pool_lanes(spec)) - 1e-9));
}

static double predicted(const State *self, const Arima *series) {
  return self->predictor == 0 ? arima_next(series) : arima_last(series);
}

/* The interval's figures join their series; without requests lengths are what they were. */
static void observe(State *self, double seconds) {
  const Sums *sums = &self->sums;
  arima_add(&self->rates, sums->arrivals / seconds);
  if (sums->arrivals > 0) arima_add(&self->isls, sums->prompt_tokens / sums->arrivals);
  if (sums->completed > 0) arima_add(&self->osls, sums->output_tokens / sums->completed);
  self->before = *sums;
  self->sums = (Sums){0};
}

static void scale_by_throughput(State *self, const ScalingView *view) {
  observe(self, tick_seconds(view->now - self->throughput_at));
  self->throughput_at = view->now;
  if (self->isls.n == 0 || self->osls.n == 0) return;
  const double rate = predicted(self, &self->rates);
  const double isl = fmax(1, predicted(self, &self->isls));
  const double osl = fmax(1, predicted(self, &self->osls));
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const double present = view->pools[p].n_machines, step = (double)self->max_step;
    const double machines = machines_for(self, view->pools[p].spec, rate, isl, osl);
    const double near = fmin(fmax(machines, present - step), present + step);
    if (self->by_load)
      self->floor[p] = near;
    else
      self->held[p] = near;
  }
}

/* --- by load */

/* Estimates of an engine that has `share` of its load. */
typedef struct Estimate {
  double ttft, own_ttft; // of the next prompt; of it without a queue
  double itl;
  bool fits; // its KV
} Estimate;

static Estimate estimate(const Expected *expected, Role role, const EngineLoad *load,
                         double share) {
  const bool prefills = role != ROLE_DECODE, decodes = role != ROLE_PREFILL;
  const double queue = (double)load->prefill_tokens * share, mean = expected->isl;
  const double kv = (double)load->kv_tokens * share, n = (double)load->n_decodes * share;
  const double one = mean + expected->osl / 2; // the context of one more
  Estimate result = {.fits = kv + (decodes && prefills ? queue : 0) < (double)expected->max_kv};
  if (prefills) {
    result.own_ttft = decodes ? iteration_s(expected, mean, n, kv) : prompt_s(expected);
    result.ttft = (queue / mean + 1) * result.own_ttft;
  }
  if (decodes) {
    const double prompts = prefills && n >= 1 ? n * mean / expected->osl : 0;
    result.itl = iteration_s(expected, prompts, n + 1, kv + one);
  }
  return result;
}

/* Whether no engine is too slow with one machine fewer: the share of TTFT that is queueing and ITL
 * stay within `sensitivity` of what the limits leave. */
static bool may_shrink(const State *self, const Expected *expected, const PoolLoad *pool) {
  const Role role = pool->spec->role;
  const double n = pool->n_machines, ttft = tick_seconds(self->ttft);
  for (uint32_t i = 0; n > 1 && i < pool->n_engines; i++) {
    const Estimate then = estimate(expected, role, &pool->engines[i], n / (n - 1));
    const double budget = (ttft - then.own_ttft) * self->sensitivity;
    if (role != ROLE_DECODE && (budget <= 0 || then.ttft - then.own_ttft >= budget)) return false;
    if (role == ROLE_PREFILL) continue;
    if (!then.fits || then.itl >= tick_seconds(self->itl) * self->sensitivity) return false;
  }
  return n > 1;
}

static int by_sla(const State *self, const Expected *expected, const PoolLoad *pool) {
  const Role role = pool->spec->role;
  bool late = role != ROLE_DECODE, slow = role != ROLE_PREFILL; // all of them
  for (uint32_t i = 0; i < pool->n_engines; i++) {
    const Estimate now = estimate(expected, role, &pool->engines[i], 1);
    late &= now.ttft > tick_seconds(self->ttft);
    slow &= now.itl > tick_seconds(self->itl);
  }
  return late || slow ? 1 : may_shrink(self, expected, pool) ? -1 : 0;
}

/* One engine above the threshold is enough to grow, all must be below the other to shrink. */
static int by_thresholds(const State *self, const PoolLoad *pool, int64_t max_model_len) {
  const Thresholds *limits = &thresholds[self->target];
  const PoolSpec *spec = pool->spec;
  const double max_kv = (double)(spec->kv_blocks * spec->block_size);
  const double context = max_model_len > 0 ? (double)max_model_len : max_kv;
  bool any_above = false, all_below = true;
  for (uint32_t i = 0; i < pool->n_engines; i++) {
    const EngineLoad *load = &pool->engines[i];
    const double queue = (double)load->prefill_tokens / context;
    const double kv =
        (double)load->kv_tokens + (spec->role == ROLE_MIXED ? (double)load->prefill_tokens : 0);
    const double use = kv / max_kv;
    if (spec->role == ROLE_PREFILL) {
      any_above |= queue >= limits->prefill_up;
      all_below &= limits->prefill_down > 0 ? queue < limits->prefill_down : queue == 0;
    } else {
      any_above |= use > limits->kv_up;
      all_below &= use < limits->kv_down;
    }
  }
  return any_above ? 1 : all_below && pool->n_machines > 1 ? -1 : 0;
}

static double mean_or(double sum, double n, double otherwise) {
  return n > 0 ? sum / n : otherwise;
}

/* Nothing is decided of a pool while a machine of it starts. */
static void scale_by_load(State *self, const ScalingView *view) {
  const Sums *now = &self->sums, *before = &self->before;
  const double isl =
      mean_or(now->prompt_tokens + before->prompt_tokens, now->arrivals + before->arrivals, 0);
  const double osl =
      mean_or(now->output_tokens + before->output_tokens, now->completed + before->completed, 1);
  self->load_at = view->now;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolLoad *pool = &view->pools[p];
    if (pool->n_starting > 0 || pool->n_engines == 0) continue;
    const Expected expected = expected_of(pool->spec, fmax(1, isl), fmax(1, osl));
    int change = 0;
    if (self->target != TARGET_SLA)
      change = by_thresholds(self, pool, view->max_model_len);
    else if (isl > 0)
      change = by_sla(self, &expected, pool);
    self->held[p] = fmax((double)pool->n_machines + change, self->floor[p]);
  }
}

/* --- when */

static void plan(void *state, const ScalingView *view, double *wanted) {
  State *self = state;
  self->sums.arrivals += (double)view->arrivals;
  self->sums.prompt_tokens += (double)view->prompt_tokens;
  self->sums.completed += (double)view->completed;
  self->sums.output_tokens += (double)view->output_tokens;
  if (self->by_throughput && view->now - self->throughput_at >= self->throughput_interval)
    scale_by_throughput(self, view);
  if (self->by_load && view->now - self->load_at >= self->load_interval) scale_by_load(self, view);
  for (uint32_t p = 0; p < view->n_pools; p++)
    wanted[p] = fmax(self->held[p], self->floor[p]);
}

/* One pool for each phase, or one for both, of each model. */
static int check_pools(const void *state, const PoolSpec *pools, uint32_t n_pools, Place at,
                       Diag *diag) {
  (void)state;
  for (uint32_t p = 0; p < n_pools; p++) {
    int n[ROLES] = {0};
    for (uint32_t q = 0; q < n_pools; q++)
      n[pools[q].role] += pools[q].model == pools[p].model;
    if (n[ROLE_PREFILL] == n[ROLE_DECODE] && n[ROLE_PREFILL] + n[ROLE_MIXED] == 1) continue;
    diag_error(diag, at,
               "scaler 'dynamo_planner_modes' needs one pool, or one prefill pool and one decode "
               "pool, for each model");
    return diag_hint(diag, "the scaler 'llm_d_wva' chooses among several pools of a model");
  }
  return 0;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)map, (void)arena;
  State *self = state;
  if (self->target != TARGET_SLA) {
    self->by_throughput = false;
    self->by_load = true;
  }
  if (self->by_throughput || self->by_load) return 0;
  return diag_error(diag, owner,
                    "scaler 'dynamo_planner_modes' needs throughput_scaling or load_scaling");
}

static const OptionSpec options[] = {
    {"optimization_target", OPTION_CHOICE, offsetof(State, target), "sla", .choices = targets,
     .help = "Whether instances are for limits on TTFT and ITL (sla), or by thresholds of queues "
             "and KV use (throughput, latency), which is load scaling alone."},
    {"throughput_scaling", OPTION_BOOL, offsetof(State, by_throughput), "true",
     .help = "Whether the predicted rate sets the number of instances (Dynamo "
             "enable_throughput_scaling)."},
    {"load_scaling", OPTION_BOOL, offsetof(State, by_load), "false",
     .help = "Whether present loads change it by one (Dynamo enable_load_scaling); with "
             "throughput_scaling not below the number for the predicted rate."},
    {"ttft", OPTION_TICKS, offsetof(State, ttft), "500 ms", .min = 1e-6, .max = 3600,
     .help = "Limit on TTFT."},
    {"tpot", OPTION_TICKS, offsetof(State, itl), "50 ms", .min = 1e-6, .max = 3600,
     .help = "Limit on TPOT (Dynamo ITL)."},
    {"throughput_interval", OPTION_TICKS, offsetof(State, throughput_interval), "180 s",
     .min = 1e-3, .max = 7 * 86400.0,
     .help = "Interval of throughput scaling, at multiples of scaling.interval."},
    {"load_interval", OPTION_TICKS, offsetof(State, load_interval), "5 s", .min = 1e-3,
     .max = 7 * 86400.0, .help = "Interval of load scaling, at multiples of scaling.interval."},
    {"max_step", OPTION_INT, offsetof(State, max_step), "8", .min = 1, .max = 1e6,
     .help = "Largest change that throughput scaling makes at a time."},
    {"sensitivity", OPTION_REAL, offsetof(State, sensitivity), "0.8", .max = 1,
     .help = "Share of the limits within which estimates must stay for load scaling to stop an "
             "instance (Dynamo load_scaling_down_sensitivity)."},
    {"load_predictor", OPTION_CHOICE, offsetof(State, predictor), "arima", .choices = predictors,
     .help = "Prediction of rates and lengths: by an autoregressive model, or as they were."},
    {0},
};

const Scaler scaler_dynamo_planner_modes = {
    .policy = {.name = "dynamo_planner_modes",
               .help = "Sets the number of instances as the planner of NVIDIA Dynamo 1.6 does: by "
                       "predicted traffic, by load, or by thresholds.",
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .check_pools = check_pools,
    .reads_engines = true,
    .start = start,
    .has_no_windows = true,
    .plan = plan,
};
