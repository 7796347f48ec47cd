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
#endif
