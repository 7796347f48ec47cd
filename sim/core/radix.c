/* See radix.h. */
#include "sim/core/radix.h"
#include "base/heap.h"
#include "base/units.h"
#include <assert.h>
#include <string.h>

/* A touch stamps a path with one number of the clock, less the distance from its end. */
enum { DEPTH_BITS = 24 };

struct RadixLabel {
  RadixLabel *next; // of the free ones
  int32_t references, n_segments, size_class;
  TraceSegment segments[];
};

static uint64_t tick(Radix *self) {
  return ++self->clock << DEPTH_BITS;
}

static int64_t whole_pages(const Radix *self, int64_t tokens) {
  return self->page == 1 ? tokens : tokens / self->page;
}

/* --- labels */

/* What names the tokens from `from` to `to` of it. */
static RadixLabel *make_label(Radix *self, const Content *content, int64_t from, int64_t to) {
  const int32_t first = content_segment(content, from);
  const int32_t n = content_segment(content, to - 1) - first + 1;
  int size_class = 0;
  while (1 << size_class < n)
    size_class++;
  RadixLabel *label = self->free_labels[size_class];
  if (label)
    self->free_labels[size_class] = label->next;
  else
    label = arena_alloc(self->arena,
                        sizeof *label + ((size_t)1 << size_class) * sizeof *label->segments);
  label->references = 1;
  label->n_segments = n;
  label->size_class = size_class;
  memcpy(label->segments, &content->segments[first], (size_t)n * sizeof *label->segments);
  return label;
}

static void drop_label(Radix *self, RadixLabel *label) {
  if (--label->references > 0) return;
  label->next = self->free_labels[label->size_class];
  self->free_labels[label->size_class] = label;
}

static Content content_of(const RadixNode *node) {
  return (Content){.segments = node->label->segments, .n_segments = node->label->n_segments};
}

/* Whether the beginnings of `tokens` are the same. */
static bool agree(const Content *a, const Content *b, int64_t tokens) {
  return a->segments[content_segment(a, tokens - 1)].id ==
         b->segments[content_segment(b, tokens - 1)].id;
}

/* Tokens up to which a node and a content are the same that agree on its first page: at most
 * `limit`, in whole pages. */
static int64_t agreed(const Radix *self, const RadixNode *node, const Content *content,
                      int64_t limit) {
  const Content own = content_of(node);
  const int64_t end = node->to < limit ? node->to : limit;
  if (agree(&own, content, end)) return end;
  int32_t i = content_segment(&own, node->from), j = content_segment(content, node->from);
  int64_t at = node->from;
  while (at < end && own.segments[i].id == content->segments[j].id) {
    const int32_t a = own.segments[i].end, b = content->segments[j].end;
    at = a < b ? a : b;
    i += a == at;
    j += b == at;
  }
  if (at > end) at = end;
  return node->from + whole_pages(self, at - node->from) * self->page;
}

/* --- nodes */

static RadixIx new_node(Radix *self, RadixIx parent, RadixLabel *label, int64_t from, int64_t to) {
  RadixIx ix = self->free_node;
  if (ix == RADIX_NONE) {
    ix = (RadixIx)self->n_nodes++;
    ARENA_RESERVE(self->arena, self->nodes, self->capacity, self->n_nodes);
  } else {
    self->free_node = self->nodes[ix].parent;
  }
  self->nodes[ix] = (RadixNode){.label = label,
                                .parent = parent,
                                .from = (int32_t)from,
                                .to = (int32_t)to,
                                .pages = (int32_t)whole_pages(self, to - from)};
  return ix;
}

/* Names it as a child; its label says what it begins with. */
static void enter(Radix *self, RadixIx ix) {
  RadixNode *node = &self->nodes[ix];
  const Content content = content_of(node);
  node->key = content_key(&content, node->from + self->page);
  *key_map_put(&self->children, node->key, self->arena) = ix;
}

static RadixIx child_of(const Radix *self, const Content *content, int64_t at) {
  const uint32_t *child = key_map_find(&self->children, content_key(content, at + self->page));
  return child ? *child : RADIX_NONE;
}

/* The node's first part becomes a node of its own above it, which is returned. */
static RadixIx split(Radix *self, RadixIx ix, int64_t at) {
  RadixNode *child = &self->nodes[ix];
  child->label->references++;
  const RadixIx top = new_node(self, child->parent, child->label, child->from, at);
  child = &self->nodes[ix];
  RadixNode *node = &self->nodes[top];
  node->key = child->key;
  node->locks = child->locks;
  node->n_children = 1;
  node->time = tick(self);
  *key_map_put(&self->children, node->key, self->arena) = top;
  child->parent = top;
  child->from = (int32_t)at;
  child->pages -= node->pages;
  child->time = tick(self);
  enter(self, ix);
  return top;
}

void radix_init(Radix *self, int64_t n_pages, int64_t page, Arena *arena) {
  assert(0 < n_pages && 0 < page);
  *self = (Radix){
      .arena = arena, .page = page, .n_pages = n_pages, .n_free = n_pages, .free_node = RADIX_NONE};
  new_node(self, RADIX_NONE, NULL, 0, 0);
}

int64_t radix_match(Radix *self, const Content *content, int64_t tokens, RadixIx *ret_node) {
  const int64_t limit = whole_pages(self, tokens) * self->page;
  RadixIx ix = RADIX_ROOT;
  int64_t at = 0;
  while (at < limit) {
    const RadixIx child = child_of(self, content, at);
    if (child == RADIX_NONE) break;
    at = agreed(self, &self->nodes[child], content, limit);
    ix = at < self->nodes[child].to ? split(self, child, at) : child;
    if (ix != child) break;
  }
  *ret_node = ix;
  uint64_t time = tick(self);
  for (; ix != RADIX_ROOT; ix = self->nodes[ix].parent)
    self->nodes[ix].time = time--;
  return at;
}

int64_t radix_peek(const Radix *self, const Content *content, int64_t tokens) {
  const int64_t limit = whole_pages(self, tokens) * self->page;
  int64_t at = 0;
  while (at < limit) {
    const RadixIx child = child_of(self, content, at);
    if (child == RADIX_NONE) break;
    at = agreed(self, &self->nodes[child], content, limit);
    if (at < self->nodes[child].to) break;
  }
  return at;
}

/* Tokens that were there, and the node in which all end. */
static int64_t insert(Radix *self, const Content *content, int64_t limit, RadixIx *ret_node) {
  RadixIx ix = RADIX_ROOT;
  int64_t at = 0;
  while (at < limit) {
    const RadixIx child = child_of(self, content, at);
    if (child == RADIX_NONE) break;
    self->nodes[child].time = tick(self);
    at = agreed(self, &self->nodes[child], content, limit);
    ix = at < self->nodes[child].to ? split(self, child, at) : child;
  }
  const int64_t found = at;
  if (at < limit) {
    const RadixIx leaf = new_node(self, ix, make_label(self, content, at, limit), at, limit);
    self->nodes[leaf].time = tick(self);
    enter(self, leaf);
    self->nodes[ix].n_children++;
    self->n_evictable += self->nodes[leaf].pages;
    self->n_owned += self->nodes[leaf].pages;
    ix = leaf;
  }
  *ret_node = ix;
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
  return node->locks == 0 && node->n_children == 0;
}

/* It may go now, and touches only put that off. */
static void queue(Radix *self, RadixIx ix) {
  RadixNode *node = &self->nodes[ix];
  if (ix == RADIX_ROOT || node->queued || !may_go(node)) return;
  node->queued = true;
  ARENA_RESERVE(self->arena, self->leaves, self->leaves_capacity, self->n_leaves + 1);
  const RadixLeaf leaf = {node->time, ix};
  heap_rise(self, self->leaves, self->n_leaves++, &leaf);
}

void radix_lock(Radix *self, RadixIx ix) {
  for (; ix != RADIX_ROOT; ix = self->nodes[ix].parent)
    if (self->nodes[ix].locks++ == 0) self->n_evictable -= self->nodes[ix].pages;
}

void radix_unlock(Radix *self, RadixIx ix) {
  for (; ix != RADIX_ROOT; ix = self->nodes[ix].parent) {
    assert(self->nodes[ix].locks > 0);
    if (--self->nodes[ix].locks > 0) continue;
    self->n_evictable += self->nodes[ix].pages;
    queue(self, ix);
  }
}

static void remove_leaf(Radix *self, RadixIx ix) {
  RadixNode *node = &self->nodes[ix];
  const RadixIx parent = node->parent;
  key_map_remove(&self->children, node->key);
  drop_label(self, node->label);
  self->n_free += node->pages;
  self->n_evicted += node->pages;
  self->n_evictable -= node->pages;
  self->n_owned -= node->pages;
  node->label = NULL;
  node->parent = self->free_node;
  self->free_node = ix;
  self->nodes[parent].n_children--;
  queue(self, parent);
}

void radix_make_room(Radix *self, int64_t pages) {
  while (self->n_free < pages && self->n_leaves > 0) {
    RadixLeaf least = self->leaves[0];
    RadixNode *node = &self->nodes[least.node];
    if (may_go(node) && node->time > least.time) {
      least.time = node->time;
      heap_sink(self, self->leaves, self->n_leaves, 0, &least);
      continue;
    }
    const RadixLeaf last = self->leaves[--self->n_leaves];
    if (self->n_leaves > 0) heap_sink(self, self->leaves, self->n_leaves, 0, &last);
    node->queued = false;
    if (may_go(node)) remove_leaf(self, least.node);
  }
}

void radix_take(Radix *self, int64_t pages) {
  radix_make_room(self, pages);
  assert(0 <= pages && pages <= self->n_free);
  self->n_free -= pages;
}

/* --- requests */

void radix_hit(Radix *self, RadixHold *hold, RadixIx node, int64_t pages) {
  assert(hold->node == RADIX_ROOT && hold->owned_pages == 0);
  radix_lock(self, node);
  *hold = (RadixHold){node, (int32_t)pages};
}

void radix_insert(Radix *self, RadixHold *hold, const Content *content, int64_t tokens,
                  int64_t prompt) {
  const int64_t pages = whole_pages(self, tokens), limit = pages * self->page;
  const int64_t of_prompt = whole_pages(self, prompt) * self->page;
  RadixIx node, ignored;
  if (pages == 0) return;
  const int64_t found = whole_pages(self, insert(self, content, limit, &node));
  if (found > hold->owned_pages) self->n_free += found - hold->owned_pages;
  if (0 < of_prompt && of_prompt < limit) insert(self, content, of_prompt, &ignored);
  const RadixIx before = hold->node;
  radix_lock(self, node);
  radix_unlock(self, before);
  *hold = (RadixHold){node, (int32_t)pages};
}

void radix_release(Radix *self, RadixHold *hold, int64_t pages) {
  assert(pages >= hold->owned_pages);
  self->n_free += pages - hold->owned_pages;
  radix_unlock(self, hold->node);
  *hold = (RadixHold){0};
}

void radix_forget(Radix *self) {
  radix_make_room(self, self->n_pages);
}

/* --- audit */

/* What its children, those who lock it and the heap of leaves say of a node. */
typedef struct Claims {
  int32_t n_children, locks, n_queued;
} Claims;

static void check_node(const Radix *self, const RadixNode *node, const Claims *claims) {
  const RadixNode *parent = &self->nodes[node->parent];
  const uint32_t *child = key_map_find(&self->children, node->key);
  const Content content = content_of(node);
  assert(node->from == parent->to && node->to > node->from);
  assert(node->from % self->page == 0 && node->to - node->from == node->pages * self->page);
  assert(node->locks == claims->locks && node->n_children == claims->n_children);
  assert(child && &self->nodes[*child] == node);
  assert(content_key(&content, node->from + self->page) == node->key);
  assert(0 < node->time && node->time <= self->clock << DEPTH_BITS);
  assert(node->queued == claims->n_queued && (!may_go(node) || node->queued));
}

/* A request holds the pages of the path that it locks. */
static void claim_holds(const Radix *self, const RadixHold *const *holds, size_t n,
                        Claims *claims) {
  for (size_t i = 0; i < n; i++) {
    assert(holds[i]->owned_pages * self->page == self->nodes[holds[i]->node].to);
    for (RadixIx ix = holds[i]->node; ix != RADIX_ROOT; ix = self->nodes[ix].parent)
      claims[ix].locks++;
  }
}

/* The first of the heap is the one touched longest ago: each has been touched no earlier than the
 * heap says, and no later than those below it. */
static void claim_leaves(const Radix *self, Claims *claims) {
  for (size_t i = 0; i < self->n_leaves; i++) {
    const RadixLeaf *leaf = &self->leaves[i];
    assert(self->nodes[leaf->node].label && leaf->time <= self->nodes[leaf->node].time);
    assert(i == 0 || heap_key(&self->leaves[(i - 1) / HEAP_CHILDREN]) < heap_key(leaf));
    claims[leaf->node].n_queued++;
  }
}

void radix_audit(const Radix *self, const RadixHold *const *holds, size_t n) {
  Arena arena;
  arena_init(&arena);
  Claims *claims = ARENA_ARRAY(&arena, Claims, self->n_nodes);
  claim_holds(self, holds, n, claims);
  claim_leaves(self, claims);
  for (size_t i = 1; i < self->n_nodes; i++)
    if (self->nodes[i].label) claims[self->nodes[i].parent].n_children++;
  int64_t owned = 0, evictable = 0, n_nodes = 0;
  for (size_t i = 1; i < self->n_nodes; i++) {
    const RadixNode *node = &self->nodes[i];
    if (!node->label) continue;
    check_node(self, node, &claims[i]);
    n_nodes++;
    owned += node->pages;
    evictable += node->locks == 0 ? node->pages : 0;
  }
  assert(n_nodes == (int64_t)self->children.n_keys);
  assert(owned == self->n_owned && evictable == self->n_evictable);
  assert(0 <= self->n_free && self->n_free + owned <= self->n_pages);
  arena_done(&arena);
}
