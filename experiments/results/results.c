/* The transactions of runs, and what is known of those that are there. Rows are in
 * rows.c, opening in open.c. */
#include "experiments/results/results.h"
#include "base/sort.h"
#include "experiments/base/progress.h"
#include <math.h>
#include <stdlib.h>

/* Whether it is the attached file that fails: nobody else has the new one, nor has anybody written
 * to it before. */
static bool is_of_source(const Results *self) {
  switch (self->source ? sqlite3_errcode(self->db) : SQLITE_OK) {
  case SQLITE_BUSY:
  case SQLITE_CANTOPEN:
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_PROTOCOL:
  case SQLITE_READONLY:
    return true;
  default:
    return false;
  }
}

int results_error(const Results *self, const char *what, Diag *diag) {
  if (!self->db || sqlite3_errcode(self->db) == SQLITE_NOMEM) arena_exhausted(0);
  const bool of_source = is_of_source(self);
  const char *path = of_source ? self->source : self->path;
  diag_environment(diag, place_of_file(path), "cannot %s '%s': %s", of_source ? "read" : what, path,
                   sqlite3_errmsg(self->db));
  if (sqlite3_errcode(self->db) == SQLITE_BUSY)
    diag_hint(diag, "another program has been writing to it for a minute");
  return -1;
}

int results_execute(Results *self, const char *sql, const char *what, Diag *diag) {
  return sqlite3_exec(self->db, sql, NULL, NULL, NULL) == SQLITE_OK
             ? 0
             : results_error(self, what, diag);
}

void results_close(Results *self) {
  for (int i = 0; self->kept[i].text; i++)
    sqlite3_finalize(self->kept[i].statement);
  sqlite3_close(self->db);
  *self = (Results){0};
}

/* ---- Transactions ---- */

void results_batch(Results *self, double seconds) {
  self->batch_s = seconds;
}

static bool is_open(const Results *self) {
  return self->db && !sqlite3_get_autocommit(self->db);
}

double results_due(const Results *self) {
  return is_open(self) ? self->began_s + self->batch_s - clock_monotonic() : INFINITY;
}

int results_begin(Results *self, Diag *diag) {
  if (is_open(self)) return 0;
  self->began_s = clock_monotonic();
  return results_execute(self, "BEGIN IMMEDIATE", "write", diag);
}

int results_flush(Results *self, Diag *diag) {
  if (!is_open(self) || results_execute(self, "COMMIT", "write", diag) == 0) return 0;
  sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
  return -1;
}

int results_end(Results *self, int status, Diag *diag) {
  if (status < 0 && is_open(self)) sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
  if (status < 0 || results_due(self) > 0) return status;
  return results_flush(self, diag) ? -1 : status;
}

/* ---- Runs ---- */

/* The identifier is taken first: rows that refer to the run are added before its own, which is
 * written last and makes it complete. (References are deferred by the schema: a pragma that did it
 * would have every statement prepared anew.) */
int results_begin_run(Results *self, Diag *diag) {
  if (self->run_id != 0) return 0;
  int64_t last = 0;
  if (results_begin(self, diag) ||
      results_ask(self, "SELECT coalesce(max(id), 0) FROM run", NULL, 0, &last, diag) < 0)
    return -1;
  self->run_id = last + 1;
  return 0;
}

static int compare_digests(const void *a, const void *b) {
  const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
  return (one > other) - (one < other);
}

bool digest_set_has(const DigestSet *self, uint64_t digest) {
  return find_item(&digest, self->digests, self->n, sizeof digest, compare_digests) != NULL;
}

int results_finished(Results *self, DigestSet *ret_digests, Arena *arena, Diag *diag) {
  static const char sql[] = "SELECT config_digest FROM run WHERE status IN ('done', 'stalled')";
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_prepare(self, sql, diag);
  DigestSet set = {0};
  int status = SQLITE_DONE;
  if (!statement) return -1;
  while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
    ARENA_RESERVE(arena, set.digests, set.capacity, set.n + 1);
    set.digests[set.n++] = strtoull((const char *)sqlite3_column_text(statement, 0), NULL, 16);
  }
  if (status != SQLITE_DONE) return results_error(self, "read", diag);
  sort_items(set.digests, set.n, sizeof *set.digests, compare_digests);
  *ret_digests = set;
  return 0;
}

void results_hint_runs(Results *self, Diag *diag) {
  int64_t first = 0, last = 0;
  if (results_ask(self, "SELECT min(id) FROM run", NULL, 0, &first, diag) > 0 &&
      results_ask(self, "SELECT max(id) FROM run", NULL, 0, &last, diag) > 0)
    diag_hint(diag, "the runs have numbers from %lld to %lld, see 'tandem query %s'",
              (long long)first, (long long)last, self->path);
}

static int find_newest(Results *self, int64_t *ret_run, Diag *diag) {
  static const char sql[] = "SELECT max(id) FROM run WHERE status IN ('done', 'stalled')";
  const int found = results_ask(self, sql, NULL, 0, ret_run, diag);
  if (found > 0) return 0;
  return found < 0
             ? -1
             : diag_error(diag, place_of_file(self->path), "the database has no completed run");
}

int results_find_run(Results *self, const char *text, int64_t *ret_run, Diag *diag) {
  int64_t there = 0;
  if (!text) return find_newest(self, ret_run, diag);
  char *end = NULL;
  *ret_run = strtoll(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || *ret_run == 0)
    return diag_error(diag, place_of_file(NULL), "a run must be given by its number, not '%s'",
                      text);
  if (results_ask(self, "SELECT count(*) FROM run WHERE id = ?", VALUES(value_whole(*ret_run)),
                  &there, diag) < 0)
    return -1;
  if (there) return 0;
  diag_error(diag, place_of_file(NULL), "'%s' has no run %lld", self->path, (long long)*ret_run);
  results_hint_runs(self, diag);
  return -1;
}

int results_count_runs(Results *self, int64_t *ret_n, int64_t *ret_stale, Diag *diag) {
  const char stale[] = "SELECT count(*) FROM run WHERE is_stale(epoch)";
  return results_ask(self, "SELECT count(*) FROM run", NULL, 0, ret_n, diag) < 0 ||
                 results_ask(self, stale, NULL, 0, ret_stale, diag) < 0
             ? -1
             : 0;
}
