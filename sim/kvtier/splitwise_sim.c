/* SplitwiseSim never evicts: a machine whose memory is full sleeps until something leaves it. Only
 * for batchers that reserve the whole output, since nobody gives way to growth. */
#include "sim/kvtier/kvtier.h"

static RequestIx pick(void *state, const MachineView *view) {
  (void)state, (void)view;
  return REQUEST_NONE;
}

const KvTier kvtier_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help = "SplitwiseSim: nobody gives way, full machines wait"},
    .pick = pick,
};
