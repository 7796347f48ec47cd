/* Pools stay as they are. */
#include "sim/scaling/scaler.h"

const Scaler scaler_none = {
    .policy = {.name = "none", .help = "a constant number of instances"},
};
