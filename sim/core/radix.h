/* The radix keeper of an instance's KV memory, as SGLang's radix cache: a tree over the beginnings
 * of what requests have computed (radix_tree.h). A match that ends inside a node splits it.
 *
 * A page is free, owned by the tree, or held by one request beside what the tree has of it. A
 * request locks the node in which its part of the tree ends, and with it all nodes above. Nodes
 * without lock are evictable: leaves go first, whole, the one that was touched longest ago before
 * others, then parents that are leaves by that.
 *
 * A match or an insert costs what the path has of nodes and segments, an eviction the logarithm of
 * the number of leaves. */
#ifndef SIM_CORE_RADIX_H
#define SIM_CORE_RADIX_H
#include "sim/core/radix_host.h"

typedef struct Radix {
  RadixTree tree;
  RadixLeaf *leaves; // a heap of those that may go, and of some that may not any more
  size_t n_leaves, leaves_capacity;
  uint64_t clock;
  int64_t n_pages;                                 // of all
  int64_t n_free, n_evictable, n_owned, n_evicted; // pages; n_owned: by the tree
  RadixHost *host;                                 // copies in CPU memory; NULL: there are none
  RadixIndex *index;                               // is told of its nodes; NULL: there is none
  InstanceIx instance;                             // whose it is there
} Radix;

/* What a request has of it. Zeroed: nothing. */
typedef struct RadixHold {
  RadixIx node;        // that it locks; the root: none
  int32_t owned_pages; // of the pages it holds, the tree's
} RadixHold;

void radix_init(Radix *self, int64_t n_pages, int64_t page, Arena *arena);
/* An empty one is that of an instance in an index from now on. */
void radix_join_index(Radix *self, RadixIndex *index, InstanceIx instance);
/* Copies of its nodes may be in CPU memory: of an empty one, from now on. */
void radix_join_host(Radix *self, RadixHost *host);
/* Tokens, of the first `tokens` of `content`, that are found, and the node in which they end. They
 * are touched. Those behind radix_on_gpus are in CPU memory alone. */
int64_t radix_match(Radix *self, const Content *content, int64_t tokens, RadixIx *ret_node);
/* The node in which those end that are on the GPUs, of what ends in one. */
RadixIx radix_on_gpus(const Radix *self, RadixIx node);
/* What is above the end of a node and in CPU memory alone comes to `pages` of the GPUs, for which
 * others are evicted, and is locked. False: there is no room for it. */
bool radix_load(Radix *self, RadixIx node, int64_t pages);
/* The same without a touch: tokens that would be found. */
int64_t radix_peek(const Radix *self, const Content *content, int64_t tokens);
void radix_lock(Radix *self, RadixIx node);
void radix_unlock(Radix *self, RadixIx node);
/* A request without pages of its own holds what was matched. */
void radix_hit(Radix *self, RadixHold *hold, RadixIx node, int64_t pages);
/* The first `tokens` of a request's content are computed: whole pages of them are the tree's from
 * now on and locked; of what it had already the request's copy is free. The end of its `prompt`
 * tokens is the end of a node. */
void radix_insert(Radix *self, RadixHold *hold, const Content *content, int64_t tokens,
                  int64_t prompt);
/* The same of a chunk of a prompt that is not the last, which is no hit (radix_host.h). */
void radix_insert_chunk(Radix *self, RadixHold *hold, const Content *content, int64_t tokens,
                        int64_t prompt);
/* What is behind the first `from` tokens of a content, up to `tokens`, whole pages, has come to CPU
 * memory, where there is room for it; pages that are new. If those before it are there no more, or
 * are not in CPU memory, none. */
int64_t radix_fetched(Radix *self, const Content *content, int64_t from, int64_t tokens);
/* A request gives up all of the `pages` that it holds, the tree's among them. */
void radix_release(Radix *self, RadixHold *hold, int64_t pages);
/* Evicts until `pages` are free, or nothing is left that could go. */
void radix_make_room(Radix *self, int64_t pages);
/* Takes `pages`, for which there is room: n_free + n_evictable. */
void radix_take(Radix *self, int64_t pages);
/* Nothing is found any more; no request holds anything, and nothing else locks. */
void radix_forget(Radix *self);
/* The books against each other, and the locks against those of the `n` requests. Asserts. */
void radix_audit(const Radix *self, const RadixHold *const *holds, size_t n);

/* It may have pages to evict from now on that nobody has looked at. */
static inline void radix_stir(Radix *self) {
  if (self->index) radix_index_stir(self->index, self->instance);
}
/* Pages that a request could have. */
static inline int64_t radix_room(const Radix *self) {
  return self->n_free + self->n_evictable;
}
#endif
