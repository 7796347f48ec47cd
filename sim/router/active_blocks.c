/* See active_blocks.h. */
#include "sim/router/active_blocks.h"
#include <assert.h>

void active_blocks_init(ActiveBlocks *self, uint32_t n_instances, Arena *arena) {
  segment_holders_init(&self->of, n_instances, arena);
  self->n_blocks = ARENA_ARRAY(arena, int64_t, n_instances);
}

/* --- ranges, by where they begin and end */

static int64_t n_different(const ActiveBlocks *self, const SegmentHolder *holder) {
  int64_t n = 0, end = 0;
  for (uint32_t ix = holder->first; ix != RANGE_NONE; ix = self->of.ranges[ix].next) {
    const BlockRange *range = &self->of.ranges[ix];
    const int64_t from = range->from > end ? range->from : end;
    if (range->to <= from) continue;
    n += range->to - from;
    end = range->to;
  }
  return n;
}

static bool is_before(const BlockRange *range, const SegmentPart *part) {
  return range->from < part->from || (range->from == part->from && range->to < part->to);
}

/* The place that names the range that the part is, or that it would be before. */
static uint32_t *place_of(ActiveBlocks *self, SegmentHolder *holder, const SegmentPart *part) {
  uint32_t *place = &holder->first;
  while (*place != RANGE_NONE && is_before(&self->of.ranges[*place], part))
    place = &self->of.ranges[*place].next;
  return place;
}

static bool is_at(const ActiveBlocks *self, uint32_t ix, const SegmentPart *part) {
  return ix != RANGE_NONE && self->of.ranges[ix].from == part->from &&
         self->of.ranges[ix].to == part->to;
}

static void add_part(ActiveBlocks *self, InstanceIx instance, const SegmentPart *part) {
  SegmentHolder *holder = segment_holders_enter(&self->of, part->segment, instance);
  const uint32_t there = *place_of(self, holder, part);
  if (is_at(self, there, part)) {
    self->of.ranges[there].n_prompts++;
    return;
  }
  const int64_t before = n_different(self, holder);
  const uint32_t ix = segment_holders_new_range(&self->of); // which may move them all
  self->of.ranges[ix] = (BlockRange){part->from, part->to, 1, there};
  *place_of(self, holder, part) = ix;
  segment_holders_changed(&self->of, holder);
  self->n_blocks[instance] += n_different(self, holder) - before;
}

static void remove_part(ActiveBlocks *self, InstanceIx instance, const SegmentPart *part) {
  SegmentHolder *holder = segment_holders_find(&self->of, part->segment, instance);
  assert(holder);
  uint32_t *place = place_of(self, holder, part);
  const uint32_t ix = *place;
  assert(is_at(self, ix, part));
  if (--self->of.ranges[ix].n_prompts > 0) return;
  const int64_t before = n_different(self, holder);
  *place = self->of.ranges[ix].next;
  segment_holders_free_range(&self->of, ix);
  self->n_blocks[instance] += n_different(self, holder) - before;
  if (holder->first == RANGE_NONE)
    segment_holders_leave(&self->of, holder);
  else
    segment_holders_changed(&self->of, holder);
}

/* --- prompts */

void active_blocks_add(ActiveBlocks *self, InstanceIx instance, const Content *content,
                       int64_t block_size, int64_t n) {
  for (SegmentPart part = {0}; segment_part_next(content, block_size, n, &part);)
    add_part(self, instance, &part);
}

void active_blocks_remove(ActiveBlocks *self, InstanceIx instance, const Content *content,
                          int64_t block_size, int64_t n) {
  for (SegmentPart part = {0}; segment_part_next(content, block_size, n, &part);)
    remove_part(self, instance, &part);
}

const int32_t *active_blocks_match(ActiveBlocks *self, const Content *content, int64_t block_size,
                                   int64_t n) {
  return segment_holders_match(&self->of, content, block_size, n);
}
