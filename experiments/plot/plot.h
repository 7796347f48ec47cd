/* The figures of `tandem plot`, of `tandem report` and of pages, by what they are drawn from.
 *
 * A figure of results is plots/NAME.sql, its rows, and plots/NAME.gp. In an HTML page it is inline
 * SVG, as wide as what it stands in, in the page's font; each of its colours is a variable of CSS,
 * for which plot_css has values for light and dark pages. */
#ifndef EXPERIMENTS_PLOT_PLOT_H
#define EXPERIMENTS_PLOT_PLOT_H
#include "base/diag.h"
#include "experiments/measured/measured.h"
#include "experiments/plan/plan.h"
#include <stdbool.h>

/* Where a figure goes: to a file of its own, or into a page; of one of results also its rows, as
 * CSV, which need no gnuplot. */
typedef struct PlotPlace {
  const char *path; // .png or .svg; NULL: a page, or `rows`
  FILE *rows;
  FILE *page;
  const char *id; // a word that no other figure of the page has
} PlotPlace;

/* What a figure of results shows, where it can show several things. */
typedef struct PlotChoice {
  const char *const *metrics; // ttft.p99, pool.decode.utilization; NULL-terminated, or NULL
  const char *axis;           // along x: a key of the configuration, or a name of an axis
  const char *x, *y;          // of maps
  const char *const *runs;    // numbers, names or KEY=VALUE as in `compare`; NULL: all
  const char *const *where;   // KEY=VALUE that all of them have, or NULL
  size_t memory;              // that a run may take that is simulated again; 0: any
} PlotChoice;

/* A fitted model: what was measured, the fit, how far it is off. With `profile` (NULL: none), it is
 * an error if the model was fitted to another. */
int plot_fit(const char *model, const char *profile, const PlotPlace *place, Arena *arena,
             Diag *diag);
/* The figure NAME of a database of results, or of one run of it over time, `runs[0]` or the newest,
 * which is simulated again; without a choice (NULL) what it shows by itself. */
int plot_query(const char *name, const char *database, const PlotChoice *choice,
               const PlotPlace *place, Arena *arena, Diag *diag);
/* Whether plot_query has anything to draw. */
bool plot_fits(const char *name, const char *database, const PlotChoice *choice, Arena *arena);
/* Predictions against measurements, without points that something was fitted to. */
int plot_measured(const Measured *measured, const PlotPlace *place, Arena *arena, Diag *diag);
/* A front and what stands before the names of its designs; NULL: nothing. */
typedef struct PlotFront {
  const Front *front;
  const char *name;
} PlotFront;

/* Of [n] questions: what tokens cost against how fast users get them. */
int plot_fronts(const PlotFront *fronts, int n, const char *title, const PlotPlace *place,
                Arena *arena, Diag *diag);
/* Attainment and goodput against the rate; `share` of the requests is asked for, 0: none is. */
int plot_curve(const Curve *curve, double share, const char *title, const PlotPlace *place,
               Arena *arena, Diag *diag);
/* The names that plot_query knows, NULL-terminated. */
const char *const *plot_query_names(Arena *arena);
/* What a figure shows, in one line. */
const char *plot_about(const char *name, Arena *arena);
/* Rules for the style of a page that has figures. */
extern const char plot_css[];
/* Whether the name of a picture ends in a format that can be drawn: .png or .svg. */
bool gnuplot_can_draw(const char *path);
#endif
