/* Two sets of stored runs side by side: what differs in their configuration, then each figure with
 * its change, the interval of the change, and whether it is more than seeds make.
 *
 * A side is named by a run's number, by KEY=VALUE of its configuration or of an axis, by the name
 * of its configuration, or by a design of a sweep or of an offline study; in place of two names,
 * two databases. What varies within a side (but for the seed) is what pairs are made by, so each
 * pair differs by what is compared alone. */
#ifndef EXPERIMENTS_COMPARE_COMPARE_H
#define EXPERIMENTS_COMPARE_COMPARE_H
#include "experiments/base/writer.h"
#include "experiments/results/results.h"

typedef struct CompareQuestion {
  const char *paths[2];       // of databases; [1] NULL: both sides are of the first
  const char *names[2];       // of sides; NULL: all runs
  const char *const *where;   // KEY=VALUE of both sides, NULL-terminated, or NULL
  const char *const *figures; // names, NULL-terminated; NULL: a selection
  bool all;                   // figures
} CompareQuestion;

typedef struct Side Side;
typedef struct Compared Compared;

typedef struct Compare {
  Side *sides;       // [2]
  Compared *figures; // [n_figures]
  size_t n_figures;
  bool paired;
  size_t n_pairs;      // of runs; 0 when not paired
  size_t n_different;  // observations: of pairs, or runs of the side that has fewer
  int64_t runs, stale; // on both sides
  Results results[2];
  Arena *arena;
  Diag *diag;
} Compare;

/* Opens the databases, finds the runs and compares them. -1 with entries; closed in any case. */
int compare_open(Compare *self, const CompareQuestion *question, Arena *arena, Diag *diag);
void compare_close(Compare *self);
void compare_print(const Compare *self, OutputFormat format, FILE *out);
/* The runs that ended by themselves and that a question's `names` (NULL-terminated; NULL: all) and
 * `where` say, as a list of numbers in JSON; NULL with an entry. */
const char *compare_find_runs(Results *results, const char *const *names, const char *const *where,
                              Arena *arena, Diag *diag);
#endif
