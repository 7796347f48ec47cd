/* What a pool has of its hosts: CPU memory for KV, and the link between it and the GPUs. */
#include "experiments/config/config.h"
#include "sim/kvtier/kvtier.h"
#include <math.h>

#define PEAK .min = 1e6, .max = 1e15

typedef struct HostLinkKeys {
  HostLinkOptions link;
} HostLinkKeys;

const OptionSpec config_host_link_options[] = {
    {"to_gpu_bandwidth", OPTION_BANDWIDTH, offsetof(HostLinkKeys, link.to_gpu), PEAK,
     .help = "of one GPU; absent: as the machine type has it"},
    {"to_cpu_bandwidth", OPTION_BANDWIDTH, offsetof(HostLinkKeys, link.to_cpu), PEAK,
     .help = "of one GPU; absent: as the machine type has it"},
    HOST_LINK_USE(HostLinkKeys, link),
    {0}};

/* Copies on the way from machine to machine have nothing but a rate: keys that would do nothing for
 * them are errors. */
static int refuse_idle_keys(const Config *self, const Node *link, Diag *diag) {
  static const char *const idle[] = {"half_size", "background"};
  int status = 0;
  for (int i = 0; i < 2 && self->sim.network_path == NETWORK_INDIRECT; i++) {
    const Node *key = link ? node_find(link, idle[i]) : NULL;
    if (!key) continue;
    status = diag_error(diag, key->key_at,
                        "'%s' does nothing for the copies of network path 'indirect'", idle[i]);
    diag_hint(diag, "take it out; 'to_cpu_bandwidth', 'to_gpu_bandwidth' and 'efficiency' are "
                    "their rate");
  }
  return status;
}

int config_bind_host(const Config *self, const Node *node, const PoolConfig *pool,
                     const Hardware *hardware, PoolSpec *spec, Arena *arena, Diag *diag) {
  const int64_t gpus = pool->tensor_parallel_size;
  HostLinkOptions link = {.to_gpu = hardware->host_to_gpu_bandwidth,
                          .to_cpu = hardware->gpu_to_host_bandwidth};
  if (option_bind(config_host_link_options, pool->host_link, NULL, node->at, &link, diag) ||
      refuse_idle_keys(self, pool->host_link, diag))
    return -1;
  link.to_gpu *= gpus; // each has its own link
  link.to_cpu *= gpus;
  link.half_size *= gpus;
  spec->to_cpu_bandwidth = llround(link.efficiency * (double)link.to_cpu);
  spec->from_cpu_bandwidth = llround(link.efficiency * (double)link.to_gpu);
  return host_link_init(&spec->host_link, &link, arena, diag);
}

int config_check_tier(const Config *self, const Node *node, const PoolSpec *pool, Diag *diag) {
  const PolicyChoice choice = sim_pool_policy(&self->sim, pool, POLICY_KVTIER);
  const KvTier *tier = (const KvTier *)choice.policy;
  if (!tier->check || !choice.state) return 0; // without one its error is told
  if (kvtier_moves(tier) && pool->pipeline_stages > 1)
    return diag_error(diag, config_place(node, "pipeline_parallel_size"),
                      "kvtier '%s' is for machines without a pipeline", choice.policy->name);
  const Node *policies = node_find(self->root, "policies");
  const Node *owner = pool->kvtier.policy || !policies ? node : policies;
  return tier->check(choice.state, pool, config_place(owner, "kvtier"), diag);
}
