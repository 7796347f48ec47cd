/* Normal numbers from counters: Philox words by Box and Muller (1958). */
#include <math.h>

#include "kernels/philox.h"
#include "kernels/reference/reference.h"

void reference_fill_normal(double *out, int64_t n, double deviation, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) {
    const PhiloxWords words = philox_group((uint64_t)i / 4, seed);
    const int64_t pair = i % 4 / 2;
    const double radius = sqrt(-2 * log((words.at[2 * pair] + 0.5) * 0x1p-32));
    const double angle = 2 * acos(-1) * words.at[2 * pair + 1] * 0x1p-32;
    out[i] = deviation * radius * (i % 2 == 0 ? cos(angle) : sin(angle));
  }
}
