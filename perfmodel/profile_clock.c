/* Two references: the GPU's, and the row's own. */
#include "perfmodel/profile_clock.h"
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

static const double LEAST_SHARE = 0.75;

/* What copy engines do while the multiprocessors may idle. */
static bool is_copy(ProfileOp op) {
  return op == PROFILE_COPY_H2D || op == PROFILE_COPY_D2H || op == PROFILE_COPY_BOTH ||
         op == PROFILE_COPY_PEER || op == PROFILE_COPY_PAGEABLE || op == PROFILE_WEIGHT_RELOAD;
}

double profile_usual_clock(const Profile *self, const char *gpu, Arena *arena) {
  double *clocks = ARENA_ARRAY(arena, double, self->n_rows);
  size_t n = 0;
  for (size_t i = 0; i < self->n_rows; i++) {
    const ProfileRow *row = &self->rows[i];
    if (row->sm_clock_mhz > 0 && !is_copy(row->op) && strcmp(row->gpu, gpu) == 0)
      clocks[n++] = row->sm_clock_mhz;
  }
  return n > 0 ? gsl_stats_median(clocks, 1, n) : NAN;
}

bool profile_clock_fell(const ProfileRow *row, double usual_mhz) {
  if (!*row->throttle || is_copy(row->op)) return false;
  const bool is_capped = strcmp(row->throttle, PROFILE_POWER_CAP) == 0;
  const double due = is_capped ? row->sm_clock_mhz : fmax(row->sm_clock_mhz, usual_mhz);
  return row->least_sm_clock_mhz < LEAST_SHARE * due; // false of what is missing
}
