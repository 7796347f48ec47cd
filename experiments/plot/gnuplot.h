/* Pictures by gnuplot, which reads data and script from a pipe and draws into a file of ours: no
 * text of a user is among its commands. */
#ifndef EXPERIMENTS_PLOT_GNUPLOT_H
#define EXPERIMENTS_PLOT_GNUPLOT_H
#include "base/output.h"
#include "experiments/plot/plot.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct Gnuplot {
  FILE *script; // what is written here is run
  /* private: gnuplot.c */
  PlotPlace place;
  Arena *arena;
  Output picture;
  FILE *drawn; // what gnuplot has made of it
  long process;
} Gnuplot;

/* Starts gnuplot in the folder `data_root`. The place and the arena must live until gnuplot_draw.
 */
int gnuplot_open(Gnuplot *self, const PlotPlace *place, const char *data_root, Arena *arena,
                 Diag *diag);
/* Sets a variable to a text, with spaces for control characters. */
void gnuplot_set(Gnuplot *self, const char *name, const char *text);
/* What was run, a part of it in each line, for the corner. */
void gnuplot_corner(Gnuplot *self, const char *corner, Arena *arena);
/* Runs plots/NAME.gp below the data root and ends; what gnuplot cannot do it says on stderr. */
int gnuplot_draw(Gnuplot *self, const char *name, const char *title, Diag *diag);

/* private: svg.c. Copies a drawing with `title` as its title. With `id` (NULL: a file of its own)
 * it is a part of an HTML page: without a prologue and a size of its own, the page's font, `id`
 * before each of its ids, and every colour as a variable of CSS, `var(--figure-0072b2,#0072b2)`. */
void svg_copy(FILE *drawn, const char *title, const char *id, Arena *arena, FILE *out);
#endif
