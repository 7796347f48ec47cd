/* See column.h. */
#include "sim/column.h"
#include <assert.h>

Column *column_new(Columns *columns) {
  Column *self = ARENA_NEW(columns->arena, Column);
  *self = (Column){.of = ARENA_ARRAY(columns->arena, int64_t, columns->n_machines),
                   .columns = columns,
                   .next = columns->first};
  return columns->first = self;
}

static inline MachineIx better(const Column *self, MachineIx a, MachineIx b) {
  if (a == MACHINE_NONE || b == MACHINE_NONE) return a == MACHINE_NONE ? b : a;
  if (self->of[a] != self->of[b]) return self->of[a] < self->of[b] ? a : b;
  return self->columns->joined[a] < self->columns->joined[b] ? a : b;
}

static void build(Column *self, const RoleList *list) {
  const uint32_t n = self->columns->n_machines;
  if (!self->changed) {
    self->changed = ARENA_ARRAY(self->columns->arena, MachineIx, n);
    self->is_changed = ARENA_ARRAY(self->columns->arena, bool, n);
  }
  MachineIx *tree = ARENA_ARRAY(self->columns->arena, MachineIx, 2 * n);
  for (MachineIx m = 0; m < n; m++)
    tree[n + m] = self->columns->listed[m] == list->role ? m : MACHINE_NONE;
  for (uint32_t i = n - 1; i > 0; i--)
    tree[i] = better(self, tree[2 * i], tree[2 * i + 1]);
  self->trees[list->role] = tree;
}

/* The nodes above its leaf, up to the first that names the same other machine as before. */
static void climb(const Column *self, MachineIx *tree, MachineIx machine) {
  for (uint32_t i = (self->columns->n_machines + machine) / 2; i > 0; i /= 2) {
    const MachineIx best = better(self, tree[2 * i], tree[2 * i + 1]);
    if (best == tree[i] && best != machine) return;
    tree[i] = best;
  }
}

/* Only nodes that name a machine which has changed can name the wrong one, and each machine climbs
 * at least as far as it is named. */
void column_settle(Column *self) {
  for (uint32_t i = 0; i < self->n_changed; i++) {
    const MachineIx machine = self->changed[i];
    const Role role = self->columns->listed[machine];
    self->is_changed[machine] = false;
    if (role < ROLES && self->trees[role]) climb(self, self->trees[role], machine);
  }
  self->n_changed = 0;
}

void columns_move(Columns *self, MachineIx machine, Role role) {
  const Role from = self->listed[machine];
  for (Column *column = self->first; column; column = column->next)
    column_settle(column); // where the machine is listed still
  self->listed[machine] = role;
  self->joined[machine] = self->n_joined++;
  for (Column *column = self->first; column; column = column->next)
    for (int r = 0; r < ROLES; r++) {
      MachineIx *tree = column->trees[r];
      if (!tree || ((Role)r != from && (Role)r != role)) continue;
      tree[self->n_machines + machine] = (Role)r == role ? machine : MACHINE_NONE;
      climb(column, tree, machine);
    }
}

MachineIx column_least(Column *self, const RoleList *list) {
  if (list->count == 0) return MACHINE_NONE;
  if (!self->trees[list->role]) build(self, list);
  const MachineIx *tree = self->trees[list->role];
  /* What is not up to date is no larger than it will be: the least is found once it is. */
  for (;;) {
    column_settle(self);
    const MachineIx least = tree[1];
    const int64_t known = self->of[least];
    if (column_at(self, least) == known) return least;
  }
}

MachineIx column_least_but(Column *self, const RoleList *list, MachineIx machine) {
  const MachineIx least = column_least(self, list);
  if (least != machine || least == MACHINE_NONE) return least;
  assert(!self->refresh);
  const MachineIx *tree = self->trees[list->role];
  MachineIx best = MACHINE_NONE;
  for (uint32_t i = self->columns->n_machines + machine; i > 1; i /= 2)
    best = better(self, best, tree[i ^ 1]);
  return best;
}
