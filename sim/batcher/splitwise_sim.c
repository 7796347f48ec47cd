/* SplitwiseSim's SplitwiseInstance at 8f99e7d: mixed batching with a token budget, rule by rule.
 * Selection goes through aged tasks, prompts, blocked decodes, the old batch and the rest, in this
 * order; the first task of a batch may exceed the budget. Its ageing and its limit of preemptions
 * have no effect, because the aged are looked for at the head of a queue that fresh arrivals enter
 * at the head. */
#include "sim/batcher/splitwise_sim_queues.h"

typedef struct State {
  BatchLimits limits;
  int64_t max_preemptions;
  TaskMarks marks;
} State;

static void start(void *state, void *instance_state, const InstanceView *view, Arena *arena) {
  (void)view;
  sim_queues_init(instance_state, &((State *)state)->marks, arena);
}

static int64_t tokens_of(const InstanceView *view, Task task) {
  return task.phase == PHASE_PREFILL ? view->requests[task.request].prompt_tokens : 1;
}

/* A selection in the making. */
typedef struct Selection {
  const BatchLimits *limits;
  const InstanceView *view;
  SimQueues *queues;
  int64_t n_seqs, tokens, free_blocks;
  bool stays; // all of the old batch is in it
} Selection;

static bool full(const Selection *self, Task task) {
  const int64_t tokens = self->tokens + tokens_of(self->view, task);
  return self->n_seqs >= self->limits->max_num_seqs ||
         (self->n_seqs > 0 && tokens > self->limits->max_num_batched_tokens);
}

static bool fits(const Selection *self, Task task) {
  return sim_task_blocked(self->view, task) ||
         sim_task_blocks(self->view, task) <= self->free_blocks;
}

static bool taken(const Selection *self, Task task) {
  return sim_task_mark(self->queues, (Task){task.request, PHASE_PREFILL})->selected ||
         sim_task_mark(self->queues, (Task){task.request, PHASE_DECODE})->selected;
}

/* `holds_kv`: the task has its memory already. */
static void take(Selection *self, Task task, bool holds_kv) {
  if (!holds_kv) self->free_blocks -= sim_task_blocks(self->view, task);
  self->n_seqs++;
  self->tokens += tokens_of(self->view, task);
  sim_queues_select(self->queues, task);
}

static void select_aged(Selection *self, int64_t max_preemptions) {
  SimQueues *queues = self->queues;
  for (size_t i = 0; i < queues->pending.count; i++) {
    const Task task = queues->pending.items[i];
    if (sim_task_mark(queues, task)->waits < max_preemptions) return;
    if (full(self, task)) return;
    if (!taken(self, task) && fits(self, task))
      take(self, task, sim_task_blocked(self->view, task));
  }
}

static void select_prompts(Selection *self) {
  const TaskList *prompts = &self->queues->prompts;
  for (size_t i = 0; i < prompts->count; i++) {
    if (taken(self, prompts->items[i])) continue;
    if (full(self, prompts->items[i]) || !fits(self, prompts->items[i])) return;
    take(self, prompts->items[i], false);
  }
}

static void select_blocked(Selection *self) {
  const Request *requests = self->view->requests;
  for (RequestIx ix = self->view->instance->blocked.first; ix != REQUEST_NONE;
       ix = requests[ix].next) {
    const Task task = {ix, PHASE_DECODE};
    if (taken(self, task)) continue;
    if (full(self, task)) return;
    take(self, task, true);
  }
}

/* Decodes, each of a token. */
static void select_running(Selection *self) {
  const TaskList *batch = &self->queues->batch;
  const int64_t n_seqs = self->n_seqs + (int64_t)batch->count;
  const int64_t tokens = self->tokens + (int64_t)batch->count;
  self->stays =
      n_seqs <= self->limits->max_num_seqs && tokens <= self->limits->max_num_batched_tokens;
  if (self->stays) {
    self->n_seqs = n_seqs;
    self->tokens = tokens;
    return;
  }
  for (size_t i = 0; i < batch->count && !full(self, batch->items[i]); i++)
    take(self, batch->items[i], true);
}

static void select_rest(Selection *self) {
  const TaskList *waiting = &self->queues->waiting;
  if (!self->stays) return; // it is full
  for (size_t i = 0; i < waiting->count; i++) {
    const Task task = waiting->items[i];
    if (!sim_task_runnable(self->view, task) || taken(self, task)) continue;
    const bool holds_kv = sim_task_blocked(self->view, task);
    if (full(self, task) || (!holds_kv && !fits(self, task))) return;
    take(self, task, holds_kv);
  }
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  const State *self = state;
  SimQueues *queues = instance_state;
  Selection selection = {.limits = &self->limits,
                         .view = view,
                         .queues = queues,
                         .free_blocks = view->instance->free_blocks};
  select_aged(&selection, self->max_preemptions);
  select_prompts(&selection);
  select_blocked(&selection);
  select_running(&selection);
  select_rest(&selection);
  queues->batch_tokens = selection.tokens;
  sim_queues_commit(queues, view, selection.stays, plan);
}

static bool arrived(const State *self, SimQueues *queues, const InstanceView *view, Task task) {
  sim_queues_arrive(queues, view, task);
  if (view->instance->activity == ACTIVITY_IDLE)
    return sim_task_blocks(view, task) <= view->instance->free_blocks;
  const int64_t tokens = tokens_of(view, task);
  const int64_t limit = self->limits.max_num_batched_tokens;
  if ((int64_t)queues->batch.count < self->limits.max_num_seqs &&
      queues->batch_tokens + tokens <= limit)
    return true;
  const int64_t decodes = (int64_t)view->instance->batch.n_seqs;
  return task.phase == PHASE_PREFILL && decodes > 0 &&
         queues->batch_tokens - decodes + tokens <= limit;
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  const State *self = state;
  if (why == WAKE_RELEASE) return sim_queues_released(instance_state, view, &self->limits);
  const Phase phase = why == WAKE_PREFILL ? PHASE_PREFILL : PHASE_DECODE;
  return arrived(self, instance_state, view, (Task){request, phase});
}

static const OptionSpec options[] = {
    BATCH_TOKENS("2048",
                 "Maximum number of tokens in an iteration (SplitwiseSim max_batch_tokens)."),
    BATCH_SEQS("512", "Maximum number of requests in a batch (SplitwiseSim max_batch_size)."),
    {"max_preemptions", OPTION_INT, offsetof(State, max_preemptions), "4", .min = 1, .max = 1e6,
     .help = "Maximum number of preemptions of a request (SplitwiseSim max_preemptions)."},
    {0},
};

const Batcher batcher_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help = "Reproduces SplitwiseSim's mixed batching instance with its defects.",
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
