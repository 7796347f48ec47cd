/* From the runs of a validation to its errors. */
#ifndef EXPERIMENTS_VALIDATE_ERRORS_H
#define EXPERIMENTS_VALIDATE_ERRORS_H
#include "experiments/validate/validate.h"

/* Fills errors, latencies and repeats from the runs. */
void validate_errors(Validation *self, Arena *arena);
#endif
