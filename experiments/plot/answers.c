/* The figures of `tandem plan --figure`: what tokens cost against how fast users get them, for
 * plots/pareto.gp; attainment and goodput against the rate, for plots/curve.gp. */
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/plot.h"
#include <math.h>
#include <string.h>

enum { SERIES_MAX = 49 };

/* ---- Fronts ---- */

/* Points of one answer; `outcome` NULL: of all answers of a question. */
typedef struct AnswerSeries {
  const Front *front;
  const DesignOutcome *outcome;
  const char *name;
} AnswerSeries;

static bool is_drawn(const FrontPoint *point) {
  return isfinite(front_cost(point)) && isfinite(point->tokens_per_user);
}

/* The answers of a front in the order of its points; of one with a name all are one series. */
static int add_series(AnswerSeries *series, int n, const PlotFront *of) {
  const int first = n;
  if (of->name && n < SERIES_MAX) series[n++] = (AnswerSeries){of->front, NULL, of->name};
  if (of->name) return n;
  for (int i = 0; i < of->front->n && n < SERIES_MAX; i++) {
    const FrontPoint *point = &of->front->points[i];
    bool there = !is_drawn(point);
    for (int s = first; s < n; s++)
      there |= series[s].outcome == point->outcome;
    if (there) continue;
    series[n++] = (AnswerSeries){of->front, point->outcome, point->outcome->design->name};
  }
  return n;
}

static void write_series(FILE *out, const AnswerSeries *series, int number) {
  fprintf(out, "$series%d << END\n", number);
  for (int i = 0; i < series->front->n; i++) {
    const FrontPoint *point = &series->front->points[i];
    const bool belongs = !series->outcome || point->outcome == series->outcome;
    if (belongs && is_drawn(point))
      fprintf(out, "%.9g %.9g %d %d\n", point->tokens_per_user, front_cost(point), point->met,
              point->best);
  }
  fputs("END\n", out);
}

/* The next point by cost after `after` that is faster than all cheaper ones; NULL: none is. */
static const FrontPoint *next_best(const PlotFront *fronts, int n, const FrontPoint *after) {
  const FrontPoint *next = NULL;
  for (int f = 0; f < n; f++)
    for (int i = 0; i < fronts[f].front->n; i++) {
      const FrontPoint *point = &fronts[f].front->points[i];
      if (!is_drawn(point) || point->saturated) continue;
      if (after && (front_cost(point) < front_cost(after) ||
                    !(point->tokens_per_user > after->tokens_per_user)))
        continue;
      if (!next || front_cost(point) < front_cost(next) ||
          (front_cost(point) == front_cost(next) && point->tokens_per_user > next->tokens_per_user))
        next = point;
    }
  return next;
}

static int write_marks(FILE *out, const PlotFront *fronts, int n) {
  int n_marks = 0;
  fputs("$marks << END\n", out);
  for (const FrontPoint *at = next_best(fronts, n, NULL); at; at = next_best(fronts, n, at)) {
    fprintf(out, "%.9g %.9g - 0\n", at->tokens_per_user, front_cost(at));
    n_marks++;
  }
  fputs("END\n", out);
  return n_marks;
}

int plot_fronts(const PlotFront *fronts, int n, const char *title, const PlotPlace *place,
                Arena *arena, Diag *diag) {
  AnswerSeries series[SERIES_MAX];
  Gnuplot gnuplot;
  int n_series = 0;
  bool priced = true;
  for (int f = 0; f < n; f++) {
    n_series = add_series(series, n_series, &fronts[f]);
    priced &= fronts[f].front->n == 0 || !isnan(fronts[f].front->points[0].cost);
  }
  if (n_series == 0)
    return diag_error(diag, place_of_file(place->path), "there is no answer to draw");
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  for (int s = 0; s < n_series; s++) {
    write_series(gnuplot.script, &series[s], s + 1);
    gnuplot_set(&gnuplot, arena_printf(arena, "name%d", s + 1), series[s].name);
  }
  fprintf(gnuplot.script, "n_series = %d\nn_marks = %d\n", n_series,
          write_marks(gnuplot.script, fronts, n));
  if (!priced) gnuplot_set(&gnuplot, "cost_label", "GPU seconds per million output tokens, or $");
  gnuplot_set(&gnuplot, "speed_label", "output tokens/s that a user sees (1 / mean TPOT)");
  gnuplot_set(&gnuplot, "heading", title);
  return gnuplot_draw(&gnuplot, "pareto", title, diag);
}

/* ---- Curves ---- */

/* One series: its points of a panel are beside each other, so that a line goes through them. */
static void write_curve(FILE *out, const Curve *curve, const DesignOutcome *outcome, int number) {
  fprintf(out, "$series%d << END\n", number);
  for (int panel = 1; panel <= 2; panel++)
    for (int i = 0; i < curve->n; i++) {
      const CurvePoint *point = &curve->points[i];
      const CurveRange *range = panel == 1 ? &point->attained : &point->goodput;
      const double scale = panel == 1 ? 100 : 1;
      if (point->outcome == outcome)
        fprintf(out, "%d %.9g %.9g %.9g %.9g\n", panel, point->rate, scale * range->value,
                scale * range->low, scale * range->high);
    }
  fputs("END\n", out);
}

int plot_curve(const Curve *curve, double share, const char *title, const PlotPlace *place,
               Arena *arena, Diag *diag) {
  Gnuplot gnuplot;
  int n_series = 0;
  if (curve->n == 0)
    return diag_error(diag, place_of_file(place->path), "there is no answer to draw");
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  for (int i = 0; i < curve->n; i++) {
    const DesignOutcome *outcome = curve->points[i].outcome;
    if (i > 0 && curve->points[i - 1].outcome == outcome) continue;
    write_curve(gnuplot.script, curve, outcome, ++n_series);
    gnuplot_set(&gnuplot, arena_printf(arena, "name%d", n_series),
                arena_printf(arena, "%s (%s)", outcome->design->name,
                             plan_instances(&outcome->answers[0], arena)));
  }
  fprintf(gnuplot.script, "n_series = %d\nshare = %.9g\n", n_series, 100 * share);
  gnuplot_set(&gnuplot, "heading", title);
  return gnuplot_draw(&gnuplot, "curve", title, diag);
}
