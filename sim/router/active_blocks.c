/* See active_blocks.h. */
#include "sim/router/active_blocks.h"
#include <assert.h>

#define NONE UINT32_MAX

void active_blocks_init(ActiveBlocks *self, uint32_t n_instances, Arena *arena) {
  *self = (ActiveBlocks){.arena = arena, .free_holder = NONE, .free_range = NONE};
  self->n_blocks = ARENA_ARRAY(arena, int64_t, n_instances);
  self->runs = ARENA_ARRAY(arena, int64_t, n_instances);
  self->some = ARENA_ARRAY(arena, InstanceIx, n_instances);
}

/* --- the segments of a prompt */

typedef struct Part {
  uint64_t segment;
  int64_t from, to; // blocks that end in it
  int32_t next;     // segment
} Part;

/* The next one of the first `n` blocks; one of zeros is before the first. */
static bool next_part(const Content *content, int64_t block_size, int64_t n, Part *part) {
  part->from = part->to;
  while (part->from < n) {
    const TraceSegment *segment = &content->segments[part->next++];
    const int64_t end = segment->end / block_size;
    part->to = end < n ? end : n;
    part->segment = hash_mix(segment->id);
    part->segment += part->segment == 0;
    if (part->to > part->from) return true;
  }
  return false;
}

static uint64_t name_of(uint64_t segment, InstanceIx instance) {
  const uint64_t name = hash_fold(segment, instance);
  return name + (name == 0);
}

/* --- who has a segment */

static SegmentHolder *find(const ActiveBlocks *self, uint64_t segment, InstanceIx instance) {
  const uint32_t *ix = key_map_find(&self->names, name_of(segment, instance));
  return ix ? &self->holders[*ix] : NULL;
}

static SegmentHolder *find_or_enter(ActiveBlocks *self, uint64_t segment, InstanceIx instance) {
  SegmentHolder *holder = find(self, segment, instance);
  if (holder) return holder;
  uint32_t ix = self->free_holder;
  if (ix == NONE) {
    ix = self->n_holders++;
    ARENA_RESERVE(self->arena, self->holders, self->holders_capacity, self->n_holders);
  } else {
    self->free_holder = self->holders[ix].next;
  }
  const uint32_t *first = key_map_find(&self->segments, segment);
  holder = &self->holders[ix];
  *holder = (SegmentHolder){.segment = segment,
                            .name = name_of(segment, instance),
                            .instance = instance,
                            .first = NONE,
                            .next = first ? *first : NONE,
                            .previous = NONE};
  if (first) self->holders[*first].previous = ix;
  *key_map_put(&self->segments, segment, self->arena) = ix;
  *key_map_put(&self->names, holder->name, self->arena) = ix;
  return holder;
}

static void leave(ActiveBlocks *self, SegmentHolder *holder) {
  if (holder->next != NONE) self->holders[holder->next].previous = holder->previous;
  if (holder->previous != NONE)
    self->holders[holder->previous].next = holder->next;
  else if (holder->next != NONE)
    *key_map_find(&self->segments, holder->segment) = holder->next;
  else
    key_map_remove(&self->segments, holder->segment);
  key_map_remove(&self->names, holder->name);
  holder->next = self->free_holder;
  self->free_holder = (uint32_t)(holder - self->holders);
}

/* --- ranges, by where they begin and end */

static int64_t n_different(const ActiveBlocks *self, const SegmentHolder *holder) {
  int64_t n = 0, end = 0;
  for (uint32_t ix = holder->first; ix != NONE; ix = self->ranges[ix].next) {
    const BlockRange *range = &self->ranges[ix];
    const int64_t from = range->from > end ? range->from : end;
    if (range->to <= from) continue;
    n += range->to - from;
    end = range->to;
  }
  return n;
}

/* Up to where blocks from one on are there. */
static int64_t reach(const ActiveBlocks *self, const SegmentHolder *holder, int64_t at) {
  for (uint32_t ix = holder->first; ix != NONE; ix = self->ranges[ix].next) {
    const BlockRange *range = &self->ranges[ix];
    if (range->from > at) break;
    if (range->to > at) at = range->to;
  }
  return at;
}

static bool is_before(const BlockRange *range, const Part *part) {
  return range->from < part->from || (range->from == part->from && range->to < part->to);
}

/* The place that names the range that the part is, or that it would be before. */
static uint32_t *place_of(ActiveBlocks *self, SegmentHolder *holder, const Part *part) {
  uint32_t *place = &holder->first;
  while (*place != NONE && is_before(&self->ranges[*place], part))
    place = &self->ranges[*place].next;
  return place;
}

static bool is_at(const ActiveBlocks *self, uint32_t ix, const Part *part) {
  return ix != NONE && self->ranges[ix].from == part->from && self->ranges[ix].to == part->to;
}

static uint32_t new_range(ActiveBlocks *self) {
  const uint32_t ix = self->free_range;
  if (ix == NONE) {
    ARENA_RESERVE(self->arena, self->ranges, self->ranges_capacity, (size_t)self->n_ranges + 1);
    return self->n_ranges++;
  }
  self->free_range = self->ranges[ix].next;
  return ix;
}

static void add_part(ActiveBlocks *self, InstanceIx instance, const Part *part) {
  SegmentHolder *holder = find_or_enter(self, part->segment, instance);
  const uint32_t there = *place_of(self, holder, part);
  if (is_at(self, there, part)) {
    self->ranges[there].n_prompts++;
    return;
  }
  const int64_t before = n_different(self, holder);
  const uint32_t ix = new_range(self); // which may move them all
  self->ranges[ix] = (BlockRange){part->from, part->to, 1, there};
  *place_of(self, holder, part) = ix;
  self->n_blocks[instance] += n_different(self, holder) - before;
}

static void remove_part(ActiveBlocks *self, InstanceIx instance, const Part *part) {
  SegmentHolder *holder = find(self, part->segment, instance);
  assert(holder);
  uint32_t *place = place_of(self, holder, part);
  const uint32_t ix = *place;
  assert(is_at(self, ix, part));
  if (--self->ranges[ix].n_prompts > 0) return;
  const int64_t before = n_different(self, holder);
  *place = self->ranges[ix].next;
  self->ranges[ix].next = self->free_range;
  self->free_range = ix;
  self->n_blocks[instance] += n_different(self, holder) - before;
  if (holder->first == NONE) leave(self, holder);
}

/* --- prompts */

void active_blocks_add(ActiveBlocks *self, InstanceIx instance, const Content *content,
                       int64_t block_size, int64_t n) {
  for (Part part = {0}; next_part(content, block_size, n, &part);)
    add_part(self, instance, &part);
}

void active_blocks_remove(ActiveBlocks *self, InstanceIx instance, const Content *content,
                          int64_t block_size, int64_t n) {
  for (Part part = {0}; next_part(content, block_size, n, &part);)
    remove_part(self, instance, &part);
}

/* Whether an instance has all of a part behind all before it. */
static bool extend_runs(ActiveBlocks *self, const Part *part) {
  const uint32_t *first = key_map_find(&self->segments, part->segment);
  bool any = false;
  for (uint32_t ix = first ? *first : NONE; ix != NONE; ix = self->holders[ix].next) {
    const SegmentHolder *holder = &self->holders[ix];
    int64_t *run = &self->runs[holder->instance];
    if (*run != part->from) continue;
    const int64_t to = reach(self, holder, part->from);
    if (*run == 0 && to > 0) self->some[self->n_some++] = holder->instance;
    *run = to < part->to ? to : part->to;
    any |= *run == part->to;
  }
  return any;
}

const int64_t *active_blocks_match(ActiveBlocks *self, const Content *content, int64_t block_size,
                                   int64_t n) {
  while (self->n_some > 0)
    self->runs[self->some[--self->n_some]] = 0;
  for (Part part = {0}; next_part(content, block_size, n, &part);)
    if (!extend_runs(self, &part)) break;
  return self->runs;
}
