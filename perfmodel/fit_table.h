/* Terms of tables: measured on a grid, each point once, without noise.
 *
 * The fact `grid` of a profile says so. Such tables are followed, not searched: a row for each key
 * that has enough points, all rows on one grid of x, its cells by lines between samples
 * (fit_cells.h), times made to rise as physics demands by pooling what does not (pool adjacent
 * violators, by weights of relative errors), and then the rows and knots left out that the others
 * say within a tolerance. What is held out is predicted by the same done without it, so a table of
 * thousands of points takes a fraction of a second. */
#ifndef PERFMODEL_FIT_TABLE_H
#define PERFMODEL_FIT_TABLE_H
#include "perfmodel/fit_model.h"

/* The fact of a grid whose curves of one variable are followed though they have few points: each is
 * the edge of a tile or between two. */
extern const char fit_grid_few[];

/* Whether points are such a table: at least so many, of one row each, without spread. */
bool fit_is_table(const FitPoint *points, int n_points, int least);
/* Whether points of a term can be followed like one: of two variables, with little noise. */
bool fit_table_can(FitTerm term, const FitPoint *points, int n_points);
enum { FIT_GRID_POINTS = 64, FIT_GRID_FEW = 8 };
/* Fills the term of a task. False where the points do not make one: fewer than two keys. `sparse`:
 * they are no grid, but so few that each counts. */
bool fit_table_build(FitModel *self, FitTerm term, const FitPoint *points, int n_points,
                     bool sparse, Arena *arena);
enum { FIT_POOLED_MAX = 256 };
/* The nearest values that do not fall, by squared errors of these weights; those `step` apart are
 * of one series of at most FIT_POOLED_MAX. Whether any fell. */
bool fit_pool(double *y, const double *weight, int n, int step);
#endif
