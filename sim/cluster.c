/* See cluster.h. */
#include "sim/cluster.h"
#include <assert.h>
#include <string.h>

const char *role_name(Role role) {
  static const char *const names[ROLES] = {
      [ROLE_PREFILL] = "prefill", [ROLE_DECODE] = "decode", [ROLE_MIXED] = "mixed"};
  return names[role];
}

void cluster_init(ClusterView *self, const Machine *machines, uint32_t n_machines, Arena *arena) {
  Columns *columns = ARENA_NEW(arena, Columns);
  *columns = (Columns){.arena = arena,
                       .n_machines = n_machines,
                       .joined = ARENA_ARRAY(arena, uint64_t, n_machines),
                       .listed = ARENA_ARRAY(arena, Role, n_machines)};
  *self = (ClusterView){.machines = machines,
                        .n_machines = n_machines,
                        .columns = columns,
                        .pending_tokens = column_new(columns),
                        .n_assigned = column_new(columns),
                        .n_present = column_new(columns),
                        .kv_blocks = column_new(columns),
                        .n_heavy = column_new(columns),
                        .loads = ARENA_ARRAY(arena, MachineLoad, n_machines)};
  for (int role = 0; role < ROLES; role++)
    self->by_role[role] = (RoleList){.items = ARENA_ARRAY(arena, MachineIx, n_machines),
                                     .by_number = ARENA_ARRAY(arena, MachineIx, n_machines),
                                     .role = (Role)role};
  for (MachineIx m = 0; m < n_machines; m++) {
    columns->listed[m] = ROLES;
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
  assert(self->columns->listed[machine] == role);
  const uint32_t last = --list->count;
  const uint32_t i = rank(list->items, last, self->columns->joined, machine);
  shift(list->items, i + 1, i, last - i);
  const uint32_t k = rank(list->by_number, last, NULL, machine);
  shift(list->by_number, k + 1, k, last - k);
  columns_move(self->columns, machine, ROLES);
}

void cluster_join(ClusterView *self, MachineIx machine, Role role) {
  RoleList *list = &self->by_role[role];
  const uint32_t k = rank(list->by_number, list->count, NULL, machine);
  shift(list->by_number, k, k + 1, list->count - k);
  list->by_number[k] = machine;
  list->items[list->count++] = machine;
  columns_move(self->columns, machine, role);
}
