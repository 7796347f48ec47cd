/* Whether the clock of a GPU fell while a row was measured: its samples are then of a slower GPU
 * than those of other rows. The limit, 75%, is nvbench's.
 *
 * It is 75% of what the GPU usually ran at in the profile, or of the mean of the row's own readings
 * where that is more. A GPU that gives its limit of power as the only reason has the clock that
 * its work leaves it, as in every sustained row and in large products: it is held to that mean
 * alone. */
#ifndef PERFMODEL_PROFILE_CLOCK_H
#define PERFMODEL_PROFILE_CLOCK_H
#include "perfmodel/profile.h"

/* In the column `throttle`. */
#define PROFILE_POWER_CAP "power cap"

/* The median of `sm_clock_mhz` over rows of `gpu` that are no copies; NAN where none has it. */
double profile_usual_clock(const Profile *self, const char *gpu, Arena *arena);
/* False of rows that do not say their clocks and reasons, as of processors and of other tools, and
 * of copies over a link, which do without multiprocessors. */
bool profile_clock_fell(const ProfileRow *row, double usual_mhz);
#endif
