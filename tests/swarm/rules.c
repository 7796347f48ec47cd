/* See rules.h. */
#include "tests/swarm/rules.h"
#include "sim/batcher/fcfs.h"
#include "sim/kvtier/kvtier.h"
#include "sim/policies.h"
#include "sim/router/router.h"
#include <string.h>

/* ---- Policies of the test ---- */

typedef struct Turns {
  uint32_t next[2]; // by phase
} Turns;

static InstanceIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)view;
  Turns *self = state;
  return list->items[self->next[phase]++ % list->count];
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

static const Router in_turn = {
    .policy = {.name = "of the test", .help = "each machine in turn", .state_size = sizeof(Turns)},
    .pick = pick,
};

enum { TOKENS = 2048, SEQS = 64 };

static bool wake(void *state, void *machine_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)state, (void)machine_state, (void)view, (void)why, (void)request;
  return true;
}

/* Prompts first, then decodes, in order of arrival. */
static void plan(void *state, void *machine_state, const InstanceView *view, BatchPlan *plan) {
  (void)state, (void)machine_state;
  const Instance *machine = view->instance;
  const int64_t seqs = SEQS - (int64_t)machine->batch.n_seqs;
  Budget budget = {.tokens = TOKENS,
                   .seqs = seqs - (int64_t)machine->decode_queue.count,
                   .blocks = machine->free_blocks};
  fcfs_prefills(view, plan, &budget);
  plan->pause_decodes = plan->n_prefills > 0;
  if (plan->pause_decodes) return;
  budget.tokens = SEQS;
  budget.seqs = seqs;
  fcfs_admit_prefilled(view, plan, &budget);
  fcfs_admit_swapped(view, plan, &budget);
}

static bool wake_idle(void *state, void *machine_state, const InstanceView *view, Wake why,
                      RequestIx request) {
  (void)state, (void)machine_state, (void)why, (void)request;
  return view->instance->batch.n_seqs == 0 && view->instance->activity == ACTIVITY_IDLE;
}

/* A batch at a time, with memory for whole outputs. */
static void plan_batch(void *state, void *machine_state, const InstanceView *view,
                       BatchPlan *plan) {
  (void)state, (void)machine_state;
  const Instance *machine = view->instance;
  if (machine->batch.n_seqs > 0) return;
  Budget budget = {.tokens = SEQS, .seqs = SEQS, .blocks = machine->free_blocks};
  fcfs_admits(view, &machine->decode_queue, true, plan, &budget);
  int64_t blocks = machine->free_blocks, seqs = plan->n_admits > 0 ? 0 : SEQS;
  for (RequestIx ix = machine->prefill_queue.first; ix != REQUEST_NONE && seqs > 0;
       ix = view->requests[ix].next, seqs--) {
    const Request *request = &view->requests[ix];
    const bool decoded_here = request->decode_instance == machine->ix;
    const int64_t output = decoded_here ? request->output_tokens : 1;
    blocks -= blocks_of(machine, request->prompt_tokens + output);
    if (blocks < 0) break;
    plan_prefill(plan, ix, request_prefill_tokens(request));
  }
}

static const Batcher growing = {
    .policy = {.name = "of the test", .help = "prompts first"},
    .returns_swapped = true,
    .wake = wake,
    .plan = plan,
};
static const Batcher reserving = {
    .policy = {.name = "of the test", .help = "a batch at a time"},
    .reserves_output = true,
    .foresees_outputs = true,
    .wake = wake_idle,
    .plan = plan_batch,
};

/* ---- Rules ---- */

static const char *const features[] = {
    "core",    "components", "adapters", "faults", "early_rejection",
    "reports", "sleep",      "uplinks",  "flow",   "cuts"};
enum { N_FEATURES = sizeof features / sizeof *features };

const Rule *rules_list(size_t *ret_n, Arena *arena) {
  Rule *rules = NULL;
  size_t n = 0, capacity = 0;
  ARENA_RESERVE(arena, rules, capacity, N_FEATURES);
  for (; n < N_FEATURES; n++)
    rules[n] = (Rule){.name = features[n], .kind = POLICY_KINDS};
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    for (const Policy *const *policy = policy_list((PolicyKind)kind); *policy; policy++) {
      ARENA_RESERVE(arena, rules, capacity, n + 1);
      const char *name =
          arena_printf(arena, "%s.%s", policy_kind_name((PolicyKind)kind), (*policy)->name);
      rules[n++] = (Rule){name, (PolicyKind)kind, *policy};
    }
  *ret_n = n;
  return rules;
}

/* What decides something only beside another rule. */
static const struct Companion {
  const char *rule;
  PolicyKind kind; // POLICY_KINDS: a feature
  const char *name;
} companions[] = {
    {"adapters", POLICY_BATCHER, "vllm"},
    {"reports", POLICY_ROUTER, "token_jsq"},
    {"router.splitwise", POLICY_POOL, "splitwise_mixed"},
    {"router.splitwise_sim_mixed_pool", POLICY_POOL, "splitwise_sim"},
    {"pool.splitwise_mixed", POLICY_ROUTER, "splitwise"},
    {"pool.splitwise_sim", POLICY_ROUTER, "splitwise_sim_mixed_pool"},
    {"predictor.oracle", POLICY_DISPATCHER, "power_of_two"},
    {"transfer.chunked", POLICY_BATCHER, "sarathi"},
    {"scaler.spares", POLICY_KINDS, "faults"},
    {"sleep", POLICY_KINDS, "components"},
    {"cuts", POLICY_BATCHER, "sarathi"},
    {"router.dynaserve", POLICY_BATCHER, "sarathi"},
};

static const struct Companion *companion(const Rule *self) {
  for (size_t i = 0; i < sizeof companions / sizeof *companions; i++)
    if (strcmp(companions[i].rule, self->name) == 0) return &companions[i];
  return NULL;
}

bool rule_has(const Rule *self, const char *feature) {
  const struct Companion *with = companion(self);
  return (!self->policy && strcmp(self->name, feature) == 0) ||
         (with && with->kind == POLICY_KINDS && strcmp(with->name, feature) == 0);
}

static bool conflict(const PolicyChoice *policies) {
  return sim_conflict(policies[POLICY_POOL].policy, policies[POLICY_BATCHER].policy,
                      policies[POLICY_KVTIER].policy) != NULL;
}

/* The first that goes with the rest. */
static void fit(PolicyChoice *policies, PolicyKind kind, const Policy *const *candidates) {
  for (; conflict(policies) && *candidates; candidates++)
    policies[kind].policy = *candidates;
}

void rule_policies(const Rule *self, PolicyChoice *ret_policies) {
  static const Policy *const batchers[] = {&growing.policy, &reserving.policy, NULL};
  for (int kind = 0; kind < POLICY_KINDS; kind++) // the first of a list decides nothing, but for:
    ret_policies[kind] = (PolicyChoice){.policy = policy_list((PolicyKind)kind)[0]};
  ret_policies[POLICY_ROUTER].policy = &in_turn.policy;
  ret_policies[POLICY_BATCHER].policy = &growing.policy;
  const struct Companion *with = companion(self);
  if (with && with->kind != POLICY_KINDS)
    ret_policies[with->kind].policy = policy_find(with->kind, with->name);
  if (self->policy) ret_policies[self->kind].policy = self->policy;
  if (self->kind == POLICY_BATCHER) fit(ret_policies, POLICY_KVTIER, policy_list(POLICY_KVTIER));
  if (self->kind == POLICY_KVTIER) fit(ret_policies, POLICY_BATCHER, batchers);
}
