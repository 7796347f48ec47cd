/* Least squares under linear limits: what every term of a fit is solved with.
 *
 * Minimises |rows·x − targets|² subject to limits·x >= 0. The free problem is solved by QR (GSL);
 * when its solution breaks a limit, the problem becomes a least-distance one whose dual is
 * non-negative least squares (Lawson & Hanson 1974, ch. 23), solved by their active set. GSL has
 * neither. A ridge of 1e-7 of the longest column keeps what the data leaves open at its limits. */
#ifndef PERFMODEL_FIT_SOLVE_H
#define PERFMODEL_FIT_SOLVE_H

typedef struct FitSystem {
  int n_rows, n_columns, n_limits;
  const double *rows;    // [n_rows][n_columns], each times the square root of its weight
  const double *targets; // [n_rows], likewise
  const double *limits;  // [n_limits][n_columns]; x = 0 must keep them
} FitSystem;

/* Returns the sum of squares. `ret_multipliers` ([n_limits], may be NULL): the Kuhn-Tucker
 * multipliers of the limits, >= 0, and 0 where a limit is not met with equality. */
double fit_solve(const FitSystem *self, double *ret_x, double *ret_multipliers);
#endif
