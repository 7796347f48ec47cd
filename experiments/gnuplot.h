/* Pictures by gnuplot, which reads data and script from a pipe. */
#ifndef EXPERIMENTS_GNUPLOT_H
#define EXPERIMENTS_GNUPLOT_H
#include "sim/base/diag.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct Gnuplot {
  FILE *script; // what is written here is run
  const char *path;
} Gnuplot;

/* Whether the name of a picture ends in a format that can be drawn: .png or .svg. */
bool gnuplot_can_draw(const char *path);
/* Starts gnuplot, the picture's size in pixels. */
int gnuplot_open(Gnuplot *self, const char *path, int width, int height, Diag *diag);
/* name = 'text', quoted. */
void gnuplot_set(Gnuplot *self, const char *name, const char *text);
/* Runs plots/NAME.gp below the data root and ends; what gnuplot cannot do it says on stderr. */
int gnuplot_draw(Gnuplot *self, const char *name, const char *data_root, Arena *arena, Diag *diag);
#endif
