/* See profiles.h. */
#include "traces/profiles.h"
#include "base/option.h"
#include "base/text.h"
#include "traces/lengths.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HOUR, MINUTE, SECOND, UNITS };
static const char *const unit_names[] = {"hour", "minute", "second"};
static const double unit_seconds[] = {3600, 60, 1};

typedef struct ProfileRow {
  double at[UNITS], rate;
} ProfileRow;

#define AT_COLUMN(text, unit)                                                                      \
  {                                                                                                \
    .name = (text), .type = CSV_REAL, .offset = offsetof(ProfileRow, at[unit]),                    \
    .range = CSV_NOT_NEGATIVE, .may_miss = true                                                    \
  }
static const CsvColumn columns[] = {AT_COLUMN("hour", HOUR),
                                    AT_COLUMN("minute", MINUTE),
                                    AT_COLUMN("second", SECOND),
                                    CSV_FIELD(ProfileRow, rate, CSV_REAL, CSV_NOT_NEGATIVE),
                                    {0}};

/* The one column of times, or -1. */
static int unit_of(const Csv *csv, Place at, Diag *diag) {
  int unit = -1, n = 0;
  for (int i = 0; i < UNITS; i++) {
    if (!csv_has(csv, unit_names[i])) continue;
    unit = i;
    n++;
  }
  if (n == 1) return unit;
  diag_error(diag, at, "a profile must have one column of times, and this one has %d", n);
  diag_hint(diag, "the header must be 'hour,rate', 'minute,rate' or 'second,rate'");
  return -1;
}

/* The step is what lies between the first two rows; no other may lie elsewhere. */
static int check_time(RateProfile *self, const Csv *csv, int unit, double at, Diag *diag) {
  const double seconds = at * unit_seconds[unit];
  if (self->n == 0 && at != 0) return csv_error(csv, unit_names[unit], "0 in the first row", diag);
  if (self->n == 1) {
    if (!(seconds >= 1 && seconds <= 8e6))
      return csv_error(csv, unit_names[unit], "from 1 s to 92 days behind the first row", diag);
    self->step = tick_from_seconds(seconds);
  }
  const double due = self->n * tick_seconds(self->step);
  const double end = due + tick_seconds(self->step);
  if (fabs(seconds - due) <= 1e-6 && end <= 8e6) return 0;
  return csv_error(csv, unit_names[unit], "in equal steps from 0, 92 days at most", diag);
}

static void append(RateProfile *self, size_t *capacity, double value, Arena *arena) {
  ARENA_RESERVE(arena, self->values, *capacity, self->n + 1);
  self->values[self->n++] = value;
}

/* All that is wrong with the values together. */
static int check_values(const RateProfile *self, Place at, Diag *diag) {
  double sum = 0;
  for (int i = 0; i < self->n; i++)
    sum += self->values[i];
  if (self->n < 2) return diag_error(diag, at, "a profile needs at least two values");
  if (sum > 0) return 0;
  diag_error(diag, at, "all %d rates of the profile are 0", self->n);
  diag_hint(diag, "the rates are relative to each other: at least one must be above 0");
  return -1;
}

int profile_read(RateProfile *self, Csv *csv, Place at, Arena *arena, Diag *diag) {
  *self = (RateProfile){.has_step = true};
  if (csv_header(csv, columns, true, diag)) return -1;
  const int unit = unit_of(csv, at, diag);
  if (unit < 0) return -1;
  ProfileRow row = {0};
  size_t capacity = 0;
  int status = 0, failed = 0;
  while ((status = csv_next(csv, &row, diag)) != 0) {
    if (status > 0 && row.rate > 1e9) status = csv_error(csv, "rate", "at most 1e9", diag);
    if (self->n == PROFILE_VALUES_MAX)
      return diag_error(diag, at, "a profile has at most %d values", PROFILE_VALUES_MAX);
    if (status > 0) status = check_time(self, csv, unit, row.at[unit], diag);
    if (status < 0) failed = -1;
    append(self, &capacity, failed ? 0 : row.rate, arena);
  }
  return failed ? -1 : check_values(self, at, diag);
}

static int bind_list(RateProfile *self, const Node *node, Arena *arena, Diag *diag) {
  static const OptionSpec spec = {"rate", OPTION_REAL, 0, .max = 1e9, .help = "relative rate"};
  *self = (RateProfile){.values = NULL};
  size_t capacity = 0;
  int status = 0;
  for (const Node *child = node->first; child; child = child->next) {
    double value = 0;
    status |= option_bind_one(&spec, child, &value, diag);
    append(self, &capacity, value, arena);
  }
  return status ? -1 : check_values(self, node->at, diag);
}

int profile_bind(RateProfile *self, const Node *node, const char *data_dir, const char *config_dir,
                 Arena *arena, Diag *diag) {
  if (node->kind == NODE_LIST) return bind_list(self, node, arena, diag);
  if (node->kind == NODE_MAP || !text_is_plain(node->text))
    return diag_error(diag, node->at,
                      "a profile must be a name, the path of a .csv file or a list of rates");
  const char *path = table_resolve(node, "profile", "profiles", data_dir, config_dir, arena, diag);
  Csv csv;
  if (!path || csv_open(&csv, path, arena, diag)) return -1;
  return profile_read(self, &csv, place_of_file(path), arena, diag);
}

/* ---- Times of the week ---- */

/* Which day `text` begins with, and how long its name is; -1: none. */
static int day_of(const char *text, size_t length) {
  static const char *const days[] = {"monday", "tuesday",  "wednesday", "thursday",
                                     "friday", "saturday", "sunday"};
  for (int day = 0; day < 7; day++)
    if ((length == 3 || length == strlen(days[day])) && strncasecmp(text, days[day], length) == 0)
      return day;
  return -1;
}

/* "8:30" or "08:30", up to "24:00". */
static bool clock_of(const char *text, Tick *ret) {
  int hour = 0, minute = 0, used = 0;
  if (sscanf(text, "%2d:%2d%n", &hour, &minute, &used) != 2 || text[used] != '\0') return false;
  if (strspn(text, "0123456789:") != strlen(text) || minute > 59 || hour * 60 + minute > 24 * 60)
    return false;
  *ret = (hour * 60 + minute) * 60 * TICKS_PER_SECOND;
  return true;
}

bool profile_time(const char *text, Tick *ret_at, bool *ret_names_day) {
  const size_t word = strcspn(text, " ");
  const int day = day_of(text, word);
  double seconds = 0;
  Tick clock = 0;
  *ret_names_day = day >= 0;
  if (day >= 0) {
    text += word + strspn(text + word, " ");
    if (*text && !clock_of(text, &clock)) return false;
    *ret_at = day * 86400 * TICKS_PER_SECOND + clock;
    return true;
  }
  if (clock_of(text, ret_at)) return true;
  if (!units_parse(text, DIM_TIME, &seconds) || !(seconds >= 0 && seconds <= 9e6)) return false;
  *ret_at = tick_from_seconds(seconds);
  return true;
}
