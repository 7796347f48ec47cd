/* Private to experiments/plot: what gnuplot draws as SVG, made fit for where it goes. */
#ifndef EXPERIMENTS_PLOT_SVG_H
#define EXPERIMENTS_PLOT_SVG_H
#include "base/arena.h"
#include <stdio.h>

/* Copies a drawing with `title` as its title. With `id` (NULL: a file of its own) it is a part of
 * an HTML page: without a prologue and a size of its own, the page's font, `id` before each of its
 * ids, and every colour as a variable of CSS, `var(--figure-0072b2,#0072b2)`. */
void svg_copy(FILE *drawn, const char *title, const char *id, Arena *arena, FILE *out);
#endif
