/* What scalers share. */
#include "sim/scaling/scaler.h"
#include <string.h>

int scaler_check_pool(const char *name, Place at, const PoolSpec *pools, uint32_t n_pools,
                      Diag *diag) {
  const char **names = ARENA_ARRAY(&diag->arena, const char *, n_pools + 1);
  int n = 0;
  for (uint32_t p = 0; p < n_pools; p++) {
    if (pools[p].scaling.max == 0) continue;
    if (strcmp(pools[p].name, name) == 0) return 0;
    names[n++] = pools[p].name;
  }
  diag_error(diag, at, "there is no pool '%s' with 'scaling'", name);
  diag_hint_choices(diag, name, names, NULL);
  return -1;
}
