/* `tandem plot fit`: the measurements of a fitted model, the fit and its errors, for
 * plots/fit.gp. */
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/plot.h"
#include "perfmodel/fit_file.h"

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

/* One data block per panel: x, measured and fitted ms, and the error in percent. */
static void write_panels(FILE *out, const FitRecord *record, const PerfModel *model) {
  for (int part = 0, panel = 0; part < FIT_PARTS; part++) {
    if (!has_points(record, (FitPart)part)) continue;
    fprintf(out, "$panel%d << END\n", ++panel);
    for (int i = 0; i < record->n_points; i++) {
      const FitPoint *point = &record->points[i];
      if (fit_part(point->op, &point->batch) != (FitPart)part) continue;
      const double seconds = fit_record_eval(model, point);
      fprintf(out, "%lld %.9g %.9g %.6g\n", (long long)panel_x((FitPart)part, &point->batch),
              1e3 * point->seconds, 1e3 * seconds, 100 * (seconds / point->seconds - 1));
    }
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
  write_panels(gnuplot.script, record, model);
  fprintf(gnuplot.script, "panels = %d\n", n_panels);
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
