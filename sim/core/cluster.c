/* See cluster.h. */
#include "sim/core/cluster.h"
#include <assert.h>
#include <string.h>

const char *role_name(Role role) {
  static const char *const names[ROLES] = {
      [ROLE_PREFILL] = "prefill", [ROLE_DECODE] = "decode", [ROLE_MIXED] = "mixed"};
  return names[role];
}

void cluster_columns_init(ClusterColumns *self, uint32_t n_machines, uint32_t n_models,
                          Arena *arena) {
  Columns *all = columns_new(n_machines, n_models * ROLES, arena);
  *self = (ClusterColumns){.all = all,
                           .pending_tokens = column_new(all),
                           .n_assigned = column_new(all),
                           .n_present = column_new(all),
                           .kv_blocks = column_new(all),
                           .n_heavy = column_new(all)};
}

void cluster_init(ClusterView *self, const ClusterColumns *columns, uint32_t model,
                  const Machine *machines, uint32_t n_machines, Arena *arena) {
  uint32_t n_members = 0;
  for (MachineIx m = 0; m < n_machines; m++)
    n_members += machines[m].pool->model == model;
  MachineIx *members = ARENA_ARRAY(arena, MachineIx, n_members);
  *self = (ClusterView){.model = model,
                        .machines = machines,
                        .n_machines = n_machines,
                        .members = members,
                        .columns = *columns,
                        .loads = ARENA_ARRAY(arena, MachineLoad, n_machines)};
  for (int role = 0; role < ROLES; role++)
    self->by_role[role] = (RoleList){.items = ARENA_ARRAY(arena, MachineIx, n_members),
                                     .by_number = ARENA_ARRAY(arena, MachineIx, n_members),
                                     .ix = model * ROLES + (ListIx)role};
  for (MachineIx m = 0; m < n_machines; m++) {
    if (machines[m].pool->model != model) continue;
    members[self->n_members++] = m;
    cluster_join(self, m, machines[m].home);
  }
}

/* The machines of a list that `key` puts before one: their numbers, or when they joined. */
static uint32_t rank(const MachineIx *items, uint32_t count, const uint64_t *key,
                     MachineIx machine) {
  uint32_t low = 0, high = count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    const MachineIx other = items[middle];
    if (key ? key[other] < key[machine] : other < machine)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void shift(MachineIx *items, uint32_t from, uint32_t to, uint32_t n) {
  memmove(&items[to], &items[from], n * sizeof *items);
}

void cluster_withdraw(ClusterView *self, MachineIx machine, Role role) {
  RoleList *list = &self->by_role[role];
  assert(self->columns.all->listed[machine] == list->ix);
  const uint32_t last = --list->count;
  const uint32_t i = rank(list->items, last, self->columns.all->joined, machine);
  shift(list->items, i + 1, i, last - i);
  const uint32_t k = rank(list->by_number, last, NULL, machine);
  shift(list->by_number, k + 1, k, last - k);
  columns_move(self->columns.all, machine, LIST_NONE);
}

void cluster_join(ClusterView *self, MachineIx machine, Role role) {
  RoleList *list = &self->by_role[role];
  const uint32_t k = rank(list->by_number, list->count, NULL, machine);
  shift(list->by_number, k, k + 1, list->count - k);
  list->by_number[k] = machine;
  list->items[list->count++] = machine;
  columns_move(self->columns.all, machine, list->ix);
}
