/* Philox 4×32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four
 * random words from a counter and a key, the same on a host and on a GPU and in any order. */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H
#include <stdint.h>

#ifdef __CUDACC__
#define KERNELS_PHILOX_FUNCTION static inline __host__ __device__
#else
#define KERNELS_PHILOX_FUNCTION static inline
#endif

typedef struct PhiloxWords {
  uint32_t at[4];
} PhiloxWords;

KERNELS_PHILOX_FUNCTION PhiloxWords philox_words(PhiloxWords counter, uint64_t key) {
  uint32_t low_key = (uint32_t)key, high_key = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xd2511f53u * counter.at[0];
    const uint64_t b = (uint64_t)0xcd9e8d57u * counter.at[2];
    const PhiloxWords next = {{(uint32_t)(b >> 32) ^ counter.at[1] ^ low_key, (uint32_t)b,
                               (uint32_t)(a >> 32) ^ counter.at[3] ^ high_key, (uint32_t)a}};
    counter = next;
    low_key += 0x9e3779b9u;
    high_key += 0xbb67ae85u;
  }
  return counter;
}

/* The words from which elements 4·group … 4·group + 3 of an array are made. */
KERNELS_PHILOX_FUNCTION PhiloxWords philox_group(uint64_t group, uint64_t seed) {
  const PhiloxWords counter = {{(uint32_t)group, (uint32_t)(group >> 32), 0, 0}};
  return philox_words(counter, seed);
}
#endif
