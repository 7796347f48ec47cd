/* See radix_index.h. */
#include "sim/core/radix_index.h"
#include <assert.h>

void radix_index_init(RadixIndex *self, uint32_t n_instances, int64_t page, Arena *arena) {
  radix_tree_init(&self->tree, page, arena);
  instance_sets_init(&self->sets, n_instances, arena);
  self->stirred = ARENA_ARRAY(arena, uint64_t, self->sets.n_words);
}

static RadixIx split(RadixIndex *self, RadixIx ix, int64_t at) {
  const RadixIx top = radix_split(&self->tree, ix, at);
  RadixNode *nodes = self->tree.nodes;
  nodes[top].indexed = instance_set_copy(&self->sets, nodes[ix].indexed);
  return top;
}

RadixIx radix_index_split(RadixIndex *self, RadixIx ix, int64_t at) {
  const RadixNode *nodes = self->tree.nodes;
  while (nodes[ix].from > at)
    ix = nodes[ix].parent;
  return nodes[ix].from == at ? nodes[ix].parent : split(self, ix, at);
}

RadixIx radix_index_add(RadixIndex *self, InstanceIx instance, const Content *content, int64_t from,
                        int64_t to) {
  const RadixPath path = radix_walk(&self->tree, content, to);
  RadixIx end = path.part == RADIX_NONE ? path.node : split(self, path.part, path.tokens);
  if (path.tokens < to) end = radix_append(&self->tree, end, content, to);
  RadixNode *nodes = self->tree.nodes;
  for (RadixIx ix = end; nodes[ix].to > from; ix = nodes[ix].parent)
    instance_set_add(&self->sets, &nodes[ix].indexed, instance);
  return end;
}

void radix_index_remove(RadixIndex *self, InstanceIx instance, RadixIx ix, int64_t from) {
  RadixNode *nodes = self->tree.nodes;
  while (nodes[ix].to > from) {
    const RadixIx parent = nodes[ix].parent;
    instance_set_remove(&self->sets, &nodes[ix].indexed, instance);
    if (nodes[ix].indexed == 0) radix_remove(&self->tree, ix);
    ix = parent;
  }
}

/* --- a match */

static InstanceSet set_of(const RadixIndex *self, RadixIx ix) {
  return ix == RADIX_NONE ? 0 : self->tree.nodes[ix].indexed;
}

/* Looks at those that have the first page and may have some to evict. */
static void look_at(RadixIndex *self, const Content *content,
                    bool (*look)(void *context, InstanceIx instance), void *context) {
  const RadixIx first = radix_child(&self->tree, content, 0);
  for (uint32_t w = 0; w < self->sets.n_words; w++) {
    uint64_t bits = self->stirred[w];
    if (bits != 0) bits &= instance_set_word(&self->sets, set_of(self, first), w);
    for (; bits != 0; bits &= bits - 1) {
      const uint64_t bit = bits & -bits;
      const InstanceIx m = w * INSTANCES_PER_WORD + (uint32_t)__builtin_ctzll(bits);
      if (!look(context, m)) self->stirred[w] &= ~bit;
    }
  }
}

const int32_t *radix_index_match(RadixIndex *self, const Content *content, int64_t n,
                                 bool (*look)(void *context, InstanceIx instance), void *context) {
  const RadixTree *tree = &self->tree;
  const int64_t limit = n * tree->page;
  if (n > 0) look_at(self, content, look, context);
  RadixIx child = n > 0 ? radix_child(tree, content, 0) : RADIX_NONE;
  instance_sets_begin(&self->sets, set_of(self, child));
  int64_t at = 0;
  while (child != RADIX_NONE &&
         instance_sets_keep(&self->sets, tree->nodes[child].indexed, radix_whole_pages(tree, at))) {
    at = radix_agreed(tree, &tree->nodes[child], content, limit);
    if (at == limit || at < tree->nodes[child].to) break;
    child = radix_child(tree, content, at);
  }
  instance_sets_keep(&self->sets, 0, radix_whole_pages(tree, at));
  return self->sets.runs;
}

/* --- audit */

void radix_index_check(const RadixIndex *self, InstanceIx instance, RadixIx ix, int64_t from) {
  const RadixNode *nodes = self->tree.nodes;
  for (; nodes[ix].to > from; ix = nodes[ix].parent)
    assert(instance_set_has(&self->sets, nodes[ix].indexed, instance));
  assert(nodes[ix].to == from);
}

int64_t radix_index_tokens(const RadixIndex *self, InstanceIx instance) {
  int64_t n = 0;
  for (size_t i = 1; i < self->tree.n_nodes; i++) {
    const RadixNode *node = &self->tree.nodes[i];
    if (node->label && instance_set_has(&self->sets, node->indexed, instance))
      n += node->to - node->from;
  }
  return n;
}
