/* Pinned: the generator against a second implementation of its papers, streams by name, bounds,
 * moments of the distributions within intervals computed from their own higher moments, and the
 * accuracy of the portable functions against libm. The bits of the outputs are pinned too, so that
 * a compiler that rounds otherwise shows itself. Not pinned: speed. */
#include "base/hash.h"
#include "base/rng.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(rng, bytes_hash_to_the_published_fnv_values) {
  static const struct {
    const char *text;
    uint64_t hash;
  } CASES[] = {
      {"", UINT64_C(0xcbf29ce484222325)},
      {"a", UINT64_C(0xaf63dc4c8601ec8c)},
      {"foobar", UINT64_C(0x85944171f73967e8)},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
    cr_assert_eq(hash_bytes(CASES[i].text, strlen(CASES[i].text)), CASES[i].hash);
  cr_assert_neq(hash_fold(hash_fold(0, 1), 2), hash_fold(hash_fold(0, 2), 1));
}

/* SplitMix64 as its authors state it, one step at a time. */
static uint64_t reference_split_mix(uint64_t *x) {
  uint64_t z = *x += 0x9e3779b97f4a7c15u;
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9u;
  z ^= z >> 27;
  z *= 0x94d049bb133111ebu;
  z ^= z >> 31;
  return z;
}

Test(rng, split_mix_reference_gives_its_published_first_outputs) {
  uint64_t x = 1234567;
  cr_assert_eq(reference_split_mix(&x), UINT64_C(6457827717110365317));
  cr_assert_eq(reference_split_mix(&x), UINT64_C(3203168211198807973));
}

Test(rng, outputs_follow_xoshiro_seeded_from_seed_and_name) {
  Rng rng;
  rng_init(&rng, 42, "arrivals");
  uint64_t start = hash_bytes("arrivals", 8) + 0x9e3779b97f4a7c15u + 42, s[4];
  start -= 0x9e3779b97f4a7c15u;
  start = reference_split_mix(&start);
  for (int i = 0; i < 4; i++)
    s[i] = reference_split_mix(&start);
  for (int i = 0; i < 1000; i++) {
    uint64_t times_5 = s[1] * 5, rotated = (times_5 << 7) + (times_5 >> 57);
    cr_assert_eq(rng_u64(&rng), rotated * 9, "output %d", i);
    uint64_t a = s[0] ^ s[2], b = s[1] ^ s[3];
    s[2] = a ^ (s[1] << 17);
    s[3] = (b << 45) + (b >> 19);
    s[1] ^= a;
    s[0] ^= b;
  }
}

Test(rng, streams_differ_by_seed_and_by_name) {
  Rng one, other_seed, other_name, again;
  rng_init(&one, 1, "lengths");
  rng_init(&again, 1, "lengths");
  rng_init(&other_seed, 2, "lengths");
  rng_init(&other_name, 1, "arrivals");
  for (int i = 0; i < 100; i++) {
    uint64_t draw = rng_u64(&one);
    cr_assert_eq(draw, rng_u64(&again));
    cr_assert_neq(draw, rng_u64(&other_seed));
    cr_assert_neq(draw, rng_u64(&other_name));
  }
}

/* Bits of a sum over draws of every kind; the value is this program's own, equal on gcc and clang,
 * with and without optimisation. */
Test(rng, draws_have_the_same_bits_everywhere) {
  Rng rng;
  rng_init(&rng, 7, "bits");
  uint64_t hash = 0;
  for (int i = 0; i < 1000; i++) {
    double draws[] = {rng_uniform(&rng), rng_exponential(&rng), rng_normal(&rng),
                      rng_gamma(&rng, 0.3), rng_gamma(&rng, 4)};
    hash = hash_fold(hash, hash_bytes(draws, sizeof draws));
    hash = hash_fold(hash, rng_below(&rng, 1000003));
  }
  cr_assert_eq(hash, UINT64_C(0x4468f0f845b56566), "the hash is 0x%016llx",
               (unsigned long long)hash);
}

typedef struct Moments {
  double mean, variance, fourth; // fourth: central
} Moments;

/* Mean and variance of n draws lie within 4.5 standard errors of theirs: Var(mean) = σ²/n,
 * Var(s²) = (μ₄ − σ⁴)/n. */
static void check_moments(const char *name, const double *draws, int n, Moments expected) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++)
    sum += draws[i];
  double mean = sum / n;
  for (int i = 0; i < n; i++)
    squares += (draws[i] - mean) * (draws[i] - mean);
  double variance = squares / n, v = expected.variance;
  cr_assert(fabs(mean - expected.mean) < 4.5 * sqrt(v / n), "%s has mean %g", name, mean);
  cr_assert(fabs(variance - v) < 4.5 * sqrt((expected.fourth - v * v) / n), "%s has variance %g",
            name, variance);
}

enum { N_DRAWS = 400000 };
static double draws[N_DRAWS];

Test(rng, uniform_exponential_and_normal_have_their_moments) {
  Rng rng;
  rng_init(&rng, 3, "moments");
  for (int i = 0; i < N_DRAWS; i++)
    draws[i] = rng_uniform(&rng);
  check_moments("uniform", draws, N_DRAWS, (Moments){0.5, 1.0 / 12, 1.0 / 80});
  for (int i = 0; i < N_DRAWS; i++)
    draws[i] = rng_exponential(&rng);
  check_moments("exponential", draws, N_DRAWS, (Moments){1, 1, 9});
  for (int i = 0; i < N_DRAWS; i++)
    draws[i] = rng_normal(&rng);
  check_moments("normal", draws, N_DRAWS, (Moments){0, 1, 3});
}

Test(rng, gamma_has_its_moments_for_shapes_on_both_sides_of_one) {
  static const double SHAPES[] = {0.05, 0.25, 0.9, 1, 1.5, 4, 100};
  Rng rng;
  rng_init(&rng, 3, "gamma");
  for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
    double k = SHAPES[s];
    for (int i = 0; i < N_DRAWS; i++) {
      draws[i] = rng_gamma(&rng, k);
      cr_assert(draws[i] >= 0);
    }
    check_moments("gamma", draws, N_DRAWS, (Moments){k, k, 3 * k * k + 6 * k});
  }
}

Test(rng, uniform_stays_below_one_and_normal_follows_its_distribution) {
  static const double EDGES[] = {-2, -1, -0.3, 0, 0.5, 1.5, 3};
  Rng rng;
  rng_init(&rng, 5, "distribution");
  int below[7] = {0};
  for (int i = 0; i < N_DRAWS; i++) {
    double u = rng_uniform(&rng), z = rng_normal(&rng);
    cr_assert(u >= 0 && u < 1);
    for (int e = 0; e < 7; e++)
      below[e] += z < EDGES[e];
  }
  for (int e = 0; e < 7; e++) {
    double p = 0.5 * erfc(-EDGES[e] / sqrt(2));
    cr_assert(fabs(below[e] - N_DRAWS * p) < 4.5 * sqrt(N_DRAWS * p * (1 - p)), "below %g",
              EDGES[e]);
  }
}

Test(rng, below_is_uniform_and_within_its_bound) {
  enum { BOUND = 7 };
  int counts[BOUND] = {0};
  Rng rng;
  rng_init(&rng, 9, "below");
  for (int i = 0; i < N_DRAWS; i++)
    counts[rng_below(&rng, BOUND)]++;
  double p = 1.0 / BOUND;
  for (int i = 0; i < BOUND; i++)
    cr_assert(fabs(counts[i] - N_DRAWS * p) < 4.5 * sqrt(N_DRAWS * p * (1 - p)));
  cr_assert_eq(rng_below(&rng, 1), 0);
  /* Four draws fall on three values: without redrawing, multiples of 3 would come twice as often.
   */
  uint64_t bound = UINT64_C(3) << 62;
  int ones = 0;
  for (int i = 0; i < N_DRAWS; i++) {
    uint64_t draw = rng_below(&rng, bound);
    cr_assert(draw < bound);
    ones += draw % 3 == 1;
  }
  cr_assert(fabs(ones - N_DRAWS / 3.0) < 4.5 * sqrt(N_DRAWS * 2.0 / 9));
}

static double ulps_apart(double value, double expected) {
  return fabs(value - expected) / (nextafter(fabs(expected), INFINITY) - fabs(expected));
}

Test(rng, log_and_exp_are_within_four_ulp_of_libm) {
  Rng rng;
  rng_init(&rng, 11, "ulp");
  for (int i = 0; i < 1000000; i++) {
    double x = 1400 * rng_uniform(&rng) - 700, near_zero = rng_uniform(&rng) - 0.5;
    double wide = exp(x), near_one = 1 + 0.7 * near_zero;
    cr_assert(ulps_apart(portable_exp(x), wide) <= 4, "exp(%.17g)", x);
    cr_assert(ulps_apart(portable_exp(near_zero), exp(near_zero)) <= 4, "exp(%.17g)", near_zero);
    cr_assert(ulps_apart(portable_log(wide), log(wide)) <= 4, "log(%.17g)", wide);
    cr_assert(ulps_apart(portable_log(near_one), log(near_one)) <= 4, "log(%.17g)", near_one);
  }
  static const double EDGES[] = {0x1p-1074,
                                 0x1.8p-1030,
                                 0x1p-1022,
                                 0x1.6a09e667f3bcdp+0,
                                 0x1.fffffffffffffp-1,
                                 0x1.0000000000001p+0,
                                 0x1p1023,
                                 0x1.fffffffffffffp1023};
  for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++)
    cr_assert(ulps_apart(portable_log(EDGES[i]), log(EDGES[i])) <= 4, "log(%a)", EDGES[i]);
  cr_assert_eq(portable_log(1), 0);
  cr_assert_eq(portable_exp(0), 1);
}

Test(rng, normal_distribution_and_quantile_are_within_1e_7) {
  for (double x = -40; x <= 40; x += 0.001) {
    double exact = 0.5 * erfc(-x / sqrt(2));
    cr_assert(fabs(portable_normal_cdf(x) - exact) < 1e-7, "x = %g", x);
  }
  for (double x = -8; x <= 8; x += 0.001) {
    double p = 0.5 * erfc(-x / sqrt(2));
    /* Near 1, p itself keeps few digits of x: a step of p is worth this much of it. */
    double lost = 0x1p-53 / (exp(-x * x / 2) / sqrt(2 * acos(-1)));
    if (p < 1) cr_assert(fabs(portable_normal_quantile(p) - x) < 1e-7 + lost, "x = %g", x);
  }
}
