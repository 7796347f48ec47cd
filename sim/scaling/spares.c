/* As many machines as there were at the start: for one that fails another is started, once the
 * router knows, of those that are off, the spares; when it is back one of them goes again. */
#include "sim/scaling/scaler.h"

static void plan(void *state, const ScalingView *view, double *wanted) {
  (void)state;
  for (uint32_t p = 0; p < view->n_pools; p++)
    wanted[p] = view->pools[p].spec->scaling.start;
}

const Scaler scaler_spares = {
    .policy = {.name = "spares",
               .help = "a constant number of instances, with spares for those that fail"},
    .plan = plan,
};
