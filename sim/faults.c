/* See faults.h. */
#include "sim/faults.h"

/* ln Γ(1 + x) for 0 < x <= 20, by Lanczos' sum with g = 7 and nine terms (Godfrey). */
static double log_gamma_1p(double x) {
  static const double terms[] = {
      0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
      771.32342877765313,   -176.61502916214059,   12.507343278686905,
      -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  double sum = terms[0];
  for (int i = 1; i < 9; i++)
    sum += terms[i] / (x + i);
  const double t = x + 7.5;
  return 0.91893853320467274178 + (x + 0.5) * portable_log(t) - t + portable_log(sum);
}

static double draw(const Lifetime *self, Rng *rng) {
  switch (self->kind) {
  case LIFETIME_CONSTANT:
    return self->mean;
  case LIFETIME_WEIBULL: {
    const double unit = rng_exponential(rng), power = 1 / self->shape;
    if (unit == 0) return 0;
    return self->mean * portable_exp(portable_log(unit) * power - log_gamma_1p(power));
  }
  case LIFETIME_LOGNORMAL: {
    const double sigma = self->shape;
    return self->mean * portable_exp(sigma * rng_normal(rng) - sigma * sigma / 2);
  }
  default:
    return self->mean * rng_exponential(rng);
  }
}

Tick lifetime_draw(const Lifetime *self, Rng *rng) {
  const double ticks = draw(self, rng) * (double)TICKS_PER_SECOND;
  return ticks < 1 ? 1 : ticks < (double)TICK_MAX ? (Tick)ticks : TICK_MAX;
}
