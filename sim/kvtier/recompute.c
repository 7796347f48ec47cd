/* vLLM's default: the request that arrived last gives up its KV and is prefilled again. */
#include "sim/kvtier/kvtier.h"

const KvTier kvtier_recompute = {
    .policy = {.name = "recompute",
               .help = "the newest request drops its KV and is prefilled again (vLLM)"},
    .pick = kvtier_newest,
};
