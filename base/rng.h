/* Random numbers in named streams, equal on every compiler and machine.
 *
 * A stream is a function of (seed, name), so a draw added in one place does not shift the others
 * and paired runs stay paired. The generator is xoshiro256** seeded through SplitMix64 (Blackman &
 * Vigna 2018). Logarithm and exponential are our own, from IEEE basic operations only, because
 * libm's last bit differs between machines. */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include <stdint.h>

typedef struct Rng {
  uint64_t state[4];
} Rng;

void rng_init(Rng *self, uint64_t seed, const char *stream);
uint64_t rng_u64(Rng *self);
/* Uniform in [0, 1), 53 bits. */
double rng_uniform(Rng *self);
/* Uniform integer in [0, bound), unbiased; bound > 0. */
uint64_t rng_below(Rng *self, uint64_t bound);
/* Exponential with mean 1. */
double rng_exponential(Rng *self);
/* Standard normal (polar method; draws in pairs are not cached, so a stream has no hidden state).
 */
double rng_normal(Rng *self);
/* Gamma with the given shape > 0 and scale 1 (Marsaglia & Tsang 2000). */
double rng_gamma(Rng *self, double shape);

/* Natural logarithm (x > 0) and exponential (|x| < 700) within 4 ulp, the same bits everywhere. */
double portable_log(double x);
double portable_exp(double x);
/* Standard normal distribution function and its inverse (0 < p < 1), absolute error below 1e-7. */
double portable_normal_cdf(double x);
double portable_normal_quantile(double p);
#endif
