/* Traffic of a day or a week: the peak that a cluster has to hold. */
#include "experiments/plan/plan.h"
#include "traces/profiles.h"
#include <math.h>

int plan_peak(const char *profile, double *ret_factor, Arena *arena, Diag *diag) {
  const Node name = {.kind = NODE_SCALAR, .text = profile, .at = place_of_file("--day")};
  RateProfile day = {0};
  if (profile_bind(&day, &name, config_data_root(), ".", arena, diag)) return -1;
  double sum = 0, most = 0;
  for (int i = 0; i < day.n; i++) {
    sum += day.values[i];
    most = fmax(most, day.values[i]);
  }
  *ret_factor = most / (sum / day.n);
  return 0;
}
