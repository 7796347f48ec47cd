/* The `policies:` block: for each kind a bare name or {name: …, options}. What is absent has its
 * default, so that an option alone is a change to the default policy. */
#include "sim/policies.h"
#include "experiments/config/config.h"
#include "sim/batcher/batcher.h"
#include "sim/dispatcher/dispatcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/pool/pool.h"
#include "sim/router/router.h"

enum { DECODE_SEQS_DEFAULT = 1024 }; // for batchers without a limit of their own

#define KIND(kind, name, usual, list, ladder, text)                                                \
  [kind] = {.key = (name),                                                                         \
            .type = OPTION_NODE,                                                                   \
            .offset = (size_t)(kind) * sizeof(const Node *),                                       \
            .help = (text),                                                                        \
            .absent = (usual),                                                                     \
            .listed = (list),                                                                      \
            .tries = (ladder)}

/* What is absent has the policy of that name. */
const OptionSpec config_policy_options[POLICY_KINDS + 1] = {
    KIND(POLICY_ROUTER, "router", "token_jsq", "routers",
         "random round_robin jsq token_jsq least_kv power_of_two prefix_affinity dynamo_kv llm_d",
         "Choice of the instances that serve a request."),
    KIND(POLICY_PREDICTOR, "predictor", "none", "predictors", NULL,
         "Prediction of output lengths."),
    KIND(POLICY_DISPATCHER, "dispatcher", "router", "dispatchers", NULL,
         "Choice of the decode instance of a prefilled request."),
    KIND(POLICY_POOL, "pool", "fixed", "pools", NULL, "Rule by which instances change their role."),
    KIND(POLICY_BATCHER, "batcher", "mixed", "batchers", NULL,
         "Choice of what the next iteration of an instance holds."),
    KIND(POLICY_TRANSFER, "transfer", "splitwise", "transfers", NULL,
         "Way in which KV is sent to another instance."),
    KIND(POLICY_KVTIER, "kvtier", "recompute", "kvtiers", NULL,
         "Treatment of requests when KV memory is full."),
    KIND(POLICY_SCALER, "scaler", "none", "scalers", NULL,
         "Rule that sets the number of instances of each pool."),
};

static const Policy *find_policy(PolicyKind kind, const char *name, Place at, Diag *diag) {
  const Policy *policy = policy_find(kind, name);
  if (policy) return policy;
  const Policy *const *list = policy_list(kind);
  int n = 0;
  while (list[n])
    n++;
  const char **names = ARENA_ARRAY(&diag->arena, const char *, n + 1);
  for (int i = 0; i < n; i++)
    names[i] = list[i]->name;
  diag_error(diag, at, "unknown %s '%s'", policy_kind_name(kind), name);
  diag_hint_choices(diag, name, names,
                    arena_printf(&diag->arena, "tandem list %ss", policy_kind_name(kind)));
  return NULL;
}

int config_bind_policy(PolicyChoice *choice, PolicyKind kind, const Node *node, Arena *arena,
                       Diag *diag) {
  const OptionSpec name_spec = {.key = policy_kind_name(kind), .type = OPTION_STRING};
  const Node *name_node = node && node->kind == NODE_MAP ? node_find(node, "name") : node;
  const char *name = config_policy_options[kind].absent;
  if (name_node && option_bind_one(&name_spec, name_node, &name, diag)) return -1;
  Place at = name_node ? name_node->at : node ? node->at : place_of_file(NULL);
  const Policy *policy = find_policy(kind, name, at, diag);
  if (!policy) return -1;
  const Node *options = node && node->kind == NODE_MAP ? node : NULL;
  *choice = (PolicyChoice){policy, policy_bind(policy, options, at, arena, diag)};
  return choice->state ? 0 : -1;
}

int64_t config_max_decode_seqs(const PolicyChoice *batcher) {
  const int64_t seqs = batcher_limits(batcher).max_num_seqs;
  return seqs > 0 ? seqs : DECODE_SEQS_DEFAULT;
}

/* A dispatcher decodes elsewhere than the router that keeps books of it thinks. */
static int check_dispatcher(const PolicyChoice *policies, const Node *node, Diag *diag) {
  const Router *router = (const Router *)policies[POLICY_ROUTER].policy;
  const Dispatcher *dispatcher = (const Dispatcher *)policies[POLICY_DISPATCHER].policy;
  if (!router || !dispatcher || !router->observe || !dispatcher->pick) return 0;
  return diag_error(diag, node->at,
                    "router '%s' and dispatcher '%s' exclude each other: the router counts where "
                    "requests are decoded, and the dispatcher sends them elsewhere",
                    router->policy.name, dispatcher->policy.name);
}

int config_bind_policies(Config *self, const Node *node, Arena *arena, Diag *diag) {
  const Node *nodes[POLICY_KINDS] = {NULL};
  int status = option_bind(config_policy_options, node, NULL, self->root->at, nodes, diag);
  // Machines are not known yet: pools complete the batcher of the run by theirs.
  const ServingUse use = {.engine = serving_at(self->engine.row),
                          .max_model_len = self->sim.model.max_model_len,
                          .at = config_place(self->root, "engine")};
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    status |=
        kind == POLICY_BATCHER
            ? serving_bind_batcher(&use, nodes[kind], &self->sim.policies[kind], NULL, arena, diag)
            : config_bind_policy(&self->sim.policies[kind], (PolicyKind)kind, nodes[kind], arena,
                                 diag);
  return status | check_dispatcher(self->sim.policies, nodes[POLICY_DISPATCHER], diag);
}

int config_check_blocks(const Config *self, Place at, const char *option, Diag *diag) {
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    const PoolSpec *pool = &self->sim.pools[p];
    const Policy *batcher = sim_pool_policy(&self->sim, pool, POLICY_BATCHER).policy;
    if (sim_keeps_cache(&self->sim, pool) && ((const Batcher *)batcher)->keeps_radix)
      return diag_error(diag, at, "'%s' is not supported for the radix cache of batcher '%s'",
                        option, batcher->name);
  }
  return 0;
}

bool config_keeps_caches(const Config *self) {
  for (uint32_t p = 0; p < self->sim.n_pools; p++)
    if (sim_keeps_cache(&self->sim, &self->sim.pools[p])) return true;
  return false;
}

void config_hint_caching(Diag *diag) {
  const char *names = NULL;
  for (const Policy *const *batcher = policy_list(POLICY_BATCHER); *batcher; batcher++) {
    if (!((const Batcher *)*batcher)->caches) continue;
    names =
        names ? arena_printf(&diag->arena, "%s, %s", names, (*batcher)->name) : (*batcher)->name;
  }
  if (names) diag_hint(diag, "these batchers support one: %s", names);
}

/* Whether a pool's batcher takes who is more urgent before who came earlier. */
static bool minds_priorities(const Config *self) {
  const Request late = {.id = 1}, early = {.priority = 1};
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    const PolicyChoice choice = sim_pool_policy(&self->sim, &self->sim.pools[p], POLICY_BATCHER);
    const Batcher *batcher = (const Batcher *)choice.policy;
    if (batcher->goes_before && batcher->goes_before(choice.state, &late, &early)) return true;
    if (batcher->sorts_by_priority && batcher->sorts_by_priority(choice.state)) return true;
  }
  return false;
}

int config_check_priorities(const Config *self, Diag *diag) {
  if (!self->workload.priorities_at.path || minds_priorities(self)) return 0;
  diag_error(diag, self->workload.priorities_at, "the batcher of no pool uses 'priorities'");
  return diag_hint(diag, "set batcher: {name: vllm, policy: priority} or {name: sglang, "
                         "enable_priority_scheduling: true}");
}

/* The first pool that computes prompts without an encoder; of several models, unless another one
 * has an encoder: they may be for different components. */
static const PoolSpec *without_encoder(const Config *self) {
  const PoolSpec *without = NULL;
  bool any = false;
  for (uint32_t p = self->sim.n_pools; p-- > 0;) {
    const PoolSpec *pool = &self->sim.pools[p];
    Tick time;
    const bool encodes = sim_encodes(&self->sim, pool, &time);
    any |= encodes;
    if (!encodes && pool->role != ROLE_DECODE) without = pool;
  }
  return any && sim_n_models(&self->sim) > 1 ? NULL : without;
}

int config_check_images(const Config *self, Diag *diag) {
  const PoolSpec *pool = self->workload.images_at.path ? without_encoder(self) : NULL;
  if (!pool) return 0;
  diag_error(diag, self->workload.images_at, "the batcher of pool '%s' does not encode images",
             pool->name);
  return diag_hint(diag, "batcher vllm does, as do the engines vllm-*");
}

int config_check_reports(const Config *self, const Node *monitor, Diag *diag) {
  const Router *router = (const Router *)sim_policy(&self->sim, POLICY_ROUTER).policy;
  const ReportOptions options = {self->sim.report_interval, self->sim.report_delay};
  if (!monitor || reports_check(&options, "report_delay", monitor, monitor->at, diag))
    return monitor ? -1 : 0;
  if (options.interval == 0 || router->reads_loads) return 0;
  diag_error(diag, config_place(monitor, "report_interval"),
             "'report_interval' applies to routers that go by loads, and router '%s' %s",
             router->policy.name, router->reports ? "has an 'interval' of its own" : "does not");
  return diag_hint(diag,
                   "token_jsq, jsq, least_kv, power_of_two, prefix_affinity and splitwise do");
}

static bool has_role(const Config *self, Role role) {
  for (uint32_t p = 0; p < self->sim.n_pools; p++)
    if (self->sim.pools[p].role == role) return true;
  return false;
}

static int check_roles(const Config *self, const Router *router, Diag *diag) {
  if (!router->needs_roles || (has_role(self, ROLE_PREFILL) && has_role(self, ROLE_DECODE)))
    return 0;
  return diag_error(diag, config_place(node_find(self->root, "policies"), "router"),
                    "router '%s' needs pools of role prefill and of role decode",
                    router->policy.name);
}

int config_check_router(const Config *self, Diag *diag) {
  const Router *router = (const Router *)self->sim.policies[POLICY_ROUTER].policy;
  if (check_roles(self, router, diag)) return -1;
  if (!router->needs_caches || config_keeps_caches(self)) return 0;
  const Node *policies = node_find(self->root, "policies");
  diag_error(diag, policies ? config_place(policies, "router") : self->root->at,
             "router '%s' needs prefix caches, and no pool has one", router->policy.name);
  config_hint_caching(diag);
  return -1;
}
