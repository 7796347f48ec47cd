/* What handlers leave to be done when the event has been handled: they mark an instance or a group,
 * and one pass over the marked ones does it (sim_settle), in the order in which they were
 * marked. So no handler runs another's steps in the middle of its own. */
#ifndef SIM_CORE_MARKS_H
#define SIM_CORE_MARKS_H
#include "sim/core/state.h"

/* Of an instance. */
typedef enum Mark {
  MARK_REFIT = 1, // its free blocks changed: the length of its decode run is fitted to them
  MARK_BEGIN = 2, // it may begin an iteration, or ends its decode run to do so
  MARK_DRAIN = 4, // it drains, and has less to do than before
  MARK_ROOM = 8,  // a request has left that others may have waited for, inbound KV too
} Mark;

static inline void sim_mark(Simulation *self, Instance *instance, Mark mark) {
  if (instance->marks == 0) {
    ARENA_RESERVE(self->arena, self->marked, self->marked_capacity, self->n_marked + 1);
    self->marked[self->n_marked++] = instance->ix;
  }
  instance->marks |= (uint8_t)mark;
}

/* Something changed that the shape of a group may hang on. */
static inline void sim_mark_group(Simulation *self, Group *group) {
  if (!group->marked) self->marked_groups[self->n_marked_groups++] = group->ix;
  group->marked = true;
}

/* The instances of a group's present shape that have nothing to do may begin. */
void sim_mark_idle(Simulation *self, const Group *group);
#endif
