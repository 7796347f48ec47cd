/* See step_cells.h. */
#include "perfmodel/import/step_cells.h"
#include "base/key_map.h"
#include <math.h>
#include <stdlib.h>

enum { FINEST_BITS = 4, PART_BITS = 10 }; // 16 parts of an octave

/* ---- Cells ---- */

/* The part of its octave that a number is in, of 2^bits; small ones are apart from one another. */
static uint64_t part_of(int64_t number, int bits) {
  const int exponent = 63 - bits - __builtin_clzll((uint64_t)number | UINT64_C(1) << bits);
  return ((uint64_t)exponent << bits) + ((uint64_t)number >> exponent);
}

/* Never 0: no batch is empty. What needs logits hardly differs in a cell. */
static uint64_t cell_of(const BatchShape *batch, int bits) {
  const int64_t numbers[] = {batch->decode_seqs, batch->context_tokens, batch->prefill_tokens,
                             batch->prefill_area2};
  uint64_t cell = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    cell = cell << PART_BITS | part_of(numbers[i], bits);
  return cell;
}

static bool fits(Step *steps, size_t n, int bits, Arena *arena) {
  KeyMap cells = {0};
  for (size_t i = 0; i < n; i++) {
    steps[i].cell = cell_of(&steps[i].batch, bits);
    key_map_put(&cells, steps[i].cell, arena);
    if (cells.n_keys > STEP_ROWS_MAX && bits > 0) return false;
  }
  return true;
}

static int compare_steps(const void *a, const void *b) {
  const Step *left = a, *right = b;
  if (left->cell != right->cell) return left->cell < right->cell ? -1 : 1;
  if (left->us != right->us) return left->us < right->us ? -1 : 1;
  return batch_compare(&left->batch, &right->batch);
}

/* ---- Rows ---- */

static void add_row(Profile *profile, const ProfileRow *row, const Step *steps, size_t n) {
  const size_t from = n / 4, to = n - n / 4;
  double us = 0, sums[5] = {0};
  for (size_t i = from; i < to; i++) {
    const BatchShape *batch = &steps[i].batch;
    const int64_t numbers[] = {batch->prefill_tokens, batch->prefill_area2, batch->decode_seqs,
                               batch->context_tokens, batch->logit_seqs};
    us += steps[i].us;
    for (int k = 0; k < 5; k++)
      sums[k] += (double)numbers[k];
  }
  const double count = (double)(to - from);
  ProfileRow made = *row;
  made.batch =
      (BatchShape){llround(sums[0] / count), llround(sums[1] / count), llround(sums[2] / count),
                   llround(sums[3] / count), llround(sums[4] / count)};
  made.median_us = us / count;
  made.samples = (int64_t)n;
  profile_add(profile, &made);
}

void step_cells_add(Profile *profile, const ProfileRow *row, Step *steps, size_t n) {
  int bits = FINEST_BITS;
  while (!fits(steps, n, bits, profile->arena))
    bits--;
  qsort(steps, n, sizeof *steps, compare_steps);
  for (size_t first = 0, i = 1; i <= n; i++) {
    if (i < n && steps[i].cell == steps[first].cell) continue;
    add_row(profile, row, steps + first, i - first);
    first = i;
  }
}
