/* Groups of GPUs that change their shape (group.h), and what is kept of what they did
 * (timeline.c). */
#ifndef SIM_FEATURE_GROUPS_H
#define SIM_FEATURE_GROUPS_H
#include "sim/core/state.h"

/* Tokens of KV that the store of each group that serves the model has room for. */
int64_t engine_smallest_store(const Engine *self, uint32_t model);
/* Enters the time since the last entry into the books of a group, before it changes. */
void engine_book_group(Engine *self, Group *group);
/* The run is over: closes the books of all groups. */
void engine_end_groups(Engine *self);
/* Cuts the plan for a group's machine before the first prompt that its store cannot take; what is
 * left keeps the padding of the whole. */
void engine_fit_store(Engine *self, const Machine *machine);
/* A prefill on a group's machine has ended: its KV is copied out. */
void engine_copy_out(Engine *self, RequestIx request);
/* When the copy of a request of a group, which is under way, ends. */
Tick engine_copy_end(const Engine *self, RequestIx request);
/* The copies of a group that have ended by now: who waited for them goes on. Whether any has. */
bool engine_end_copies(Engine *self, Group *group);
void engine_handle_turn(Engine *self, Group *group);
/* Its machines have failed: it is in no shape from now on. */
void engine_stop_group(Engine *self, Group *group);
/* What a failed group was copying comes to nothing; its link is taken until it would have ended. */
void engine_drop_copies(Group *group);
/* The machines of a failed group have started: it is in its first shape. */
void engine_restart_group(Engine *self, Group *group);
/* One that leaves decode has no store to leave to: it goes on. */
void engine_stay_in_decode(Engine *self, Group *group);
/* Something changed on a machine of the group: copies in what there is room for, asks for its
 * shape, and goes on leaving the present one. */
void engine_shape(Engine *self, Group *group);

/* Where rows are kept, or somebody watches. */
void engine_init_timeline(Engine *self);
/* The clock goes on to `until` > now: looks at groups and, for an observer, at machines as they are
 * now, and at the multiples of their intervals before `until`. */
void engine_look(const Engine *self, Tick until);
#endif
