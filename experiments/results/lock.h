/* One sweep at a time writes to a database, and one calibration to a profile: a lock on the file
 * DB-sweep or PROFILE-calibration beside it, which the system releases when the process ends,
 * however it ends. (SQLite alone would let two sweeps take turns and simulate every point twice;
 * two calibrations would rename their files over each other's.) */
#ifndef EXPERIMENTS_RESULTS_LOCK_H
#define EXPERIMENTS_RESULTS_LOCK_H
#include "base/diag.h"

typedef struct ResultsLock {
  const char *path; // of the lock's file
  int file;
} ResultsLock;

/* Takes the lock of the database at `path`; an error of the input says which process has it. */
int results_lock(ResultsLock *self, const char *path, Arena *arena, Diag *diag);
/* The same of any file; `what` says who takes it. */
int results_lock_file(ResultsLock *self, const char *path, const char *what, Arena *arena,
                      Diag *diag);
void results_unlock(ResultsLock *self);
/* Whether a sweep of another process has the database: an error if so. */
int results_check_unlocked(const char *path, Arena *arena, Diag *diag);
#endif
