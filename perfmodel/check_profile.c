/* Checking: from rows to series, each rule over each, and what remains without the findings. */
#include "base/sort.h"
#include "perfmodel/check_rules.h"
#include "perfmodel/profile_clock.h"
#include <assert.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const RULE_NAMES[CHECK_RULES] = {
    [CHECK_ROOFLINE] = "roofline",
    [CHECK_OUT_OF_MEMORY] = "out-of-memory",
    [CHECK_NON_MONOTONE] = "non-monotone",
    [CHECK_REPLICATES] = "replicates",
    [CHECK_CLOCK] = "clock",
    [CHECK_COPIES] = "copies",
    [CHECK_MULTIPLE] = "constant-multiple",
    [CHECK_ZERO] = "zero-for-missing",
    [CHECK_ZERO_SPREAD] = "zero-spread",
};

const char *check_rule_name(CheckRule rule) {
  assert(rule >= 0 && rule < CHECK_RULES);
  return RULE_NAMES[rule];
}

/* ---- The report ---- */

void check_find(CheckReport *report, CheckRule rule, const Series *series, const char *format,
                ...) {
  va_list list;
  va_start(list, format);
  const char *reason = arena_vprintf(report->arena, format, list);
  va_end(list);
  ARENA_RESERVE(report->arena, report->findings, report->findings_capacity, report->n_findings + 1);
  report->findings[report->n_findings++] = (CheckFinding){.rule = rule,
                                                          .group = series->group,
                                                          .op = series->op,
                                                          .first = report->n_rows,
                                                          .reason = reason};
}

void check_add_row(CheckReport *report, size_t row) {
  assert(report->n_findings > 0);
  ARENA_RESERVE(report->arena, report->rows, report->rows_capacity, report->n_rows + 1);
  report->rows[report->n_rows++] = row;
  report->findings[report->n_findings - 1].n_rows++;
}

void check_add_configuration(CheckReport *report, const Series *series,
                             const SeriesConfiguration *configuration) {
  for (size_t i = 0; i < configuration->n; i++)
    check_add_row(report, series->points[configuration->first + i].row);
}

void check_note(CheckReport *report, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *note = arena_vprintf(report->arena, format, list);
  va_end(list);
  ARENA_RESERVE(report->arena, report->notes, report->notes_capacity, report->n_notes + 1);
  report->notes[report->n_notes++] = note;
}

static int compare_indices(const void *a, const void *b) {
  size_t left = *(const size_t *)a, right = *(const size_t *)b;
  return (left > right) - (left < right);
}

/* ---- Series ---- */

static SeriesKind kind_of(ProfileOp op, const BatchShape *batch) {
  switch (op) {
  case PROFILE_ITERATION:
    return batch->decode_seqs == 0      ? SERIES_PREFILL
           : batch->prefill_tokens == 0 ? SERIES_DECODE
                                        : SERIES_MIXED;
  case PROFILE_LINEAR:
    return SERIES_LINEAR;
  case PROFILE_PREFILL_ATTENTION:
    return SERIES_PREFILL_ATTENTION;
  case PROFILE_DECODE_ATTENTION: // one call of both, where the batch has prefill
    return batch->prefill_tokens > 0 ? SERIES_MIXED : SERIES_DECODE_ATTENTION;
  case PROFILE_HEAD:
    return SERIES_HEAD;
  default:
    return SERIES_DETAIL;
  }
}

/* Texts of a row are empty or one of few: told apart by their first letters. */
static int way_of(const ProfileRow *row) {
  const char mode_letter = row->mode[0], cache_letter = row->cache[0];
  const int mode = mode_letter == 'g' ? 1 : mode_letter == 'e' ? 2 : mode_letter == 'q' ? 3 : 0;
  const int cache = cache_letter == 'c' ? 1 : cache_letter == 'h' ? 2 : 0;
  return ((mode * 3 + cache) * 2 + (int)row->busy) * 2 + profile_is_sustained(row);
}

/* Which series a row belongs to, and its work there. */
static SeriesPoint point_of(const ProfileRow *row, size_t index, size_t group) {
  const BatchShape *batch = &row->batch;
  SeriesPoint point = {.row = index,
                       .group = group,
                       .kind = kind_of(row->op, batch),
                       .op = row->op,
                       .way = way_of(row)};
  switch (point.kind) {
  case SERIES_PREFILL:
    point.x = batch->prefill_tokens;
    point.y = batch->prefill_area2;
    point.z = batch->logit_seqs;
    break;
  case SERIES_PREFILL_ATTENTION: // few tokens after a long past read more KV than many after none
    point.x = batch->prefill_tokens;
    point.y = batch->prefill_area2;
    if (point.x > 0) point.z = point.y / point.x;
    break;
  case SERIES_DECODE:
  case SERIES_DECODE_ATTENTION: // one long context is shared by fewer multiprocessors than many
    point.x = batch->decode_seqs;
    point.y = batch->context_tokens;
    if (point.x > 0) point.z = point.y / point.x;
    break;
  case SERIES_MIXED:
  case SERIES_LINEAR:
    point.x = batch->prefill_tokens + batch->decode_seqs;
    break;
  case SERIES_HEAD:
    point.x = batch->logit_seqs;
    break;
  case SERIES_DETAIL:
    point.x = row->size;
    break;
  }
  return point;
}

/* Sorting needs the rows, which points only name. */
typedef struct SortedPoint {
  SeriesPoint point;
  int64_t configuration;
} SortedPoint;

static int compare_points(const void *a, const void *b) {
  const SortedPoint *left = a, *right = b;
  const int64_t keys[][2] = {{(int64_t)left->point.group, (int64_t)right->point.group},
                             {left->point.kind, right->point.kind},
                             {left->point.op, right->point.op},
                             {left->point.way, right->point.way},
                             {left->point.x, right->point.x},
                             {left->point.y, right->point.y},
                             {left->point.z, right->point.z},
                             {left->configuration, right->configuration},
                             {(int64_t)left->point.row, (int64_t)right->point.row}};
  return compare_pairs(keys, sizeof keys / sizeof *keys);
}

static size_t group_of(const ProfileRow *row, const ProfileGroup *groups, size_t hint) {
  size_t i = hint; // rows of a group mostly follow one another
  if (profile_in_group(row, &groups[i])) return i;
  for (i = 0; !profile_in_group(row, &groups[i]);)
    i++;
  return i;
}

/* All rows, those of a series together. */
static SeriesPoint *sort_points(const Profile *profile, const ProfileGroup *groups, Arena *arena) {
  SortedPoint *sorted = ARENA_ARRAY(arena, SortedPoint, profile->n_rows);
  SeriesPoint *points = ARENA_ARRAY(arena, SeriesPoint, profile->n_rows);
  size_t group = 0;
  for (size_t i = 0; i < profile->n_rows; i++) {
    group = group_of(&profile->rows[i], groups, group);
    sorted[i].point = point_of(&profile->rows[i], i, group);
    sorted[i].configuration = profile->rows[i].configuration;
  }
  qsort(sorted, profile->n_rows, sizeof *sorted, compare_points);
  for (size_t i = 0; i < profile->n_rows; i++)
    points[i] = sorted[i].point;
  return points;
}

#define MAD_TO_DEVIATION 1.4826 // of a normal distribution

/* Median and spread of replicates; a single row has its own spread. `scratch` holds the points. */
static void summarize(SeriesConfiguration *self, const Profile *profile, const SeriesPoint *points,
                      double *scratch) {
  const ProfileRow *first = &profile->rows[points[self->first].row];
  for (size_t i = 0; i < self->n; i++)
    scratch[i] = profile->rows[points[self->first + i].row].median_us;
  self->median_us = gsl_stats_median(scratch, 1, self->n);
  for (size_t i = 0; i < self->n; i++)
    scratch[i] = fabs(scratch[i] - self->median_us);
  double mad_us = self->n > 1 ? gsl_stats_median(scratch, 1, self->n) : first->mad_us;
  self->deviation_us = isnan(mad_us) ? 0 : MAD_TO_DEVIATION * mad_us;
  self->low_us = self->n > 1 ? self->median_us : fmin(self->median_us, first->p10_us);
  self->high_us = self->n > 1 ? self->median_us : fmax(self->median_us, first->p90_us);
}

static void split_configurations(Series *self, const Profile *profile, Arena *arena) {
  const SeriesPoint *points = self->points;
  double *scratch = ARENA_ARRAY(arena, double, self->n_points);
  self->configurations = ARENA_ARRAY(arena, SeriesConfiguration, self->n_points);
  for (size_t i = 0, end = 0; i < self->n_points; i = end) {
    int64_t configuration = profile->rows[points[i].row].configuration;
    while (end < self->n_points && points[end].x == points[i].x && points[end].y == points[i].y &&
           points[end].z == points[i].z &&
           profile->rows[points[end].row].configuration == configuration)
      end++;
    SeriesConfiguration *added = &self->configurations[self->n_configurations++];
    *added = (SeriesConfiguration){
        .first = i, .n = end - i, .x = points[i].x, .y = points[i].y, .z = points[i].z};
    summarize(added, profile, points, scratch);
  }
}

static bool is_same_series(const SeriesPoint *a, const SeriesPoint *b) {
  return a->group == b->group && a->kind == b->kind && a->op == b->op && a->way == b->way;
}

static size_t split_series(const Profile *profile, const ProfileGroup *groups, Series **ret_series,
                           Arena *arena) {
  Series *series = NULL;
  size_t n = 0, capacity = 0;
  const SeriesPoint *points = sort_points(profile, groups, arena);
  for (size_t i = 0, end = 0; i < profile->n_rows; i = end) {
    while (end < profile->n_rows && is_same_series(&points[end], &points[i]))
      end++;
    ARENA_RESERVE(arena, series, capacity, n + 1);
    series[n] = (Series){.group = &groups[points[i].group],
                         .kind = points[i].kind,
                         .op = points[i].op,
                         .way = points[i].way,
                         .points = &points[i],
                         .n_points = end - i};
    split_configurations(&series[n++], profile, arena);
  }
  *ret_series = series;
  return n;
}

/* ---- Checking ---- */

static bool may_be_multiple(const Series *a, const Series *b) {
  return a->kind == b->kind && a->op == b->op && a->way == b->way && a->group != b->group &&
         a->group->tensor_parallel_size == b->group->tensor_parallel_size &&
         strcmp(a->group->model, b->group->model) == 0;
}

void check_profile(CheckReport *self, const Profile *profile, const char *data_dir, Arena *arena) {
  *self = (CheckReport){.arena = arena, .profile = profile};
  ProfileGroup *groups = NULL;
  Series *series = NULL;
  if (profile->torn) check_note(self, "%s", profile_torn_note);
  profile_groups(profile, &groups, arena);
  size_t n = split_series(profile, groups, &series, arena);
  Peaks peaks;
  double usual_mhz = NAN;
  for (size_t i = 0; i < n; i++) {
    const ProfileGroup *group = series[i].group, *before = i > 0 ? series[i - 1].group : NULL;
    if (group != before) check_find_peaks(self, group, data_dir, &peaks);
    if (!before || strcmp(group->gpu, before->gpu) != 0)
      usual_mhz = profile_usual_clock(profile, group->gpu, arena);
    check_roofline(self, &series[i], &peaks);
    check_monotone(self, &series[i]);
    check_replicates(self, &series[i]);
    check_clock(self, &series[i], usual_mhz);
    for (size_t k = 0; k < i; k++)
      if (may_be_multiple(&series[k], &series[i])) check_multiple(self, &series[k], &series[i]);
    check_zeros(self, &series[i]);
  }
  for (size_t i = 0; i < self->n_findings; i++)
    qsort(&self->rows[self->findings[i].first], self->findings[i].n_rows, sizeof *self->rows,
          compare_indices);
}

/* ---- Cleaning ---- */

static void forget_zero(double *value) {
  if (*value == 0) *value = NAN;
}

/* Takes what a finding says out of a row; true when that is the row itself. */
static bool apply(CheckRule rule, ProfileRow *row) {
  switch (rule) {
  case CHECK_ZERO:
    forget_zero(&row->power_w);
    forget_zero(&row->sm_clock_mhz);
    forget_zero(&row->mem_clock_mhz);
    forget_zero(&row->roofline_fraction);
    return false;
  case CHECK_ZERO_SPREAD:
    row->mad_us = row->p10_us = row->p90_us = NAN;
    return false;
  default:
    return true;
  }
}

void check_clean(const CheckReport *self, Profile *ret_cleaned, Arena *arena) {
  const Profile *profile = self->profile;
  bool *is_dropped = ARENA_ARRAY(arena, bool, profile->n_rows);
  ProfileRow *rows = ARENA_ARRAY(arena, ProfileRow, profile->n_rows);
  if (profile->n_rows > 0) memcpy(rows, profile->rows, profile->n_rows * sizeof *rows);
  for (size_t i = 0; i < self->n_findings; i++) {
    const CheckFinding *finding = &self->findings[i];
    for (size_t k = 0; k < finding->n_rows; k++) {
      size_t row = self->rows[finding->first + k];
      if (apply(finding->rule, &rows[row])) is_dropped[row] = true;
    }
  }
  profile_init(ret_cleaned, profile->path, arena);
  for (size_t i = 0; i < profile->n_facts; i++)
    profile_set_fact(ret_cleaned, profile->facts[i].key, profile->facts[i].value);
  for (size_t i = 0; i < profile->n_rows; i++)
    if (!is_dropped[i]) profile_add(ret_cleaned, &rows[i]);
}
