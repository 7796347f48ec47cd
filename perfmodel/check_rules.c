/* The rules of physics and of measuring, one after the other. */
#include "perfmodel/check_rules.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/gpu_facts.h"
#include "perfmodel/profile_clock.h"
#include <math.h>
#include <string.h>

static const ProfileRow *row_at(const CheckReport *report, const Series *series, size_t i) {
  return &report->profile->rows[series->points[i].row];
}

static int line_of(const CheckReport *report, const Series *series,
                   const SeriesConfiguration *configuration) {
  return row_at(report, series, configuration->first)->at.line;
}

/* ---- Roofline ---- */

#define ROOFLINE_TOLERANCE 0.98 // of the least time: peaks are rounded, clocks boost

/* What no kernel can beat: the FLOPs at peak, or reading once what must come from memory. The
 * activations may stay in cache, so of a term's memory line only weights and KV count, and those
 * only where they are not in the cache themselves. */
static double term_floor(const RooflineTerm *term, double x, bool reads_per_unit, bool is_hot) {
  double memory = term->memory_fixed + (reads_per_unit ? term->memory_slope * x : 0);
  return fmax(is_hot ? 0 : memory, term->compute_slope * x);
}

static double least_of_terms(const Roofline *roofline, const ProfileRow *row, bool is_hot) {
  const BatchShape *batch = &row->batch;
  const bool whole = row->op == PROFILE_ITERATION;
  const double tokens = (double)batch->prefill_tokens + (double)batch->decode_seqs;
  const double area2 = (double)batch->prefill_area2, context = (double)batch->context_tokens;
  double seconds = 0;
  if (whole || row->op == PROFILE_LINEAR)
    seconds += term_floor(&roofline->linear, tokens, false, is_hot);
  const bool both = row->op == PROFILE_DECODE_ATTENTION && batch->prefill_tokens > 0;
  if (whole || both || row->op == PROFILE_PREFILL_ATTENTION)
    seconds += term_floor(&roofline->prefill_attention, area2, false, is_hot);
  if (whole || row->op == PROFILE_DECODE_ATTENTION)
    seconds += term_floor(&roofline->decode_attention, context, true, is_hot);
  if ((whole || row->op == PROFILE_HEAD) && batch->logit_seqs > 0)
    seconds += term_floor(&roofline->head, (double)batch->logit_seqs, false, is_hot);
  return seconds;
}

/* What the bytes of an operator go over. An all-reduce sends each of its bytes at least once: a
 * switch may add them up on the way. */
static double path_of(const Peaks *peaks, ProfileOp op) {
  switch (op) {
  case PROFILE_COPY_H2D:
  case PROFILE_COPY_D2H:
  case PROFILE_COPY_BOTH:
  case PROFILE_COPY_PAGEABLE:
  case PROFILE_KV_OUT:
  case PROFILE_WEIGHT_RELOAD:
    return peaks->host_link;
  case PROFILE_ALL_REDUCE:
  case PROFILE_ALL_REDUCE_PEER:
  case PROFILE_COPY_PEER:
    return peaks->gpu_link;
  default:
    return peaks->memory;
  }
}

/* Of one operator, by the work that its row states. */
static double least_of_detail(const Peaks *peaks, const ProfileRow *row, bool is_hot) {
  double path = path_of(peaks, row->op);
  bool from_cache = is_hot && path == peaks->memory;
  double flops = isnan(row->flops) ? 0 : row->flops / peaks->flops;
  double bytes = isnan(row->bytes) || from_cache || path == 0 ? 0 : row->bytes / path;
  return fmax(flops, bytes);
}

static bool is_hot_row(const ProfileRow *row) {
  return strcmp(row->cache, "hot") == 0;
}

/* 0 where nothing is known. */
static double least_us(const Peaks *peaks, const ProfileRow *row) {
  const bool is_hot = is_hot_row(row);
  if (row->op < PROFILE_TERMS)
    return peaks->has_roofline ? 1e6 * least_of_terms(&peaks->roofline, row, is_hot) : 0;
  return peaks->has_gpu ? 1e6 * least_of_detail(peaks, row, is_hot) : 0;
}

void check_find_peaks(CheckReport *report, const ProfileGroup *group, const char *data_dir,
                      Peaks *ret_peaks) {
  static const EnginePreset nothing = {.name = "peak"};
  const bool has_format = profile_fact(report->profile, "weight_dtype") != NULL;
  const Dtype format = (Dtype)fit_setup(report->profile, group).weight_dtype;
  const LlmFormats formats = {.weight_dtype = has_format ? (int)format : LLM_UNSAID,
                              .attention_dtype = LLM_UNSAID,
                              .expert_dtype = LLM_UNSAID,
                              .kv_cache_dtype = LLM_UNSAID};
  Llm llm;
  Hardware hardware;
  Diag diag;
  diag_init(&diag);
  const int64_t degree = group->tensor_parallel_size;
  *ret_peaks = (Peaks){.has_gpu = gpu_facts_find(&hardware, group->gpu, data_dir, report->arena)};
  ret_peaks->has_roofline = ret_peaks->has_gpu &&
                            llm_load_as(&llm, group->model, &formats, data_dir, place_of_file(NULL),
                                        report->arena, &diag) == 0 &&
                            llm.num_attention_heads % degree == 0;
  diag_done(&diag);
  if (!ret_peaks->has_roofline)
    check_note(
        report,
        "no roofline for '%s' on '%s', tensor_parallel_size %d: the model or the GPU is not known",
        group->model, group->gpu, (int)degree);
  if (!ret_peaks->has_gpu) return;
  hardware.flops_efficiency = hardware.hbm_efficiency = 1;
  hardware.nvlink_efficiency = hardware.pcie_efficiency = 1;
  hardware.all_reduce_latency = 0;
  ret_peaks->flops = hardware_product_rate(&hardware, has_format ? format : DTYPE_BF16);
  ret_peaks->memory = hardware_memory_rate(&hardware);
  ret_peaks->host_link = (double)hardware.pcie_bandwidth;
  ret_peaks->gpu_link = hardware_link_rate(&hardware);
  if (ret_peaks->has_roofline)
    roofline_init(&ret_peaks->roofline, &llm, &hardware, (Parallelism){degree, 1, 1, 1, 1},
                  &nothing, report->arena);
}

/* How much of the least time a row took: by the facts known here, or as the row says. */
static double share_of_least(const Peaks *peaks, const ProfileRow *row) {
  double least = least_us(peaks, row), said = row->roofline_fraction;
  double share = least > 0 ? row->median_us / least : INFINITY;
  return said > 0 && !is_hot_row(row) ? fmin(share, 1 / said) : share;
}

void check_roofline(CheckReport *report, const Series *series, const Peaks *peaks) {
  double worst = ROOFLINE_TOLERANCE;
  const ProfileRow *worst_row = NULL;
  for (size_t i = 0; i < series->n_points; i++) {
    const ProfileRow *row = row_at(report, series, i);
    double share = share_of_least(peaks, row);
    if (share >= worst) continue;
    worst = share;
    worst_row = row;
  }
  if (!worst_row) return;
  check_find(report, CHECK_ROOFLINE, series,
             "faster than the peaks of the GPU allow: line %d takes %.4g us, at least %.4g us are "
             "needed",
             worst_row->at.line, worst_row->median_us, worst_row->median_us / worst);
  for (size_t i = 0; i < series->n_points; i++)
    if (share_of_least(peaks, row_at(report, series, i)) < ROOFLINE_TOLERANCE)
      check_add_row(report, series->points[i].row);
}

/* ---- More work in less time ---- */

#define NOISE_DEVIATIONS 3.0
#define LEAST_NOISE      0.05 // of the time: what kernels of another shape may gain
#define DETAIL_NOISE     0.10 // likewise of one alone
#define FAILED_SHARE     0.5  // below it, less was done than the row says
enum { WINDOW = 2048 };       // configurations before one, by work, that it is compared with

/* A machine with other work has two speeds: medians may be of either while samples still meet. */
static bool is_faster(const Series *series, size_t i, size_t k) {
  const SeriesConfiguration *more = &series->configurations[i], *less = &series->configurations[k];
  if (less->y > more->y || less->z > more->z) return false; // by x they are sorted
  if (less->low_us <= more->high_us) return false;
  double noise = NOISE_DEVIATIONS * hypot(more->deviation_us, less->deviation_us);
  double share = series->kind == SERIES_DETAIL ? DETAIL_NOISE : LEAST_NOISE;
  return less->median_us - more->median_us > fmax(noise, share * less->median_us);
}

static size_t window_start(size_t i) {
  return i > WINDOW ? i - WINDOW : 0;
}

/* How many others each configuration is at odds with. */
static size_t *count_conflicts(const Series *series, Arena *arena) {
  size_t *conflicts = ARENA_ARRAY(arena, size_t, series->n_configurations);
  for (size_t i = 0; i < series->n_configurations; i++) {
    for (size_t k = window_start(i); k < i; k++) {
      if (!is_faster(series, i, k)) continue;
      conflicts[i]++;
      conflicts[k]++;
    }
  }
  return conflicts;
}

static void find_too_fast(CheckReport *report, const Series *series,
                          const SeriesConfiguration *more, const SeriesConfiguration *less) {
  double share = more->median_us / less->median_us;
  bool failed = share < FAILED_SHARE;
  check_find(report, failed ? CHECK_OUT_OF_MEMORY : CHECK_NON_MONOTONE, series,
             "more work than line %d in %.3g of its time, %.4g us%s", line_of(report, series, less),
             share, more->median_us,
             failed ? ": the run probably failed, for example for lack of memory"
                    : ", beyond the noise");
  check_add_configuration(report, series, more);
}

static void find_too_slow(CheckReport *report, const Series *series,
                          const SeriesConfiguration *less, const SeriesConfiguration *more) {
  check_find(report, CHECK_NON_MONOTONE, series,
             "less work than line %d in %.3g of its time, %.4g us, beyond the noise",
             line_of(report, series, more), less->median_us / more->median_us, less->median_us);
  check_add_configuration(report, series, less);
}

/* Of each pair at odds, the one at odds with more others is to blame, the larger one in a tie. */
void check_monotone(CheckReport *report, const Series *series) {
  if (series->kind == SERIES_MIXED) return; // its time depends on four numbers
  const SeriesConfiguration *configurations = series->configurations;
  const size_t n = series->n_configurations;
  const size_t *conflicts = count_conflicts(series, report->arena);
  const SeriesConfiguration **blamed_by =
      ARENA_ARRAY(report->arena, const SeriesConfiguration *, n);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = window_start(i); conflicts[i] > 0 && k < i; k++) {
      if (!is_faster(series, i, k)) continue;
      size_t blamed = conflicts[i] >= conflicts[k] ? i : k;
      const SeriesConfiguration *other = &configurations[blamed == i ? k : i];
      double size = fabs(log(other->median_us / configurations[blamed].median_us));
      const SeriesConfiguration *before = blamed_by[blamed];
      if (!before || size > fabs(log(before->median_us / configurations[blamed].median_us)))
        blamed_by[blamed] = other;
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (!blamed_by[i]) continue;
    if (blamed_by[i] < &configurations[i])
      find_too_fast(report, series, &configurations[i], blamed_by[i]);
    else
      find_too_slow(report, series, &configurations[i], blamed_by[i]);
  }
}

/* ---- Replicates ---- */

#define MAX_DISAGREEMENT 0.1 // of the median
enum { MIN_COPIES = 3 };

static bool are_copies(const CheckReport *report, const Series *series,
                       const SeriesConfiguration *configuration) {
  const double first_us = row_at(report, series, configuration->first)->median_us;
  for (size_t i = 1; i < configuration->n; i++)
    if (row_at(report, series, configuration->first + i)->median_us != first_us) return false;
  return configuration->n >= MIN_COPIES;
}

static void find_copies(CheckReport *report, const Series *series,
                        const SeriesConfiguration *configuration) {
  check_find(report, CHECK_COPIES, series,
             "%zu replicates are equal to the last digit, %.6g us, as if copied from line %d",
             configuration->n, configuration->median_us, line_of(report, series, configuration));
  for (size_t i = 1; i < configuration->n; i++)
    check_add_row(report, series->points[configuration->first + i].row);
}

/* How far a replicate is from the median; 0 when the measuring itself says that the device had
 * drifted, or that its clock had fallen: that is known, and no fault of the row. */
static double disagreement_us(const ProfileRow *row, double median_us) {
  const bool is_known = strstr(row->stop, "drift") || strstr(row->stop, "clock");
  return is_known ? 0 : fabs(row->median_us - median_us);
}

/* When half of them are far from the median there is none to trust; otherwise some rows are far. */
static void find_disagreement(CheckReport *report, const Series *series,
                              const SeriesConfiguration *configuration) {
  const double median_us = configuration->median_us, far_us = MAX_DISAGREEMENT * median_us;
  double farthest_us = 0;
  for (size_t i = 0; i < configuration->n; i++) {
    const ProfileRow *row = row_at(report, series, configuration->first + i);
    farthest_us = fmax(farthest_us, disagreement_us(row, median_us));
  }
  if (farthest_us <= far_us) return;
  const bool all = configuration->deviation_us > far_us;
  check_find(report, CHECK_REPLICATES, series,
             "%s of %zu replicates %s up to %.0f%% from their median %.4g us",
             all ? "half" : "some", configuration->n, all ? "or more lie" : "lie",
             100 * farthest_us / median_us, median_us);
  for (size_t i = 0; i < configuration->n; i++) {
    const SeriesPoint *point = &series->points[configuration->first + i];
    if (all || disagreement_us(&report->profile->rows[point->row], median_us) > far_us)
      check_add_row(report, point->row);
  }
}

void check_replicates(CheckReport *report, const Series *series) {
  for (size_t i = 0; i < series->n_configurations; i++) {
    const SeriesConfiguration *configuration = &series->configurations[i];
    if (are_copies(report, series, configuration))
      find_copies(report, series, configuration);
    else
      find_disagreement(report, series, configuration);
  }
}

/* ---- Clocks ---- */

void check_clock(CheckReport *report, const Series *series, double usual_mhz) {
  const ProfileRow *worst = NULL;
  for (size_t i = 0; i < series->n_points; i++) {
    const ProfileRow *row = row_at(report, series, i);
    if (!profile_clock_fell(row, usual_mhz)) continue;
    if (!worst || row->least_sm_clock_mhz < worst->least_sm_clock_mhz) worst = row;
  }
  if (!worst) return;
  check_find(report, CHECK_CLOCK, series,
             "the clock fell during the measurement: line %d saw %.0f MHz, with a mean of %.0f MHz "
             "and %.0f MHz in most rows; reasons for throttling: %s",
             worst->at.line, worst->least_sm_clock_mhz, worst->sm_clock_mhz, usual_mhz,
             worst->throttle);
  for (size_t i = 0; i < series->n_points; i++)
    if (profile_clock_fell(row_at(report, series, i), usual_mhz))
      check_add_row(report, series->points[i].row);
}

/* ---- Constant multiples ---- */

#define SAME_RATIO 1e-6
enum { MIN_MULTIPLES = 5 };

static int compare_work(const SeriesPoint *a, const SeriesPoint *b) {
  if (a->x != b->x) return a->x < b->x ? -1 : 1;
  if (a->y != b->y) return a->y < b->y ? -1 : 1;
  return (a->z > b->z) - (a->z < b->z);
}

/* Walks the points that both series have; the n-th replicates of a point belong together. True when
 * the ratio of their times is the same for enough of them, and they are not all one time. */
static bool is_multiple(const CheckReport *report, const Series *other, const Series *series,
                        double *ret_ratio) {
  size_t matched = 0, i = 0, k = 0;
  double ratio = 0, first_us = 0;
  bool varies = false;
  while (i < series->n_points && k < other->n_points) {
    const SeriesPoint *a = &series->points[i], *b = &other->points[k];
    int order = compare_work(a, b);
    if (order != 0) {
      *(order < 0 ? &i : &k) += 1;
      continue;
    }
    double us = row_at(report, series, i++)->median_us;
    double this_ratio = us / row_at(report, other, k++)->median_us;
    if (matched++ == 0) {
      ratio = this_ratio;
      first_us = us;
    }
    if (fabs(this_ratio / ratio - 1) > SAME_RATIO) return false;
    varies |= us != first_us;
  }
  *ret_ratio = ratio;
  return matched >= MIN_MULTIPLES && varies;
}

void check_multiple(CheckReport *report, const Series *other, const Series *series) {
  double ratio = 0;
  if (!is_multiple(report, other, series, &ratio)) return;
  check_find(report, CHECK_MULTIPLE, series,
             "every time is %.6g times that of '%s' on '%s', tensor_parallel_size %d: these times "
             "were computed, not measured",
             ratio, other->group->model, other->group->gpu,
             (int)other->group->tensor_parallel_size);
  for (size_t i = 0; i < series->n_points; i++)
    check_add_row(report, series->points[i].row);
}

/* ---- Zeros ---- */

static const struct {
  const char *column;
  size_t offset;
} NEVER_ZERO[] = {
    {"power_w", offsetof(ProfileRow, power_w)},
    {"sm_clock_mhz", offsetof(ProfileRow, sm_clock_mhz)},
    {"mem_clock_mhz", offsetof(ProfileRow, mem_clock_mhz)},
    {"roofline_fraction", offsetof(ProfileRow, roofline_fraction)},
};
enum { N_NEVER_ZERO = sizeof NEVER_ZERO / sizeof *NEVER_ZERO };

/* Whether a row has the i-th of these zeros, or, past the last, samples without a spread. */
static bool has_zero(const ProfileRow *row, size_t i) {
  if (i < N_NEVER_ZERO) return *(const double *)((const char *)row + NEVER_ZERO[i].offset) == 0;
  return row->samples >= 2 && (row->mad_us == 0 || row->p10_us == row->p90_us);
}

void check_zeros(CheckReport *report, const Series *series) {
  for (size_t zero = 0; zero <= N_NEVER_ZERO; zero++) {
    bool found = false;
    for (size_t i = 0; i < series->n_points; i++) {
      if (!has_zero(row_at(report, series, i), zero)) continue;
      if (!found && zero < N_NEVER_ZERO)
        check_find(report, CHECK_ZERO, series,
                   "'%s' is 0; a value that was not measured must be left empty",
                   NEVER_ZERO[zero].column);
      else if (!found)
        check_find(report, CHECK_ZERO_SPREAD, series,
                   "several samples have no spread: their clock is too coarse, or the spread was "
                   "not recorded");
      found = true;
      check_add_row(report, series->points[i].row);
    }
  }
}
