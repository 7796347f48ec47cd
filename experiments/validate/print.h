/* Private to experiments/validate: what its tables have in common. */
#ifndef EXPERIMENTS_VALIDATE_PRINT_H
#define EXPERIMENTS_VALIDATE_PRINT_H
#include "experiments/base/cells.h"
#include "experiments/validate/validate.h"

/* Errors of iterations, a row for each part; those of CSV are figures, those of JSON members of an
 * object that the caller closes. */
void validate_put_errors(Rows *rows, const ValidateErrors errors[VALIDATE_PARTS]);
#endif
