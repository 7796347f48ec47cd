/* KV memory of layers that keep different things: groups of layers over one pool of blocks, as
 * vLLM's hybrid KV cache manager has it (RULES.md, "Groups of layers").
 *
 * A group has layers of one kind, which keep all tokens, those in a sliding window, or a state. A
 * block holds a group's block of tokens for all of its layers, or a state; blocks of all groups
 * take as many bytes, and come from one free queue (prefix_cache.h), which they return to. What
 * layers of a request no longer need is a null block in their group: it has a place and no memory.
 * Blocks of tokens are kept in runs (group_blocks.h), states one by one. The name of a block tells
 * its group; the first group with full attention has the names that it would have alone.
 *
 * Here is what one request needs, takes, finds and gives back; counters of free blocks are the
 * caller's, who sees PrefixCache.n_free change. */
#ifndef SIM_CORE_KV_GROUPS_H
#define SIM_CORE_KV_GROUPS_H
#include "perfmodel/kv_layout.h"
#include "sim/core/group_blocks.h"
#include "sim/core/radix.h"

enum { KV_KEEPS_ALL = -1 }; // KvGroupOptions.retention

typedef struct KvGroupOptions {
  bool caches;           // blocks are found again
  int64_t retention;     // tokens from one place to the next at which a request may resume; 0: at
                         // ends of prompts and junctions alone; KV_KEEPS_ALL: everywhere
  int64_t max_in_flight; // tokens of decided steps
  int64_t max_chunk;     // tokens of a prompt in a step
  int64_t max_model_len;
  int32_t lag;    // steps that are decided ahead
  int32_t drafts; // of a request in a step, whose states are kept
} KvGroupOptions;

typedef struct KvGroup {
  KvGroupKind kind;
  int64_t block_size, window;
  int64_t spare;    // blocks behind those of a request's tokens, for states after drafts
  int64_t most;     // that a request ever holds; INT64_MAX: no limit
  int64_t admitted; // of those of a whole prompt, that admission asks for; likewise
  int32_t like;     // the first group of the same kind: hits are of all of them
  uint64_t name;    // BlockNames.group
  int64_t n_held;   // by requests, each counted for all that hold it
} KvGroup;

/* Of one of them, by the newest match: so many places, and those of them that are null. */
typedef struct FoundBlocks {
  int32_t n_null, n;
} FoundBlocks;

typedef struct KvGroups {
  PrefixCache *pool;
  KvGroupOptions options;
  KvGroup *groups;
  int32_t n_groups;
  int64_t alignment;         // tokens of which all hits are multiples
  int32_t n_narrow;          // kinds that do not keep all tokens
  bool has_states;           // with a place in the prefix cache: chunks end where one can be kept
  FoundBlocks *found;        // [n_groups] by the newest match
  HeldBlocks hit;            // the newest state that was hit or named
  const Content *content;    // of which
  int64_t matched, junction; // tokens; junction 0: none
  uint64_t *fresh;           // keys of states registered since the newest decision began
  size_t n_fresh, fresh_capacity;
  Arena *arena;
} KvGroups;

/* Of a request, in one group. */
typedef struct GroupHold {
  HeldBlocks held; // without parts where it keeps states
  BlockIx *states; // [held.n] runs of one block, BLOCK_NONE or BLOCK_BLANK
  size_t capacity;
  int32_t n_retired; // states before that are given back
  int32_t before;    // 1 + the place of the state before the running one; 0: none
  bool began;        // it has a state
} GroupHold;

/* In all of them. Zeroed: none. */
typedef struct GroupHolds {
  GroupHold *of; // [KvGroups.n_groups], as far as it ever needed
  int32_t capacity;
  int32_t n_blocks; // that are no null blocks
  int64_t junction; // tokens that full attention found, where the others found less; 0: none
  int64_t newest;   // tokens of it in the newest step that has any
  int64_t room;     // tokens that all groups surely have blocks for; 0: not known
  int64_t visit;    // of one in the batch: the iteration of that which may change its blocks next
  bool known;       // it has been given blocks
} GroupHolds;

/* Of a request, by slot: what its tokens are, and the blocks it holds on an instance with a
 * cache. */
typedef struct RequestMemory {
  Content content;
  HeldBlocks held;
  HeldBlocks arriving;                      // on the instance that its KV is on its way to
  GroupHolds in_groups, arriving_in_groups; // the same where layers are in groups
  RadixHold radix;                          // where the keeper is a radix tree
  RadixIx matched;                          // the end of what was last found of it there
  int32_t n_stored;                         // blocks that its connector stores or has (connector.h)
} RequestMemory;

/* What of a request a step is decided for. */
typedef struct KvReach {
  int64_t computed; // its tokens before the step, hits included
  int64_t done;     // after it
  int64_t slots;    // that it has blocks for: with those of its drafter
} KvReach;

/* `pool` has the blocks of all groups; lookahead is its own. */
void kv_groups_init(KvGroups *self, const KvLayout *layout, const KvGroupOptions *options,
                    PrefixCache *pool, Arena *arena);
/* A decision begins. */
void kv_groups_decide(KvGroups *self);
/* The first tokens of a content of `tokens` that every group has, at most `most`; and, in
 * `junction`, those that full attention alone has. They and the content are remembered until the
 * next match. */
int64_t kv_groups_match(KvGroups *self, const Content *content, int64_t tokens, int64_t most);
/* Whether one that resumes at what was matched would read a state that the step being decided
 * makes. */
bool kv_groups_match_is_fresh(const KvGroups *self, const Content *content);
/* Free blocks that a request takes: one that has not been given any is given what was matched,
 * too. INT64_MAX with `whole`: as admission counts all of a prompt, of reach->slots tokens. */
int64_t kv_groups_need(const KvGroups *self, const GroupHolds *holds, const KvReach *reach,
                       bool whole);
/* It is given what was matched of the first `computed` tokens, as far as its layers need that. */
void kv_groups_hit(KvGroups *self, GroupHolds *holds, int64_t computed);
/* Gives back what its layers no longer need once `computed` tokens are surely computed. */
void kv_groups_slide(KvGroups *self, GroupHolds *holds, int64_t computed);
/* Gives it blocks for a step, as many as kv_groups_need says. */
void kv_groups_take(KvGroups *self, GroupHolds *holds, const KvReach *reach);
/* Registers what `done` computed of its `tokens` tokens fill, as far as others may resume there. */
void kv_groups_register(KvGroups *self, GroupHolds *holds, const Content *content,
                        int64_t prompt_tokens, int64_t tokens, int64_t done);
/* Steps of a token each, after one with `done` tokens, `sure` of which were computed before and the
 * first `known` were registered, that surely leave its blocks as they are. In each, all tokens but
 * the newest and the `lag` before that may be sure, and all but `lag` known. */
int64_t kv_groups_quiet(const KvGroups *self, const GroupHolds *holds, int64_t done, int64_t sure,
                        int64_t known, int64_t lag);
/* The most steps of a token, at most `limit`, of each of so many requests for which so many free
 * blocks surely suffice, though nothing is given back meanwhile. */
int64_t kv_groups_fitting(const KvGroups *self, int64_t n_requests, int64_t free_blocks,
                          int64_t limit);
/* Gives all back. */
void kv_groups_release(KvGroups *self, GroupHolds *holds);
/* The tokens of a chunk of `n` behind `start`, cut to where a state can be kept; 0: none. `end` is
 * that of its prefill. */
int64_t kv_groups_chunk(const KvGroups *self, int64_t prompt_tokens, int64_t tokens, int64_t start,
                        int64_t n, int64_t junction);
/* Blocks that a request of `tokens` ever holds at once. */
int64_t kv_groups_most(const KvGroups *self, int64_t tokens);
/* The most tokens of a request for which so many blocks suffice. */
int64_t kv_groups_room(const KvGroups *self, int64_t blocks);
/* The blocks of a request's lists against what its counters say. Asserts. */
void kv_groups_audit_holds(const KvGroups *self, const GroupHolds *holds, int64_t *held);
#endif
