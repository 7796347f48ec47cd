/* Profiles of days and weeks: relative rates in equal steps, from a table of traces/profiles/, one
 * of the user's own, or a list. Those of a week begin on Monday, 00:00.
 *
 * A table has lines that start with '#', a header, `hour,rate`, `minute,rate` or `second,rate`, and
 * rows whose first column goes up in equal steps from 0. */
#ifndef TRACES_PROFILES_H
#define TRACES_PROFILES_H
#include "base/csv.h"
#include "base/units.h"
#include "base/yaml.h"

enum { PROFILE_VALUES_MAX = 1000000 };

typedef struct RateProfile {
  double *values; // [n], not negative, one at least above 0
  int n;
  Tick step;     // at least a second
  bool has_step; // a table says its own
} RateProfile;

/* Reads an opened table; `at` is where messages about all of it point. */
int profile_read(RateProfile *self, Csv *csv, Place at, Arena *arena, Diag *diag);
/* Binds `profile:`: a name, the path of a .csv (relative to the working directory, or else to
 * `config_dir`), or a list, whose step the caller sets. */
int profile_bind(RateProfile *self, const Node *node, const char *data_dir, const char *config_dir,
                 Arena *arena, Diag *diag);
/* A time of the week or the day, "Monday 08:00", "mon", "8:30", or one such as "32 h". False when
 * it is none. */
bool profile_time(const char *text, Tick *ret_at, bool *ret_names_day);
#endif
