/* Holds the operators of a backend to their formulas (reference.h), each at the sizes that a table
 * in verify.c gives it, or at any size that is timed.
 *
 * A backend gives three calls (backend.h): `prepare` a point, `run` it once, `move` rows of what it
 * reads and writes. Nothing else of it is known, and it may be anybody's. Outputs are
 * overwritten with NaN before the run. Inputs and weights are read from the backend, the reference
 * computes what should have come out of them, and every row that comes out is compared by ‖out −
 * reference‖ / ‖reference‖: a row that is missing is not thinned out by those that are right.
 * Copies and indices must be exact.
 *
 * Of large points, some rows and columns are compared: the first and the last of sequences, and
 * what lies evenly between. */
#ifndef CALIB_VERIFY_H
#define CALIB_VERIFY_H
#include "calib/backend.h"

typedef struct VerifyTarget {
  const Backend *backend;
  void *state; // with the model loaded
  const CalibModel *model;
} VerifyTarget;

/* What an operator's result may be off by: what its roundings add to one another as numbers of the
 * model's type, plus 1e-4 for sums in fp32 in any order. */
double verify_tolerance(const CalibModel *model, CalibOp op);

/* The greatest error of the operator at the sizes of the table; NAN when this backend has no such
 * operator, or it is one that cannot be verified. CALIB_WRONG with a line in `error` when it is
 * beyond the tolerance, any other status as the backend gives it. The prepared point is lost. */
CalibStatus verify_operator(const VerifyTarget *target, CalibOp op, double *ret_error, char *error);

/* The same of one point. Of an iteration and its terms at most three layers are run, of large ones
 * a single one. */
CalibStatus verify_point(const VerifyTarget *target, const CalibPoint *point, double *ret_error,
                         char *error);
#endif
