/* The degrees that share a number of GPUs, as an axis of choices. */
#include "experiments/provision/design.h"
#include "perfmodel/hardware.h"
#include <string.h>

enum { POOLS_MAX = 8, SHAPES_MAX = 10000 };

typedef struct ParallelismKeys {
  int64_t gpus;
  const Node *pools; // NULL: all
} ParallelismKeys;

#define KEY(field, kind, ...) OPTION_OF(ParallelismKeys, field, kind, __VA_ARGS__)

const OptionSpec provision_parallelism_options[] = {
    KEY(gpus, OPTION_INT, .required = true, .min = 1, .max = 1024,
        .help = "Number of GPUs of an instance, the product of its tensor, pipeline and data "
                "parallel degrees."),
    KEY(pools, OPTION_NODE, .help = "List of the pools whose degrees are searched.",
        .absent = "all; the pools of a group share data_parallel_size"),
    {0}};

/* The pools in order, and all degrees that one of them can have. */
typedef struct Space {
  const char *pools[POOLS_MAX]; // [n_pools]
  int partner[POOLS_MAX];       // the pool of the same group that comes before it; -1: none
  int n_pools;
  Parallelism *degrees; // [n_degrees], by data, then by tensor degree
  int n_degrees;
} Space;

/* ---- The pools ---- */

static int add_pool(Space *self, const Node *pools, const char *name, Place at, Arena *arena,
                    Diag *diag) {
  const Node *pool = node_find(pools, name);
  if (!pool) {
    const char **names = ARENA_ARRAY(arena, const char *, pools->n_children + 1);
    int n = 0;
    for (const Node *node = pools->first; node; node = node->next)
      names[n++] = node->key;
    diag_error(diag, at, "there is no pool '%s'", name);
    diag_hint_near(diag, name, names);
    return -1;
  }
  for (int i = 0; i < self->n_pools; i++)
    if (strcmp(self->pools[i], name) == 0)
      return diag_error(diag, at, "pool '%s' is listed twice", name);
  if (self->n_pools == POOLS_MAX)
    return diag_error(diag, at, "'parallelism' supports at most %d pools", POOLS_MAX);
  self->partner[self->n_pools] = -1;
  self->pools[self->n_pools++] = pool->key;
  return 0;
}

static int find_pools(Space *self, const Node *list, const Node *block, const Node *root,
                      Arena *arena, Diag *diag) {
  const Node *pools = node_find(root, "pools");
  if (!pools || pools->kind != NODE_MAP)
    return diag_error(diag, block->key_at, "'parallelism' needs at least one pool");
  int status = 0;
  if (!list) {
    for (const Node *pool = pools->first; pool; pool = pool->next)
      status |= add_pool(self, pools, pool->key, block->at, arena, diag);
    return status;
  }
  if (list->kind != NODE_LIST || !list->first)
    return diag_error(diag, list->at, "'pools' must be a list of names of pools");
  for (const Node *name = list->first; name; name = name->next)
    status |= name->kind == NODE_SCALAR
                  ? add_pool(self, pools, name->text, name->at, arena, diag)
                  : diag_error(diag, name->at, "'pools' must be a list of names of pools");
  return status;
}

static int index_of(const Space *self, const Node *name) {
  for (int i = 0; name && name->text && i < self->n_pools; i++)
    if (strcmp(self->pools[i], name->text) == 0) return i;
  return -1;
}

/* Pools of one group are the same GPUs, and keep their replicas. */
static void find_partners(Space *self, const Node *groups) {
  for (const Node *group = groups ? groups->first : NULL; group; group = group->next) {
    const int a = index_of(self, node_find(group, "prefill"));
    const int b = index_of(self, node_find(group, "decode"));
    if (a < 0 || b < 0 || a == b) continue;
    self->partner[a > b ? a : b] = a > b ? b : a;
  }
}

/* ---- The degrees ---- */

static void find_degrees(Space *self, int64_t gpus, Arena *arena) {
  size_t capacity = 0;
  for (int64_t data = 1; data <= gpus; data++)
    for (int64_t tensor = 1; gpus % data == 0 && tensor <= gpus / data; tensor++) {
      if (gpus / data % tensor != 0) continue;
      ARENA_RESERVE(arena, self->degrees, capacity, self->n_degrees + 1);
      self->degrees[self->n_degrees++] =
          (Parallelism){.tensor = tensor, .pipeline = gpus / data / tensor, .data = data};
    }
}

/* "TP4PP2": the degrees above one. */
static const char *name_of(Parallelism degrees, Arena *arena) {
  const struct {
    const char *letters;
    int64_t degree;
  } parts[] = {{"TP", degrees.tensor}, {"PP", degrees.pipeline}, {"DP", degrees.data}};
  const char *name = "";
  for (int i = 0; i < 3; i++)
    if (parts[i].degree > 1)
      name = arena_printf(arena, "%s%s%lld", name, parts[i].letters, (long long)parts[i].degree);
  return *name ? name : "TP1";
}

static void set_degree(Node *shape, const char *pool, const char *key, int64_t degree, Place at,
                       Arena *arena) {
  Node *leaf = node_child(shape, arena_printf(arena, "pools.%s.%s", pool, key), at, arena);
  leaf->kind = NODE_SCALAR;
  leaf->text = arena_printf(arena, "%lld", (long long)degree);
}

/* Adds the shape in which each pool i has the degrees of number at[i]. */
static void add_shape(const Space *self, const int *at, Node *axis, Arena *arena) {
  const char *name = "";
  for (int i = 0; i < self->n_pools; i++)
    name = arena_printf(arena, "%s%s%s", name, i ? "/" : "", name_of(self->degrees[at[i]], arena));
  Node *shape = node_child(axis, name, axis->at, arena);
  for (int i = 0; i < self->n_pools; i++) {
    const Parallelism *degrees = &self->degrees[at[i]];
    set_degree(shape, self->pools[i], "tensor_parallel_size", degrees->tensor, axis->at, arena);
    set_degree(shape, self->pools[i], "pipeline_parallel_size", degrees->pipeline, axis->at, arena);
    set_degree(shape, self->pools[i], "data_parallel_size", degrees->data, axis->at, arena);
  }
}

static bool keeps_replicas(const Space *self, const int *at) {
  for (int i = 0; i < self->n_pools; i++)
    if (self->partner[i] >= 0 &&
        self->degrees[at[i]].data != self->degrees[at[self->partner[i]]].data)
      return false;
  return true;
}

/* The next combination, the last pool moving fastest; false after the last one. */
static bool step(const Space *self, int *at) {
  for (int i = self->n_pools - 1; i >= 0; i--) {
    if (++at[i] < self->n_degrees) return true;
    at[i] = 0;
  }
  return false;
}

int parallelism_add_axis(Node *axes, const Node *block, const Node *root, Arena *arena,
                         Diag *diag) {
  ParallelismKeys keys = {0};
  Space space = {0};
  if (option_bind(provision_parallelism_options, block, NULL, block->at, &keys, diag)) return -1;
  if (find_pools(&space, keys.pools, block, root, arena, diag)) return -1;
  find_partners(&space, node_find(root, "groups"));
  find_degrees(&space, keys.gpus, arena);
  Node *axis = node_child(axes, block->key, block->key_at, arena);
  axis->at = block->at;
  int at[POOLS_MAX] = {0};
  do {
    if (!keeps_replicas(&space, at)) continue;
    if (axis->n_children == SHAPES_MAX)
      return diag_error(diag, block->at, "'parallelism' has more than %d shapes", SHAPES_MAX);
    add_shape(&space, at, axis, arena);
  } while (step(&space, at));
  return 0;
}
