/* SplitwiseSim never evicts: a machine whose memory is full sleeps until something leaves it. */
#include "sim/kvtier/kvtier.h"

const KvTier kvtier_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help = "no preemption: full instances wait (SplitwiseSim)"},
};
