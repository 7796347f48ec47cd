/* vLLM's default: the request that arrived last gives up its KV and is prefilled again. */
#include "sim/kvtier/kvtier.h"

const KvTier kvtier_recompute = {
    .policy = {.name = "recompute",
               .help =
                   "Frees the KV of the request that arrived last and prefills it again (vLLM)."},
    .pick = kvtier_newest,
};
