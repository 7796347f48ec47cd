/* How long somebody takes between an answer and the next request: to read and type, or a tool to
 * run. */
#ifndef TRACES_THINK_TIME_H
#define TRACES_THINK_TIME_H
#include "base/option.h"
#include "base/units.h"

typedef enum ThinkKind {
  THINK_CONSTANT, // also without the key: 0
  THINK_EXPONENTIAL,
  THINK_LOGNORMAL,
} ThinkKind;

typedef struct ThinkTime {
  ThinkKind kind;
  Tick mean;
  double sigma;  // lognormal: standard deviation of the logarithm
  Tick min, max; // clamps; max 0: none
} ThinkTime;

extern const OptionSpec think_time_options[]; // the kinds, of which a map has one
extern const OptionSpec think_time_exponential_options[], think_time_lognormal_options[];

/* Binds {constant: 5 s}, {exponential: {mean: 5 s}} or {lognormal: {mean: 5 s, sigma: 1}}, the last
 * two with `min` and `max`. */
int think_time_bind(ThinkTime *self, const Node *node, Diag *diag);
/* The time at quantile u in [0, 1]. */
Tick think_time_at(const ThinkTime *self, double u);
#endif
