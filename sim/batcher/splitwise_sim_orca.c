/* SplitwiseSim's ORCAInstance at 8f99e7d: the batch stays, tasks join in order of arrival while
 * there is a place and memory, without a token budget or preemption. */
#include "sim/batcher/splitwise_sim_queues.h"

typedef struct State {
  SimLimits limits;
  TaskMarks marks;
} State;

static void start(void *state, void *machine_state, const MachineView *view, Arena *arena) {
  (void)view;
  State *self = state;
  self->limits.max_num_batched_tokens = INT64_MAX; // it has no budget
  sim_queues_init(machine_state, &self->marks, arena);
}

static void plan(void *state, void *machine_state, const MachineView *view, BatchPlan *plan) {
  const State *self = state;
  SimQueues *queues = machine_state;
  const TaskList *waiting = &queues->waiting;
  int64_t free_blocks = view->machine->free_blocks;
  for (size_t i = 0; i < waiting->count; i++) {
    if ((int64_t)(queues->batch.count + queues->selected.count) >= self->limits.max_num_seqs) break;
    const Task task = waiting->items[i];
    if (!sim_task_runnable(view, task)) continue;
    if (sim_task_blocks(view, task) > free_blocks) break;
    free_blocks -= sim_task_blocks(view, task);
    sim_queues_select(queues, task);
  }
  sim_queues_commit(queues, view, true, plan);
}

static bool wake(void *state, void *machine_state, const MachineView *view, Wake why,
                 RequestIx request) {
  const State *self = state;
  SimQueues *queues = machine_state;
  if (why == WAKE_RELEASE) return sim_queues_released(queues, view, &self->limits);
  const Task task = {request, why == WAKE_PREFILL ? PHASE_PREFILL : PHASE_DECODE};
  sim_queues_arrive(queues, view, task);
  if (view->machine->activity == ACTIVITY_IDLE)
    return sim_task_blocks(view, task) <= view->machine->free_blocks;
  return (int64_t)queues->batch.count < self->limits.max_num_seqs;
}

static void finish(void *state, void *machine_state, const MachineView *view, RequestIx request,
                   Phase phase) {
  (void)state;
  sim_queues_finish(machine_state, view, (Task){request, phase});
}

static void leave(void *state, void *machine_state, const MachineView *view, RequestIx request) {
  (void)state, (void)view;
  sim_queues_leave(machine_state, request);
}

static const OptionSpec options[] = {
    {"max_num_seqs", OPTION_INT, offsetof(State, limits.max_num_seqs), "512", .min = 1,
     .max = 65536, .help = "its max_batch_size"},
    {0},
};

const Batcher batcher_splitwise_sim_orca = {
    .policy = {.name = "splitwise_sim_orca",
               .help = "ORCA of SplitwiseSim: no token budget, no preemption",
               .state_size = sizeof(State),
               .options = options},
    .machine_state_size = sizeof(SimQueues),
    .reserves_output = true,
    .owns_queues = true,
    .hears_chained = true,
    .start = start,
    .wake = wake,
    .plan = plan,
    .finish = finish,
    .leave = leave,
};
