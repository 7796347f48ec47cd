/* Copies in CPU memory of nodes of a radix tree, as SGLang's HiCache has them (RULES.md, "KV in
 * tiers, as SGLang").
 *
 * A node is on the GPUs, in CPU memory, or both. What is on the GPUs has all above it there. A node
 * is written when it is hit for the `write_hits`-th time, if the node above it is in CPU memory or
 * is the root, or, with 0, when it is evicted from the GPUs. Nodes that are in CPU memory alone
 * (RadixNode.off) can go: leaves go first, whole, the one that was touched longest ago before
 * others. Of a node that is on the GPUs the copy stays.
 *
 * An eviction costs the logarithm of the number of leaves. */
#ifndef SIM_CORE_RADIX_HOST_H
#define SIM_CORE_RADIX_HOST_H
#include "sim/core/radix_index.h"

/* A node whose write is to begin, and what it has of it: it may be cut by then. */
typedef struct RadixWrite {
  RadixIx node;
  int32_t pages;
  int32_t from, to; // tokens
} RadixWrite;

typedef struct RadixHost {
  RadixTree *tree;
  RadixIndex *index; // as Radix.index
  InstanceIx instance;
  uint32_t write_hits; // 0: nodes are written when they are evicted
  bool closed;         // nothing is written: all goes
  RadixIx kept;        // does not go: it is being loaded
  RadixLeaf *leaves;   // a heap of those that may go, and of some that may not any more
  size_t n_leaves, leaves_capacity;
  int64_t n_pages, n_held, n_reserved; // that there is room for, that are taken, are for others
  int64_t n_written, n_fetched, n_evicted, n_loaded; // so far
  RadixWrite *unwritten;                             // locked, hit
  RadixWrite *backs;                                 // evicted
  size_t n_unwritten, n_backs, unwritten_capacity, backs_capacity;
  RadixIx *path; // reused
  size_t path_capacity;
} RadixHost;

/* `n_pages` >= 0. The tree is empty. */
void radix_host_init(RadixHost *self, int64_t n_pages, uint32_t write_hits);
/* Evicts until `pages` are free; false: nothing is left that could go. */
bool radix_host_make_room(RadixHost *self, int64_t pages);
/* One that is on the GPUs alone is in CPU memory, too. False: there is no room, or the one above it
 * is not there. */
bool radix_host_put(RadixHost *self, RadixIx node);
/* Whether one that is evicted from the GPUs is in CPU memory now. */
bool radix_host_keeps(RadixHost *self, RadixIx node);
/* One that is off has no children, perhaps: it may go. */
void radix_host_queue(RadixHost *self, RadixIx node);
/* Pages are kept for what comes from elsewhere; false: there is no room. */
bool radix_host_reserve(RadixHost *self, int64_t pages);
/* All goes that is off; no other node has a copy any more. */
void radix_host_forget(RadixHost *self);
/* The books against the tree. Asserts. O(nodes). */
void radix_host_audit(const RadixHost *self);
#endif
