/* See segment_holders.h. */
#include "sim/core/segment_holders.h"
#include "base/hash.h"
#include <assert.h>
#include <string.h>

void segment_holders_init(SegmentHolders *self, uint32_t n_instances, Arena *arena) {
  *self = (SegmentHolders){.arena = arena,
                           .n_instances = n_instances,
                           .free_held = RANGE_NONE,
                           .free_holder = RANGE_NONE,
                           .free_range = RANGE_NONE,
                           .free_row = RANGE_NONE};
  self->runs = ARENA_ARRAY(arena, int32_t, n_instances);
  self->some = ARENA_ARRAY(arena, InstanceIx, n_instances);
}

/* --- the segments of a prompt */

bool segment_part_next(const Content *content, int64_t block_size, int64_t n, SegmentPart *part) {
  part->from = part->to;
  while (part->from < n) {
    const TraceSegment *segment = &content->segments[part->next++];
    const int64_t end = segment->end / block_size;
    part->to = end < n ? end : n;
    part->segment = segment_name(segment->id);
    if (part->to > part->from) return true;
  }
  return false;
}

/* --- rows of what many have */

/* Up to where blocks from one on are there. */
static int64_t reach(const SegmentHolders *self, const SegmentHolder *holder, int64_t at) {
  for (uint32_t ix = holder->first; ix != RANGE_NONE; ix = self->ranges[ix].next) {
    const BlockRange *range = &self->ranges[ix];
    if (range->from > at) break;
    if (range->to > at) at = range->to;
  }
  return at;
}

static int32_t *row_of(const SegmentHolders *self, const HeldSegment *held) {
  return &self->rows[(size_t)held->row * self->n_instances];
}

/* So many that going through all instances, number by number, is less than looking them up. */
static bool are_many(const SegmentHolders *self, uint32_t n_holders) {
  enum { FEW = 2, SHARE = 16 };
  return n_holders >= FEW + self->n_instances / SHARE;
}

static void begin_row(SegmentHolders *self, HeldSegment *held, int64_t from) {
  uint32_t row = self->free_row;
  if (row == RANGE_NONE) {
    row = self->n_rows++;
    ARENA_RESERVE(self->arena, self->rows, self->rows_capacity,
                  (size_t)self->n_rows * self->n_instances);
  } else {
    self->free_row = (uint32_t)self->rows[(size_t)row * self->n_instances];
  }
  held->row = row;
  held->from = (int32_t)from;
  int32_t *reaches = row_of(self, held);
  for (uint32_t m = 0; m < self->n_instances; m++)
    reaches[m] = held->from;
  for (uint32_t ix = held->first; ix != RANGE_NONE; ix = self->holders[ix].next)
    segment_holders_changed(self, &self->holders[ix]);
}

static void end_row(SegmentHolders *self, HeldSegment *held) {
  *row_of(self, held) = (int32_t)self->free_row;
  self->free_row = held->row;
  held->row = RANGE_NONE;
}

void segment_holders_changed(SegmentHolders *self, const SegmentHolder *holder) {
  const HeldSegment *held = &self->held[holder->of];
  if (held->row != RANGE_NONE)
    row_of(self, held)[holder->instance] = (int32_t)reach(self, holder, held->from);
}

/* --- who has a segment */

static uint64_t name_of(uint64_t segment, InstanceIx instance) {
  const uint64_t name = hash_fold(segment, instance);
  return name + (name == 0);
}

SegmentHolder *segment_holders_find(const SegmentHolders *self, uint64_t segment,
                                    InstanceIx instance) {
  const uint32_t *ix = key_map_find(&self->names, name_of(segment, instance));
  return ix ? &self->holders[*ix] : NULL;
}

static HeldSegment *find_held(const SegmentHolders *self, uint64_t segment) {
  const uint32_t *ix = key_map_find(&self->segments, segment);
  return ix ? &self->held[*ix] : NULL;
}

/* A place of a list in which those that are free name the next one. */
static uint32_t enter_held(SegmentHolders *self, uint64_t segment) {
  const uint32_t *there = key_map_find(&self->segments, segment);
  if (there) return *there;
  uint32_t ix = self->free_held;
  if (ix == RANGE_NONE) {
    ix = self->n_held++;
    ARENA_RESERVE(self->arena, self->held, self->held_capacity, self->n_held);
  } else {
    self->free_held = self->held[ix].first;
  }
  self->held[ix] = (HeldSegment){.segment = segment, .first = RANGE_NONE, .row = RANGE_NONE};
  return *key_map_put(&self->segments, segment, self->arena) = ix;
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
  const uint32_t of = enter_held(self, segment);
  HeldSegment *held = &self->held[of];
  holder = &self->holders[ix];
  *holder = (SegmentHolder){.name = name_of(segment, instance),
                            .of = of,
                            .instance = instance,
                            .first = RANGE_NONE,
                            .next = held->first,
                            .previous = RANGE_NONE};
  if (held->first != RANGE_NONE) self->holders[held->first].previous = ix;
  held->first = ix;
  held->n_holders++;
  *key_map_put(&self->names, holder->name, self->arena) = ix;
  return holder;
}

static void leave_held(SegmentHolders *self, HeldSegment *held) {
  if (held->row != RANGE_NONE && !are_many(self, 2 * held->n_holders)) end_row(self, held);
  if (held->n_holders > 0) return;
  key_map_remove(&self->segments, held->segment);
  held->first = self->free_held;
  self->free_held = (uint32_t)(held - self->held);
}

void segment_holders_leave(SegmentHolders *self, SegmentHolder *holder) {
  HeldSegment *held = &self->held[holder->of];
  segment_holders_changed(self, holder);
  if (holder->next != RANGE_NONE) self->holders[holder->next].previous = holder->previous;
  if (holder->previous != RANGE_NONE)
    self->holders[holder->previous].next = holder->next;
  else
    held->first = holder->next;
  held->n_holders--;
  leave_held(self, held);
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
  SegmentHolder *holder = segment_holders_enter(self, segment_name(id), instance);
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
  segment_holders_changed(self, holder);
}

void segment_holders_remove(SegmentHolders *self, InstanceIx instance, uint64_t id, int64_t from,
                            int64_t to) {
  SegmentHolder *holder = segment_holders_find(self, segment_name(id), instance);
  assert(holder);
  uint32_t before = RANGE_NONE, ix = holder->first;
  for (; self->ranges[ix].to < to; ix = self->ranges[ix].next)
    before = ix;
  const BlockRange range = self->ranges[ix];
  assert(range.from <= from && to <= range.to);
  if (range.from == from && range.to == to) {
    *(before == RANGE_NONE ? &holder->first : &self->ranges[before].next) = range.next;
    segment_holders_free_range(self, ix);
  } else if (range.from == from) {
    self->ranges[ix].from = to;
  } else {
    self->ranges[ix].to = from;
  }
  if (range.from < from && to < range.to) {
    const uint32_t rest = segment_holders_new_range(self);
    self->ranges[rest] = (BlockRange){.from = to, .to = range.to, .next = range.next};
    self->ranges[ix].next = rest;
  }
  if (holder->first == RANGE_NONE)
    segment_holders_leave(self, holder);
  else
    segment_holders_changed(self, holder);
}

/* --- a match */

/* The runs that end where a part begins go on up to where the row says, or the part ends; whether
 * any does up to there. Of the first part that is all of them, whatever they were. */
static bool extend_by_row(SegmentHolders *self, const int32_t *row, const SegmentPart *part) {
  const int32_t from = (int32_t)part->from, to = (int32_t)part->to;
  int32_t *runs = self->runs, most = 0;
  for (uint32_t m = 0, n = self->n_instances; m < n; m++) {
    const int32_t end = row[m] < to ? row[m] : to;
    const int32_t run = from == 0 || runs[m] == from ? end : runs[m];
    most = run > most ? run : most;
    runs[m] = run;
  }
  return most == to;
}

static bool extend_by_holder(SegmentHolders *self, uint32_t first, const SegmentPart *part) {
  bool any = false;
  for (uint32_t ix = first; ix != RANGE_NONE; ix = self->holders[ix].next) {
    const SegmentHolder *holder = &self->holders[ix];
    int32_t *run = &self->runs[holder->instance];
    if (*run != part->from) continue;
    const int64_t to = reach(self, holder, part->from);
    if (*run == 0 && to > 0) self->some[self->n_some++] = holder->instance;
    *run = (int32_t)(to < part->to ? to : part->to);
    any |= *run == part->to;
  }
  return any;
}

/* The last match is forgotten, before somebody writes to a part of the runs. */
static void forget_match(SegmentHolders *self) {
  if (self->by_row) memset(self->runs, 0, self->n_instances * sizeof *self->runs);
  while (self->n_some > 0)
    self->runs[self->some[--self->n_some]] = 0;
  self->by_row = false;
}

/* Whether an instance has all of a part behind all before it. */
static bool extend_runs(SegmentHolders *self, const SegmentPart *part) {
  HeldSegment *held = find_held(self, part->segment);
  if (held && held->row == RANGE_NONE && are_many(self, held->n_holders))
    begin_row(self, held, part->from);
  if (held && held->row != RANGE_NONE && held->from == part->from) {
    if (part->from == 0) self->n_some = 0;
    self->by_row = true;
    return extend_by_row(self, row_of(self, held), part);
  }
  if (part->from == 0) forget_match(self);
  return held && extend_by_holder(self, held->first, part);
}

const int32_t *segment_holders_match(SegmentHolders *self, const Content *content,
                                     int64_t block_size, int64_t n) {
  SegmentPart part = {0};
  if (!segment_part_next(content, block_size, n, &part)) {
    forget_match(self);
    return self->runs;
  }
  while (extend_runs(self, &part) && segment_part_next(content, block_size, n, &part))
    continue;
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
