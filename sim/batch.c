/* See batch.h. */
#include "sim/batch.h"
#include <assert.h>

void batch_init(Batch *self, int64_t block_size, Arena *arena) {
  assert(block_size > 0);
  *self = (Batch){.block_size = block_size, .residues = ARENA_ARRAY(arena, int32_t, block_size)};
}

static inline bool before(const BatchEntry *a, const BatchEntry *b) {
  return a->finish < b->finish || (a->finish == b->finish && a->request < b->request);
}

static inline void place(Batch *self, Request *slots, size_t index, BatchEntry entry) {
  self->entries[index] = entry;
  slots[entry.request].batch_index = (uint32_t)index;
}

static void sift_up(Batch *self, Request *slots, size_t index, BatchEntry entry) {
  while (index > 0) {
    size_t parent = (index - 1) / 2;
    if (!before(&entry, &self->entries[parent])) break;
    place(self, slots, index, self->entries[parent]);
    index = parent;
  }
  place(self, slots, index, entry);
}

static void sift_down(Batch *self, Request *slots, size_t index, BatchEntry entry) {
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= self->n_seqs) break;
    if (child + 1 < self->n_seqs && before(&self->entries[child + 1], &self->entries[child]))
      child++;
    if (!before(&self->entries[child], &entry)) break;
    place(self, slots, index, self->entries[child]);
    index = child;
  }
  place(self, slots, index, entry);
}

static inline int64_t residue(const Batch *self, int64_t context) {
  int64_t r = (context - 1 - self->iterations) % self->block_size;
  return r < 0 ? r + self->block_size : r;
}

void batch_push(Batch *self, Request *slots, RequestIx request, int64_t context, int64_t remaining,
                Arena *arena) {
  assert(remaining > 0 && context > 0);
  ARENA_RESERVE(arena, self->entries, self->capacity, self->n_seqs + 1);
  const BatchEntry entry = {.finish = self->iterations + remaining, .request = request};
  sift_up(self, slots, self->n_seqs++, entry);
  self->context_tokens += context;
  self->residues[residue(self, context)]++;
}

int64_t batch_remove(Batch *self, Request *slots, RequestIx request, int64_t context) {
  size_t index = slots[request].batch_index;
  assert(index < self->n_seqs && self->entries[index].request == request);
  const int64_t remaining = self->entries[index].finish - self->iterations;
  const BatchEntry last = self->entries[--self->n_seqs];
  if (index < self->n_seqs) {
    if (index > 0 && before(&last, &self->entries[(index - 1) / 2]))
      sift_up(self, slots, index, last);
    else
      sift_down(self, slots, index, last);
  }
  self->context_tokens -= context;
  self->residues[residue(self, context)]--;
  assert(self->residues[residue(self, context)] >= 0 && remaining >= 0);
  return remaining;
}

void batch_advance(Batch *self, int64_t n) {
  assert(self->n_seqs > 0 && n >= 0 && n <= batch_until_finish(self));
  self->iterations += n;
  self->context_tokens += n * (int64_t)self->n_seqs;
}

/* Sequences that take a block in iteration `i` from now: those whose context before its newest
 * token is a multiple of the block size then. */
static inline int64_t takers(const Batch *self, int64_t i) {
  int64_t r = -(self->iterations + i) % self->block_size;
  return self->residues[r < 0 ? r + self->block_size : r];
}

int64_t batch_growth(const Batch *self, int64_t n) {
  int64_t blocks = n / self->block_size * (int64_t)self->n_seqs;
  for (int64_t i = 0; i < n % self->block_size; i++)
    blocks += takers(self, i);
  return blocks;
}

int64_t batch_margin(const Batch *self, int64_t n, size_t n_joining) {
  const int64_t joining = (int64_t)n_joining, size = self->block_size;
  if (size <= BATCH_MARGIN_TOKENS) return (int64_t)self->n_seqs + joining;
  return batch_growth(self, n + BATCH_MARGIN_TOKENS) - batch_growth(self, n) +
         (joining * BATCH_MARGIN_TOKENS + size - 1) / size;
}

int64_t batch_fitting(const Batch *self, int64_t free_blocks, int64_t limit) {
  assert(free_blocks >= 0);
  const int64_t n_seqs = (int64_t)self->n_seqs;
  if (n_seqs == 0 || (limit / self->block_size + 1) * n_seqs <= free_blocks) return limit;
  int64_t n = free_blocks / n_seqs * self->block_size;
  int64_t left = free_blocks % n_seqs;
  while (n < limit && left >= takers(self, n))
    left -= takers(self, n++);
  return n;
}
