/* vLLM's other mode: the KV of the request that arrived last is copied to CPU memory and back,
 * while the machine stands still. */
#include "sim/kvtier/kvtier.h"

const KvTier kvtier_swap = {
    .policy = {.name = "swap", .help = "the last to arrive waits with its KV in CPU memory (vLLM)"},
    .pick = kvtier_newest,
    .swaps = true,
};
