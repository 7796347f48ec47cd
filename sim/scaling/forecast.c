/* By a forecast of arrivals: Holt-Winters' additive method (Hyndman & Athanasopoulos, Forecasting:
 * Principles and Practice, §8.3) over the rates of intervals, a season being `period`. In the first
 * period the season is 0; then it is what the rates were, less their mean, which the level becomes.
 *
 *   level'  = alpha·(rate − season) + (1 − alpha)·(level + trend)
 *   trend'  = beta·(level' − level) + (1 − beta)·trend
 *   season' = gamma·(rate − level − trend) + (1 − gamma)·season
 *   forecast h intervals ahead = level + h·trend + season of then
 *
 * A pool has machines for the largest of the present rate and of the forecasts as far ahead as a
 * machine that is started now takes, or `ahead`; each serves its pool's `machine_rate`. */
#include "sim/scaling/scaler.h"
#include <math.h>

enum { SLOTS_MAX = 1000000 };

typedef struct State {
  Tick period, ahead;
  double alpha, beta, gamma;
  double level, trend;
  double *season; // [n_slots]
  int64_t n_slots;
  int64_t n_seen; // intervals so far
} State;

static void start(void *state, const ScalingView *view, Arena *arena) {
  State *self = state;
  const Tick slots = self->period / view->interval;
  self->n_slots = slots < 1 ? 1 : slots > SLOTS_MAX ? SLOTS_MAX : slots;
  self->season = ARENA_ARRAY(arena, double, self->n_slots);
}

/* In the first period `season` has the rates themselves. */
static void begin_seasons(State *self) {
  double sum = 0;
  for (int64_t i = 0; i < self->n_slots; i++)
    sum += self->season[i];
  self->level = sum / (double)self->n_slots;
  self->trend = 0;
  for (int64_t i = 0; i < self->n_slots; i++)
    self->season[i] -= self->level;
}

static void take_in(State *self, double rate) {
  const bool first = self->n_seen < self->n_slots;
  double *season = &self->season[self->n_seen % self->n_slots];
  const double was = first ? 0 : *season, level = self->level, trend = self->trend;
  self->level =
      self->n_seen == 0 ? rate : self->alpha * (rate - was) + (1 - self->alpha) * (level + trend);
  if (self->n_seen > 0) self->trend = self->beta * (self->level - level) + (1 - self->beta) * trend;
  *season = first ? rate : self->gamma * (rate - level - trend) + (1 - self->gamma) * was;
  self->n_seen++;
  if (self->n_seen == self->n_slots) begin_seasons(self);
}

static double forecast(const State *self, int64_t h) {
  const bool first = self->n_seen < self->n_slots;
  const double season = first ? 0 : self->season[(self->n_seen - 1 + h) % self->n_slots];
  return self->level + (double)h * self->trend + season;
}

static Tick lead(const State *self, const PoolSpec *spec) {
  return self->ahead > 0 ? self->ahead : pool_start_ticks(spec);
}

static void plan(void *state, const ScalingView *view, double *wanted) {
  State *self = state;
  const double rate = (double)view->arrivals / tick_seconds(view->interval);
  take_in(self, rate);
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolSpec *spec = view->pools[p].spec;
    if (spec->scaling.max == 0) continue;
    const int64_t most = 1 + lead(self, spec) / view->interval;
    double peak = rate;
    for (int64_t h = 1; h <= most && h <= self->n_slots; h++)
      peak = fmax(peak, forecast(self, h));
    wanted[p] = ceil(peak / spec->scaling.machine_rate - 1e-9);
  }
}

static int check_pools(const void *state, const PoolSpec *pools, uint32_t n_pools, Place at,
                       Diag *diag) {
  (void)state;
  int status = 0;
  for (uint32_t p = 0; p < n_pools; p++) {
    if (pools[p].scaling.max == 0 || pools[p].scaling.machine_rate > 0) continue;
    status = diag_error(diag, at, "scaler 'forecast' needs the 'machine_rate' of pool '%s'",
                        pools[p].name);
    diag_hint(diag, "say what a machine serves, such as pools.%s.scaling.machine_rate: 2 /s",
              pools[p].name);
  }
  return status;
}

static const OptionSpec options[] = {
    {"period", OPTION_TICKS, offsetof(State, period), "24 h", .min = 1, .max = 9e6,
     .help = "of a season: what comes again"},
    {"ahead", OPTION_TICKS, offsetof(State, ahead), .min = 1e-6, .max = 9e6,
     .help = "how far it looks", .absent = "as long as a machine takes to start"},
    {"alpha", OPTION_REAL, offsetof(State, alpha), "0.5", .max = 1,
     .help = "weight of the newest rate in the level"},
    {"beta", OPTION_REAL, offsetof(State, beta), "0", .max = 1,
     .help = "of the newest change of level in the trend"},
    {"gamma", OPTION_REAL, offsetof(State, gamma), "0.3", .max = 1,
     .help = "of the newest rate in its place of the season"},
    {0},
};

const Scaler scaler_forecast = {
    .policy = {.name = "forecast",
               .help = "instances for the arrival rate predicted from past seasons (Holt-Winters)",
               .state_size = sizeof(State),
               .options = options},
    .check_pools = check_pools,
    .start = start,
    .plan = plan,
};
