/* Between a question and its study: what it means, and how designs are called. */
#ifndef EXPERIMENTS_PLAN_QUESTION_H
#define EXPERIMENTS_PLAN_QUESTION_H
#include "experiments/plan/plan.h"

/* Fills all but the text. -1 with entries at the options that are wrong. */
int question_resolve(Plan *self, const Question *question, Arena *arena, Diag *diag);
/* "tp2", "tp1-dp4-ep4". */
const char *shape_name(Parallelism shape, Arena *arena);
#endif
