/* The database of results: schema.sql is its contract. One thread uses an open one.
 *
 * A run is one transaction, begun by its first row and ended by results_add_run, so it is there
 * whole or not at all, whatever stops the program: what has no results_add_run is undone when the
 * database is closed. Rows about sweeps are in results_sweep.h. */
#ifndef EXPERIMENTS_RESULTS_H
#define EXPERIMENTS_RESULTS_H
#include "experiments/report.h"
#include "experiments/unnamed.h"
#include <sqlite3.h>

enum { RESULTS_SCHEMA_VERSION = 4 };

typedef struct DigestSet {
  uint64_t *digests; // [n], ascending
  size_t n, capacity;
} DigestSet;

typedef struct Results {
  sqlite3 *db;
  const char *path;
  const char *uri;       // of one open for reading, to attach it; NULL: open for writing
  bool unchanging;       // and nobody else is kept from writing to it meanwhile
  sqlite3_stmt *request; // prepared on first use
  int64_t run_id;        // of the transaction; 0: none has begun
} Results;

/* An error when `path` is none of a file but what SQLite takes for memory, a temporary database or
 * a URI, where results would be lost. */
int results_check_path(const char *path, Diag *diag);
/* Opens the database for writing, and makes it when there is no file. */
int results_open(Results *self, const char *path, const char *data_root, Arena *arena, Diag *diag);
/* Opens a new one in an empty file, which is hidden by then; nothing is made beside it. Whoever
 * leaves it incomplete throws it away: it cannot undo anything. */
int results_open_hidden(Results *self, UnnamedFile *file, const char *data_root, Arena *arena,
                        Diag *diag);
/* Opens an existing one, which may lie where nothing can be written, for statements that only ask:
 * any other is refused with SQLITE_AUTH, or is not sqlite3_stmt_readonly. */
int results_open_reader(Results *self, const char *path, Arena *arena, Diag *diag);
/* The same without a trace beside the file, however the program ends, unless a log is there: for
 * those who look whether it was `unchanging` and did change. */
int results_open_source(Results *self, const char *path, Arena *arena, Diag *diag);
/* Closes it; what is not committed is undone. */
void results_close(Results *self);

/* Adds a row to `request`. */
int results_add_request(Results *self, const RequestRecord *record, Diag *diag);
/* Adds everything else about the run and commits; undoes all of the run when that fails. */
int results_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                    Diag *diag);
/* The same for a run that failed: its configuration, as far as it is known, and why. */
int results_add_failure(Results *self, const Config *config, uint64_t config_digest,
                        const char *reason, Arena *arena, Diag *diag);
/* The config_digest of every run that ended by itself. */
int results_finished(Results *self, DigestSet *ret_digests, Arena *arena, Diag *diag);
/* How many runs there are, and how many of them are stale. */
int results_count_runs(Results *self, int64_t *ret_n, int64_t *ret_stale, Diag *diag);
bool digest_set_has(const DigestSet *self, uint64_t digest);
/* An entry for what SQLite says about `what`, such as "write"; returns -1. */
int results_error(const Results *self, const char *what, Diag *diag);
/* private: begins the transaction of a run that has not begun. */
int results_begin_run(Results *self, Diag *diag);
/* private: runs statements without results; `what` as in results_error. */
int results_execute(Results *self, const char *sql, const char *what, Diag *diag);
#endif
