/* The database of results: schema.sql is its contract. One thread uses an open one.
 *
 * A run lies within one transaction, begun by its first row and ended by results_add_run, so it is
 * there whole or not at all, whatever stops the program: what has no results_add_run is undone when
 * the database is closed. Several runs share one where results_batch allows it. Rows about sweeps
 * are in sweep/sweep.h. */
#ifndef EXPERIMENTS_RESULTS_RESULTS_H
#define EXPERIMENTS_RESULTS_RESULTS_H
#include "experiments/base/unnamed.h"
#include "experiments/report/report.h"
#include <sqlite3.h>

enum { RESULTS_SCHEMA_VERSION = 11, RESULTS_STATEMENTS = 32 };

typedef struct DigestSet {
  uint64_t *digests; // [n], ascending
  size_t n, capacity;
} DigestSet;

typedef struct Results {
  sqlite3 *db;
  const char *path;
  const char *uri;    // of one open for reading, to attach it; NULL: open for writing
  const char *source; // what is attached to a new file of our own; NULL: nothing
  bool unchanging;    // and nobody else is kept from writing to it meanwhile
  struct {
    const char *text;
    sqlite3_stmt *statement;
  } kept[RESULTS_STATEMENTS]; // those that change, prepared on first use
  int64_t run_id;             // of the run that has begun; 0: none
  double batch_s, began_s;    // of a transaction: it may last, and since when
} Results;

/* An error when `path` is none of a file but what SQLite takes for memory, a temporary database or
 * a URI, where results would be lost. */
int results_check_path(const char *path, Diag *diag);
/* Opens the database for writing, and makes it when there is no file. */
int results_open(Results *self, const char *path, const char *data_root, Arena *arena, Diag *diag);
/* Opens a new one in an empty file; nothing is made beside it. Whoever leaves it incomplete throws
 * it away: it cannot undo anything. */
int results_open_unnamed(Results *self, const UnnamedFile *unnamed, const char *data_root,
                         Arena *arena, Diag *diag);
/* Opens one that is nobody else's and goes when it is closed. */
int results_open_temporary(Results *self, const char *data_root, Arena *arena, Diag *diag);
/* Opens an existing one, which may lie where nothing can be written, for statements that only ask:
 * any other is refused with SQLITE_AUTH, or is not sqlite3_stmt_readonly. */
int results_open_reader(Results *self, const char *path, Arena *arena, Diag *diag);
/* The same without a trace beside the file, however the program ends, unless a log is there: for
 * those who look whether it was `unchanging` and did change. */
int results_open_source(Results *self, const char *path, Arena *arena, Diag *diag);
/* From now on a transaction may take the runs of `seconds`, so that many small ones cost little;
 * what its last `seconds` gave is lost with a program that is killed. */
void results_batch(Results *self, double seconds);
/* Seconds until the open transaction has lasted that long; INFINITY: none is open. */
double results_due(const Results *self);
/* Commits the open transaction, if there is one. */
int results_flush(Results *self, Diag *diag);
/* Closes it; what is not committed is undone. */
void results_close(Results *self);

/* Adds a row to `request`. */
int results_add_request(Results *self, const RequestRecord *record, Diag *diag);
/* Adds everything else about the run and commits; undoes all of the run when that fails. */
int results_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                    Diag *diag);
/* The same unless the database has that run; one that was `stopped` may be there as a whole. */
int results_keep_run(Results *self, const Report *report, uint64_t config_digest, bool stopped,
                     Arena *arena, Diag *diag);
/* As results_add_run for a run that failed: its configuration, as far as it is known, and why. */
int results_add_failure(Results *self, const Config *config, uint64_t config_digest,
                        const char *reason, Arena *arena, Diag *diag);
/* A figure of a run that was measured; name and unit as in metrics.def. */
typedef struct EngineFigure {
  const char *name, *statistic, *unit;
  double value;
} EngineFigure;

/* A run that a real engine gave, told by somebody else's file. */
typedef struct EngineRun {
  const char *name;            // of the file
  const char *text;            // what is known of its configuration, YAML
  uint64_t digest;             // of what the file says of it
  double wall_s;               // it lasted
  const EngineFigure *figures; // [n_figures]
  int n_figures;
  const Distribution *latencies; // [n_latencies], with all their statistics
  int n_latencies;
} EngineRun;

/* The epoch of such runs, which are never stale. */
#define RESULTS_MEASURED "measured"
/* As results_add_run, after the requests that are known. */
int results_add_measured(Results *self, const EngineRun *run, Arena *arena, Diag *diag);
/* The config_digest of every run that ended by itself. */
int results_finished(Results *self, DigestSet *ret_digests, Arena *arena, Diag *diag);
/* The run that a text names by its number, with an entry when there is none; NULL: the newest that
 * ended by itself. */
int results_find_run(Results *self, const char *text, int64_t *ret_run, Diag *diag);
/* What numbers there are. */
void results_hint_runs(Results *self, Diag *diag);
/* How many runs there are, and how many of them are stale. */
int results_count_runs(Results *self, int64_t *ret_n, int64_t *ret_stale, Diag *diag);
bool digest_set_has(const DigestSet *self, uint64_t digest);
/* An entry for what SQLite says about `what`, such as "write"; returns -1. */
int results_error(const Results *self, const char *what, Diag *diag);
/* Begins a transaction unless one is open; ends it when it is due, or undoes it when `status` is
 * negative. Returns `status`, -1 when it cannot be ended. */
int results_begin(Results *self, Diag *diag);
int results_end(Results *self, int status, Diag *diag);
/* private: begins a run that has not begun. */
int results_begin_run(Results *self, Diag *diag);
/* private: runs statements without results; `what` as in results_error. */
int results_execute(Results *self, const char *sql, const char *what, Diag *diag);

/* SQLite statements with their values in order, for all who write and read rows. */

typedef enum ValueKind { VALUE_INT, VALUE_REAL, VALUE_TEXT } ValueKind;

typedef struct Value {
  ValueKind kind;
  int64_t whole;
  double real;      // NAN or infinite: NULL
  const char *text; // NULL: NULL
} Value;

static inline Value value_whole(int64_t value) {
  return (Value){.kind = VALUE_INT, .whole = value};
}

static inline Value value_real(double value) {
  return (Value){.kind = VALUE_REAL, .real = value};
}

static inline Value value_text(const char *value) {
  return (Value){.kind = VALUE_TEXT, .text = value};
}

/* The arguments for an array of values and its length. */
#define VALUES(...)                                                                                \
  (const Value[]){__VA_ARGS__}, (int)(sizeof((const Value[]){__VA_ARGS__}) / sizeof(Value))

/* A digest as the database has it. */
const char *results_hex(uint64_t digest, Arena *arena);
/* NULL with an entry when SQLite refuses it. */
sqlite3_stmt *results_prepare(Results *self, const char *sql, Diag *diag);
/* The same with values for its parameters, as far as it has them; texts must outlive it. */
sqlite3_stmt *results_query(Results *self, const char *sql, const Value *values, int n, Diag *diag);
/* Its next row: 1, or 0 after the last, or -1 with an entry; -1 of NULL, which has one already. */
int results_next(const Results *self, sqlite3_stmt *statement, Diag *diag);
/* What a row has in a column: a copy of a text, "" of NULL; a number, NAN where there is none. */
const char *results_text(sqlite3_stmt *row, int column, Arena *arena);
double results_real(sqlite3_stmt *row, int column);
void results_finalize(sqlite3_stmt **statement);
#define CLEANUP_STATEMENT __attribute__((cleanup(results_finalize)))

/* Runs a statement that has no results. It is kept for the next time, when it is known by the same
 * pointer, and outlives self: a literal. */
int results_change(Results *self, const char *sql, const Value *values, int n, Diag *diag);
/* The same of a row of "TABLE", or of "TABLE (COLUMNS)", with all of its values. */
int results_insert(Results *self, const char *table, const Value *values, int n, Diag *diag);
/* A query for one whole number: 1 and *ret_value, 0 when there is no row or it is NULL, or -1. */
int results_ask(Results *self, const char *sql, const Value *values, int n, int64_t *ret_value,
                Diag *diag);
/* The same for a text, copied into `arena`. */
int results_ask_text(Results *self, const char *sql, const Value *values, int n,
                     const char **ret_text, Arena *arena, Diag *diag);

/* The first column of all rows, as texts, NULL-terminated, without those that are NULL; or NULL
 * with an entry. */
const char *const *results_texts(Results *self, const char *sql, Arena *arena, Diag *diag);

/* One sweep at a time writes to a database, and one calibration to a profile: a lock on the file
 * DB-sweep or PROFILE-calibration beside it, which the system releases when the process ends,
 * however it ends. (SQLite alone would let two sweeps take turns and simulate every point twice;
 * two calibrations would rename their files over each other's.) */

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

/* Databases of results joined to one. */

typedef struct Merge {
  const char *out;
  const char *const *paths; // [n_paths]
  int n_paths;
  bool partial;               // sweeps may lack points
  const char *const *missing; // a sentence for each part of a sweep that is not there; then NULL
  int64_t runs, stale;        // in the result; of those, made by programs with other outcomes
} Merge;

/* Joins `paths` to a new database at `out`, which appears whole or not at all; fills the rest. What
 * several of them say about one configuration becomes one run; results of different outcome epochs
 * stay apart, as runs and as sweeps. Errors are differing outcomes of
 * one configuration, differing versions, a database that a sweep is writing to, and, unless
 * `partial`, what is missing. */
int merge_databases(Merge *self, Arena *arena, Diag *diag);
#endif
