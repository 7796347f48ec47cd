/* SplitwiseSim never evicts: an instance whose memory is full sleeps until something leaves it. */
#include "sim/kvtier/kvtier.h"

const KvTier kvtier_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help =
                   "Reproduces SplitwiseSim: no request is preempted, and a full instance waits."},
};
