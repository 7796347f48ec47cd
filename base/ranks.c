/* See ranks.h. */
#include "base/ranks.h"
#include <assert.h>
#include <string.h>

void ranks_init(Ranks *self, uint32_t capacity, Arena *arena) {
  *self = (Ranks){.capacity = capacity};
  while ((uint64_t)1 << self->n_bits < capacity)
    self->n_bits++;
  self->zeros = ARENA_ARRAY(arena, uint32_t, (size_t)self->n_bits * (capacity + 1));
  self->level = ARENA_ARRAY(arena, uint32_t, capacity);
  self->others = ARENA_ARRAY(arena, uint32_t, capacity);
}

static uint32_t *zeros_of(const Ranks *self, int bit) {
  return &self->zeros[(size_t)bit * (self->capacity + 1)];
}

/* From the highest bit down, each level has the numbers whose bit is 0 before those with 1. */
void ranks_build(Ranks *self, const uint32_t *numbers, uint32_t n) {
  assert(n <= self->capacity);
  self->n = n;
  memcpy(self->level, numbers, n * sizeof *numbers);
  for (int bit = self->n_bits - 1; bit >= 0; bit--) {
    uint32_t *zeros = zeros_of(self, bit), n_zeros = 0, n_ones = 0;
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t number = self->level[i];
      zeros[i] = n_zeros;
      if (number >> bit & 1)
        self->others[n_ones++] = number;
      else
        self->level[n_zeros++] = number;
    }
    zeros[n] = n_zeros;
    memcpy(&self->level[n_zeros], self->others, n_ones * sizeof *self->others);
  }
}

uint32_t ranks_find(const Ranks *self, uint32_t n, uint32_t k) {
  assert(k < n && n <= self->n);
  uint32_t from = 0, to = n, found = 0;
  for (int bit = self->n_bits - 1; bit >= 0; bit--) {
    const uint32_t *zeros = zeros_of(self, bit);
    const uint32_t low = zeros[from], high = zeros[to], n_zeros = zeros[self->n];
    if (k < high - low) {
      from = low;
      to = high;
    } else {
      k -= high - low;
      from += n_zeros - low;
      to += n_zeros - high;
      found |= (uint32_t)1 << bit;
    }
  }
  return found;
}
