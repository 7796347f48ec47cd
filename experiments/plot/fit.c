/* `tandem plot fit`: the measurements of a fitted model, the fit and its errors, for
 * plots/fit.gp. */
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/plot.h"
#include "perfmodel/fit_file.h"
#include <stdlib.h>

/* What a panel has along x. */
static int64_t panel_x(FitPart part, const BatchShape *batch) {
  if (part == FIT_DECODE) return batch->decode_seqs;
  return fit_x(part < FIT_OPERATORS ? PROFILE_LINEAR : (ProfileOp)(part - FIT_OPERATORS), batch);
}

static const char *panel_label(FitPart part) {
  static const char *const labels[] = {
      [FIT_PREFILL] = "prompt tokens",
      [FIT_DECODE] = "sequences",
      [FIT_MIXED] = "new tokens",
      [FIT_OPERATORS + PROFILE_LINEAR] = "new tokens",
      [FIT_OPERATORS + PROFILE_PREFILL_ATTENTION] = "sum of new * (2 * past + new)",
      [FIT_OPERATORS + PROFILE_DECODE_ATTENTION] = "context tokens",
      [FIT_OPERATORS + PROFILE_HEAD] = "sequences that need logits"};
  return labels[part];
}

static bool has_points(const FitRecord *record, FitPart part) {
  for (int i = 0; i < record->n_points; i++)
    if (fit_part(record->points[i].op, &record->points[i].batch) == part) return true;
  return false;
}

/* What else a time depends on; points of one curve have the same. -1: each has its own. */
static int64_t panel_curve(FitPart part, const BatchShape *batch) {
  const int64_t prompt = batch->prefill_tokens, n = batch->decode_seqs;
  if (part == FIT_MIXED) return -1;
  if (part == FIT_PREFILL && prompt > 0) return batch->prefill_area2 / prompt - prompt; // past
  if (part == FIT_DECODE && n > 0) return batch->context_tokens / n;
  return part == FIT_OPERATORS + PROFILE_DECODE_ATTENTION ? n : 0;
}

typedef struct PanelPoint {
  int64_t curve, x;
  double measured, fitted; // seconds
} PanelPoint;

static int compare_points(const void *a, const void *b) {
  const PanelPoint *one = a, *other = b;
  if (one->curve != other->curve) return one->curve < other->curve ? -1 : 1;
  if (one->x != other->x) return one->x < other->x ? -1 : 1;
  return (one->measured > other->measured) - (one->measured < other->measured);
}

/* x, measured and fitted ms, and the error in percent; an empty line ends a curve. */
static void write_points(FILE *out, PanelPoint *points, int n) {
  qsort(points, (size_t)n, sizeof *points, compare_points);
  for (int i = 0; i < n; i++) {
    const PanelPoint *point = &points[i];
    if (i > 0 && (point->curve < 0 || point->curve != points[i - 1].curve)) putc('\n', out);
    fprintf(out, "%lld %.9g %.9g %.6g\n", (long long)point->x, 1e3 * point->measured,
            1e3 * point->fitted, 100 * (point->fitted / point->measured - 1));
  }
}

/* One data block per panel. */
static void write_panels(FILE *out, const FitRecord *record, const PerfModel *model, Arena *arena) {
  PanelPoint *points = ARENA_ARRAY(arena, PanelPoint, record->n_points);
  for (int part = 0, panel = 0; part < FIT_PARTS; part++) {
    if (!has_points(record, (FitPart)part)) continue;
    int n = 0;
    for (int i = 0; i < record->n_points; i++) {
      const FitPoint *point = &record->points[i];
      if (fit_part(point->op, &point->batch) != (FitPart)part) continue;
      points[n++] = (PanelPoint){panel_curve((FitPart)part, &point->batch),
                                 panel_x((FitPart)part, &point->batch), point->seconds,
                                 fit_record_eval(model, point)};
    }
    fprintf(out, "$panel%d << END\n", ++panel);
    write_points(out, points, n);
    fprintf(out, "END\ntitle%d = '%s'\nlabel%d = '%s'\n", panel, fit_part_name((FitPart)part),
            panel, panel_label((FitPart)part));
  }
}

static int64_t most_decodes(const FitRecord *record) {
  int64_t most = 1;
  for (int i = 0; i < record->n_points; i++)
    if (record->points[i].batch.decode_seqs > most) most = record->points[i].batch.decode_seqs;
  return most;
}

static int draw(const FitRecord *record, const PerfModel *model, const PlotPlace *place,
                Arena *arena, Diag *diag) {
  Gnuplot gnuplot;
  int n_panels = 0;
  for (int part = 0; part < FIT_PARTS; part++)
    n_panels += has_points(record, (FitPart)part);
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  write_panels(gnuplot.script, record, model, arena);
  fprintf(gnuplot.script, "n_panels = %d\n", n_panels);
  gnuplot_set(&gnuplot, "heading", model->name);
  return gnuplot_draw(&gnuplot, "fit", arena_printf(arena, "fit of %s", model->name), diag);
}

int plot_fit(const char *model_path, const char *profile_path, const PlotPlace *place, Arena *arena,
             Diag *diag) {
  FitRecord record;
  PerfModel model;
  Profile profile;
  if (fit_record_load(&record, model_path, arena, diag) ||
      perfmodel_load(&model, model_path, most_decodes(&record), arena, diag))
    return -1;
  if (profile_path && (profile_load(&profile, profile_path, arena, diag) ||
                       fit_record_check(&record, &profile, diag)))
    return -1;
  return draw(&record, &model, place, arena, diag);
}
