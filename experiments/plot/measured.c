/* The figure of `tandem report measured`: predictions against measurements, for
 * plots/measured.gp. */
#include "experiments/measured/measured.h"
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/plot.h"
#include <math.h>
#include <string.h>

/* Engines in the order in which they come. */
typedef struct Engines {
  const char **names; // [n]
  int n;
} Engines;

/* From 1. */
static int engine_number(const Engines *engines, const char *name) {
  int i = 0;
  while (i < engines->n && strcmp(engines->names[i], name) != 0)
    i++;
  return i + 1;
}

static bool is_drawn(const MeasuredPoint *point, MeasuredFigure figure) {
  return measured_is_held_out(point, figure) && !isnan(measured_error(point, figure)) &&
         point->predicted[figure] > 0;
}

static Engines find_engines(const Measured *measured, Arena *arena) {
  Engines engines = {ARENA_ARRAY(arena, const char *, measured->n_points), 0};
  for (size_t i = 0; i < measured->n_points; i++) {
    const MeasuredPoint *point = &measured->points[i];
    bool drawn = false;
    for (int f = 0; f < MEASURED_FIGURES; f++)
      drawn |= is_drawn(point, (MeasuredFigure)f);
    if (drawn && engine_number(&engines, point->engine) > engines.n)
      engines.names[engines.n++] = point->engine;
  }
  return engines;
}

/* One data block per figure that has points. */
static void write_panels(FILE *out, const Measured *measured, const Engines *engines) {
  static const char *const titles[MEASURED_FIGURES] = {"TTFT, s", "TPOT, s",
                                                       "output tokens/s per GPU", "E2E, s"};
  int n_panels = 0;
  for (int f = 0; f < MEASURED_FIGURES; f++) {
    bool any = false;
    for (size_t i = 0; i < measured->n_points; i++) {
      const MeasuredPoint *point = &measured->points[i];
      if (!is_drawn(point, (MeasuredFigure)f)) continue;
      if (!any) fprintf(out, "$panel%d << END\n", ++n_panels);
      any = true;
      fprintf(out, "%.9g %.9g %d\n", point->measured[f], point->predicted[f],
              engine_number(engines, point->engine));
    }
    if (any) fprintf(out, "END\ntitle%d = '%s'\n", n_panels, titles[f]);
  }
  fprintf(out, "n_panels = %d\n", n_panels);
}

int plot_measured(const Measured *measured, const PlotPlace *place, Arena *arena, Diag *diag) {
  Gnuplot gnuplot;
  const Engines engines = find_engines(measured, arena);
  if (engines.n == 0)
    return diag_error(diag, place_of_file(place->path), "there is no prediction to draw");
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  write_panels(gnuplot.script, measured, &engines);
  for (int e = 0; e < engines.n; e++)
    gnuplot_set(&gnuplot, arena_printf(arena, "name%d", e + 1), engines.names[e]);
  fprintf(gnuplot.script, "n_series = %d\n", engines.n);
  return gnuplot_draw(&gnuplot, "measured", "measured against predicted", diag);
}
