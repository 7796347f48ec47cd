/* No second level: the router chooses both machines on arrival. */
#include "sim/dispatcher/dispatcher.h"

const Dispatcher dispatcher_router = {
    .policy = {.name = "router", .help = "the router chooses the decode instance on arrival"},
};
