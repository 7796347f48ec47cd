/* See cluster.h. */
#include "sim/cluster.h"
#include <assert.h>

const char *role_name(Role role) {
  static const char *const names[ROLES] = {
      [ROLE_PREFILL] = "prefill", [ROLE_DECODE] = "decode", [ROLE_MIXED] = "mixed"};
  return names[role];
}

void cluster_init(ClusterView *self, const Machine *machines, uint32_t n_machines, Arena *arena) {
  *self = (ClusterView){.machines = machines,
                        .n_machines = n_machines,
                        .pending_tokens = ARENA_ARRAY(arena, int64_t, n_machines),
                        .n_assigned = ARENA_ARRAY(arena, int64_t, n_machines),
                        .n_present = ARENA_ARRAY(arena, int64_t, n_machines),
                        .kv_blocks = ARENA_ARRAY(arena, int64_t, n_machines),
                        .n_heavy = ARENA_ARRAY(arena, int64_t, n_machines),
                        .loads = ARENA_ARRAY(arena, MachineLoad, n_machines)};
  for (int role = 0; role < ROLES; role++)
    self->by_role[role].items = ARENA_ARRAY(arena, MachineIx, n_machines);
  for (MachineIx m = 0; m < n_machines; m++) {
    RoleList *list = &self->by_role[machines[m].home];
    list->items[list->count++] = m;
  }
}

void cluster_withdraw(ClusterView *self, MachineIx machine, Role role) {
  RoleList *list = &self->by_role[role];
  uint32_t i = 0;
  while (i < list->count && list->items[i] != machine)
    i++;
  assert(i < list->count);
  for (list->count--; i < list->count; i++)
    list->items[i] = list->items[i + 1];
}

void cluster_join(ClusterView *self, MachineIx machine, Role role) {
  RoleList *list = &self->by_role[role];
  list->items[list->count++] = machine;
}
