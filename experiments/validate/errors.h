/* Private to experiments/validate: from the runs of a validation to its errors. */
#ifndef EXPERIMENTS_VALIDATE_ERRORS_H
#define EXPERIMENTS_VALIDATE_ERRORS_H
#include "experiments/validate/validate.h"

/* Mean, median, p95, worst and bias of signed errors, of which those that are NAN are left out; the
 * array has their sizes then. */
ValidateErrors validate_summary(double *errors, size_t n);
/* Of each part of the iterations. */
void validate_iteration_errors(const ValidateIteration *iterations, size_t n,
                               ValidateErrors ret_errors[VALIDATE_PARTS], Arena *arena);
/* Fills errors, latencies and repeats from the runs. */
void validate_errors(Validation *self, Arena *arena);
#endif
