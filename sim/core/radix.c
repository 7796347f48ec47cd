/* See radix.h. */
#include "sim/core/radix.h"
#include "base/heap.h"
#include "base/units.h"
#include <assert.h>
#include <string.h>

/* A touch stamps a path with one number of the clock, less the distance from its end. */
enum { DEPTH_BITS = 24 };

static uint64_t tick(Radix *self) {
  return ++self->clock << DEPTH_BITS;
}

/* --- nodes */

void radix_init(Radix *self, int64_t n_pages, int64_t page, Arena *arena) {
  assert(0 < n_pages && 0 < page);
  *self = (Radix){.n_pages = n_pages, .n_free = n_pages};
  radix_tree_init(&self->tree, page, arena);
}

static void tell_host(const Radix *self) {
  if (!self->host) return;
  self->host->index = self->index;
  self->host->instance = self->instance;
}

void radix_join_index(Radix *self, RadixIndex *index, InstanceIx instance) {
  assert(self->tree.children.n_keys == 0);
  self->index = index;
  self->instance = instance;
  tell_host(self);
}

void radix_join_host(Radix *self, RadixHost *host) {
  assert(self->tree.children.n_keys == 0);
  self->host = host;
  host->tree = &self->tree;
  tell_host(self);
}

static RadixIx split(Radix *self, RadixIx ix, int64_t at) {
  const RadixIx top = radix_split(&self->tree, ix, at);
  RadixNode *nodes = self->tree.nodes;
  nodes[top].time = tick(self);
  nodes[ix].time = tick(self);
  if (self->index) nodes[top].indexed = radix_index_split(self->index, nodes[ix].indexed, at);
  return top;
}

/* A node and all above are touched. */
static void touch(Radix *self, RadixIx ix) {
  uint64_t time = tick(self);
  for (; ix != RADIX_ROOT; ix = self->tree.nodes[ix].parent)
    self->tree.nodes[ix].time = time--;
}

int64_t radix_match(Radix *self, const Content *content, int64_t tokens, RadixIx *ret_node) {
  const RadixTree *tree = &self->tree;
  const RadixPath path = radix_walk(tree, content, radix_whole_pages(tree, tokens) * tree->page);
  *ret_node = path.part == RADIX_NONE ? path.node : split(self, path.part, path.tokens);
  touch(self, *ret_node);
  return path.tokens;
}

int64_t radix_peek(const Radix *self, const Content *content, int64_t tokens) {
  const RadixTree *tree = &self->tree;
  return radix_walk(tree, content, radix_whole_pages(tree, tokens) * tree->page).tokens;
}

RadixIx radix_on_gpus(const Radix *self, RadixIx ix) {
  while (self->tree.nodes[ix].off)
    ix = self->tree.nodes[ix].parent;
  return ix;
}

/* What is off the GPUs above the end of a node is there now, on pages that are the tree's; tokens
 * that were before. */
static int64_t take_back(Radix *self, RadixIx ix) {
  RadixNode *nodes = self->tree.nodes;
  for (; nodes[ix].off; ix = nodes[ix].parent) {
    nodes[ix].off = false;
    nodes[nodes[ix].parent].n_off--;
    self->n_evictable += nodes[ix].pages;
    self->n_owned += nodes[ix].pages;
  }
  return nodes[ix].to;
}

/* Tokens that were there on the GPUs, and the node in which all end. */
static int64_t insert(Radix *self, const Content *content, int64_t limit, RadixIx *ret_node) {
  const RadixPath path = radix_walk(&self->tree, content, limit);
  touch(self, path.node);
  *ret_node = path.part == RADIX_NONE ? path.node : split(self, path.part, path.tokens);
  const int64_t found = self->host ? take_back(self, *ret_node) : path.tokens;
  if (path.tokens == limit) return found;
  const RadixIx leaf = *ret_node = radix_append(&self->tree, *ret_node, content, limit);
  RadixNode *node = &self->tree.nodes[leaf];
  node->time = tick(self);
  self->n_evictable += node->pages;
  self->n_owned += node->pages;
  if (self->index)
    node->indexed = radix_index_add(self->index, self->instance, content, path.tokens, limit);
  return found;
}

/* --- locks and leaves */

static inline Wide heap_key(const RadixLeaf *leaf) {
  return wide_of((int64_t)leaf->time, leaf->node);
}
static inline void heap_moved(Radix *self, size_t index, const RadixLeaf *leaf) {
  (void)self, (void)index, (void)leaf;
}
HEAP_STEPS(Radix, RadixLeaf)

static bool may_go(const RadixNode *node) {
  return node->locks == 0 && node->n_children == node->n_off && !node->off;
}

/* It may go now, and touches only put that off. */
static void queue(Radix *self, RadixIx ix) {
  RadixNode *node = &self->tree.nodes[ix];
  if (ix == RADIX_ROOT || node->queued || !may_go(node)) return;
  node->queued = true;
  ARENA_RESERVE(self->tree.arena, self->leaves, self->leaves_capacity, self->n_leaves + 1);
  const RadixLeaf leaf = {node->time, ix};
  heap_rise(self, self->leaves, self->n_leaves++, &leaf);
}

void radix_lock(Radix *self, RadixIx ix) {
  for (; ix != RADIX_ROOT; ix = self->tree.nodes[ix].parent)
    if (self->tree.nodes[ix].locks++ == 0) self->n_evictable -= self->tree.nodes[ix].pages;
}

void radix_unlock(Radix *self, RadixIx ix) {
  for (; ix != RADIX_ROOT; ix = self->tree.nodes[ix].parent) {
    assert(self->tree.nodes[ix].locks > 0);
    if (--self->tree.nodes[ix].locks > 0) continue;
    self->n_evictable += self->tree.nodes[ix].pages;
    queue(self, ix);
  }
}

/* It stays in CPU memory. */
static void demote(Radix *self, RadixIx ix) {
  RadixNode *node = &self->tree.nodes[ix];
  node->off = true;
  self->tree.nodes[node->parent].n_off++;
  radix_host_queue(self->host, ix);
}

static void evict(Radix *self, RadixIx ix) {
  const RadixNode *node = &self->tree.nodes[ix];
  const RadixIx parent = node->parent;
  self->n_free += node->pages;
  self->n_evicted += node->pages;
  self->n_evictable -= node->pages;
  self->n_owned -= node->pages;
  if (self->host && radix_host_keeps(self->host, ix)) {
    demote(self, ix);
  } else {
    if (self->index) radix_index_remove(self->index, self->instance, node->indexed, node->from);
    radix_remove(&self->tree, ix);
  }
  queue(self, parent);
}

void radix_make_room(Radix *self, int64_t pages) {
  while (self->n_free < pages && self->n_leaves > 0) {
    RadixLeaf least = self->leaves[0];
    RadixNode *node = &self->tree.nodes[least.node];
    if (may_go(node) && node->time > least.time) {
      least.time = node->time;
      heap_sink(self, self->leaves, self->n_leaves, 0, &least);
      continue;
    }
    const RadixLeaf last = self->leaves[--self->n_leaves];
    if (self->n_leaves > 0) heap_sink(self, self->leaves, self->n_leaves, 0, &last);
    node->queued = false;
    if (may_go(node)) evict(self, least.node);
  }
}

void radix_take(Radix *self, int64_t pages) {
  radix_make_room(self, pages);
  assert(0 <= pages && pages <= self->n_free);
  self->n_free -= pages;
  radix_stir(self);
}

/* --- requests */

void radix_hit(Radix *self, RadixHold *hold, RadixIx node, int64_t pages) {
  assert(hold->node == RADIX_ROOT && hold->owned_pages == 0);
  radix_lock(self, node);
  *hold = (RadixHold){node, (int32_t)pages};
}

/* Those that were on the GPUs already up to `found`, and a last one behind `known` that is new, are
 * hit once more, from the first on. Who is hit often enough is written. */
static void hit(Radix *self, RadixIx ix, int64_t found, int64_t known) {
  RadixHost *host = self->host;
  RadixNode *nodes = self->tree.nodes;
  size_t n = 0;
  for (; ix != RADIX_ROOT; ix = nodes[ix].parent) {
    if (nodes[ix].to > found && nodes[ix].from < known) continue;
    ARENA_RESERVE(self->tree.arena, host->path, host->path_capacity, n + 1);
    host->path[n++] = ix;
  }
  while (n-- > 0) {
    RadixNode *node = &nodes[host->path[n]];
    if (++node->hits < host->write_hits || node->on_host || !radix_host_put(host, host->path[n]))
      continue;
    radix_lock(self, host->path[n]);
    ARENA_RESERVE(self->tree.arena, host->unwritten, host->unwritten_capacity,
                  host->n_unwritten + 1);
    host->unwritten[host->n_unwritten++] =
        (RadixWrite){host->path[n], node->pages, node->from, node->to};
  }
}

static void insert_all(Radix *self, RadixHold *hold, const Content *content, int64_t tokens,
                       int64_t prompt, bool counts) {
  const int64_t pages = radix_whole_pages(&self->tree, tokens), limit = pages * self->tree.page;
  const int64_t of_prompt = radix_whole_pages(&self->tree, prompt) * self->tree.page;
  RadixIx node, ignored;
  if (pages == 0) return;
  const int64_t known = counts ? radix_walk(&self->tree, content, limit).tokens : 0;
  const int64_t there = insert(self, content, limit, &node);
  const int64_t found = radix_whole_pages(&self->tree, there);
  if (counts) hit(self, node, there, known);
  if (found > hold->owned_pages) self->n_free += found - hold->owned_pages;
  if (0 < of_prompt && of_prompt < limit) insert(self, content, of_prompt, &ignored);
  const RadixIx before = hold->node;
  radix_lock(self, node);
  radix_unlock(self, before);
  *hold = (RadixHold){node, (int32_t)pages};
}

void radix_insert(Radix *self, RadixHold *hold, const Content *content, int64_t tokens,
                  int64_t prompt) {
  const bool counts = self->host && self->host->write_hits > 0;
  insert_all(self, hold, content, tokens, prompt, counts);
}

void radix_insert_chunk(Radix *self, RadixHold *hold, const Content *content, int64_t tokens,
                        int64_t prompt) {
  insert_all(self, hold, content, tokens, prompt, false);
}

bool radix_load(Radix *self, RadixIx ix, int64_t pages) {
  const RadixIx above = radix_on_gpus(self, ix);
  radix_lock(self, above);
  self->host->kept = ix;
  radix_make_room(self, pages);
  self->host->kept = RADIX_NONE;
  radix_unlock(self, above);
  if (self->n_free < pages) return false;
  self->n_free -= pages;
  self->host->n_loaded += pages;
  take_back(self, ix);
  radix_lock(self, ix);
  radix_stir(self);
  return true;
}

int64_t radix_fetched(Radix *self, const Content *content, int64_t from, int64_t tokens) {
  RadixHost *host = self->host;
  const RadixPath path = radix_walk(&self->tree, content, tokens);
  touch(self, path.node);
  if (path.tokens < from || path.tokens == tokens) return 0;
  const RadixIx above = path.part == RADIX_NONE ? path.node : split(self, path.part, path.tokens);
  if (above != RADIX_ROOT && !self->tree.nodes[above].on_host) return 0;
  const RadixIx leaf = radix_append(&self->tree, above, content, tokens);
  RadixNode *node = &self->tree.nodes[leaf];
  node->time = tick(self);
  node->off = node->on_host = true;
  self->tree.nodes[above].n_off++;
  host->n_held += node->pages;
  host->n_fetched += node->pages;
  if (self->index)
    node->indexed = radix_index_add(self->index, self->instance, content, path.tokens, tokens);
  radix_host_queue(host, leaf);
  return node->pages;
}

void radix_release(Radix *self, RadixHold *hold, int64_t pages) {
  assert(pages >= hold->owned_pages);
  self->n_free += pages - hold->owned_pages;
  radix_unlock(self, hold->node);
  *hold = (RadixHold){0};
}

void radix_forget(Radix *self) {
  if (self->host) {
    radix_host_forget(self->host);
    self->host->closed = true;
  }
  radix_make_room(self, self->n_pages);
  if (self->host) self->host->closed = false;
}

/* --- audit */

/* What its children, those who lock it and the heap of leaves say of a node. */
typedef struct Claims {
  int32_t n_children, locks, n_queued;
} Claims;

static void check_node(const Radix *self, const RadixNode *node, const Claims *claims) {
  const RadixNode *parent = &self->tree.nodes[node->parent];
  const uint32_t *child = key_map_find(&self->tree.children, node->key);
  const Content content = radix_content(node);
  assert(node->from == parent->to && node->to > node->from);
  assert(node->from % self->tree.page == 0 &&
         node->to - node->from == node->pages * self->tree.page);
  assert(node->locks == claims->locks && node->n_children == claims->n_children);
  assert(child && &self->tree.nodes[*child] == node);
  assert(content_key(&content, node->from + self->tree.page) == node->key);
  assert(0 < node->time && node->time <= self->clock << DEPTH_BITS);
  assert(node->queued == claims->n_queued && (!may_go(node) || node->queued));
  if (self->index) radix_index_check(self->index, self->instance, node->indexed, node->from);
}

/* A request holds the pages of the path that it locks. */
static void claim_holds(const Radix *self, const RadixHold *const *holds, size_t n,
                        Claims *claims) {
  for (size_t i = 0; i < n; i++) {
    assert(holds[i]->owned_pages * self->tree.page == self->tree.nodes[holds[i]->node].to);
    for (RadixIx ix = holds[i]->node; ix != RADIX_ROOT; ix = self->tree.nodes[ix].parent)
      claims[ix].locks++;
  }
}

/* The first of the heap is the one touched longest ago: each has been touched no earlier than the
 * heap says, and no later than those below it. */
static void claim_leaves(const Radix *self, Claims *claims) {
  for (size_t i = 0; i < self->n_leaves; i++) {
    const RadixLeaf *leaf = &self->leaves[i];
    assert(self->tree.nodes[leaf->node].label && leaf->time <= self->tree.nodes[leaf->node].time);
    assert(i == 0 || heap_key(&self->leaves[(i - 1) / HEAP_CHILDREN]) < heap_key(leaf));
    claims[leaf->node].n_queued++;
  }
}

void radix_audit(const Radix *self, const RadixHold *const *holds, size_t n) {
  Arena arena;
  arena_init(&arena);
  Claims *claims = ARENA_ARRAY(&arena, Claims, self->tree.n_nodes);
  claim_holds(self, holds, n, claims);
  claim_leaves(self, claims);
  for (size_t i = 1; i < self->tree.n_nodes; i++)
    if (self->tree.nodes[i].label) claims[self->tree.nodes[i].parent].n_children++;
  int64_t owned = 0, evictable = 0, n_nodes = 0, tokens = 0;
  for (size_t i = 1; i < self->tree.n_nodes; i++) {
    const RadixNode *node = &self->tree.nodes[i];
    if (!node->label) continue;
    check_node(self, node, &claims[i]);
    n_nodes++;
    tokens += node->to - node->from;
    owned += node->off ? 0 : node->pages;
    evictable += node->locks == 0 && !node->off ? node->pages : 0;
  }
  assert(n_nodes == (int64_t)self->tree.children.n_keys);
  assert(owned == self->n_owned && evictable == self->n_evictable);
  assert(!self->index || radix_index_tokens(self->index, self->instance) == tokens);
  if (self->host) radix_host_audit(self->host);
  assert(0 <= self->n_free && self->n_free + owned <= self->n_pages);
  arena_done(&arena);
}
