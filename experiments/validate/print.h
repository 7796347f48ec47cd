/* Private to experiments/validate: what its tables have in common. */
#ifndef EXPERIMENTS_VALIDATE_PRINT_H
#define EXPERIMENTS_VALIDATE_PRINT_H
#include "experiments/base/cells.h"
#include "experiments/validate/validate.h"

/* What the two sides of latencies are called, and whether they have repeats. */
typedef struct ValidateSides {
  const char *predicted, *measured;
  bool repeat;
} ValidateSides;

/* A row for each; those of CSV are figures. */
void validate_put_latencies(Rows *rows, const ValidateLatency *latencies, int n,
                            const ValidateSides *sides);
/* The verdict, met or not, and the latency that is off most. */
void validate_print_worst(ValidateVerdict verdict, const ValidateLatency *worst, double within,
                          FILE *out);
/* Errors of iterations, a row for each part; those of CSV are figures, those of JSON members of an
 * object that the caller closes. */
void validate_put_errors(Rows *rows, const ValidateErrors errors[VALIDATE_PARTS]);
#endif
