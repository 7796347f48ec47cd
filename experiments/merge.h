/* Databases of results joined to one. */
#ifndef EXPERIMENTS_MERGE_H
#define EXPERIMENTS_MERGE_H
#include "experiments/results.h"

typedef struct Merge {
  const char *out;
  const char *const *paths; // [n_paths]
  int n_paths;
  bool partial;         // sweeps may lack points
  const char **missing; // [n_missing], a sentence for each part of a sweep that is not there
  size_t n_missing;
  int64_t runs, stale; // in the result; of those, made by programs with other outcomes
} Merge;

/* Joins `paths` to a new database at `out`, which appears whole or not at all; fills the rest. What
 * several of them say about one configuration becomes one run; results of different outcome epochs
 * stay apart, as runs and as sweeps. Errors are differing outcomes of
 * one configuration, differing versions, a database that a sweep is writing to, and, unless
 * `partial`, what is missing. */
int merge_databases(Merge *self, Arena *arena, Diag *diag);
#endif
