/* Inside checking: series of a profile, and the rules that look at them. */
#ifndef PERFMODEL_CHECK_RULES_H
#define PERFMODEL_CHECK_RULES_H
#include "perfmodel/check_profile.h"
#include "perfmodel/roofline.h"

typedef enum SeriesKind {
  SERIES_PREFILL, // whole iterations
  SERIES_DECODE,
  SERIES_MIXED,
  SERIES_LINEAR,
  SERIES_PREFILL_ATTENTION,
  SERIES_DECODE_ATTENTION,
  SERIES_HEAD,
} SeriesKind;

/* A row of a series and its work; a series has them by x, y, z, then configuration, then row. */
typedef struct SeriesPoint {
  size_t row, group;
  SeriesKind kind;
  int64_t x, y, z;
} SeriesPoint;

/* Points of one configuration. */
typedef struct SeriesConfiguration {
  size_t first, n; // of the series' points
  int64_t x, y, z;
  double median_us;
  double deviation_us; // robust standard deviation of a row around it; 0: not known
} SeriesConfiguration;

typedef struct Series {
  const ProfileGroup *group;
  SeriesKind kind;
  ProfileOp op;
  const SeriesPoint *points;
  size_t n_points;
  SeriesConfiguration *configurations;
  size_t n_configurations;
} Series;

/* Opens a finding; rows are added to the newest one. */
void check_find(CheckReport *report, CheckRule rule, const Series *series, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void check_add_row(CheckReport *report, size_t row);
void check_add_configuration(CheckReport *report, const Series *series,
                             const SeriesConfiguration *configuration);
void check_note(CheckReport *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The roofline of a group at the peaks of its GPU; false, with a note, when a fact is missing. */
bool check_find_roofline(CheckReport *report, const ProfileGroup *group, const char *data_dir,
                         Roofline *ret_roofline);

/* The rules of one series. */
void check_roofline(CheckReport *report, const Series *series, const Roofline *roofline);
void check_monotone(CheckReport *report, const Series *series);
void check_replicates(CheckReport *report, const Series *series);
void check_zeros(CheckReport *report, const Series *series);
/* Whether `series` is a constant multiple of `other`, which stands before it. */
void check_multiple(CheckReport *report, const Series *other, const Series *series);
#endif
