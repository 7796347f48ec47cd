/* The `policies:` block: for each kind a bare name or {name: …, options}. What is absent has its
 * default, so that an option alone is a change to the default policy. */
#include "experiments/config.h"
#include <assert.h>
#include <string.h>

enum { DECODE_SEQS_DEFAULT = 1024 }; // for batchers without a limit of their own

static const char *const DEFAULTS[POLICY_KINDS] = {
    [POLICY_ROUTER] = "token_jsq", [POLICY_PREDICTOR] = "none", [POLICY_DISPATCHER] = "router",
    [POLICY_POOL] = "fixed",       [POLICY_BATCHER] = "mixed",  [POLICY_TRANSFER] = "splitwise",
    [POLICY_KVTIER] = "recompute",
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
  diag_hint_near(diag, name, names);
  return NULL;
}

int config_bind_policy(PolicyChoice *choice, PolicyKind kind, const Node *node, Arena *arena,
                       Diag *diag) {
  static const OptionSpec no_options[] = {{0}};
  static const char *const own_keys[] = {"name", NULL};
  const OptionSpec name_spec = {.key = policy_kind_name(kind), .type = OPTION_STRING};
  const Node *name_node = node && node->kind == NODE_MAP ? node_find(node, "name") : node;
  const char *name = DEFAULTS[kind];
  if (name_node && option_bind_one(&name_spec, name_node, &name, diag)) return -1;
  Place at = name_node ? name_node->at : node ? node->at : place_of_file(NULL);
  const Policy *policy = find_policy(kind, name, at, diag);
  if (!policy) return -1;
  const Node *options = node && node->kind == NODE_MAP ? node : NULL;
  void *state = arena_alloc(arena, policy->state_size);
  *choice = (PolicyChoice){policy, state};
  return option_bind(policy->options ? policy->options : no_options, options, own_keys, at, state,
                     diag);
}

int64_t config_max_decode_seqs(const PolicyChoice *batcher) {
  // a batcher that could not be bound has no state, and its error is told
  const OptionSpec *spec = batcher->state ? batcher->policy->options : NULL;
  for (; spec && spec->key; spec++) {
    if (strcmp(spec->key, "max_num_seqs") != 0) continue;
    assert(spec->type == OPTION_INT);
    return *(const int64_t *)((const char *)batcher->state + spec->offset);
  }
  return DECODE_SEQS_DEFAULT;
}

int config_bind_policies(Config *self, const Node *node, Arena *arena, Diag *diag) {
  const Node *nodes[POLICY_KINDS] = {NULL};
  OptionSpec specs[POLICY_KINDS + 1] = {{0}};
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    specs[kind] = (OptionSpec){.key = policy_kind_name((PolicyKind)kind),
                               .type = OPTION_NODE,
                               .offset = (size_t)kind * sizeof *nodes};
  int status = option_bind(specs, node, NULL, self->root->at, nodes, diag);
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    status |=
        config_bind_policy(&self->sim.policies[kind], (PolicyKind)kind, nodes[kind], arena, diag);
  return status;
}

int config_check_pool_policies(const Config *self, const PoolSpec *pool, Place at, Diag *diag) {
  const Policy *batcher = sim_pool_policy(&self->sim, pool, POLICY_BATCHER).policy;
  const Policy *kvtier = sim_pool_policy(&self->sim, pool, POLICY_KVTIER).policy;
  const char *conflict = sim_conflict(batcher, kvtier);
  if (!conflict) return 0;
  return diag_error(diag, at, "batcher '%s' and kvtier '%s': %s", batcher->name, kvtier->name,
                    conflict);
}
