/* Which points a plan is made of: tables, one for GPUs, a small one for CPUs
 * and one for engines that run whole batches.
 *
 * A row is the cross product of its lists. The lists of rows with equal operator may overlap: a
 * point counts once, in the first row that has it. */
#ifndef CALIB_GRID_H
#define CALIB_GRID_H
#include "calib/backend.h"

/* What a run that is cut short must have first. Anchors are measured again and again, to see
 * whether the machine drifts. */
typedef enum PlanClass {
  PLAN_ANCHOR,
  PLAN_COARSE,    // a valid profile: every term, from end to end
  PLAN_FINE,      // more sizes of the same
  PLAN_SUSTAINED, // a few of them for seconds on end, so that the limit of power acts
  PLAN_DETAIL,    // single operators, copies
  PLAN_CLASSES,
} PlanClass;

/* Lists end with −1. */
typedef struct GridRow {
  PlanClass class;
  CalibOp op;
  CalibMode mode;
  bool hot, busy;
  const int64_t *sizes; // of a point that is described by one
  /* Of a batch: each of `prompts` prompts has one of `chunks` after one of `pasts`; beside them
   * run one of `decodes` sequences with one of `contexts`. NULL: none of it; prompts NULL: one. */
  const int64_t *prompts, *chunks, *pasts, *decodes, *contexts;
  int64_t light; // > 0: every other decode has this context instead
} GridRow;

/* Rows, ended by one of class PLAN_CLASSES. */
extern const GridRow grid_gpu[], grid_cpu[];
/* Iterations alone, more of them: for engines that run nothing else (Backend.whole). */
extern const GridRow grid_whole[];
#endif
