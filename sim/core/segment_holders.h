/* Which instances have which blocks of a content, of all instances at once: a router asks of a
 * prompt how much of it each of them has.
 *
 * Content is kept by segment (content.h): an instance has ranges of a segment's blocks, so costs go
 * by segments and ranges, however small a block is. A block belongs to the segment in which it
 * ends. Keys in place of segments are in holders.h.
 *
 * Of a segment that many instances have, such as a system prompt that all of them cached, it is
 * kept in a row how far each has it: a match goes through that row, number by number, and looks up
 * no holder of it. */
#ifndef SIM_CORE_SEGMENT_HOLDERS_H
#define SIM_CORE_SEGMENT_HOLDERS_H
#include "base/key_map.h"
#include "sim/core/content.h"
#include "sim/core/request.h"

/* Blocks from one on up to another. */
typedef struct BlockRange {
  int64_t from, to;
  uint32_t n_prompts; // that have it, where somebody counts them
  uint32_t next;      // of the same segment there, none before it; or the next free one
} BlockRange;

#define RANGE_NONE UINT32_MAX

/* A segment that somebody has. */
typedef struct HeldSegment {
  uint64_t segment;          // its name
  uint32_t first, n_holders; // that have it; of one that is free, the next one
  uint32_t row;              // RANGE_NONE: they are few, or nobody has asked
  int32_t from;              // the block that the row counts from
} HeldSegment;

/* An instance with blocks of a segment. */
typedef struct SegmentHolder {
  uint64_t name; // of segment and instance
  uint32_t of;   // the segment
  InstanceIx instance;
  uint32_t first;          // its ranges, by where they begin and end
  uint32_t next, previous; // that have the segment; or the next free one
} SegmentHolder;

typedef struct SegmentHolders {
  Arena *arena;
  uint32_t n_instances;
  KeyMap segments; // to the one that is held
  KeyMap names;    // to the holder
  HeldSegment *held;
  SegmentHolder *holders;
  BlockRange *ranges;
  size_t held_capacity, holders_capacity, ranges_capacity;
  uint32_t n_held, n_holders, n_ranges, free_held, free_holder, free_range;
  int32_t *rows; // [n_rows · n_instances] up to where blocks from HeldSegment.from on are there
  size_t rows_capacity;
  uint32_t n_rows, free_row; // a free one has the next one's number in its first place
  int32_t *runs;             // [n_instances] of the last match
  InstanceIx *some;          // [n_some] instances that have any there, unless it went by a row
  uint32_t n_some;
  bool by_row;
} SegmentHolders;

/* Blocks of a prompt that end in one segment. */
typedef struct SegmentPart {
  uint64_t segment; // a name of it
  int64_t from, to;
  int32_t next; // segment of the content
} SegmentPart;

/* The name of a segment; it is not 0. */
static inline uint64_t segment_name(uint64_t id) {
  const uint64_t name = hash_mix(id);
  return name + (name == 0);
}
void segment_holders_init(SegmentHolders *self, uint32_t n_instances, Arena *arena);
/* The next part of the first `n` blocks; one of zeros is before the first. */
bool segment_part_next(const Content *content, int64_t block_size, int64_t n, SegmentPart *part);

/* Blocks of the segment of an id from one on up to another come to an instance that had none of
 * them, or go from one that had them all. */
void segment_holders_add(SegmentHolders *self, InstanceIx instance, uint64_t id, int64_t from,
                         int64_t to);
void segment_holders_remove(SegmentHolders *self, InstanceIx instance, uint64_t id, int64_t from,
                            int64_t to);
/* How many of the first `n` blocks of a prompt, from the first on, each instance has whose blocks
 * have this size: by instance, until the next match; or one has. */
const int32_t *segment_holders_match(SegmentHolders *self, const Content *content,
                                     int64_t block_size, int64_t n);
int64_t segment_holders_match_one(const SegmentHolders *self, InstanceIx instance,
                                  const Content *content, int64_t block_size, int64_t n);

/* For those who keep ranges themselves. The holder of a segment's name, or NULL; the same, which
 * has none yet; its ranges changed; one without ranges leaves; a range of nothing; it stands for
 * none any more. */
SegmentHolder *segment_holders_find(const SegmentHolders *self, uint64_t segment,
                                    InstanceIx instance);
SegmentHolder *segment_holders_enter(SegmentHolders *self, uint64_t segment, InstanceIx instance);
void segment_holders_changed(SegmentHolders *self, const SegmentHolder *holder);
void segment_holders_leave(SegmentHolders *self, SegmentHolder *holder);
uint32_t segment_holders_new_range(SegmentHolders *self);
void segment_holders_free_range(SegmentHolders *self, uint32_t range);
#endif
