/* See column.h. */
#include "sim/core/column.h"
#include <assert.h>

Columns *columns_new(uint32_t n_instances, uint32_t n_lists, Arena *arena) {
  Columns *self = ARENA_NEW(arena, Columns);
  *self = (Columns){.arena = arena,
                    .n_instances = n_instances,
                    .n_lists = n_lists,
                    .joined = ARENA_ARRAY(arena, uint64_t, n_instances),
                    .turns = ARENA_ARRAY(arena, uint64_t, n_instances),
                    .listed = ARENA_ARRAY(arena, ListIx, n_instances)};
  for (InstanceIx m = 0; m < n_instances; m++)
    self->listed[m] = LIST_NONE;
  return self;
}

Column *column_new(Columns *columns) {
  Column *self = ARENA_NEW(columns->arena, Column);
  *self = (Column){.of = ARENA_ARRAY(columns->arena, int64_t, columns->n_instances),
                   .columns = columns,
                   .next = columns->first};
  for (int order = 0; order < COLUMN_ORDERS; order++)
    self->trees[order] = ARENA_ARRAY(columns->arena, Wide *, columns->n_lists);
  return columns->first = self;
}

/* Of a node: the number of its instance. */
enum { INSTANCE_BITS = 24 };
static const uint64_t INSTANCE_MASK = (UINT64_C(1) << INSTANCE_BITS) - 1;

static inline Wide nobody(void) {
  return wide_of(INT64_MAX, UINT64_MAX);
}

static inline bool by_turn(ColumnOrder order) {
  return order == COLUMN_BY_TURN || order == COLUMN_BY_SPEED_AND_TURN;
}

static inline int64_t figure_of(const Column *self, ColumnOrder order, InstanceIx instance) {
  const int64_t figure = self->of[instance];
  return order < COLUMN_BY_SPEED ? figure : figure * self->columns->slowness[instance];
}

static inline Wide node_of(const Column *self, ColumnOrder order, InstanceIx instance) {
  const Columns *all = self->columns;
  const uint64_t since = (by_turn(order) ? all->turns : all->joined)[instance];
  return wide_of(figure_of(self, order, instance), since << INSTANCE_BITS | instance);
}

static inline InstanceIx instance_of(Wide node) {
  return node == nobody() ? INSTANCE_NONE : (InstanceIx)((uint64_t)node & INSTANCE_MASK);
}

static inline Wide lesser(Wide a, Wide b) {
  return b < a ? b : a;
}

static void build(Column *self, ColumnOrder order, const RoleList *list) {
  const uint32_t n = self->columns->n_instances;
  assert(n < INSTANCE_MASK && self->columns->n_joined < UINT64_MAX >> INSTANCE_BITS);
  if (!self->changed) {
    self->changed = ARENA_ARRAY(self->columns->arena, InstanceIx, n);
    self->is_changed = ARENA_ARRAY(self->columns->arena, bool, n);
  }
  Wide *tree = ARENA_ARRAY(self->columns->arena, Wide, 2 * n);
  for (InstanceIx m = 0; m < n; m++)
    tree[n + m] = self->columns->listed[m] == list->ix ? node_of(self, order, m) : nobody();
  for (uint32_t i = n - 1; i > 0; i--)
    tree[i] = lesser(tree[2 * i], tree[2 * i + 1]);
  self->trees[order][list->ix] = tree;
}

/* The nodes above its leaf, up to the first that is what it was. */
static void climb(const Column *self, Wide *tree, InstanceIx instance, Wide leaf) {
  uint32_t i = self->columns->n_instances + instance;
  Wide least = tree[i] = leaf;
  for (; i > 1; i /= 2) {
    least = lesser(least, tree[i ^ 1]);
    if (tree[i / 2] == least) return;
    tree[i / 2] = least;
  }
}

/* In the trees of a list, in which it is or is not any more. */
static void place(const Column *self, InstanceIx instance, ListIx list, bool listed) {
  for (ColumnOrder order = 0; order < COLUMN_ORDERS; order++) {
    Wide *tree = self->trees[order][list];
    if (tree) climb(self, tree, instance, listed ? node_of(self, order, instance) : nobody());
  }
}

void column_settle(Column *self) {
  for (uint32_t i = 0; i < self->n_changed; i++) {
    const InstanceIx instance = self->changed[i];
    const ListIx list = self->columns->listed[instance];
    self->is_changed[instance] = false;
    if (list != LIST_NONE) place(self, instance, list, true);
  }
  self->n_changed = 0;
}

void columns_move(Columns *self, InstanceIx instance, ListIx list) {
  const ListIx from = self->listed[instance];
  for (Column *column = self->first; column; column = column->next)
    column_settle(column); // where the instance is listed still
  self->listed[instance] = list;
  self->joined[instance] = self->n_joined++;
  self->turns[instance] = self->n_turns++;
  for (Column *column = self->first; column; column = column->next) {
    if (from != LIST_NONE) place(column, instance, from, false);
    if (list != LIST_NONE) place(column, instance, list, true);
  }
}

void columns_take_turn(Columns *self, InstanceIx instance) {
  const ListIx list = self->listed[instance];
  assert(self->n_turns < UINT64_MAX >> INSTANCE_BITS);
  self->turns[instance] = self->n_turns++;
  for (Column *column = self->first; list != LIST_NONE && column; column = column->next)
    if (column->trees[COLUMN_BY_TURN][list] || column->trees[COLUMN_BY_SPEED_AND_TURN][list])
      column_add(column, instance, 0);
}

InstanceIx column_root(const Column *self, ColumnOrder order, ListIx list) {
  return instance_of(self->trees[order][list][1]);
}

int64_t *columns_slowness(Columns *self) {
  if (self->slowness) return self->slowness;
  self->slowness = ARENA_ARRAY(self->arena, int64_t, self->n_instances);
  for (InstanceIx m = 0; m < self->n_instances; m++)
    self->slowness[m] = 1;
  return self->slowness;
}

int64_t column_weighed(const Column *self, ColumnOrder order, InstanceIx instance) {
  const int64_t figure = column_at(self, instance);
  return order < COLUMN_BY_SPEED ? figure : figure * self->columns->slowness[instance];
}

InstanceIx column_least_in(Column *self, ColumnOrder order, const RoleList *list) {
  if (list->count == 0) return INSTANCE_NONE;
  if (!self->trees[order][list->ix]) build(self, order, list);
  /* What is not up to date is no larger than it will be: the least is found once it is. */
  for (;;) {
    column_settle(self);
    const InstanceIx least = column_root(self, order, list->ix);
    const int64_t known = self->of[least];
    if (column_at(self, least) == known) return least;
  }
}

InstanceIx column_least(Column *self, const RoleList *list) {
  return column_least_in(self, COLUMN_BY_LIST, list);
}

InstanceIx column_least_in_turn(Column *self, const RoleList *list) {
  return column_least_in(self, COLUMN_BY_TURN, list);
}

InstanceIx column_least_but(Column *self, const RoleList *list, InstanceIx instance) {
  const InstanceIx least = column_least(self, list);
  if (least != instance || least == INSTANCE_NONE) return least;
  assert(!self->refresh);
  const Wide *tree = self->trees[COLUMN_BY_LIST][list->ix];
  Wide best = nobody();
  for (uint32_t i = self->columns->n_instances + instance; i > 1; i /= 2)
    best = lesser(best, tree[i ^ 1]);
  return instance_of(best);
}
