/* Private to experiments/compare: which runs a side is, what their configurations say, and which
 * run of the other side each is like. */
#ifndef EXPERIMENTS_COMPARE_SIDE_H
#define EXPERIMENTS_COMPARE_SIDE_H
#include "experiments/compare/compare.h"

typedef struct SideRun {
  int64_t id, seed;
  uint64_t place;    // of the keys that vary, but for the seed
  uint64_t outcomes; // its digest
  bool repeated;     // those of another of its side, or of its pair those of another pair
} SideRun;

/* Stands among the keys for the version and commit that made the runs. */
#define SIDE_PROGRAM "(program)"

/* A key of its runs' configurations. */
typedef struct Param {
  const char *key, *value; // a value, the only one unless `varies`
  int64_t n_values;
  bool varies; // or is missing in some
} Param;

struct Side {
  Results *results;
  const char *name; // for people
  SideRun *runs;    // [n_runs]; in pairs, the order of the pairs
  size_t n_runs;
  const char *ids; // of the runs, a list in JSON
  Param *params;   // [n_params], by key
  size_t n_params;
  bool measured; // all of them
  bool answers; // of a design: what varies with the seed is what the study found, no other question
  int64_t stale;
};

/* Fills `runs` with what `name` (NULL: all) and `where` say; -1 with an entry when that is none. */
int side_find(Side *self, const char *name, const char *const *where, Arena *arena, Diag *diag);
/* Reads the keys of the runs as they are now. */
int side_load_params(Side *self, Arena *arena, Diag *diag);
/* A key that differs between its runs, not counting the seed; NULL: they are replicates. */
const Param *side_varying(const Side *self);
/* The key, NULL when no run has it. */
const Param *side_param(const Side *self, const char *key);
/* Leaves, of both sides, the runs that have a partner, in the same order, and returns how many. 0
 * where none has one, or one alone has while both sides have other replicates: then all are left.
 * -1 with an entry. */
int64_t side_pair(Side *a, Side *b, Arena *arena, Diag *diag);
/* Says of each run whether it is `repeated`; `partner` is the other side of pairs, NULL where there
 * are none. Returns how many are not. */
size_t side_find_repeated(Side *self, const Side *partner, Arena *arena);
#endif
