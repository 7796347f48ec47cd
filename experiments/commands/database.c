/* See database.h. */
#include "experiments/commands/database.h"
#include "experiments/commands/cli.h"

int database_open(Database *self, const char *path, Arena *arena, Diag *diag) {
  if (!path) return 0;
  if (results_lock(&self->lock, path, arena, diag)) return -1;
  self->locked = true;
  if (results_open(&self->results, path, config_data_root(), arena, diag)) return -1;
  self->open = true;
  int64_t runs = 0, stale = 0;
  const int status = results_count_runs(&self->results, &runs, &stale, diag);
  cli_note_stale(runs, stale);
  return status;
}

void database_close(Database *self) {
  if (self->open) results_close(&self->results);
  if (self->locked) results_unlock(&self->lock);
}
