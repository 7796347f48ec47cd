/* Groups of GPUs that change their own parallelism: prefill in one shape, decode in another
 * (Seesaw).
 *
 * The instances of two pools, one that prefills and one that decodes, are the same GPUs in two
 * shapes, of which one is up at a time; the other's are closed. KV goes from the one to the other
 * through a store in CPU memory that the group shares: every prefilled request is copied out to it,
 * overlapped with further prefill, and copied in when it is to be decoded and there is room.
 * Between the shapes the weights are loaded anew, which overlaps with nothing. Copies queue on the
 * link of all GPUs of the group to CPU memory, with what is swapped there (host_link.h). Those that
 * end while nobody waits for one are no events: they are looked at when the group has the next.
 *
 *   prefills ──► leaves ──► turns ──► decodes ──► leaves ──► turns ──► prefills …
 *
 * While it leaves a shape, what runs there comes to its iteration's end and the KV on the GPUs is
 * copied out. Blocks of the store are those of the decode pool's KV memory; they are taken when a
 * prefill begins and given back when the request has been copied in, so what was prefilled always
 * has a place. While a store is down (faults.h) nothing begins that needs it. */
#ifndef SIM_CORE_GROUP_H
#define SIM_CORE_GROUP_H
#include "sim/core/host_link.h"
#include "sim/core/pinned.h"
#include "sim/core/request.h"
#include <stdbool.h>

typedef enum GroupShape { SHAPE_PREFILL, SHAPE_DECODE, SHAPES } GroupShape;
typedef enum CopyDirection { COPY_OUT, COPY_IN, COPY_DIRECTIONS } CopyDirection;

/* Two pools of one set of GPUs; there are as many groups as each has replicas. */
typedef struct GroupSpec {
  const char *name;
  uint32_t pools[SHAPES];             // by shape
  int64_t store_blocks;               // of one group
  double copy_share[COPY_DIRECTIONS]; // bytes that the link takes for a byte of KV; 0: 1
  int64_t turn_bytes[SHAPES];         // weights that this shape loads over it
  int64_t pinned_bytes;               // of pinned memory that copies out go through; 0: any number
  int64_t shared_bandwidth;           // bytes/s from there to the store; 0: copies go there at once
  bool overlaps; // copies with iterations; otherwise no iteration begins while one is under way
} GroupSpec;

typedef enum GroupState {
  GROUP_RUNS,
  GROUP_LEAVES,
  GROUP_TURNS,
  GROUP_FAILED, // its instances, of both shapes, are down or start (faults.h)
} GroupState;
/* What it is seen to do: iterations of either shape, also the last ones before it leaves; loading
 * the weights of the next; waiting for its KV to leave; nothing, for want of requests or of KV, or
 * since it has failed. */
typedef enum GroupActivity {
  GROUP_PREFILLS,
  GROUP_DECODES,
  GROUP_RESHARDS,
  GROUP_DRAINS,
  GROUP_STALLS,
  GROUP_ACTIVITIES,
} GroupActivity;

/* What a group has done so far, or its replicas. */
typedef struct GroupTotals {
#define GROUP_BOOK(type, field, dimension, add) type field dimension;
#include "sim/books/metrics.def"
} GroupTotals;

/* KV between the GPUs and the store. */
typedef struct KvCopy {
  RequestIx request;
  Tick end;
} KvCopy;

/* Copies in one direction, in the order in which they end; some may have by now. */
typedef struct KvCopies {
  KvCopy *items;
  size_t first, last, capacity; // from the first to before the last
} KvCopies;

/* A request whose KV leaves the GPUs with the shape. */
typedef struct Leaver {
  uint64_t id;
  RequestIx request;
  InstanceIx instance;
} Leaver;

typedef struct Group Group;
typedef uint32_t GroupIx;

struct Group {
  const GroupSpec *spec;
  GroupIx ix;
  InstanceIx first[SHAPES]; // instances of each shape lie together
  uint32_t n_instances[SHAPES];
  GroupShape shape; // that is up, or while it turns comes up
  GroupState state;
  int64_t free_blocks, block_size; // of the store; tokens per block
  RequestQueue stored;             // in order of arrival in the store
  KvCopies copies[COPY_DIRECTIONS];
  PinnedMemory pinned;
  uint32_t n_busy;         // instances with an iteration in progress
  uint32_t n_store_faults; // sources that hold its store down
  Leaver *leavers;         // reused
  size_t leavers_capacity;
  bool marked; // its shape is looked at once the event is handled (marks.h)
  Tick since;  // the last entry into totals.ticks
  GroupTotals totals;
  GroupTotals before; // of those, before they are counted
};

static inline int64_t group_blocks(const Group *group, int64_t tokens) {
  return (tokens + group->block_size - 1) / group->block_size;
}

/* Of the store, for who begins: of one that is down none. */
static inline int64_t group_free_blocks(const Group *group) {
  return group->n_store_faults > 0 ? 0 : group->free_blocks;
}

static inline GroupActivity group_activity(const Group *group) {
  if (group->state == GROUP_TURNS) return GROUP_RESHARDS;
  if (group->n_busy > 0) return group->shape == SHAPE_PREFILL ? GROUP_PREFILLS : GROUP_DECODES;
  return group->state == GROUP_LEAVES ? GROUP_DRAINS : GROUP_STALLS;
}

/* "prefill", "decode", "reshard", "drain", "stall". */
const char *group_activity_name(GroupActivity activity);

static inline int64_t group_copying(const Group *group, CopyDirection direction) {
  return (int64_t)(group->copies[direction].last - group->copies[direction].first);
}

static inline bool group_copies(const Group *group) {
  return group_copying(group, COPY_OUT) + group_copying(group, COPY_IN) > 0;
}

/* Whether its instances wait for copies: where those do not overlap with iterations. */
static inline bool group_waits(const Group *group) {
  return !group->spec->overlaps && group_copies(group);
}

/* What a policy sees when it is asked for the shape of a group that runs. */
typedef struct GroupView {
  GroupShape shape;
  int64_t n_prompts; // that wait for prefill or are in one
  /* The first of those that wait fits in the store, also beside what would be copied out of the
   * decode instances; when none waits, that alone does. */
  bool takes_prompt;
  int64_t room_blocks; // of the store, once what is on the decode instances is in it
  int64_t n_stored;    // prefilled, in the store or on their way into it or out of it
  int64_t n_decoding;  // on instances that decode
  int64_t stored_blocks, store_blocks;
  int64_t gpu_blocks; // KV memory of the decode shape, all instances together
} GroupView;
#endif
