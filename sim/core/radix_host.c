/* See radix_host.h. */
#include "sim/core/radix_host.h"
#include "base/heap.h"
#include "base/units.h"
#include <assert.h>

void radix_host_init(RadixHost *self, int64_t n_pages, uint32_t write_hits) {
  *self = (RadixHost){.n_pages = n_pages, .write_hits = write_hits, .kept = RADIX_NONE};
}

/* --- leaves */

static inline Wide heap_key(const RadixLeaf *leaf) {
  return wide_of((int64_t)leaf->time, leaf->node);
}
static inline void heap_moved(RadixHost *self, size_t index, const RadixLeaf *leaf) {
  (void)self, (void)index, (void)leaf;
}
HEAP_STEPS(RadixHost, RadixLeaf)

static bool may_go(const RadixNode *node) {
  return node->off && node->n_children == 0;
}

void radix_host_queue(RadixHost *self, RadixIx ix) {
  RadixNode *node = &self->tree->nodes[ix];
  if (node->host_queued || !may_go(node)) return;
  node->host_queued = true;
  ARENA_RESERVE(self->tree->arena, self->leaves, self->leaves_capacity, self->n_leaves + 1);
  const RadixLeaf leaf = {node->time, ix};
  heap_rise(self, self->leaves, self->n_leaves++, &leaf);
}

static void remove_leaf(RadixHost *self, RadixIx ix) {
  const RadixNode *node = &self->tree->nodes[ix];
  const RadixIx parent = node->parent;
  self->n_held -= node->pages;
  self->n_evicted += node->pages;
  if (self->index) radix_index_remove(self->index, self->instance, node->indexed, node->from);
  radix_remove(self->tree, ix);
  radix_host_queue(self, parent);
}

/* The first of the heap, which is not as it was, or leaves it. */
static void take_first(RadixHost *self) {
  RadixLeaf least = self->leaves[0];
  RadixNode *node = &self->tree->nodes[least.node];
  if (may_go(node) && node->time > least.time) {
    least.time = node->time;
    heap_sink(self, self->leaves, self->n_leaves, 0, &least);
    return;
  }
  const RadixLeaf last = self->leaves[--self->n_leaves];
  if (self->n_leaves > 0) heap_sink(self, self->leaves, self->n_leaves, 0, &last);
  node->host_queued = false;
  if (may_go(node) && least.node != self->kept) remove_leaf(self, least.node);
}

bool radix_host_make_room(RadixHost *self, int64_t pages) {
  const int64_t room = self->n_pages - self->n_reserved;
  while (room - self->n_held < pages && self->n_leaves > 0)
    take_first(self);
  if (self->kept != RADIX_NONE) radix_host_queue(self, self->kept);
  return room - self->n_held >= pages;
}

bool radix_host_reserve(RadixHost *self, int64_t pages) {
  if (!radix_host_make_room(self, pages)) return false;
  self->n_reserved += pages;
  return true;
}

/* --- nodes */

bool radix_host_put(RadixHost *self, RadixIx ix) {
  RadixNode *node = &self->tree->nodes[ix];
  const RadixIx parent = node->parent;
  assert(!node->off && !node->on_host);
  if (self->write_hits > 0 && parent != RADIX_ROOT && !self->tree->nodes[parent].on_host)
    return false;
  if (!radix_host_make_room(self, node->pages)) return false;
  node->on_host = true;
  self->n_held += node->pages;
  self->n_written += node->pages;
  return true;
}

bool radix_host_keeps(RadixHost *self, RadixIx ix) {
  const RadixNode *node = &self->tree->nodes[ix];
  if (node->on_host || self->write_hits > 0 || self->closed) return node->on_host;
  if (!radix_host_put(self, ix)) return false;
  ARENA_RESERVE(self->tree->arena, self->backs, self->backs_capacity, self->n_backs + 1);
  self->backs[self->n_backs++] = (RadixWrite){ix, node->pages, node->from, node->to};
  return true;
}

void radix_host_forget(RadixHost *self) {
  assert(self->kept == RADIX_NONE);
  while (self->n_leaves > 0)
    take_first(self);
  for (size_t i = 1; i < self->tree->n_nodes; i++) {
    RadixNode *node = &self->tree->nodes[i];
    if (!node->label || !node->on_host) continue;
    assert(!node->off);
    node->on_host = false;
    self->n_held -= node->pages;
    self->n_evicted += node->pages;
  }
  assert(self->n_held == 0);
  self->n_unwritten = 0;
  self->n_backs = 0;
}

/* --- audit */

static void check_node(const RadixHost *self, RadixIx ix) {
  const RadixNode *node = &self->tree->nodes[ix], *parent = &self->tree->nodes[node->parent];
  assert(!node->off || (node->on_host && node->locks == 0 && node->n_off == node->n_children));
  assert(!parent->off || node->off);
  assert(!may_go(node) || node->host_queued);
  assert(!node->host_queued || node->on_host);
  assert(!node->on_host || self->write_hits == 0 || node->parent == RADIX_ROOT || parent->on_host);
}

void radix_host_audit(const RadixHost *self) {
  const RadixTree *tree = self->tree;
  Arena arena;
  arena_init(&arena);
  int32_t *n_off = ARENA_ARRAY(&arena, int32_t, tree->n_nodes);
  size_t n_queued = 0;
  int64_t n_held = 0;
  for (RadixIx i = 1; i < tree->n_nodes; i++) {
    const RadixNode *node = &tree->nodes[i];
    if (!node->label) continue;
    check_node(self, i);
    n_off[node->parent] += node->off;
    n_queued += node->host_queued;
    if (node->on_host) n_held += node->pages;
  }
  for (RadixIx i = 0; i < tree->n_nodes; i++)
    assert(tree->nodes[i].n_off == n_off[i] || (i > 0 && !tree->nodes[i].label));
  assert(n_queued == self->n_leaves && n_held == self->n_held && n_held <= self->n_pages);
  assert(self->n_held == self->n_written + self->n_fetched - self->n_evicted);
  assert(self->n_held + self->n_reserved <= self->n_pages);
  for (size_t i = 1; i < self->n_leaves; i++)
    assert(heap_key(&self->leaves[(i - 1) / HEAP_CHILDREN]) < heap_key(&self->leaves[i]));
  arena_done(&arena);
}
