/* The queues of SplitwiseSim's instances at 8f99e7d, which both of its batchers share.
 *
 * A request has up to two tasks on an instance, a prefill and a decode; a decode that stays on the
 * instance of its prefill is queued right behind it. Three orders are kept: `batch` (order of
 * selection), `pending` (all tasks outside the batch, inserted by a binary search on keys that keep
 * changing, so not really sorted) and `waiting` (the same by the arrival of their requests). Which
 * tasks are in the batch is marked by slot, so that nobody looks through it. */
#ifndef SIM_BATCHER_SPLITWISE_SIM_QUEUES_H
#define SIM_BATCHER_SPLITWISE_SIM_QUEUES_H
#include "sim/batcher/batcher.h"

typedef struct Task {
  RequestIx request;
  Phase phase;
} Task;

typedef struct TaskList {
  Task *items;
  size_t count, capacity;
} TaskList;

typedef struct TaskMark {
  int32_t waits; // iterations begun without the task while it could run
  bool in_batch, selected;
  uint32_t listed_as; // of the prefill: place of the request among all that came here; 0: is not
} TaskMark;

/* By 2·slot + phase. Those of all instances of a pool: a request has tasks on one at a time. */
typedef struct TaskMarks {
  TaskMark *of;
  size_t capacity;
} TaskMarks;

typedef struct SimQueues {
  Arena *arena;
  TaskMarks *marks;
  TaskList batch, pending, waiting, prompts;
  TaskList selected;    // to join the batch, or to stay in it where not all of it does
  int64_t batch_tokens; // of the last selection
  uint32_t n_listed;    // requests that have ever come here
} SimQueues;

void sim_queues_init(SimQueues *self, TaskMarks *marks, Arena *arena);
/* A task arrived: queues it. */
void sim_queues_arrive(SimQueues *self, const InstanceView *view, Task task);
/* Hooks of both batchers, whose state of an instance is its SimQueues. */
void sim_queues_finish(void *state, void *queues, const InstanceView *view, RequestIx request,
                       Phase phase);
void sim_queues_leave(void *state, void *queues, const InstanceView *view, RequestIx request);
/* A decode waits for its prefill. */
bool sim_task_runnable(const InstanceView *view, Task task);

/* KV blocks a task takes when it first runs. */
int64_t sim_task_blocks(const InstanceView *view, Task task);
bool sim_task_blocked(const InstanceView *view, Task task);

static inline TaskMark *sim_task_mark(const SimQueues *self, Task task) {
  return &self->marks->of[2 * (size_t)task.request + task.phase];
}
void sim_queues_select(SimQueues *self, Task task);

/* Makes `selected` the batch, beside all of the old one where that `stays`, and writes the
 * difference into the plan; tasks that could run and were not selected have waited once more. */
void sim_queues_commit(SimQueues *self, const InstanceView *view, bool stays, BatchPlan *plan);

/* Whether an idle instance begins for the task at the head of `pending`, or one in a decode run
 * cuts it short, after KV left it. */
bool sim_queues_released(const SimQueues *self, const InstanceView *view,
                         const BatchLimits *limits);
#endif
