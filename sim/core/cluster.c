/* See cluster.h. */
#include "sim/core/cluster.h"
#include <assert.h>
#include <string.h>

const char *role_name(Role role) {
  static const char *const names[ROLES] = {
      [ROLE_PREFILL] = "prefill", [ROLE_DECODE] = "decode", [ROLE_MIXED] = "mixed"};
  return names[role];
}

void cluster_columns_init(ClusterColumns *self, uint32_t n_instances, uint32_t n_models,
                          Arena *arena) {
  Columns *all = columns_new(n_instances, n_models * ROLES, arena);
  *self = (ClusterColumns){.all = all,
                           .pending_tokens = column_new(all),
                           .n_assigned = column_new(all),
                           .n_present = column_new(all),
                           .kv_blocks = column_new(all),
                           .n_heavy = column_new(all)};
}

void cluster_init(ClusterView *self, const ClusterColumns *columns, uint32_t model,
                  const Instance *instances, uint32_t n_instances, Arena *arena) {
  uint32_t n_members = 0;
  for (InstanceIx m = 0; m < n_instances; m++)
    n_members += instances[m].pool->model == model;
  InstanceIx *members = ARENA_ARRAY(arena, InstanceIx, n_members);
  *self = (ClusterView){.model = model,
                        .instances = instances,
                        .n_instances = n_instances,
                        .members = members,
                        .columns = *columns,
                        .loads = ARENA_ARRAY(arena, InstanceLoad, n_instances)};
  for (int role = 0; role < ROLES; role++)
    self->by_role[role] = (RoleList){.items = ARENA_ARRAY(arena, InstanceIx, n_members),
                                     .by_number = ARENA_ARRAY(arena, InstanceIx, n_members),
                                     .ix = model * ROLES + (ListIx)role};
  for (InstanceIx m = 0; m < n_instances; m++) {
    if (instances[m].pool->model != model) continue;
    members[self->n_members++] = m;
    cluster_join(self, m, instances[m].home);
  }
}

/* The instances of a list that `key` puts before one: their numbers, or when they joined. */
static uint32_t rank(const InstanceIx *items, uint32_t count, const uint64_t *key,
                     InstanceIx instance) {
  uint32_t low = 0, high = count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    const InstanceIx other = items[middle];
    if (key ? key[other] < key[instance] : other < instance)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void shift(InstanceIx *items, uint32_t from, uint32_t to, uint32_t n) {
  memmove(&items[to], &items[from], n * sizeof *items);
}

void cluster_withdraw(ClusterView *self, InstanceIx instance, Role role) {
  RoleList *list = &self->by_role[role];
  assert(self->columns.all->listed[instance] == list->ix);
  const uint32_t last = --list->count;
  const uint32_t i = rank(list->items, last, self->columns.all->joined, instance);
  shift(list->items, i + 1, i, last - i);
  const uint32_t k = rank(list->by_number, last, NULL, instance);
  shift(list->by_number, k + 1, k, last - k);
  columns_move(self->columns.all, instance, LIST_NONE);
}

void cluster_join(ClusterView *self, InstanceIx instance, Role role) {
  RoleList *list = &self->by_role[role];
  const uint32_t k = rank(list->by_number, list->count, NULL, instance);
  shift(list->by_number, k, k + 1, list->count - k);
  list->by_number[k] = instance;
  list->items[list->count++] = instance;
  columns_move(self->columns.all, instance, list->ix);
}
