/* SplitwiseSim's mixed_pool scheduler at 8f99e7d, rule by rule.
 *
 *   1  prefill: for the prefill list, then the mixed one, the first instance with the fewest
 *      pending tokens; refused if tasks wait there and pending + prompt > prefill_queue_limit
 *   2  decode: the same lists by reserved memory; refused if the request's KV would pass capacity
 *   3  no prefill instance: the decode instance with the fewest pending tokens turns to mixed
 *   4  no decode instance: the prefill instance with the least reserved memory turns to mixed
 *   5  either still missing: both phases on the instance with the fewest pending tokens of all,
 *      whose role stays; one that 3 or 4 moved is mixed already, the last of these, and stays so
 *
 * Its books are its own: pending tokens are prompts until prefilled plus one per decode until
 * finished; memory is reserved at placement on both instances and freed with the allocations. */
#include "sim/router/router.h"

typedef struct State {
  int64_t prefill_queue_limit;
  Column *pending_tokens;
  Column *reserved_tokens; // of KV
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)seed, (void)arena;
  State *self = state;
  self->pending_tokens = column_new(view->columns.all);
  self->reserved_tokens = column_new(view->columns.all);
}

/* Tasks wait on the instance outside its batch; the decode of a request in prefill here is one. */
static bool tasks_wait(const ClusterView *view, InstanceIx m) {
  const Instance *instance = &view->instances[m];
  if (instance->prefill_queue.count + instance->decode_queue.count + instance->blocked.count > 0)
    return true;
  for (size_t i = 0; i < instance->n_chunks; i++)
    if (view->requests[instance->chunks[i]].decode_instance == m) return true;
  return false;
}

static InstanceIx find_prefill(const State *self, const ClusterView *view, const Request *request) {
  static const Role order[] = {ROLE_PREFILL, ROLE_MIXED};
  for (int i = 0; i < 2; i++) {
    const InstanceIx m = column_least(self->pending_tokens, &view->by_role[order[i]]);
    if (m == INSTANCE_NONE) continue;
    const int64_t pending = column_at(self->pending_tokens, m) + request->prompt_tokens;
    if (pending <= self->prefill_queue_limit || !tasks_wait(view, m)) return m;
  }
  return INSTANCE_NONE;
}

static int64_t room_of(const Instance *instance) {
  return instance->least_blocks * instance->pool->block_size;
}

static InstanceIx find_decode(const State *self, const ClusterView *view, const Request *request) {
  static const Role order[] = {ROLE_DECODE, ROLE_MIXED};
  const int64_t tokens = (int64_t)request->prompt_tokens + request->output_tokens;
  for (int i = 0; i < 2; i++) {
    const InstanceIx m = column_least(self->reserved_tokens, &view->by_role[order[i]]);
    if (m == INSTANCE_NONE) continue;
    if (column_at(self->reserved_tokens, m) + tokens <= room_of(&view->instances[m])) return m;
  }
  return INSTANCE_NONE;
}

/* The less loaded of two, the first of equals; either may be INSTANCE_NONE. */
static InstanceIx less(const State *self, InstanceIx a, InstanceIx b) {
  if (a == INSTANCE_NONE || b == INSTANCE_NONE) return a == INSTANCE_NONE ? b : a;
  return column_at(self->pending_tokens, b) < column_at(self->pending_tokens, a) ? b : a;
}

/* The least loaded instance of all, in the order prefill, mixed, decode; `moved` has left its list
 * for the end of the mixed one. */
static InstanceIx least_of_all(const State *self, const ClusterView *view, InstanceIx moved) {
  static const Role order[] = {ROLE_PREFILL, ROLE_MIXED, ROLE_DECODE};
  InstanceIx best = INSTANCE_NONE;
  for (int i = 0; i < ROLES; i++) {
    best =
        less(self, best, column_least_but(self->pending_tokens, &view->by_role[order[i]], moved));
    if (order[i] == ROLE_MIXED) best = less(self, best, moved);
  }
  return best;
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const Request *request = &view->requests[ix];
  InstanceIx prefill = find_prefill(self, view, request);
  InstanceIx decode = find_decode(self, view, request), moved = INSTANCE_NONE;
  if (prefill == INSTANCE_NONE && view->roles_move)
    moved = prefill = column_least(self->pending_tokens, &view->by_role[ROLE_DECODE]);
  if (decode == INSTANCE_NONE && view->roles_move) {
    decode = column_least(self->reserved_tokens, &view->by_role[ROLE_PREFILL]);
    if (moved == INSTANCE_NONE) moved = decode;
  }
  const bool none = prefill == INSTANCE_NONE || decode == INSTANCE_NONE;
  if (none) prefill = decode = least_of_all(self, view, moved);
  const int64_t output = request->output_tokens - 1;
  column_add(self->pending_tokens, prefill, request->prompt_tokens);
  column_add(self->pending_tokens, decode, 1);
  column_add(self->reserved_tokens, prefill, request->prompt_tokens + 1);
  column_add(self->reserved_tokens, decode,
             output + (prefill == decode ? 0 : request->prompt_tokens + 1));
  return (Placement){prefill, decode, .roles_stay = none, .claimed = moved};
}

/* It holds what was reserved where it is, and where it would have been decoded. */
static void cancel(State *self, const Request *request, InstanceIx instance) {
  const InstanceIx prefill = request->prefill_instance, decode = request->decode_instance;
  if (request->first_token_at < 0)
    column_add(self->pending_tokens, prefill, -request->prompt_tokens);
  if (instance == prefill && decode != prefill)
    column_add(self->reserved_tokens, prefill, -(request->prompt_tokens + 1));
  if (decode == INSTANCE_NONE) return;
  column_add(self->pending_tokens, decode, -1);
  column_add(self->reserved_tokens, decode, -(request->prompt_tokens + request->output_tokens));
}

static void observe(void *state, const ClusterView *view, RequestIx ix, Observation what,
                    InstanceIx instance) {
  State *self = state;
  const Request *request = &view->requests[ix];
  switch (what) {
  case OBSERVED_PLACED: // booked when it was picked
    break;
  case OBSERVED_PREFILLED:
    column_add(self->pending_tokens, instance, -request->prompt_tokens);
    break;
  case OBSERVED_TRANSFERRED:
    column_add(self->reserved_tokens, instance, -(request->prompt_tokens + 1));
    break;
  case OBSERVED_FINISHED:
    column_add(self->pending_tokens, instance, -1);
    column_add(self->reserved_tokens, instance, -(request->prompt_tokens + request->output_tokens));
    break;
  case OBSERVED_CANCELLED:
    cancel(self, request, instance);
    break;
  }
}

static const OptionSpec options[] = {
    {"prefill_queue_limit", OPTION_INT, offsetof(State, prefill_queue_limit), "8192", .min = 1,
     .max = 1e12,
     .help = "Number of pending tokens above which an instance refuses a prefill (SplitwiseSim "
             "prompt_max_pending_batch_tokens)."},
    {0},
};

const Router router_splitwise_sim_mixed_pool = {
    .policy = {.name = "splitwise_sim_mixed_pool",
               .help = "Reproduces SplitwiseSim's mixed_pool scheduler with its defects.",
               .state_size = sizeof(State),
               .options = options},
    .start = start,
    .pick = pick,
    .observe = observe,
};
