/* Arithmetic over figures: "aa.rate / base_a100.rate - 1", as claims of papers are stated.
 *
 * Numbers, + - * /, comparisons (< <= > >=, which give 1 or 0), `and`, parentheses, and names of
 * figures: words joined by dots, with arguments if the figure takes any (h100.prefill(1500)). Their
 * meaning is the scope's. Built in are min(…), max(…), mean(…), geomean(…), and
 *
 *   at_max(x1, y1, x2, y2, …)      the x of the greatest y; the first one if several are equal
 *   reaches(y, x1, y1, x2, y2, …)  the x at which the line through these points first reaches y;
 *                                  NAN if it never does
 *
 * A figure that does not exist in one case (a run that was not made) is NAN and makes the whole
 * NAN. SQLite would not serve: x / 0 and `0 and NULL` have other values there, and postfix % and
 * dots in names of functions are no SQL. */
#ifndef EXPERIMENTS_CLAIMS_EXPRESSION_H
#define EXPERIMENTS_CLAIMS_EXPRESSION_H
#include "base/diag.h"

typedef struct Expression {
  const char *text;
  Place at;
} Expression;

/* Looks up names. `find` gives 0 and the figure, NAN when it has no value, or -1 with an entry at
 * `at` when there can be no such figure. */
typedef struct ExpressionScope {
  int (*find)(void *context, const char *name, const double *arguments, int n_arguments, Place at,
              double *ret_value, Diag *diag);
  void *context;
} ExpressionScope;

/* -1 with one entry, whose column is inside `self->at`, when something is wrong. A NULL `scope`
 * checks the text alone: no name is looked up. */
int expression_eval(const Expression *self, const ExpressionScope *scope, double *ret_value,
                    Diag *diag);
#endif
