/* See batch_means.h. */
#include "base/batch_means.h"
#include <assert.h>
#include <math.h>

double student_t95(int degrees) {
  static const double table[] = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                 2.306, 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                 2.120, 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
                                 2.064, 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  enum { LAST = sizeof table / sizeof *table - 1 };
  assert(degrees >= 1);
  return degrees <= LAST ? table[degrees] : 1.960 + 2.46 / degrees;
}

double batch_means_half_width(const double *sums, const double *weights, size_t n) {
  enum { MOST_CORRELATION = 8 }; // tenths
  double sum = 0, weight = 0, squares = 0, products = 0, previous = 0;
  for (size_t i = 0; i < n; i++) {
    sum += sums[i];
    weight += weights[i];
  }
  if (n < BATCH_MEANS_LEAST || weight <= 0) return NAN;
  for (size_t i = 0; i < n; i++) {
    const double distance = sums[i] - sum / weight * weights[i];
    squares += distance * distance;
    products += distance * previous;
    previous = distance;
  }
  if (squares <= 0) return 0;
  // Of independent batches it is beyond this once in twenty times.
  const double chance = 1.645 / sqrt((double)n), found = products / squares;
  const double lag1 = found > chance ? fmin(found, MOST_CORRELATION / 10.0) : 0;
  const double variance =
      squares * (double)n / (double)(n - 1) / (weight * weight) * (1 + lag1) / (1 - lag1);
  return student_t95((int)n - 1) * sqrt(variance);
}

size_t mser(const double *means, size_t n) {
  double sum = 0, squares = 0, best = INFINITY;
  size_t cut = 0;
  for (size_t i = n; i-- > 0;) { // the rest is means[i … n)
    const double count = (double)(n - i), delta = means[i] - (count > 1 ? sum / (count - 1) : 0);
    squares += count > 1 ? delta * delta * (count - 1) / count : 0;
    sum += means[i];
    if (i <= n / 2 && squares / (count * count) <= best) {
      best = squares / (count * count);
      cut = i;
    }
  }
  return cut;
}
