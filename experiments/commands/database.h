/* The database that a command keeps its runs in: one command at a time writes to it. */
#ifndef EXPERIMENTS_COMMANDS_DATABASE_H
#define EXPERIMENTS_COMMANDS_DATABASE_H
#include "experiments/results/results.h"

typedef struct Database {
  Results results;
  ResultsLock lock;
  bool locked, open;
} Database;

/* Opens the database at `path`, made if it is missing, and tells the user of stale runs; NULL:
 * nothing is kept. `self` begins as zeroes and is closed in any case. -1 with entries. */
int database_open(Database *self, const char *path, Arena *arena, Diag *diag);
/* NULL: nothing is kept. */
static inline Results *database_results(Database *self) {
  return self->open ? &self->results : NULL;
}
void database_close(Database *self);
#endif
