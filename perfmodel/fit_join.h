/* Operators and whole iterations as one model.
 *
 * Operators give curves their shape, but the simulator predicts iterations: what those took apart
 * from the sum of their operators is modelled in one of five ways, each with an overhead, and the
 * one that predicts held-out iterations best is kept.
 *
 *   sum     the curves of the operators as they are
 *   filled  likewise, and `linear` has knots at numbers of tokens that only iterations have had:
 *           what these leave beside their other terms. Products jump at the edges of their tiles
 *   levels  each curve times a factor, pulled towards 1
 *   joint   after that, the times at all knots again: least squares over operators, at those
 *           levels, and iterations together; an operator's error counts by its share of the
 *           iteration that such a batch makes
 *   led     likewise, with iterations weighing ten times as much: operators only say what no
 *           iteration does */
#ifndef PERFMODEL_FIT_JOIN_H
#define PERFMODEL_FIT_JOIN_H
#include "perfmodel/fit_model.h"

typedef enum FitWay { FIT_SUM, FIT_FILLED, FIT_LEVELS, FIT_JOINT, FIT_LED, FIT_WAYS } FitWay;

/* "sum", "filled", "levels", "joint", "led". */
const char *fit_way_name(FitWay way);

/* What was fitted to operators alone. */
typedef struct FitOperators {
  const FitModel *model;
  const FitPoint *points;
  int n_points;
} FitOperators;

/* Factors of a term's curve, 1 where it has none. */
typedef struct FitLevels {
  double of[PROFILE_TERMS];
} FitLevels;

/* How many ways there are: tables are too many numbers to solve for, and say all of them well. */
FitWay fit_join_ways(const FitModel *operators);
/* `n_iterations` >= 1. */
void fit_join(FitModel *ret_model, FitLevels *ret_levels, const FitOperators *operators, FitWay way,
              const FitPoint *iterations, int n_iterations, Arena *arena);
#endif
