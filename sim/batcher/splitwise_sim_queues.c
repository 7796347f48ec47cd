/* See splitwise_sim_queues.h. */
#include "sim/batcher/splitwise_sim_queues.h"
#include <assert.h>

void sim_queues_init(SimQueues *self, Arena *arena) {
  *self = (SimQueues){.arena = arena};
}

static size_t find(const TaskList *list, Task task) {
  size_t i = 0;
  while (i < list->count &&
         (list->items[i].request != task.request || list->items[i].phase != task.phase))
    i++;
  return i;
}

bool task_list_has(const TaskList *self, Task task) {
  return find(self, task) < self->count;
}

bool task_list_has_request(const TaskList *self, RequestIx request) {
  return task_list_has(self, (Task){request, PHASE_PREFILL}) ||
         task_list_has(self, (Task){request, PHASE_DECODE});
}

static void insert(TaskList *list, size_t at, Task task, Arena *arena) {
  ARENA_RESERVE(arena, list->items, list->capacity, list->count + 1);
  for (size_t i = list->count++; i > at; i--)
    list->items[i] = list->items[i - 1];
  list->items[at] = task;
}

void task_list_push(TaskList *self, Task task, Arena *arena) {
  insert(self, self->count, task, arena);
}

static void remove_task(TaskList *list, Task task) {
  size_t i = find(list, task);
  if (i == list->count) return;
  for (list->count--; i < list->count; i++)
    list->items[i] = list->items[i + 1];
}

static int32_t *waits_of(SimQueues *self, Task task) {
  const size_t index = 2 * (size_t)task.request + task.phase;
  ARENA_RESERVE(self->arena, self->waits, self->waits_capacity, index + 1);
  return &self->waits[index];
}

/* Python's bisect.insort on (waits, arrival), binary search and all. */
static void insert_pending(SimQueues *self, const MachineView *view, Task task) {
  const int32_t waits = *waits_of(self, task);
  const Tick arrived = view->requests[task.request].arrived_at;
  size_t low = 0, high = self->pending.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const Task other = self->pending.items[middle];
    const int32_t other_waits = *waits_of(self, other);
    const Tick other_arrived = view->requests[other.request].arrived_at;
    const bool less = waits < other_waits || (waits == other_waits && arrived < other_arrived);
    if (less)
      high = middle;
    else
      low = middle + 1;
  }
  insert(&self->pending, low, task, self->arena);
}

/* After every request that arrived no later, as insort does by arrival. */
static void insert_request(SimQueues *self, const MachineView *view, RequestIx request) {
  size_t at = self->requests.count;
  while (at > 0 && view->requests[self->requests.items[at - 1].request].arrived_at >
                       view->requests[request].arrived_at)
    at--;
  insert(&self->requests, at, (Task){request, PHASE_PREFILL}, self->arena);
}

void sim_queues_arrive(SimQueues *self, const MachineView *view, Task task) {
  *waits_of(self, task) = 0;
  if (!task_list_has(&self->requests, (Task){task.request, PHASE_PREFILL}))
    insert_request(self, view, task.request);
  insert_pending(self, view, task);
  if (task.phase == PHASE_PREFILL) task_list_push(&self->prompts, task, self->arena);
}

void sim_queues_finish(SimQueues *self, const MachineView *view, Task task) {
  remove_task(&self->batch, task);
  remove_task(&self->pending, task); // a decode with nothing to make never left it
  const bool decode_follows = task.phase == PHASE_PREFILL &&
                              view->requests[task.request].decode_machine == view->machine->ix;
  if (!decode_follows) remove_task(&self->requests, (Task){task.request, PHASE_PREFILL});
}

Task sim_runnable_task(const MachineView *view, RequestIx request) {
  const bool prefill = request_prefills(&view->requests[request]);
  return (Task){request, prefill ? PHASE_PREFILL : PHASE_DECODE};
}

int64_t sim_task_blocks(const MachineView *view, Task task) {
  const Request *request = &view->requests[task.request];
  const int64_t prompt = blocks_of(view->machine, (int64_t)request->prompt_tokens + 1);
  if (task.phase == PHASE_PREFILL) return prompt;
  return blocks_of(view->machine, (int64_t)request->prompt_tokens + request->output_tokens) -
         prompt;
}

bool sim_task_blocked(const MachineView *view, Task task) {
  return task.phase == PHASE_DECODE && view->requests[task.request].state == REQUEST_BLOCKED;
}

static void age(SimQueues *self, const MachineView *view) {
  for (size_t i = 0; i < self->requests.count; i++) {
    const Task task = sim_runnable_task(view, self->requests.items[i].request);
    if (!task_list_has(&self->batch, task)) (*waits_of(self, task))++;
  }
}

void sim_queues_commit(SimQueues *self, const MachineView *view, BatchPlan *plan) {
  size_t kept = 0;
  for (size_t i = 0; i < self->batch.count; i++) {
    const Task task = self->batch.items[i];
    if (task_list_has(&self->selected, task)) {
      self->batch.items[kept++] = task;
      continue;
    }
    assert(task.phase == PHASE_DECODE);
    plan_preempt(plan, task.request);
    insert_pending(self, view, task);
  }
  self->batch.count = kept;
  for (size_t i = 0; i < self->selected.count; i++) {
    const Task task = self->selected.items[i];
    if (task_list_has(&self->batch, task)) continue;
    remove_task(&self->pending, task);
    remove_task(&self->prompts, task);
    task_list_push(&self->batch, task, self->arena);
    if (task.phase == PHASE_PREFILL)
      plan_prefill(plan, task.request, request_prefill_tokens(&view->requests[task.request]));
    else
      plan_admit(plan, task.request);
  }
  self->selected.count = 0;
  age(self, view);
}

bool sim_queues_released(const SimQueues *self, const MachineView *view, const SimLimits *limits) {
  if (self->pending.count == 0) return false;
  if (view->machine->activity == ACTIVITY_IDLE)
    return sim_task_blocks(view, self->pending.items[0]) <= view->machine->free_blocks;
  return (int64_t)self->batch.count < limits->max_num_seqs &&
         self->batch_tokens < limits->max_num_batched_tokens;
}
