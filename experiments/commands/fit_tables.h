/* `tandem fit --tables`, `tandem calibrate --tables`: tables of kernels from profiles. */
#ifndef EXPERIMENTS_COMMANDS_FIT_TABLES_H
#define EXPERIMENTS_COMMANDS_FIT_TABLES_H
#include "base/diag.h"
#include "experiments/base/cells.h"

/* Writes the tables of the profiles below `root` and prints, for each model in them, how far what
 * is composed of the tables is from the iterations that were measured beside. */
int fit_tables(const char *const *paths, int n, const char *root, OutputFormat format, Arena *arena,
               Diag *diag);
#endif
