/* `power` and `gpu_power_cap` of a pool: what its iterations draw, and at most. */
#include "perfmodel/power.h"
#include "experiments/config/config.h"
#include <math.h>
#include <stdlib.h>

/* A number is a share of the GPU's own limit, anything else a power. */
static int bind_cap(const Node *node, double limit, double *ret_cap, Diag *diag) {
  static const OptionSpec power = {.key = "gpu_power_cap", .type = OPTION_POWER, .max = 1e6};
  char *end = NULL;
  const double share = node->kind == NODE_SCALAR ? strtod(node->text, &end) : 0;
  if (end && end != node->text && !*end)
    *ret_cap = share * limit;
  else if (option_bind_one(&power, node, ret_cap, diag))
    return -1;
  const double least = POWER_CAP_MIN * limit * (1 - 1e-9);
  if (least <= *ret_cap && *ret_cap <= limit) return 0;
  diag_error(diag, node->at, "'gpu_power_cap' must be %.0f W to %.0f W, or a share of %g to 1",
             ceil(least), limit, POWER_CAP_MIN);
  return diag_hint(diag, "the limit of the GPU itself is %.0f W", limit);
}

int config_bind_power(PoolConfig *pool, const Hardware *hardware, const Node *node, double *ret_cap,
                      Diag *diag) {
  const Node *cap = pool->gpu_power_cap;
  const bool known = hardware->gpu_tdp > 0, constants = hardware->prefill_power > 0;
  *ret_cap = 0;
  if (cap && pool->power == POWER_PHASE)
    return diag_error(diag, cap->key_at,
                      "'gpu_power_cap' needs the power of iterations by operators or by batch, and "
                      "'power' is 'phase'");
  if (!known && (cap || pool->power == POWER_BATCH || pool->power == POWER_OPERATORS))
    return diag_error(diag, cap ? cap->key_at : config_place(node, "power"),
                      "machine '%s' does not say the power of its GPUs: give it 'gpu_tdp'",
                      hardware->name);
  if (pool->power == POWER_AUTO && !cap && (constants || !known)) pool->power = POWER_PHASE;
  return cap ? bind_cap(cap, hardware->gpu_tdp, ret_cap, diag) : 0;
}

/* Of the machine, less what a limit takes from its GPUs. */
static double provisioned(const Hardware *hardware, const PowerModel *power) {
  const double saved = power ? (double)hardware->num_gpus * (hardware->gpu_tdp - power->cap) : 0;
  return fmax(hardware->provisioned_power - saved, 0);
}

void config_fill_power(PoolConfig *pool, double share, const Hardware *hardware) {
  PoolSpec *spec = &pool->spec;
  const PowerModel *power = spec->perfmodel->power;
  const double gpus = (double)hardware->num_gpus;
  spec->idle_power = share * hardware->idle_power;
  spec->prefill_power = share * hardware->prefill_power;
  spec->decode_power = share * hardware->decode_power;
  spec->provisioned_power = share * provisioned(hardware, power);
  if (!power) return;
  spec->gpus = share * gpus;
  spec->rest_power = share * fmax(hardware->prefill_power - gpus * hardware->gpu_tdp, 0);
  if (hardware->idle_power == 0) spec->idle_power = spec->gpus * power->idle;
}
