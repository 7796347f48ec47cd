/* Elements of 16 bits as numbers: bfloat16 and IEEE binary16, in plain C.
 *
 * Written from the formats' definitions and without the compiler's own types, so that it is a
 * reference for what a GPU rounds: to nearest, ties to even, beyond the largest number infinity,
 * below the smallest normal one subnormals. */
#ifndef KERNELS_HALF_H
#define KERNELS_HALF_H
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The number that 16 bits stand for, exactly; NAN for any NaN. */
double half_decode(CalibDtype dtype, uint16_t bits);

/* The bits nearest to a number, rounded once; for NAN a quiet one. */
uint16_t half_encode(CalibDtype dtype, double value);

/* The number that 8 bits stand for in e4m3 (fp8.h), which has no infinity; NAN for both NaNs. */
double e4m3_decode(uint8_t bits);

/* Element i of an array. */
static inline double half_load(CalibDtype dtype, const void *array, int64_t i) {
  return half_decode(dtype, ((const uint16_t *)array)[i]);
}
static inline void half_store(CalibDtype dtype, void *array, int64_t i, double value) {
  ((uint16_t *)array)[i] = half_encode(dtype, value);
}

#ifdef __cplusplus
}
#endif
#endif
