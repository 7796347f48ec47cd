/* Pools stay as they are. */
#include "sim/scaling/scaler.h"

const Scaler scaler_none = {
    .policy = {.name = "none", .help = "pools keep the machines they begin with"},
};
