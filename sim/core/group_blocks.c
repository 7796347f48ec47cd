/* See group_blocks.h. */
#include "sim/core/group_blocks.h"
#include <assert.h>
#include <string.h>

static void add_part(PrefixCache *pool, HeldBlocks *held, BlockIx kind, int64_t n) {
  HeldRun *last = held->n_runs > 0 ? &held->runs[held->n_runs - 1] : NULL;
  if (n == 0) return;
  if (last && last->run == kind) {
    last->n += (int32_t)n;
    return;
  }
  ARENA_RESERVE(pool->arena, held->runs, held->capacity, (size_t)held->n_runs + 1);
  held->runs[held->n_runs++] = (HeldRun){kind, (int32_t)n};
}

/* The null blocks. */
static int64_t n_null(const HeldBlocks *held) {
  return held->n_runs > 0 && held->runs[0].run == BLOCK_NONE ? held->runs[0].n : 0;
}

/* The first `n` blocks of a part are given back. */
static void drop(PrefixCache *pool, HeldRun *part, int64_t n) {
  assert(part->run != BLOCK_NONE);
  if (part->run != BLOCK_BLANK) {
    prefix_cache_drop(pool, part, n);
    return;
  }
  prefix_cache_drop_blank(pool, n);
  part->n -= (int32_t)n;
}

void group_blocks_skip(PrefixCache *pool, HeldBlocks *held, int64_t until) {
  assert(held->n_runs <= 1 && held->n == n_null(held));
  add_part(pool, held, BLOCK_NONE, until - held->n);
  held->n = held->n_registered = (int32_t)until;
}

void group_blocks_hit(PrefixCache *pool, HeldBlocks *held, BlockNames names, int64_t until) {
  prefix_cache_hold(pool, held, names, held->n, until);
  held->n = held->n_registered = (int32_t)until;
}

void group_blocks_take(PrefixCache *pool, HeldBlocks *held, int64_t n) {
  prefix_cache_take(pool, held, n);
  add_part(pool, held, BLOCK_BLANK, n);
}

void group_blocks_name(PrefixCache *pool, HeldBlocks *held, BlockNames names, int64_t from,
                       int64_t until) {
  const int64_t first = n_null(held);
  if (from < first) from = first;
  if (from >= until) return;
  HeldRun *last = &held->runs[held->n_runs - 1];
  const int64_t before = from - (held->n - last->n), behind = held->n - until;
  assert(last->run == BLOCK_BLANK && before >= 0 && behind >= 0);
  if (before > 0)
    last->n = (int32_t)before;
  else
    held->n_runs--;
  prefix_cache_name(pool, held, names, from, until);
  add_part(pool, held, BLOCK_BLANK, behind);
}

int64_t group_blocks_slide(PrefixCache *pool, HeldBlocks *held, int64_t until) {
  const int64_t nulls = n_null(held);
  const int32_t first = nulls > 0;
  if (until <= nulls) return 0;
  int64_t end = nulls; // of the parts from the first on up to that which the last block is in
  int32_t k = first;
  for (; end + held->runs[k].n < until; k++)
    end += held->runs[k].n;
  drop(pool, &held->runs[k], until - end);
  for (int32_t i = k - 1; i >= first; i--)
    drop(pool, &held->runs[i], held->runs[i].n);
  if (held->runs[k].n == 0) k++;
  const int32_t n_left = held->n_runs - k;
  ARENA_RESERVE(pool->arena, held->runs, held->capacity, (size_t)n_left + 1);
  if (k != 1) memmove(held->runs + 1, held->runs + k, (size_t)n_left * sizeof *held->runs);
  held->runs[0] = (HeldRun){BLOCK_NONE, (int32_t)until};
  held->n_runs = n_left + 1;
  return until - nulls;
}

int64_t group_blocks_release(PrefixCache *pool, HeldBlocks *held) {
  const int64_t n = held->n - n_null(held);
  for (; held->n_runs > 0; held->n_runs--) {
    HeldRun *last = &held->runs[held->n_runs - 1];
    if (last->run != BLOCK_NONE) drop(pool, last, last->n);
  }
  held->n = held->n_registered = 0;
  return n;
}

int64_t group_blocks_audit(const PrefixCache *pool, const HeldBlocks *held) {
  int64_t places = 0;
  for (int32_t i = 0; i < held->n_runs; i++) {
    const HeldRun *part = &held->runs[i];
    places += part->n;
    assert(part->n > 0 && (part->run != BLOCK_NONE || i == 0));
    if (part->run == BLOCK_BLANK) assert(i == 0 || held->runs[i - 1].run != BLOCK_BLANK);
    if (part->run >= BLOCK_BLANK) continue;
    int64_t left = part->n;
    for (BlockIx ix = part->run; left > 0; ix = pool->runs.items[ix].rest) {
      assert(pool->runs.items[ix].references > 0);
      left -= pool->runs.items[ix].n;
    }
    assert(left == 0);
  }
  assert(places == held->n && held->n_registered <= held->n);
  return places - n_null(held);
}
