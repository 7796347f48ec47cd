/* Blocks of a pool: the link to CPU memory, and attention and FFNs on GPUs of their own. */
#include "experiments/config/config.h"

const OptionSpec config_attention_ffn_options[] = {
    OPTION_OF(AttentionFfnKeys, ffn_gpus, OPTION_INT, .required = true, .min = 1, .max = 1024,
              .help = "Number of GPUs of each replica that have the MLPs and experts, beside those "
                      "with attention."),
    OPTION_OF(AttentionFfnKeys, micro_batches, OPTION_INT, .fallback = "3", .min = 1, .max = 64,
              .help = "Number of micro-batches that a batch is divided into, of which some are "
                      "computed while others are sent."),
    {0}};

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

int config_bind_host(PoolConfig *pool, const Node *node, Arena *arena, Diag *diag) {
  const Hardware *hardware = &pool->hardware;
  const int64_t gpus = pool->tensor_parallel_size * pool->attention_data_parallel_size *
                       pool->pipeline_parallel_size;
  HostLinkOptions link = {.to_gpu = hardware->host_to_gpu_bandwidth,
                          .to_cpu = hardware->gpu_to_host_bandwidth};
  if (option_bind(config_host_link_options, pool->host_link, NULL, node->at, &link, diag))
    return -1;
  link.to_gpu *= gpus; // each has its own link
  link.to_cpu *= gpus;
  link.half_size *= gpus;
  return host_link_init(&pool->spec.host_link, &link, arena, diag);
}

int config_bind_sides(PoolConfig *pool, Diag *diag) {
  const Node *node = pool->attention_ffn;
  if (!node) return 0;
  if (pool->spec.role == ROLE_PREFILL)
    return diag_error(diag, node->key_at, "'attention_ffn' applies to pools that decode");
  return option_bind(config_attention_ffn_options, node, NULL, node->at, &pool->sides, diag);
}
