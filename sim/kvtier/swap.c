/* vLLM's other mode: the KV of the request that arrived last is copied to CPU memory and back,
 * while the instance stands still. */
#include "sim/kvtier/kvtier.h"

/* Without CPU memory nobody is swapped. */
static int check(const void *state, const PoolSpec *pool, Place at, Diag *diag) {
  (void)state;
  const double most = (double)pool->cpu_kv_blocks * (double)pool->kv_block_bytes;
  return host_link_check(&pool->host_link, most, "kvtier 'swap'", at, diag);
}

const KvTier kvtier_swap = {
    .policy = {.name = "swap",
               .help =
                   "Copies the KV of the request that arrived last to CPU memory and back (vLLM)."},
    .pick = kvtier_newest,
    .swaps = true,
    .check = check,
};
