/* TaiChi's length-aware prefill scheduling (arXiv 2508.01989 §3.4): prompts that can afford it are
 * prefilled by decode-heavy instances, whose chunks are small, so that those that cannot have the
 * prefill-heavy ones, whose chunks are large. Here these are the decode and the prefill instances,
 * told apart by max_num_batched_tokens of their batchers; every decode begins on one of the former
 * (§3.3), and flows from there (feature/flowing.c).
 *
 *   1  of the decode instances with an expected TTFT within `ttft` the one with the fewest tokens
 *      of prompts in its queue: it decodes the request, too
 *   2  else of the prefill instances likewise; the decode instance with the fewest pending tokens
 *      decodes the request
 *   3  else, which is ours, the instance with the least expected TTFT
 *
 * Of equals the first. The expected TTFT is the time of as many full chunks as the tokens in the
 * queue and the prompt fill, each beside the decodes that run. The paper adds the transfer of KV
 * where there is one, without which a first token is there in this simulator. */
#include "sim/batcher/batcher.h"
#include "sim/router/router.h"

typedef struct State {
  Tick ttft;
} State;

/* The best so far. */
typedef struct Choice {
  InstanceIx instance; // INSTANCE_NONE: there is none
  int64_t queued;
  Tick ttft;
} Choice;

/* Loads that are reported may be from before its decodes came. */
static int64_t queued_tokens(const ClusterView *view, InstanceIx m) {
  const int64_t queued = column_at(view->columns.pending_tokens, m) - view->instances[m].n_decodes;
  return queued > 0 ? queued : 0;
}

/* Beside the decodes, in chunks of which the prompt's middle is the past. */
static Tick expected_ttft(const Instance *instance, int64_t queued, int64_t prompt) {
  const Batch *batch = &instance->batch;
  const BatchLimits *limits = instance->batcher_options;
  const int64_t seqs = (int64_t)batch->n_seqs, tokens = queued + prompt;
  int64_t chunk = limits->max_num_batched_tokens - seqs;
  if (limits->max_num_batched_tokens == 0 || chunk > tokens) chunk = tokens;
  if (chunk < 1) chunk = 1;
  const BatchShape shape = {.prefill_tokens = chunk,
                            .prefill_area2 = chunk * (chunk < prompt ? prompt : chunk),
                            .decode_seqs = seqs,
                            .context_tokens = batch->context_tokens,
                            .logit_seqs = seqs + 1};
  const Tick ticks = perfmodel_iteration(instance->pool->perfmodel, &shape, NULL);
  const int64_t n = (tokens + chunk - 1) / chunk;
  return ticks < TICK_MAX / n ? n * ticks : TICK_MAX;
}

/* Whether an instance of the decode role may prefill: batchers that keep books of who prefills
 * where do not. */
static bool may_prefill(const Instance *instance) {
  return !instance->batcher->finish && !instance->group;
}

/* Looks at all of a list: at those in time the fewest tokens, and over all the least time. */
static void look(const State *self, const ClusterView *view, const RoleList *list, int64_t prompt,
                 Choice *in_time, Choice *least) {
  for (uint32_t i = 0; i < list->count; i++) {
    const InstanceIx m = list->items[i];
    const Instance *instance = &view->instances[m];
    if (instance->role == ROLE_DECODE && !may_prefill(instance)) continue;
    const int64_t queued = queued_tokens(view, m);
    const Choice choice = {m, queued, expected_ttft(instance, queued, prompt)};
    if (choice.ttft <= self->ttft &&
        (in_time->instance == INSTANCE_NONE || queued < in_time->queued))
      *in_time = choice;
    if (least->instance == INSTANCE_NONE || choice.ttft < least->ttft) *least = choice;
  }
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  const RoleList *decode = &view->by_role[ROLE_DECODE], *prefill = &view->by_role[ROLE_PREFILL];
  Column *pending = view->columns.pending_tokens;
  if (decode->count == 0 || prefill->count == 0) return router_join_least(view, pending, NULL);
  const int64_t prompt = view->requests[ix].prompt_tokens;
  Choice in_time = {.instance = INSTANCE_NONE}, least = {.instance = INSTANCE_NONE};
  look(state, view, decode, prompt, &in_time, &least);
  if (in_time.instance == INSTANCE_NONE) look(state, view, prefill, prompt, &in_time, &least);
  const InstanceIx m = in_time.instance != INSTANCE_NONE ? in_time.instance : least.instance;
  if (view->instances[m].role != ROLE_DECODE)
    return (Placement){.prefill = m, .decode = column_least(pending, decode)};
  return (Placement){m, m, .roles_stay = true, .claimed = INSTANCE_NONE};
}

static const OptionSpec options[] = {
    {"ttft", OPTION_TICKS, offsetof(State, ttft), "1 s", .min = 1e-6, .max = 3600,
     .help = "Limit on the expected TTFT up to which a decode instance prefills a prompt."},
    {0},
};

const Router router_taichi = {
    .policy = {.name = "taichi",
               .help = "Sends prompts that have the time to decode instances, the others to "
                       "prefill instances (TaiChi).",
               .state_size = sizeof(State),
               .options = options},
    .reads_loads = true,
    .needs_roles = true,
    .pick = pick,
};
