/* Machines keep the role they start with. */
#include "sim/pool/pool.h"

const PoolPolicy pool_fixed = {
    .policy = {.name = "fixed", .help = "instances keep their first role"},
};
