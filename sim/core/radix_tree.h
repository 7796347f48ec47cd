/* A tree over beginnings of content, with single tokens where a page has one.
 *
 * A node is a run of whole pages, which continues its parent's. Its tokens are named as content is
 * (content.h), so a node of any length is a few segments. Children are found by the key of the
 * beginning up to the end of their first page. A node that ends inside another splits it; the lower
 * part keeps its number. A walk costs what the path has of nodes and segments. */
#ifndef SIM_CORE_RADIX_TREE_H
#define SIM_CORE_RADIX_TREE_H
#include "base/key_map.h"
#include "sim/core/content.h"

typedef uint32_t RadixIx;
#define RADIX_NONE UINT32_MAX
enum { RADIX_ROOT = 0 };

typedef struct RadixLabel RadixLabel;

typedef struct RadixNode {
  uint64_t time; // of the last touch: later is more
  uint64_t key;  // of its first page's end
  RadixLabel *label;
  RadixIx parent;   // of a free place the next one
  int32_t from, to; // tokens of the beginning that it has
  int32_t pages;    // of those
  int32_t n_children;
  int32_t locks;    // of requests in it and below
  uint32_t indexed; // where it ends in an index; in that, the set of instances that have it
  bool queued;      // among the leaves
  /* Where there are copies in CPU memory (radix_host.h): */
  bool off;         // it is not on the GPUs, nor is what is below it
  bool on_host;     // it is in CPU memory
  bool host_queued; // among the leaves of those that are off
  int32_t n_off;    // of its children
  uint32_t hits;    // since it was made
} RadixNode;

/* One that may go, in a heap of those, and when it was last looked at. */
typedef struct RadixLeaf {
  uint64_t time;
  RadixIx node;
} RadixLeaf;

typedef struct RadixTree {
  Arena *arena;
  RadixNode *nodes; // [n_nodes], the root first
  size_t n_nodes, capacity;
  RadixIx free_node;
  KeyMap children;
  RadixLabel *free_labels[32]; // by the logarithm of their capacity
  int64_t page;                // tokens
} RadixTree;

/* How far a tree has a content. */
typedef struct RadixPath {
  int64_t tokens;
  RadixIx node; // the last that is on the way as a whole
  RadixIx part; // its child in which the way ends; RADIX_NONE: in none
} RadixPath;

void radix_tree_init(RadixTree *self, int64_t page, Arena *arena);
/* Along the first `limit` tokens, which are whole pages. */
RadixPath radix_walk(const RadixTree *self, const Content *content, int64_t limit);
/* The child that begins with the page at `at`, or RADIX_NONE. */
RadixIx radix_child(const RadixTree *self, const Content *content, int64_t at);
/* Tokens up to which a node and a content are the same that agree on its first page: at most
 * `limit`, in whole pages. */
int64_t radix_agreed(const RadixTree *self, const RadixNode *node, const Content *content,
                     int64_t limit);
/* The node's first part becomes a node of its own above it, which is returned. */
RadixIx radix_split(RadixTree *self, RadixIx ix, int64_t at);
/* The whole pages behind a node up to `to`, of which it has no child, become one. */
RadixIx radix_append(RadixTree *self, RadixIx parent, const Content *content, int64_t to);
/* Takes a node without children out. */
void radix_remove(RadixTree *self, RadixIx ix);
/* The content that names a node's tokens. */
Content radix_content(const RadixNode *node);

static inline int64_t radix_whole_pages(const RadixTree *self, int64_t tokens) {
  return self->page == 1 ? tokens : tokens / self->page;
}
#endif
