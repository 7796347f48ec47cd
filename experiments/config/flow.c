/* Requests that go on elsewhere as they run: the key `flow`, by which decodes go from one pool to
 * another (sim/feature/flowing.c), and routers that cut requests in two. */
#include "experiments/config/config.h"
#include "sim/batcher/batcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/policies.h"
#include "sim/router/router.h"
#include <string.h>

typedef struct FlowKeys {
  const char *from, *to;
  FlowOptions options;
} FlowKeys;

const OptionSpec config_flow_options[] = {
    OPTION_OF(FlowKeys, from, OPTION_STRING, .required = true,
              .help = "Pool whose decodes flow to another as its KV memory runs short."),
    OPTION_OF(FlowKeys, to, OPTION_STRING, .required = true,
              .help = "Pool that they flow to, and from which they may flow back."),
    {"watermark", OPTION_REAL, offsetof(FlowKeys, options.watermark), "0.95", .min = 0.01, .max = 1,
     .help = "Share of the KV memory of an instance of from, above which decodes flow; and up to "
             "which they may flow back."},
    {"tpot", OPTION_TICKS, offsetof(FlowKeys, options.tpot), .min = 1e-6, .max = 3600,
     .help = "Limit on the mean time between a request's tokens.", .absent = "none flows back"},
    {"share", OPTION_REAL, offsetof(FlowKeys, options.share), "0.96", .min = 0.01, .max = 1,
     .help = "Share of tpot at which a decode in to flows back."},
    {"review", OPTION_INT, offsetof(FlowKeys, options.review), "16", .min = 1, .max = 1e6,
     .help = "Iterations of decodes alone after which an instance is looked at again; it is also "
             "looked at before each other iteration."},
    {0}};

static int find_pool(const Config *self, const Node *node, const char *key, const char *name,
                     uint32_t *ret, Diag *diag) {
  for (uint32_t p = 0; p < self->sim.n_pools; p++)
    if (strcmp(self->sim.pools[p].name, name) == 0) {
      *ret = p;
      return 0;
    }
  return diag_error(diag, config_place(node, key), "there is no pool '%s'", name);
}

/* What does not go on elsewhere in a pool, beside `what`. */
static int check_shape(const Config *self, const PoolSpec *spec, Place at, const char *what,
                       Diag *diag) {
  const KvTier *tier = (const KvTier *)sim_pool_policy(&self->sim, spec, POLICY_KVTIER).policy;
  if (spec->pipeline_stages > 1 || spec->attention_ranks > 1 || spec->ranks > 1 ||
      spec->scaling.max > 0 || kvtier_moves(tier))
    return diag_error(diag, at,
                      "%s supports neither pipelines, attention ranks nor KV tiers that move "
                      "KV, nor pools that are scaled",
                      what);
  return 0;
}

static int check_run(const SimConfig *sim, Place at, const char *what, Diag *diag) {
  if (sim->n_faults > 0 || sim->n_groups > 0 || sim->hedge.after > 0 ||
      sim->checkpoint.bandwidth > 0)
    return diag_error(diag, at, "%s cannot be used with faults, hedging, checkpoints or groups",
                      what);
  if (sim_policy(sim, POLICY_POOL).policy != policy_list(POLICY_POOL)[0])
    return diag_error(diag, at, "%s cannot be used with a pool policy", what);
  return 0;
}

/* Batchers that plan iterations one by one, and keep no books of who ends. */
static int check_pool(const Config *self, const Node *node, const char *key, uint32_t pool,
                      Diag *diag) {
  const PoolSpec *spec = &self->sim.pools[pool];
  const Policy *policy = sim_pool_policy(&self->sim, spec, POLICY_BATCHER).policy;
  const Batcher *batcher = (const Batcher *)policy;
  if (batcher->schedules || batcher->finish) {
    diag_error(diag, config_place(node, key), "'flow' does not support batcher '%s'", policy->name);
    return diag_hint(diag, "these support it: continuous, mixed, sarathi");
  }
  return check_shape(self, spec, config_place(node, key), "'flow'", diag);
}

int config_bind_flow(Config *self, const Node *node, Diag *diag) {
  FlowKeys keys = {0};
  FlowOptions *flow = &keys.options;
  SimConfig *sim = &self->sim;
  if (option_bind(config_flow_options, node, NULL, node->at, &keys, diag) ||
      find_pool(self, node, "from", keys.from, &flow->from, diag) ||
      find_pool(self, node, "to", keys.to, &flow->to, diag) ||
      check_pool(self, node, "from", flow->from, diag) ||
      check_pool(self, node, "to", flow->to, diag))
    return -1;
  if (flow->from == flow->to || sim->pools[flow->from].model != sim->pools[flow->to].model)
    return diag_error(diag, config_place(node, "to"),
                      "'from' and 'to' must be two pools of one model");
  if (check_run(sim, node->key_at, "'flow'", diag)) return -1;
  const Policy *router = sim_policy(sim, POLICY_ROUTER).policy;
  if (((const Router *)router)->observe)
    return diag_error(diag, node->key_at, "'flow' does not support router '%s'", router->name);
  sim->flow = *flow;
  return 0;
}

/* --- routers that cut requests */

static int check_cut_pool(const Config *self, const PoolSpec *spec, Place at, const char *what,
                          Diag *diag) {
  const Policy *policy = sim_pool_policy(&self->sim, spec, POLICY_BATCHER).policy;
  if (!((const Batcher *)policy)->goes_on_with_prompts) {
    diag_error(diag, at, "%s does not support batcher '%s'", what, policy->name);
    return diag_hint(diag, "these support it: continuous, mixed, sarathi");
  }
  return check_shape(self, spec, at, what, diag);
}

int config_check_cuts(const Config *self, Diag *diag) {
  const SimConfig *sim = &self->sim;
  const Policy *router = sim_policy(sim, POLICY_ROUTER).policy;
  if (!((const Router *)router)->cuts) return 0;
  const Place at = config_place(node_find(self->root, "policies"), "router");
  const char *what = arena_printf(&diag->arena, "router '%s'", router->name);
  const Policy *predictor = sim_policy(sim, POLICY_PREDICTOR).policy;
  if (predictor == policy_list(POLICY_PREDICTOR)[0]) {
    diag_error(diag, at, "%s goes by predicted outputs, and predictor '%s' predicts nothing", what,
               predictor->name);
    return diag_hint(diag, "policies.predictor may be oracle or buckets");
  }
  if (sim->sleep.awake > 0) return diag_error(diag, at, "%s cannot be used with sleep mode", what);
  for (uint32_t p = 0; p < sim->n_pools; p++)
    if (check_cut_pool(self, &sim->pools[p], at, what, diag)) return -1;
  return check_run(sim, at, what, diag);
}
