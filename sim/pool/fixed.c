/* Instances keep the role they start with. */
#include "sim/pool/pool.h"

const PoolPolicy pool_fixed = {
    .policy = {.name = "fixed", .help = "Keeps each instance in the role of its pool."},
};
