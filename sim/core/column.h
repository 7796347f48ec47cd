/* A figure of each instance, and which instance of a role has the least of it.
 *
 * Policies ask for the least at each request, so it is kept, not looked for: over the instances of
 * a list a tree, each of whose nodes is the lesser of the two below it. Before it is looked at,
 * each instance that has changed walks up as far as that makes a difference. Of equals the instance
 * that took the role first wins, as in a scan of the role's list, or the one whose last turn was
 * first: a node is the figure, then when that was, then the instance's number, as one number, so
 * that no branch compares two. A tree is built when it is first asked for; until then a change
 * costs nothing but itself. Orders by speed compare each figure times its instance's slowness. */
#ifndef SIM_CORE_COLUMN_H
#define SIM_CORE_COLUMN_H
#include "base/arena.h"
#include "sim/core/instance.h"

/* Instances of one role, of those that serve the same model, in the order in which they took it. */
typedef uint32_t ListIx;
#define LIST_NONE UINT32_MAX

typedef struct RoleList {
  InstanceIx *items;
  InstanceIx *by_number; // the same in the order of their numbers
  uint32_t count;
  ListIx ix; // among all lists over the same instances
} RoleList;

/* Which of equals is the least. */
typedef enum ColumnOrder {
  COLUMN_BY_LIST,  // the first
  COLUMN_BY_TURN,  // the one that took a turn, or its role, longest ago
  COLUMN_BY_SPEED, // the first, of figures times slowness
  COLUMN_BY_SPEED_AND_TURN,
  COLUMN_ORDERS,
} ColumnOrder;

typedef struct Column Column;

/* The columns over the same instances, and where these are listed. */
typedef struct Columns {
  Arena *arena;
  uint32_t n_instances, n_lists;
  uint64_t *joined; // [n_instances] when each took its role, as a count
  uint64_t n_joined;
  uint64_t *turns; // [n_instances] when each took its last turn, or its role, as a count
  uint64_t n_turns;
  ListIx *listed;    // [n_instances] where; LIST_NONE: in no list
  int64_t *slowness; // [n_instances] see columns_slowness; NULL: nobody has asked
  Column *first;
} Columns;

struct Column {
  int64_t *of;                 // [n_instances]; changed by column_add and column_set alone
  Columns *columns;            // its fellows
  Column *next;                // of them
  Wide **trees[COLUMN_ORDERS]; // by list [2 · n_instances] as a heap, leaves last; NULL: not asked
                               // for
  InstanceIx *changed;         // instances whose figures changed since; NULL: there is no tree
  uint32_t n_changed;
  bool *is_changed; // [n_instances]
  /* Brings an instance's figure up to this moment, which only makes it larger; NULL: it is. */
  void (*refresh)(void *context, InstanceIx instance);
  void *context;
};

/* Of instances that are in no list, of which there are `n_lists`. */
Columns *columns_new(uint32_t n_instances, uint32_t n_lists, Arena *arena);
/* An instance is at the end of `list` now; LIST_NONE: in none. */
void columns_move(Columns *self, InstanceIx instance, ListIx list);
/* A column of zeros; a policy may have its own beside those of the view. */
Column *column_new(Columns *columns);

static inline void column_add(Column *self, InstanceIx instance, int64_t more) {
  self->of[instance] += more;
  if (!self->changed || self->is_changed[instance]) return;
  self->is_changed[instance] = true;
  self->changed[self->n_changed++] = instance;
}
static inline void column_set(Column *self, InstanceIx instance, int64_t value) {
  if (self->of[instance] != value) column_add(self, instance, value - self->of[instance]);
}
static inline int64_t column_at(const Column *self, InstanceIx instance) {
  if (self->refresh) self->refresh(self->context, instance);
  return self->of[instance];
}
/* By what orders by speed multiply the figures of each instance: all 1 until the caller, who is the
 * first to ask for such an order, sets them. */
int64_t *columns_slowness(Columns *self);
/* Brings the trees up to the changes. */
void column_settle(Column *self);
/* What the tree of a list that has one says as it is. */
InstanceIx column_root(const Column *self, ColumnOrder order, ListIx list);
/* The first instance of a list with the least; INSTANCE_NONE if it is empty. */
InstanceIx column_least(Column *self, const RoleList *list);
/* Of those with the least the one whose turn it is. */
InstanceIx column_least_in_turn(Column *self, const RoleList *list);
/* The least in any order. */
InstanceIx column_least_in(Column *self, ColumnOrder order, const RoleList *list);
/* Its figure as the order compares it. */
int64_t column_weighed(const Column *self, ColumnOrder order, InstanceIx instance);
/* An instance has had its turn: others with as little come before it. */
void columns_take_turn(Columns *self, InstanceIx instance);
/* The first of all but one, which may be of another list. */
InstanceIx column_least_but(Column *self, const RoleList *list, InstanceIx instance);
#endif
