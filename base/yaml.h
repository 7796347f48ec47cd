/* YAML (and so JSON) text as a tree that knows where everything stands.
 *
 * Read through libyaml. Refused with a located message: duplicate keys, aliases and anchors, tags,
 * more than one document, an empty file, keys that are not scalars, are longer than 160 bytes or
 * hold control characters, NUL characters, more than 64 levels or 64 MiB. Everything lives in the
 * arena. */
#ifndef BASE_YAML_H
#define BASE_YAML_H
#include "base/arena.h"
#include "base/diag.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum NodeKind { NODE_SCALAR, NODE_LIST, NODE_MAP } NodeKind;

typedef struct Node {
  NodeKind kind;
  bool quoted;                        // a scalar written in quotes
  bool spans;                         // a scalar written over several lines
  const char *text;                   // scalar: its value; NULL otherwise
  const char *key;                    // in a map: the key; NULL in a list and at the root
  Place key_at;                       // where the key stands
  Place at;                           // where the value starts
  struct Node *parent, *first, *next; // children in the order of the file
  int n_children;
} Node;

/* The tree of a file, "-" for standard input, or NULL with entries in `diag` (a file that cannot be
 * read is DIAG_ENVIRONMENT). */
Node *yaml_load(const char *path, Arena *arena, Diag *diag);
/* The same from text; `name` stands for the path in messages. */
Node *yaml_parse(const char *name, const char *text, size_t length, Arena *arena, Diag *diag);
/* Applies "pools.prefill.count=30", or takes the key out with "slo=null": the value is YAML (flow
 * form allowed); missing maps on the way are made, "designs.0.x" indexes a list, and a key that
 * holds dots itself is found by its whole name ("sweep.pools.prefill.count=1..9"). Messages place
 * it at path "--set". */
int yaml_set(Node *root, const char *assignment, Arena *arena, Diag *diag);
/* The same for the path "pools.prefill.count" alone, with a copy of `value`; keys that it makes
 * stand at `at`. */
int node_set(Node *root, const char *path, Place at, const Node *value, Arena *arena, Diag *diag);
/* The child under `key`, which must outlive the map; when there is none, an empty map, appended. */
Node *node_child(Node *map, const char *key, Place at, Arena *arena);
/* A tree of its own; texts and places are shared with `node`. */
Node *node_copy(const Node *node, Arena *arena);
/* Takes the child with this key out of a map; NULL when there is none. */
Node *node_take(Node *map, const char *key);
/* The child of a map with this key, NULL if absent or `map` is NULL or not a map. */
const Node *node_find(const Node *map, const char *key);
/* The text of such a child that is a scalar, else NULL. */
const char *node_find_text(const Node *map, const char *key);
/* Whether it is a value left out: nothing, ~ or null, without quotes. */
bool node_is_null(const Node *node);
/* What a message quotes of a scalar: its text, of one over several lines how it begins. */
const char *node_shown(const Node *node, Arena *arena);
/* Canonical text of a tree, for storing and hashing: one line of ASCII in flow form, keys in file
 * order, values in double quotes where they were quoted or flow form needs it. It reads back to
 * itself. */
char *node_text(const Node *node, Arena *arena);
/* A digest of that text; 0 of NULL. */
uint64_t node_digest(const Node *node);
#endif
