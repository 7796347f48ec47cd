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
               .help = "Keeps the number of instances of the start: a spare replaces each instance "
                       "that fails."},
    .plan = plan,
};
