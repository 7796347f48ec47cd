/* See radix_tree.h. */
#include "sim/core/radix_tree.h"
#include <assert.h>
#include <string.h>

struct RadixLabel {
  RadixLabel *next; // of the free ones
  int32_t references, n_segments, size_class;
  TraceSegment segments[];
};

/* --- labels */

/* What names the tokens from `from` to `to` of it. */
static RadixLabel *make_label(RadixTree *self, const Content *content, int64_t from, int64_t to) {
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

static void drop_label(RadixTree *self, RadixLabel *label) {
  if (--label->references > 0) return;
  label->next = self->free_labels[label->size_class];
  self->free_labels[label->size_class] = label;
}

Content radix_content(const RadixNode *node) {
  return (Content){.segments = node->label->segments, .n_segments = node->label->n_segments};
}

/* Whether the beginnings of `tokens` are the same. */
static bool agree(const Content *a, const Content *b, int64_t tokens) {
  return a->segments[content_segment(a, tokens - 1)].id ==
         b->segments[content_segment(b, tokens - 1)].id;
}

int64_t radix_agreed(const RadixTree *self, const RadixNode *node, const Content *content,
                     int64_t limit) {
  const Content own = radix_content(node);
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
  return node->from + radix_whole_pages(self, at - node->from) * self->page;
}

/* --- nodes */

static RadixIx new_node(RadixTree *self, RadixIx parent, RadixLabel *label, int64_t from,
                        int64_t to) {
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
                                .pages = (int32_t)radix_whole_pages(self, to - from)};
  return ix;
}

void radix_tree_init(RadixTree *self, int64_t page, Arena *arena) {
  *self = (RadixTree){.arena = arena, .page = page, .free_node = RADIX_NONE};
  new_node(self, RADIX_NONE, NULL, 0, 0);
}

/* Names it as a child; its label says what it begins with. */
static void enter(RadixTree *self, RadixIx ix) {
  RadixNode *node = &self->nodes[ix];
  const Content content = radix_content(node);
  node->key = content_key(&content, node->from + self->page);
  *key_map_put(&self->children, node->key, self->arena) = ix;
}

RadixIx radix_child(const RadixTree *self, const Content *content, int64_t at) {
  const uint32_t *child = key_map_find(&self->children, content_key(content, at + self->page));
  return child ? *child : RADIX_NONE;
}

RadixPath radix_walk(const RadixTree *self, const Content *content, int64_t limit) {
  RadixPath path = {0, RADIX_ROOT, RADIX_NONE};
  while (path.tokens < limit) {
    const RadixIx child = radix_child(self, content, path.tokens);
    if (child == RADIX_NONE) break;
    path.tokens = radix_agreed(self, &self->nodes[child], content, limit);
    if (path.tokens < self->nodes[child].to) {
      path.part = child;
      break;
    }
    path.node = child;
  }
  return path;
}

RadixIx radix_split(RadixTree *self, RadixIx ix, int64_t at) {
  RadixNode *child = &self->nodes[ix];
  child->label->references++;
  const RadixIx top = new_node(self, child->parent, child->label, child->from, at);
  child = &self->nodes[ix];
  RadixNode *node = &self->nodes[top];
  node->key = child->key;
  node->locks = child->locks;
  node->n_children = 1;
  node->off = child->off;
  node->on_host = child->on_host;
  node->n_off = child->off;
  node->hits = child->hits;
  *key_map_put(&self->children, node->key, self->arena) = top;
  child->parent = top;
  child->from = (int32_t)at;
  child->pages -= node->pages;
  enter(self, ix);
  return top;
}

RadixIx radix_append(RadixTree *self, RadixIx parent, const Content *content, int64_t to) {
  const int64_t from = self->nodes[parent].to;
  const RadixIx leaf = new_node(self, parent, make_label(self, content, from, to), from, to);
  enter(self, leaf);
  self->nodes[parent].n_children++;
  return leaf;
}

void radix_remove(RadixTree *self, RadixIx ix) {
  RadixNode *node = &self->nodes[ix];
  assert(node->n_children == 0);
  key_map_remove(&self->children, node->key);
  drop_label(self, node->label);
  self->nodes[node->parent].n_children--;
  self->nodes[node->parent].n_off -= node->off;
  node->label = NULL;
  node->parent = self->free_node;
  self->free_node = ix;
}
