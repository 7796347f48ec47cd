/* SplitwiseSim's ORCAInstance at 8f99e7d: the batch stays, tasks join in order of arrival while
 * there is a place and memory, without a token budget or preemption. */
#include "sim/batcher/splitwise_sim_queues.h"

typedef struct State {
  BatchLimits limits;
  TaskMarks marks;
} State;

static void start(void *state, void *instance_state, const InstanceView *view, Arena *arena) {
  (void)view;
  State *self = state;
  self->limits.max_num_batched_tokens = INT64_MAX; // it has no budget
  sim_queues_init(instance_state, &self->marks, arena);
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  const State *self = state;
  SimQueues *queues = instance_state;
  const TaskList *waiting = &queues->waiting;
  int64_t free_blocks = view->instance->free_blocks;
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

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  const State *self = state;
  SimQueues *queues = instance_state;
  if (why == WAKE_RELEASE) return sim_queues_released(queues, view, &self->limits);
  const Task task = {request, why == WAKE_PREFILL ? PHASE_PREFILL : PHASE_DECODE};
  sim_queues_arrive(queues, view, task);
  if (view->instance->activity == ACTIVITY_IDLE)
    return sim_task_blocks(view, task) <= view->instance->free_blocks;
  return (int64_t)queues->batch.count < self->limits.max_num_seqs;
}

static const OptionSpec options[] = {
    BATCH_SEQS("512", "Maximum number of requests in a batch (SplitwiseSim max_batch_size)."),
    {0},
};

const Batcher batcher_splitwise_sim_orca = {
    .policy = {.name = "splitwise_sim_orca",
               .help = "Reproduces SplitwiseSim's ORCA instance: no token budget, no preemption.",
               .state_size = sizeof(State),
               .options = options},
    .instance_state_size = sizeof(SimQueues),
    .reserves_output = true,
    .foresees_outputs = true,
    .owns_queues = true,
    .hears_chained = true,
    .start = start,
    .wake = wake,
    .plan = plan,
    .finish = sim_queues_finish,
    .leave = sim_queues_leave,
};
