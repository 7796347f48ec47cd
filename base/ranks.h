/* The k-th smallest of the first n numbers of a sequence, for any k and n, in as many steps as the
 * numbers have bits: a wavelet matrix (Claude, Navarro and Ordóñez 2015). */
#ifndef BASE_RANKS_H
#define BASE_RANKS_H
#include "base/arena.h"
#include <stdint.h>

typedef struct Ranks {
  uint32_t capacity, n;
  int n_bits;       // of every number
  uint32_t *zeros;  // [n_bits][capacity + 1] of the first i at a level, those whose bit is 0
  uint32_t *level;  // [capacity] numbers in the order of a level; reused
  uint32_t *others; // [capacity] reused
} Ranks;

/* For up to `capacity` numbers, each below it. */
void ranks_init(Ranks *self, uint32_t capacity, Arena *arena);
void ranks_build(Ranks *self, const uint32_t *numbers, uint32_t n);
/* k < n <= those it was built of. */
uint32_t ranks_find(const Ranks *self, uint32_t n, uint32_t k);
#endif
