/* See batch.h. */
#include "sim/core/batch.h"
#include "base/heap.h"
#include <assert.h>

void batch_init(Batch *self, int64_t block_size, Arena *arena) {
  assert(block_size > 0);
  const bool power = (block_size & (block_size - 1)) == 0;
  *self = (Batch){.block_size = block_size,
                  .block_shift = power ? __builtin_ctzll((uint64_t)block_size) : -1,
                  .takers = ARENA_ARRAY(arena, int32_t, block_size)};
}

static inline Wide heap_key(const BatchEntry *entry) {
  return wide_of(entry->finish, entry->request);
}

static inline void heap_moved(Request *slots, size_t index, const BatchEntry *entry) {
  slots[entry->request].batch_index = (uint32_t)index;
}

HEAP_STEPS(Request, BatchEntry)
HEAP_REPLACE(Request, BatchEntry)

static inline int64_t modulo(const Batch *self, int64_t x) {
  if (self->block_shift >= 0) return x & (self->block_size - 1);
  const int64_t rest = x % self->block_size;
  return rest < 0 ? rest + self->block_size : rest;
}

/* Where a sequence with that context counts. */
static inline int64_t place_with(const Batch *self, int64_t context) {
  return modulo(self, self->iterations + 1 - context);
}

void batch_keep_lists(Batch *self, Arena *arena) {
  assert(self->n_seqs == 0);
  self->lists = ARENA_ARRAY(arena, TakerList, self->block_size);
  for (int64_t i = 0; i < self->block_size; i++)
    self->lists[i] = (TakerList){REQUEST_NONE, REQUEST_NONE};
}

/* Mostly the last to be admitted. */
static void list_taker(TakerList *list, Request *slots, RequestIx ix) {
  RequestIx previous = list->last;
  while (previous != REQUEST_NONE && slots[previous].admission > slots[ix].admission)
    previous = slots[previous].previous_taker;
  const RequestIx next = previous == REQUEST_NONE ? list->first : slots[previous].next_taker;
  slots[ix].previous_taker = previous;
  slots[ix].next_taker = next;
  *(previous == REQUEST_NONE ? &list->first : &slots[previous].next_taker) = ix;
  *(next == REQUEST_NONE ? &list->last : &slots[next].previous_taker) = ix;
}

static void unlist_taker(TakerList *list, Request *slots, RequestIx ix) {
  const RequestIx previous = slots[ix].previous_taker, next = slots[ix].next_taker;
  *(previous == REQUEST_NONE ? &list->first : &slots[previous].next_taker) = next;
  *(next == REQUEST_NONE ? &list->last : &slots[next].previous_taker) = previous;
}

void batch_keep_visits(Batch *self, Arena *arena) {
  self->visits = ARENA_ARRAY(arena, TakerList, BATCH_VISITS);
  for (int64_t i = 0; i < BATCH_VISITS; i++)
    self->visits[i] = (TakerList){REQUEST_NONE, REQUEST_NONE};
}

void batch_visit_at(Batch *self, Request *slots, RequestIx request, int64_t count) {
  assert(self->iterations <= count && count < self->iterations + BATCH_VISITS);
  list_taker(&self->visits[count % BATCH_VISITS], slots, request);
}

void batch_visit_no_more(Batch *self, Request *slots, RequestIx request, int64_t count) {
  unlist_taker(&self->visits[count % BATCH_VISITS], slots, request);
}

void batch_push(Batch *self, Request *slots, RequestIx request, int64_t context, int64_t remaining,
                Arena *arena) {
  assert(remaining > 0 && context > 0);
  ARENA_RESERVE(arena, self->entries, self->capacity, self->n_seqs + 1);
  const BatchEntry entry = {.finish = self->iterations + remaining, .request = request};
  const Request *added = &slots[request];
  slots[request].overruns =
      context + remaining > (int64_t)added->prompt_tokens + added->output_tokens;
  heap_rise(slots, self->entries, self->n_seqs++, &entry);
  self->context_tokens += context;
  const int64_t place = place_with(self, context);
  self->takers[place]++;
  if (self->lists) list_taker(&self->lists[place], slots, request);
}

int64_t batch_remove(Batch *self, Request *slots, RequestIx request, int64_t context) {
  size_t index = slots[request].batch_index;
  assert(index < self->n_seqs && self->entries[index].request == request);
  const int64_t remaining = self->entries[index].finish - self->iterations;
  const BatchEntry last = self->entries[--self->n_seqs];
  if (index < self->n_seqs) heap_replace(slots, self->entries, self->n_seqs, index, &last);
  self->context_tokens -= context;
  const int64_t place = place_with(self, context);
  const int32_t left = --self->takers[place];
  assert(left >= 0 && remaining >= 0);
  if (self->lists) unlist_taker(&self->lists[place], slots, request);
  return remaining;
}

void batch_advance(Batch *self, int64_t n) {
  assert(self->n_seqs > 0 && n >= 0 && n <= batch_until_finish(self));
  self->iterations += n;
  self->place = modulo(self, self->iterations);
  self->context_tokens += n * (int64_t)self->n_seqs;
}

/* The place of the iteration after the one at `place`. */
static inline int64_t next_place(const Batch *self, int64_t place) {
  return place + 1 < self->block_size ? place + 1 : 0;
}

int64_t batch_growth(const Batch *self, int64_t n) {
  const int64_t whole = batch_whole_blocks(self, n);
  int64_t blocks = whole * (int64_t)self->n_seqs, place = self->place;
  for (int64_t left = n - whole * self->block_size; left > 0; left--) {
    blocks += self->takers[place];
    place = next_place(self, place);
  }
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
  if (n_seqs == 0 || (batch_whole_blocks(self, limit) + 1) * n_seqs <= free_blocks) return limit;
  int64_t n = free_blocks / n_seqs * self->block_size;
  int64_t left = free_blocks % n_seqs, place = self->place;
  for (; n < limit && left >= self->takers[place]; n++) {
    left -= self->takers[place];
    place = next_place(self, place);
  }
  return n;
}
