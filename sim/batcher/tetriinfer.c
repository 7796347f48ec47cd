/* TetriInfer's instances (TetriInfer §3.3, §3.4). Prompts are prefilled alone, in chunks of a fixed
 * size that keep the accelerator just saturated; decodes join by what is predicted of them. A
 * instance that does both prefills first. RULES.md has what the paper leaves open. */
#include "sim/batcher/tetriinfer.h"

int64_t tetriinfer_chunk_tokens(const TetriInfer *self, const PoolSpec *pool) {
  return self->chunk == CHUNK_SATURATION ? perfmodel_saturation_tokens(pool->perfmodel)
                                         : self->chunk_size;
}

static void start(void *state, void *instance_state, const InstanceView *view, Arena *arena) {
  prefill_schedule_init(instance_state, tetriinfer_chunk_tokens(state, view->instance->pool),
                        arena);
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)request;
  const Instance *instance = view->instance;
  if (instance->activity == ACTIVITY_IDLE) return true;
  if ((why == WAKE_PREFILL || why == WAKE_RELEASE) &&
      prefill_schedule_ready(instance_state, state, view))
    return true;
  if ((why == WAKE_DECODE && instance->decode_queue.count == 1) ||
      (why == WAKE_RELEASE && instance->decode_queue.count > 0))
    return tetriinfer_joins_after(state, view) < INT64_MAX;
  return (int64_t)instance->batch.n_seqs < ((const TetriInfer *)state)->limits.max_num_seqs &&
         fcfs_wake_decodes(view, why);
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  const Instance *instance = view->instance;
  prefill_schedule_plan(instance_state, state, view, false, plan);
  if (plan->n_prefills == 0) tetriinfer_admit(state, view, plan);
  // Where nothing runs or leaves, nobody would give the memory that a chunk waits for.
  if (plan->n_prefills + plan->n_admits + instance->batch.n_seqs + instance->n_outgoing == 0)
    prefill_schedule_plan(instance_state, state, view, true, plan);
  plan->pause_decodes = plan->n_prefills > 0;
}

static int64_t review(void *state, void *instance_state, const InstanceView *view) {
  (void)instance_state;
  const int64_t after = tetriinfer_joins_after(state, view);
  return after > 0 ? after : 1;
}

/* What waits here holds memory, so the policy decides before the KV comes. */
static bool receives(void *state, void *instance_state, const InstanceView *view,
                     RequestIx request) {
  (void)instance_state;
  return tetriinfer_receives(state, view, request);
}

static void leave(void *state, void *instance_state, const InstanceView *view, RequestIx request) {
  (void)state, (void)view;
  prefill_schedule_drop(instance_state, request);
}

static const char *refuse(const void *state, const PoolSpec *pool, Arena *arena,
                          const char **ret_key) {
  const TetriInfer *self = state;
  const int64_t tokens = tetriinfer_chunk_tokens(self, pool);
  const int64_t room = pool->kv_blocks * pool->block_size;
  if (tokens <= room) return NULL;
  *ret_key = self->chunk == CHUNK_SATURATION ? "chunk" : "chunk_size";
  return arena_printf(arena,
                      "a chunk of %lld tokens exceeds the KV memory of pool '%s', %lld tokens",
                      (long long)tokens, pool->name, (long long)room);
}

static const char *const chunk_rules[] = {"fixed", "saturation", NULL};     // as ChunkRule
static const char *const prefill_policies[] = {"fcfs", "sjf", "ljf", NULL}; // …
static const char *const decode_policies[] = {"greedy", "reserve_static", "reserve_dynamic", NULL};
static const char *const estimates[] = {"low", "high", NULL};

#define OPTION(field, kind, ...)                                                                   \
  { #field, kind, offsetof(TetriInfer, field), __VA_ARGS__ }

static const OptionSpec options[] = {
    OPTION(chunk, OPTION_CHOICE, "fixed", .choices = chunk_rules,
           .help = "Size of a chunk: fixed takes chunk_size, saturation the smallest size that "
                   "saturates the GPU."),
    OPTION(chunk_size, OPTION_INT, "512", .min = 1, .max = 1e6, .tries = "128 256 512 1024 2048",
           .help = "Number of tokens in a chunk. The last chunk of a batch is padded to it."),
    OPTION(prefill_policy, OPTION_CHOICE, "sjf", .choices = prefill_policies,
           .tries = "fcfs sjf ljf",
           .help = "Order in which prompts are prefilled: in order of arrival (fcfs), shortest "
                   "first (sjf) or longest first (ljf)."),
    OPTION(prefill_sched_batch, OPTION_INT, "16", .min = 1, .max = 1e6, .tries = "4 16 64",
           .help = "Number of prompts that are ordered at a time."),
    OPTION(decode_policy, OPTION_CHOICE, "reserve_dynamic", .choices = decode_policies,
           .tries = "greedy reserve_static reserve_dynamic",
           .help = "Rule by which decodes join the batch: memory for the next token (greedy), "
                   "for all predicted tokens (reserve_static), or at the time of the first "
                   "completion (reserve_dynamic)."),
    OPTION(estimate, OPTION_CHOICE, "low", .choices = estimates,
           .help = "End of the predicted range of output tokens that is used."),
    BATCH_SEQS("256", "Maximum number of sequences in a batch."),
    {0},
};

const Batcher batcher_tetriinfer = {
    .reorders = true,
    .policy = {.name = "tetriinfer",
               .help = "Prefills in chunks of one size and admits decodes by their predicted "
                       "lengths (TetriInfer).",
               .state_size = sizeof(TetriInfer),
               .options = options},
    .instance_state_size = sizeof(PrefillSchedule),
    .returns_swapped = true,
    .start = start,
    .wake = wake,
    .plan = plan,
    .review = review,
    .receives = receives,
    .leave = leave,
    .refuse = refuse,
};
