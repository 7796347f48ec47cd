/* What a check of recorded runs has of the engine that they are of. */
#ifndef TESTS_DIFFERENTIAL_RUNS_H
#define TESTS_DIFFERENTIAL_RUNS_H
#include "base/arena.h"
#include "base/diag.h"

typedef struct RunCheck {
  const char *name, *difference; // NULL: none
  const char *cause;             // of a difference that is known; NULL: it is not
  size_t n_steps, n_requests;
} RunCheck;

extern const char *const runs_folder; // under DATA_DIR
extern const char *const runs_more[]; // further ones, if they are there; NULL: no more
/* Replays a run: 1 if all is as recorded, 0 if not; -1 with entries in `diag`. */
int run_check(RunCheck *ret_check, const char *path, Arena *arena, Diag *diag);
#endif
