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
     .help = "Peak bandwidth from CPU memory to one GPU.", .absent = "that of the machine type"},
    {"to_cpu_bandwidth", OPTION_BANDWIDTH, offsetof(HostLinkKeys, link.to_cpu), PEAK,
     .help = "Peak bandwidth from one GPU to CPU memory.", .absent = "that of the machine type"},
    HOST_LINK_USE(HostLinkKeys, link),
    {0}};

int config_bind_host(const Node *node, const PoolConfig *pool, const Hardware *hardware,
                     PoolSpec *spec, Arena *arena, Diag *diag) {
  const int64_t gpus = pool->tensor_parallel_size * pool->pipeline_parallel_size *
                       pool->attention_data_parallel_size;
  HostLinkOptions link = {.to_gpu = hardware->host_to_gpu_bandwidth,
                          .to_cpu = hardware->gpu_to_host_bandwidth};
  if (option_bind(config_host_link_options, pool->host_link, NULL, node->at, &link, diag))
    return -1;
  link.to_gpu *= gpus; // each has its own link
  link.to_cpu *= gpus;
  link.half_size *= gpus;
  return host_link_init(&spec->host_link, &link, arena, diag);
}

int config_check_tier(const Config *self, const Node *node, const PoolSpec *pool, Diag *diag) {
  const PolicyChoice choice = sim_pool_policy(&self->sim, pool, POLICY_KVTIER);
  const KvTier *tier = (const KvTier *)choice.policy;
  if (!tier->check || !choice.state) return 0; // without one its error is told
  if (kvtier_moves(tier) && pool->pipeline_stages > 1)
    return diag_error(diag, config_place(node, "pipeline_parallel_size"),
                      "kvtier '%s' does not support pipelines", choice.policy->name);
  const Node *policies = node_find(self->root, "policies");
  const Node *owner = pool->kvtier.policy || !policies ? node : policies;
  return tier->check(choice.state, pool, config_place(owner, "kvtier"), diag);
}
