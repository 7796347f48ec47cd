/* No second level: the router chooses both instances on arrival. */
#include "sim/dispatcher/dispatcher.h"

const Dispatcher dispatcher_router = {
    .policy = {.name = "router",
               .help = "Leaves the choice of the decode instance to the router, on arrival."},
};
