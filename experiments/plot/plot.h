/* The figures of `tandem plot` and of `tandem report`, by what they are drawn from. */
#ifndef EXPERIMENTS_PLOT_PLOT_H
#define EXPERIMENTS_PLOT_PLOT_H
#include "experiments/measured/measured.h"
#include "sim/base/diag.h"
#include <stdbool.h>

/* A fitted model: what was measured, the fit, how far it is off. With `profile` (NULL: none), it is
 * an error if the model was fitted to another. */
int plot_fit(const char *model, const char *profile, const char *path, Arena *arena, Diag *diag);
/* plots/NAME.sql over a database of results, drawn by plots/NAME.gp. */
int plot_query(const char *name, const char *database, const char *path, Arena *arena, Diag *diag);
/* Predictions against measurements, without points that something was fitted to. */
int plot_measured(const Measured *measured, const char *path, Arena *arena, Diag *diag);
/* The names that plot_query knows, NULL-terminated. */
const char *const *plot_query_names(Arena *arena);
/* Whether the name of a picture ends in a format that can be drawn: .png or .svg. */
bool gnuplot_can_draw(const char *path);
#endif
