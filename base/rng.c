/* Named streams of random numbers and the distributions drawn from them. */
#include "base/rng.h"
#include "base/hash.h"
#include <assert.h>
#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 Uint128;

/* SplitMix64 (a Weyl sequence through hash_mix) started from the hash of name and seed; it never
 * gives four zeros in a row, which is the one state xoshiro must not have. */
void rng_init(Rng *self, uint64_t seed, const char *stream) {
  uint64_t weyl = hash_fold(hash_bytes(stream, strlen(stream)), seed);
  for (int i = 0; i < 4; i++) {
    weyl += UINT64_C(0x9e3779b97f4a7c15);
    self->state[i] = hash_mix(weyl);
  }
}

static uint64_t rotate_left(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

/* xoshiro256** 1.0. */
uint64_t rng_u64(Rng *self) {
  uint64_t *s = self->state;
  uint64_t result = rotate_left(s[1] * 5, 7) * 9;
  uint64_t shifted = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= shifted;
  s[3] = rotate_left(s[3], 45);
  return result;
}

double rng_uniform(Rng *self) {
  return (double)(rng_u64(self) >> 11) * 0x1p-53;
}

/* Lemire 2019: the high word of draw·bound, redrawn while the low word falls in the short cycle. */
uint64_t rng_below(Rng *self, uint64_t bound) {
  assert(bound > 0);
  Uint128 product = (Uint128)rng_u64(self) * bound;
  if ((uint64_t)product < bound) {
    uint64_t short_cycle = -bound % bound; // 2^64 mod bound
    while ((uint64_t)product < short_cycle)
      product = (Uint128)rng_u64(self) * bound;
  }
  return (uint64_t)(product >> 64);
}

/* Uniform in (0, 1], for logarithms. */
static double uniform_positive(Rng *rng) {
  return 1 - rng_uniform(rng);
}

double rng_exponential(Rng *self) {
  return 0 - portable_log(uniform_positive(self));
}

double rng_normal(Rng *self) {
  double u, square;
  do {
    u = 2 * rng_uniform(self) - 1;
    double v = 2 * rng_uniform(self) - 1;
    square = u * u + v * v;
  } while (square >= 1 || square == 0);
  return u * sqrt(-2 * portable_log(square) / square);
}

/* Marsaglia & Tsang 2000, figure 2 (the squeeze of its §6 is 0.0331·x⁴). */
static double gamma_from_one(Rng *rng, double shape) {
  double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x = rng_normal(rng);
    double root = 1 + c * x;
    if (root <= 0) continue;
    double v = root * root * root, u = uniform_positive(rng);
    if (u < 1 - 0.0331 * (x * x) * (x * x)) return d * v;
    if (portable_log(u) < 0.5 * x * x + d * (1 - v + portable_log(v))) return d * v;
  }
}

/* A shape below 1 is boosted: gamma(shape + 1)·U^(1/shape), ibid. §6. */
double rng_gamma(Rng *self, double shape) {
  assert(shape > 0);
  if (shape >= 1) return gamma_from_one(self, shape);
  double whole = gamma_from_one(self, shape + 1);
  double exponent = portable_log(uniform_positive(self)) / shape;
  return exponent > -700 ? whole * portable_exp(exponent) : 0;
}
