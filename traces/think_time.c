/* See think_time.h. */
#include "traces/think_time.h"
#include "base/rng.h"
#include "traces/lengths.h"

#define THINK_MAX 9e6 // seconds
#define TIME_ROW(name, field, ...)                                                                 \
  {                                                                                                \
    .key = (name), .type = OPTION_TICKS, .offset = offsetof(ThinkTime, field), .max = THINK_MAX,   \
    __VA_ARGS__                                                                                    \
  }
#define MEAN_ROW TIME_ROW("mean", mean, .required = true, .help = "Mean time, before min and max.")
#define CLAMP_ROWS                                                                                 \
  TIME_ROW("min", min, .help = "Minimum; shorter draws are raised to it.", .absent = "none"),      \
      TIME_ROW("max", max, .help = "Maximum; longer draws are cut to it.", .absent = "none"), {    \
    0                                                                                              \
  }

const OptionSpec think_time_exponential_options[] = {MEAN_ROW, CLAMP_ROWS};
const OptionSpec think_time_lognormal_options[] = {
    MEAN_ROW,
    {"sigma", OPTION_REAL, offsetof(ThinkTime, sigma), .required = true, .max = 10,
     .help = "Standard deviation of the logarithm."},
    CLAMP_ROWS};

#define OTHERS .absent = "none; one of these is required"
/* By ThinkKind: the one key of the map. */
const OptionSpec think_time_options[] = {
    TIME_ROW("constant", mean, .help = "Time of every draw.", OTHERS),
    {"exponential", OPTION_NODE, .help = "Exponential distribution: {mean: 5 s}.", OTHERS},
    {"lognormal", OPTION_NODE, .help = "Lognormal distribution: {mean: 5 s, sigma: 1}.", OTHERS},
    {0}};

static int bind_kind(ThinkTime *self, const Node *value, Diag *diag) {
  if (self->kind == THINK_CONSTANT)
    return option_bind_one(&think_time_options[THINK_CONSTANT], value, self, diag);
  const OptionSpec *specs = self->kind == THINK_EXPONENTIAL ? think_time_exponential_options
                                                            : think_time_lognormal_options;
  if (option_bind(specs, value, NULL, value->at, self, diag)) return -1;
  if (self->max == 0 || self->min <= self->max) return 0;
  return diag_error(diag, value->at, "'min' is above 'max'");
}

int think_time_bind(ThinkTime *self, const Node *node, Diag *diag) {
  const int kind = distribution_kind(node, think_time_options,
                                     "{constant: 5 s} or {exponential: {mean: 5 s}}", diag);
  *self = (ThinkTime){.kind = (ThinkKind)kind};
  return kind < 0 ? -1 : bind_kind(self, node->first, diag);
}

static double factor_at(const ThinkTime *self, double u) {
  switch (self->kind) {
  case THINK_CONSTANT:
    break;
  case THINK_EXPONENTIAL:
    return -portable_log(1 - unit_open(u));
  case THINK_LOGNORMAL:
    return portable_exp(self->sigma * portable_normal_quantile(unit_open(u)) -
                        self->sigma * self->sigma / 2);
  }
  return 1;
}

Tick think_time_at(const ThinkTime *self, double u) {
  const double longest = self->max > 0 ? (double)self->max : THINK_MAX * (double)TICKS_PER_SECOND;
  const double ticks = (double)self->mean * factor_at(self, u);
  if (ticks >= longest) return (Tick)longest;
  return ticks < (double)self->min ? self->min : (Tick)ticks;
}
