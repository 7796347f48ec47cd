/* Terms that are fitted together: how many knots they get, or how iterations join operators, and
 * how well configurations that the fit has not seen are predicted. */
#ifndef PERFMODEL_FIT_TASK_H
#define PERFMODEL_FIT_TASK_H
#include "perfmodel/fit_join.h"
#include "perfmodel/fit_score.h"
#include "perfmodel/fit_search.h"

/* One operator; whole iterations, with all terms that they tell apart; or whole iterations beside
 * `operators`, whose knots are known. */
typedef struct FitTask {
  ProfileOp op;
  FitTerm term;            // the same, or that part of attention of both which is the decodes'
  const FitModel *prefill; // of that: has the other part
  const FitCurve *linear;  // of head: what it goes like between its knots, or NULL
  int grid;                // of points measured on a grid so many make a table; 0: none does
  bool table;              // it is followed, not searched (fit_table.h)
  const ProfileRow **rows;
  int n_rows;
  FitPoint *points;
  int n_points;
  uint64_t seed;
  const FitOperators *operators; // NULL: none beside the iterations
  FitPlan plan;                  // chosen where there are none
  FitWay way;                    // chosen where there are
} FitTask;

/* The points of the rows, and what of them is known. Returns how many. */
int fit_task_points(const FitTask *self, const ProfileRow *const *rows, int n, FitPoint *ret_points,
                    Arena *arena);
/* Sets `table`, `plan` or `way`: the least error on held-out configurations, or fewer knots, or a
 * simpler way, where that is within one standard error. */
void fit_task_choose(FitTask *self, Arena *arena);
/* Fits as chosen to `points`, not the task's own. `ret_levels` may be NULL. */
void fit_task_build(const FitTask *self, const FitPoint *points, int n_points, FitModel *ret_model,
                    FitLevels *ret_levels, Arena *arena);
/* Errors on configurations held out; sets `held_out` of the points. */
void fit_task_score_held_out(FitTask *self, FitErrors *held_out, Arena *arena);
/* Errors on counts of work held out, and of random splits. */
void fit_task_score(const FitTask *self, FitErrors *held_out_size, FitErrors *random, Arena *arena);
#endif
