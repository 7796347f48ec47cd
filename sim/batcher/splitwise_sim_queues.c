/* See splitwise_sim_queues.h. */
#include "sim/batcher/splitwise_sim_queues.h"
#include <assert.h>
#include <string.h>

void sim_queues_init(SimQueues *self, TaskMarks *marks, Arena *arena) {
  *self = (SimQueues){.arena = arena, .marks = marks};
}

static void insert(TaskList *list, size_t at, Task task, Arena *arena) {
  ARENA_RESERVE(arena, list->items, list->capacity, list->count + 1);
  memmove(&list->items[at + 1], &list->items[at], (list->count++ - at) * sizeof task);
  list->items[at] = task;
}

static void remove_task(TaskList *list, Task task) {
  size_t i = 0;
  while (i < list->count &&
         (list->items[i].request != task.request || list->items[i].phase != task.phase))
    i++;
  if (i == list->count) return;
  memmove(&list->items[i], &list->items[i + 1], (--list->count - i) * sizeof task);
}

/* Python's bisect.insort on (waits, arrival), binary search and all. */
static void insert_pending(SimQueues *self, const InstanceView *view, Task task) {
  const int32_t waits = sim_task_mark(self, task)->waits;
  const Tick arrived = view->requests[task.request].arrived_at;
  size_t low = 0, high = self->pending.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const Task other = self->pending.items[middle];
    const int32_t other_waits = sim_task_mark(self, other)->waits;
    const Tick other_arrived = view->requests[other.request].arrived_at;
    const bool less = waits < other_waits || (waits == other_waits && arrived < other_arrived);
    if (less)
      high = middle;
    else
      low = middle + 1;
  }
  insert(&self->pending, low, task, self->arena);
}

static TaskMark *first_mark(const SimQueues *self, RequestIx request) {
  return sim_task_mark(self, (Task){request, PHASE_PREFILL});
}

static bool came_before(const SimQueues *self, const InstanceView *view, RequestIx a, RequestIx b) {
  const Tick at_a = view->requests[a].arrived_at, at_b = view->requests[b].arrived_at;
  return at_a < at_b ||
         (at_a == at_b && first_mark(self, a)->listed_as < first_mark(self, b)->listed_as);
}

static void queue_task(SimQueues *self, const InstanceView *view, Task task) {
  insert_pending(self, view, task);
  size_t at = self->waiting.count;
  while (at > 0 && came_before(self, view, task.request, self->waiting.items[at - 1].request))
    at--;
  insert(&self->waiting, at, task, self->arena);
}

static void unqueue_task(SimQueues *self, Task task) {
  remove_task(&self->pending, task);
  remove_task(&self->waiting, task);
}

void sim_queues_arrive(SimQueues *self, const InstanceView *view, Task task) {
  TaskMarks *marks = self->marks;
  ARENA_RESERVE(self->arena, marks->of, marks->capacity, 2 * (size_t)task.request + 2);
  TaskMark *first = first_mark(self, task.request);
  if (first->listed_as == 0) first->listed_as = ++self->n_listed;
  sim_task_mark(self, task)->waits = 0;
  queue_task(self, view, task);
  if (task.phase == PHASE_PREFILL) insert(&self->prompts, self->prompts.count, task, self->arena);
}

void sim_queues_finish(void *state, void *queues, const InstanceView *view, RequestIx request,
                       Phase phase) {
  (void)state;
  SimQueues *self = queues;
  const Task task = {request, phase};
  TaskMark *mark = sim_task_mark(self, task);
  if (mark->in_batch)
    remove_task(&self->batch, task);
  else
    unqueue_task(self, task); // a decode with nothing to make never joined
  mark->in_batch = false;
  const bool decode_follows = task.phase == PHASE_PREFILL &&
                              view->requests[task.request].decode_instance == view->instance->ix;
  if (!decode_follows) first_mark(self, task.request)->listed_as = 0;
}

void sim_queues_leave(void *state, void *queues, const InstanceView *view, RequestIx request) {
  (void)state, (void)view;
  SimQueues *self = queues;
  if (2 * (size_t)request + 2 > self->marks->capacity)
    return; // it came while the instance was down
  for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    const Task task = {request, phase};
    remove_task(&self->batch, task);
    unqueue_task(self, task);
    remove_task(&self->prompts, task);
    *sim_task_mark(self, task) = (TaskMark){0};
  }
}

bool sim_task_runnable(const InstanceView *view, Task task) {
  return request_prefills(&view->requests[task.request]) == (task.phase == PHASE_PREFILL);
}

int64_t sim_task_blocks(const InstanceView *view, Task task) {
  const Request *request = &view->requests[task.request];
  const int64_t prompt = blocks_of(view->instance, (int64_t)request->prompt_tokens + 1);
  if (task.phase == PHASE_PREFILL) return prompt;
  return blocks_of(view->instance, (int64_t)request->prompt_tokens + request->output_tokens) -
         prompt;
}

bool sim_task_blocked(const InstanceView *view, Task task) {
  return task.phase == PHASE_DECODE && view->requests[task.request].state == REQUEST_BLOCKED;
}

void sim_queues_select(SimQueues *self, Task task) {
  insert(&self->selected, self->selected.count, task, self->arena);
  sim_task_mark(self, task)->selected = true;
}

/* All tasks outside the batch are pending. */
static void age(SimQueues *self, const InstanceView *view) {
  for (size_t i = 0; i < self->pending.count; i++) {
    const Task task = self->pending.items[i];
    if (sim_task_runnable(view, task)) sim_task_mark(self, task)->waits++;
  }
}

/* Those of the batch that are not selected leave it. */
static void preempt(SimQueues *self, const InstanceView *view, BatchPlan *plan) {
  size_t kept = 0;
  for (size_t i = 0; i < self->batch.count; i++) {
    const Task task = self->batch.items[i];
    TaskMark *mark = sim_task_mark(self, task);
    if (mark->selected) {
      self->batch.items[kept++] = task;
      continue;
    }
    assert(task.phase == PHASE_DECODE);
    mark->in_batch = false;
    plan_preempt(plan, task.request);
    queue_task(self, view, task);
  }
  self->batch.count = kept;
}

static void join(SimQueues *self, const InstanceView *view, Task task, BatchPlan *plan) {
  unqueue_task(self, task);
  insert(&self->batch, self->batch.count, task, self->arena);
  if (task.phase == PHASE_PREFILL) {
    remove_task(&self->prompts, task);
    plan_prefill(plan, task.request, request_prefill_tokens(&view->requests[task.request]));
  } else {
    plan_admit(plan, task.request);
  }
}

void sim_queues_commit(SimQueues *self, const InstanceView *view, bool stays, BatchPlan *plan) {
  if (!stays) preempt(self, view, plan);
  for (size_t i = 0; i < self->selected.count; i++) {
    const Task task = self->selected.items[i];
    TaskMark *mark = sim_task_mark(self, task);
    if (!mark->in_batch) join(self, view, task, plan);
    mark->in_batch = true;
    mark->selected = false;
  }
  self->selected.count = 0;
  age(self, view);
}

bool sim_queues_released(const SimQueues *self, const InstanceView *view,
                         const BatchLimits *limits) {
  if (self->pending.count == 0) return false;
  if (view->instance->activity == ACTIVITY_IDLE)
    return sim_task_blocks(view, self->pending.items[0]) <= view->instance->free_blocks;
  return (int64_t)self->batch.count < limits->max_num_seqs &&
         self->batch_tokens < limits->max_num_batched_tokens;
}
