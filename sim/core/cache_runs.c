/* See cache_runs.h. */
#include "sim/core/cache_runs.h"
#include "base/hash.h"
#include <assert.h>

/* --- what stands for blocks */

BlockIx cache_runs_begin(CacheRuns *self, CacheRun run) {
  BlockIx ix = self->unused;
  if (ix != BLOCK_NONE) {
    self->unused = self->items[ix].next;
  } else {
    ix = self->n_used++;
    ARENA_RESERVE(self->arena, self->items, self->capacity, (size_t)self->n_used);
  }
  self->items[ix] = run;
  return ix;
}

void cache_runs_end(CacheRuns *self, BlockIx ix) {
  self->items[ix] = (CacheRun){.next = self->unused};
  self->unused = ix;
}

/* --- runs by id */

/* Where an id is first looked for. */
static size_t home_of(const CacheRuns *self, uint64_t id) {
  return (size_t)hash_mix(id) & (self->n_slots - 1);
}

/* Where an id is or would be. */
static size_t slot_of(const CacheRuns *self, uint64_t id) {
  const size_t mask = self->n_slots - 1;
  size_t i = home_of(self, id);
  while (self->slots[i].id != 0 && self->slots[i].id != id)
    i = (i + 1) & mask;
  return i;
}

BlockIx cache_runs_list(const CacheRuns *self, uint64_t id) {
  if (self->n_slots == 0) return BLOCK_NONE;
  const CacheSlot *slot = &self->slots[slot_of(self, id)];
  return slot->id == 0 ? BLOCK_NONE : slot->first;
}

/* Twice the slots, and each id put anew. */
static void grow(CacheRuns *self) {
  const size_t n_old = self->n_slots;
  CacheSlot *old = self->slots;
  self->n_slots = n_old > 0 ? 2 * n_old : 64;
  self->slots = ARENA_ARRAY(self->arena, CacheSlot, self->n_slots);
  for (size_t i = 0; i < n_old; i++)
    if (old[i].id != 0) self->slots[slot_of(self, old[i].id)] = old[i];
}

/* Empties a slot; those behind it that could be nearer to their place move up. */
static void empty_slot(CacheRuns *self, size_t hole) {
  const size_t mask = self->n_slots - 1;
  for (size_t i = (hole + 1) & mask; self->slots[i].id != 0; i = (i + 1) & mask) {
    const size_t home = home_of(self, self->slots[i].id);
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    self->slots[hole] = self->slots[i];
    hole = i;
  }
  self->slots[hole] = (CacheSlot){0};
  self->n_ids--;
}

void cache_runs_link(CacheRuns *self, BlockIx ix, BlockIx previous) {
  CacheRun *run = &self->items[ix];
  BlockIx next = self->items[previous].next_same;
  for (; next != BLOCK_NONE && self->items[next].first <= run->first;
       next = self->items[next].next_same)
    previous = next;
  run->previous_same = previous;
  run->next_same = next;
  self->items[previous].next_same = ix;
  if (next != BLOCK_NONE) self->items[next].previous_same = ix;
}

void cache_runs_join(CacheRuns *self, BlockIx ix) {
  CacheRun *run = &self->items[ix];
  run->registered = self->n_registered++;
  if (2 * (self->n_ids + 1) > self->n_slots) grow(self);
  CacheSlot *slot = &self->slots[slot_of(self, run->id)];
  const BlockIx first = slot->id == 0 ? BLOCK_NONE : slot->first;
  if (first != BLOCK_NONE && self->items[first].first <= run->first) {
    cache_runs_link(self, ix, first);
    return;
  }
  self->n_ids += slot->id == 0;
  *slot = (CacheSlot){run->id, ix};
  run->previous_same = BLOCK_NONE;
  run->next_same = first;
  if (first != BLOCK_NONE) self->items[first].previous_same = ix;
}

void cache_runs_leave(CacheRuns *self, BlockIx ix) {
  const CacheRun *run = &self->items[ix];
  const BlockIx previous = run->previous_same, next = run->next_same;
  if (next != BLOCK_NONE) self->items[next].previous_same = previous;
  if (previous != BLOCK_NONE) {
    self->items[previous].next_same = next;
    return;
  }
  const size_t slot = slot_of(self, run->id);
  if (next == BLOCK_NONE)
    empty_slot(self, slot);
  else
    self->slots[slot].first = next;
}

BlockIx cache_runs_find(const CacheRuns *self, BlockIx at, BlockIx but, int64_t i,
                        int64_t *ret_until) {
  BlockIx found = BLOCK_NONE;
  int64_t until = INT64_MAX;
  for (; at != BLOCK_NONE && self->items[at].first < until; at = self->items[at].next_same) {
    const CacheRun *run = &self->items[at];
    if (at == but || cache_run_end(run) <= i) continue;
    if (found != BLOCK_NONE && run->registered > self->items[found].registered) continue;
    if (run->first > i)
      until = run->first;
    else
      found = at;
  }
  if (found != BLOCK_NONE && cache_run_end(&self->items[found]) < until)
    until = cache_run_end(&self->items[found]);
  *ret_until = until;
  return found;
}

BlockIx cache_runs_first(const CacheRuns *self, BlockIx ix) {
  while (self->items[ix].previous_same != BLOCK_NONE)
    ix = self->items[ix].previous_same;
  return ix;
}

bool cache_runs_overlap(const CacheRuns *self, BlockIx at, BlockIx but, BlockIx nor, int64_t from,
                        int64_t until, int64_t since) {
  for (; at != BLOCK_NONE && self->items[at].first < until; at = self->items[at].next_same) {
    const CacheRun *run = &self->items[at];
    if (at != but && at != nor && cache_run_end(run) > from && run->registered >= since)
      return true;
  }
  return false;
}

/* --- audit */

/* Of a list; how many blocks it finds. */
static int64_t check_list(const CacheRuns *self, const CacheSlot *slot) {
  int64_t n_found = 0, end = INT64_MIN;
  BlockIx previous = BLOCK_NONE;
  for (BlockIx ix = slot->first; ix != BLOCK_NONE; ix = self->items[ix].next_same) {
    const CacheRun *run = &self->items[ix];
    assert(run->id == slot->id && run->n > 0 && run->previous_same == previous);
    assert(previous == BLOCK_NONE || self->items[previous].first <= run->first);
    const int64_t from = run->first > end ? run->first : end;
    if (cache_run_end(run) > from) n_found += cache_run_end(run) - from;
    if (cache_run_end(run) > end) end = cache_run_end(run);
    previous = ix;
  }
  return n_found;
}

int64_t cache_runs_audit(const CacheRuns *self) {
  int64_t n_found = 0;
  size_t n_ids = 0;
  for (size_t i = 0; i < self->n_slots; i++) {
    if (self->slots[i].id == 0) continue;
    n_ids++;
    n_found += check_list(self, &self->slots[i]);
  }
  assert(n_ids == self->n_ids);
  return n_found;
}
