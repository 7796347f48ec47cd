/* See cluster.h. */
#include "sim/cluster.h"
#include <assert.h>

const char *role_name(Role role) {
  static const char *const names[ROLES] = {
      [ROLE_PREFILL] = "prefill", [ROLE_DECODE] = "decode", [ROLE_MIXED] = "mixed"};
  return names[role];
}

void machine_totals_add(MachineTotals *self, const MachineTotals *other) {
  self->prefill_ticks += other->prefill_ticks;
  self->mixed_ticks += other->mixed_ticks;
  self->decode_ticks += other->decode_ticks;
  self->prefill_iterations += other->prefill_iterations;
  self->decode_iterations += other->decode_iterations;
  self->prefill_tokens += other->prefill_tokens;
  self->decode_tokens += other->decode_tokens;
  self->padding_tokens += other->padding_tokens;
  self->swaps_out += other->swaps_out;
  self->swaps_in += other->swaps_in;
  self->stall_ticks += other->stall_ticks;
  self->swapped_in_bytes += other->swapped_in_bytes;
  self->swapped_out_bytes += other->swapped_out_bytes;
  self->expansions += other->expansions;
  self->contractions += other->contractions;
  self->max_kv_blocks += other->max_kv_blocks;
  self->max_cpu_blocks += other->max_cpu_blocks;
  self->kv_block_seconds += other->kv_block_seconds;
  for (int i = 0; i <= EXTRAPOLATION_FAR; i++) {
    self->extrapolated_iterations[i] += other->extrapolated_iterations[i];
    self->extrapolated_ticks[i] += other->extrapolated_ticks[i];
  }
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
