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
  SERIES_DETAIL, // an operator finer than a term, by its size
} SeriesKind;

/* A row of a series and its work; a series has them by x, y, z, then configuration, then row. */
typedef struct SeriesPoint {
  size_t row, group;
  SeriesKind kind;
  ProfileOp op;
  int way; // mode, cache and busy as one number: rows of another way are another series
  int64_t x, y, z;
} SeriesPoint;

/* Points of one configuration. */
typedef struct SeriesConfiguration {
  size_t first, n; // of the series' points
  int64_t x, y, z;
  double median_us;
  double deviation_us;    // robust standard deviation of a row around it; 0: not known
  double low_us, high_us; // where most of its samples are, of one row that says so; else the median
} SeriesConfiguration;

typedef struct Series {
  const ProfileGroup *group;
  SeriesKind kind;
  ProfileOp op;
  int way;
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

/* What a group cannot be faster than: that of its model at the peaks of its GPU, and those peaks
 * for operators whose rows say their work. */
typedef struct Peaks {
  bool has_roofline, has_gpu;
  Roofline roofline;
  double flops, memory, host_link, gpu_link; // per second; links are of one direction
} Peaks;

/* The peaks of a group; a note says what is missing. */
void check_find_peaks(CheckReport *report, const ProfileGroup *group, const char *data_dir,
                      Peaks *ret_peaks);

/* The rules of one series. */
void check_roofline(CheckReport *report, const Series *series, const Peaks *peaks);
void check_monotone(CheckReport *report, const Series *series);
void check_replicates(CheckReport *report, const Series *series);
/* `usual_mhz`: of its GPU in the profile. */
void check_clock(CheckReport *report, const Series *series, double usual_mhz);
void check_zeros(CheckReport *report, const Series *series);
/* Whether `series` is a constant multiple of `other`, which stands before it. */
void check_multiple(CheckReport *report, const Series *other, const Series *series);
#endif
