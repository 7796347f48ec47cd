/* See segment_holders.h. */
#include "sim/core/segment_holders.h"
#include "base/hash.h"
#include <assert.h>

void segment_holders_init(SegmentHolders *self, uint32_t n_instances, Arena *arena) {
  *self = (SegmentHolders){.arena = arena, .free_holder = RANGE_NONE, .free_range = RANGE_NONE};
  self->runs = ARENA_ARRAY(arena, int64_t, n_instances);
  self->some = ARENA_ARRAY(arena, InstanceIx, n_instances);
}

/* --- the segments of a prompt */

static uint64_t segment_of(uint64_t id) {
  const uint64_t segment = hash_mix(id);
  return segment + (segment == 0);
}

bool segment_part_next(const Content *content, int64_t block_size, int64_t n, SegmentPart *part) {
  part->from = part->to;
  while (part->from < n) {
    const TraceSegment *segment = &content->segments[part->next++];
    const int64_t end = segment->end / block_size;
    part->to = end < n ? end : n;
    part->segment = segment_of(segment->id);
    if (part->to > part->from) return true;
  }
  return false;
}

/* --- who has a segment */

static uint64_t name_of(uint64_t segment, InstanceIx instance) {
  const uint64_t name = hash_fold(segment, instance);
  return name + (name == 0);
}

/* --- who has a segment */

SegmentHolder *segment_holders_find(const SegmentHolders *self, uint64_t segment,
                                    InstanceIx instance) {
  const uint32_t *ix = key_map_find(&self->names, name_of(segment, instance));
  return ix ? &self->holders[*ix] : NULL;
}

SegmentHolder *segment_holders_enter(SegmentHolders *self, uint64_t segment, InstanceIx instance) {
  SegmentHolder *holder = segment_holders_find(self, segment, instance);
  if (holder) return holder;
  uint32_t ix = self->free_holder;
  if (ix == RANGE_NONE) {
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
                            .first = RANGE_NONE,
                            .next = first ? *first : RANGE_NONE,
                            .previous = RANGE_NONE};
  if (first) self->holders[*first].previous = ix;
  *key_map_put(&self->segments, segment, self->arena) = ix;
  *key_map_put(&self->names, holder->name, self->arena) = ix;
  return holder;
}

void segment_holders_leave(SegmentHolders *self, SegmentHolder *holder) {
  if (holder->next != RANGE_NONE) self->holders[holder->next].previous = holder->previous;
  if (holder->previous != RANGE_NONE)
    self->holders[holder->previous].next = holder->next;
  else if (holder->next != RANGE_NONE)
    *key_map_find(&self->segments, holder->segment) = holder->next;
  else
    key_map_remove(&self->segments, holder->segment);
  key_map_remove(&self->names, holder->name);
  holder->next = self->free_holder;
  self->free_holder = (uint32_t)(holder - self->holders);
}

/* --- ranges */

uint32_t segment_holders_new_range(SegmentHolders *self) {
  const uint32_t ix = self->free_range;
  if (ix == RANGE_NONE) {
    ARENA_RESERVE(self->arena, self->ranges, self->ranges_capacity, (size_t)self->n_ranges + 1);
    return self->n_ranges++;
  }
  self->free_range = self->ranges[ix].next;
  return ix;
}

void segment_holders_free_range(SegmentHolders *self, uint32_t ix) {
  self->ranges[ix].next = self->free_range;
  self->free_range = ix;
}

void segment_holders_add(SegmentHolders *self, InstanceIx instance, uint64_t id, int64_t from,
                         int64_t to) {
  SegmentHolder *holder = segment_holders_enter(self, segment_of(id), instance);
  uint32_t before = RANGE_NONE, next = holder->first;
  for (; next != RANGE_NONE && self->ranges[next].from < from; next = self->ranges[next].next)
    before = next;
  const bool joins = before != RANGE_NONE && self->ranges[before].to == from;
  const bool joins_next = next != RANGE_NONE && self->ranges[next].from == to;
  if (joins && joins_next) {
    self->ranges[before].to = self->ranges[next].to;
    self->ranges[before].next = self->ranges[next].next;
    segment_holders_free_range(self, next);
  } else if (joins) {
    self->ranges[before].to = to;
  } else if (joins_next) {
    self->ranges[next].from = from;
  } else {
    const uint32_t ix = segment_holders_new_range(self);
    self->ranges[ix] = (BlockRange){.from = from, .to = to, .next = next};
    *(before == RANGE_NONE ? &holder->first : &self->ranges[before].next) = ix;
  }
}

void segment_holders_remove(SegmentHolders *self, InstanceIx instance, uint64_t id, int64_t from,
                            int64_t to) {
  SegmentHolder *holder = segment_holders_find(self, segment_of(id), instance);
  assert(holder);
  uint32_t before = RANGE_NONE, ix = holder->first;
  for (; self->ranges[ix].to < to; ix = self->ranges[ix].next)
    before = ix;
  const BlockRange range = self->ranges[ix];
  assert(range.from <= from && to <= range.to);
  if (range.from == from && range.to == to) {
    *(before == RANGE_NONE ? &holder->first : &self->ranges[before].next) = range.next;
    segment_holders_free_range(self, ix);
    if (holder->first == RANGE_NONE) segment_holders_leave(self, holder);
  } else if (range.from == from) {
    self->ranges[ix].from = to;
  } else {
    self->ranges[ix].to = from;
    if (range.to == to) return;
    const uint32_t rest = segment_holders_new_range(self);
    self->ranges[rest] = (BlockRange){.from = to, .to = range.to, .next = range.next};
    self->ranges[ix].next = rest;
  }
}

/* --- a match */

/* Up to where blocks from one on are there. */
static int64_t reach(const SegmentHolders *self, const SegmentHolder *holder, int64_t at) {
  for (uint32_t ix = holder->first; ix != RANGE_NONE; ix = self->ranges[ix].next) {
    const BlockRange *range = &self->ranges[ix];
    if (range->from > at) break;
    if (range->to > at) at = range->to;
  }
  return at;
}

/* Whether an instance has all of a part behind all before it. */
static bool extend_runs(SegmentHolders *self, const SegmentPart *part) {
  const uint32_t *first = key_map_find(&self->segments, part->segment);
  bool any = false;
  for (uint32_t ix = first ? *first : RANGE_NONE; ix != RANGE_NONE; ix = self->holders[ix].next) {
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

const int64_t *segment_holders_match(SegmentHolders *self, const Content *content,
                                     int64_t block_size, int64_t n) {
  while (self->n_some > 0)
    self->runs[self->some[--self->n_some]] = 0;
  for (SegmentPart part = {0}; segment_part_next(content, block_size, n, &part);)
    if (!extend_runs(self, &part)) break;
  return self->runs;
}

int64_t segment_holders_match_one(const SegmentHolders *self, InstanceIx instance,
                                  const Content *content, int64_t block_size, int64_t n) {
  SegmentPart part = {0};
  while (segment_part_next(content, block_size, n, &part)) {
    const SegmentHolder *holder = segment_holders_find(self, part.segment, instance);
    const int64_t to = holder ? reach(self, holder, part.from) : part.from;
    if (to < part.to) return to;
  }
  return part.to;
}
