/* Opening the database, and the transaction of one run. Its rows are in results_rows.c. */
#include "experiments/results.h"
#include "experiments/results_rows.h"
#include "sim/base/cleanup.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
  APPLICATION_ID = 0x54616e64, // 'Tand', as in schema.sql
  BUSY_MS = 60000,             // how long to wait for another writer
  SCHEMA_MAX = 1 << 16,
};

int results_error(const Results *self, const char *what, Diag *diag) {
  return diag_environment(diag, place_of_file(self->path), "cannot %s '%s': %s", what, self->path,
                          self->db ? sqlite3_errmsg(self->db) : "out of memory");
}

int results_execute(Results *self, const char *sql, const char *what, Diag *diag) {
  return sqlite3_exec(self->db, sql, NULL, NULL, NULL) == SQLITE_OK
             ? 0
             : results_error(self, what, diag);
}

static int query_int(Results *self, const char *sql, int *ret_value, Diag *diag) {
  sqlite3_stmt *statement = NULL;
  int status = sqlite3_prepare_v2(self->db, sql, -1, &statement, NULL);
  if (status == SQLITE_OK) status = sqlite3_step(statement);
  if (status == SQLITE_ROW) *ret_value = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  if (status == SQLITE_ROW) return 0;
  if (status == SQLITE_NOTADB)
    return diag_error(diag, place_of_file(self->path), "'%s' is not an SQLite database",
                      self->path);
  return results_error(self, "read", diag);
}

/* Whether the file is one of ours; 1 when it is empty. */
static int check_schema(Results *self, Diag *diag) {
  int tables = 0, application = 0, version = 0;
  if (query_int(self, "SELECT count(*) FROM sqlite_master", &tables, diag) ||
      query_int(self, "PRAGMA application_id", &application, diag) ||
      query_int(self, "PRAGMA user_version", &version, diag))
    return -1;
  if (tables == 0 && application == 0) return 1;
  Place at = place_of_file(self->path);
  if (application != APPLICATION_ID)
    return diag_error(diag, at, "'%s' is a database of another program", self->path);
  if (version == RESULTS_SCHEMA_VERSION) return 0;
  diag_error(diag, at, "'%s' has schema version %d, this program has version %d", self->path,
             version, RESULTS_SCHEMA_VERSION);
  diag_hint(diag, "name another file, or use the version of the program that wrote this one");
  return -1;
}

static int open_database(Results *self, const char *path, int flags, Diag *diag) {
  *self = (Results){.path = path};
  if (sqlite3_open_v2(path, &self->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
    return results_error(self, "open", diag);
  sqlite3_extended_result_codes(self->db, 0);
  sqlite3_busy_timeout(self->db, BUSY_MS);
  return 0;
}

static int read_schema(const char *data_root, const char **ret_text, Arena *arena, Diag *diag) {
  const char *path = arena_printf(arena, "%s/experiments/schema.sql", data_root);
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  if (!file)
    return diag_environment(diag, place_of_file(path), "cannot open '%s': %s", path,
                            strerror(errno));
  char *text = arena_alloc(arena, SCHEMA_MAX);
  if (fread(text, 1, SCHEMA_MAX - 1, file) == 0 || !feof(file))
    return diag_environment(diag, place_of_file(path), "cannot read '%s'", path);
  *ret_text = text;
  return 0;
}

/* Two programs may do this at once: the second one finds the schema there. */
static int create_schema(Results *self, const char *data_root, Arena *arena, Diag *diag) {
  const char *schema = NULL;
  if (read_schema(data_root, &schema, arena, diag) ||
      results_execute(self, "BEGIN IMMEDIATE", "create", diag))
    return -1;
  int status = check_schema(self, diag);
  if (status == 1) status = results_execute(self, schema, "create", diag);
  if (status == 0) status = results_execute(self, "COMMIT", "create", diag);
  return status;
}

/* Whether the file may be written to; SQLite itself would say so only after the run. */
static int check_writable(Results *self, Diag *diag) {
  if (!sqlite3_db_readonly(self->db, "main")) return 0;
  return diag_environment(diag, place_of_file(self->path), "cannot write '%s': it is read-only",
                          self->path);
}

int results_open(Results *self, const char *path, const char *data_root, Arena *arena, Diag *diag) {
  int status = open_database(self, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, diag);
  if (status == 0) status = check_schema(self, diag);
  if (status >= 0 && check_writable(self, diag)) status = -1;
  if (status == 1) status = create_schema(self, data_root, arena, diag);
  if (status == 0) status = results_execute(self, "PRAGMA foreign_keys = ON", "open", diag);
  // WAL lets others read meanwhile. It is refused while they use the file, which does no harm: the
  // mode stays with the file once one program has set it.
  if (status == 0) sqlite3_exec(self->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
  // A loss of power may take the last runs, never a part of one.
  if (status == 0) sqlite3_exec(self->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
  if (status) results_close(self);
  return status;
}

int results_open_reader(Results *self, const char *path, Diag *diag) {
  // A connection that may only read cannot fold the write-ahead log into the file when it closes.
  int status = open_database(self, path, SQLITE_OPEN_READWRITE, diag);
  if (status == 0) status = check_schema(self, diag);
  if (status == 0) status = results_execute(self, "PRAGMA query_only = ON", "open", diag);
  if (status == 1) diag_error(diag, place_of_file(path), "'%s' holds no results", path);
  if (status) results_close(self);
  return status ? -1 : 0;
}

void results_close(Results *self) {
  sqlite3_finalize(self->request);
  sqlite3_close(self->db);
  *self = (Results){0};
}

/* The identifier is taken first: rows that refer to the run are added before its own, which is
 * written last and makes it complete. */
int results_begin_run(Results *self, Diag *diag) {
  if (self->run_id != 0) return 0;
  int last = 0;
  if (results_execute(self, "BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON", "write", diag) ||
      query_int(self, "SELECT coalesce(max(id), 0) FROM run", &last, diag))
    return -1;
  self->run_id = last + 1;
  return 0;
}

int results_add_request(Results *self, const RequestRecord *record, Diag *diag) {
  if (results_begin_run(self, diag)) return -1;
  return rows_add_request(self, record, diag);
}

/* Ends the transaction that the rows of a run were added in. */
static int end_run(Results *self, int status, Diag *diag) {
  if (status == 0) status = results_execute(self, "COMMIT", "write", diag);
  if (status) sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
  self->run_id = 0;
  return status;
}

int results_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                    Diag *diag) {
  int status = results_begin_run(self, diag);
  if (status == 0) status = rows_add_run(self, report, config_digest, arena, diag);
  return end_run(self, status, diag);
}

int results_add_failure(Results *self, const Config *config, uint64_t config_digest,
                        const char *reason, Arena *arena, Diag *diag) {
  int status = results_begin_run(self, diag);
  if (status == 0) status = rows_add_failure(self, config, config_digest, reason, arena, diag);
  return end_run(self, status, diag);
}

static int compare_digests(const void *a, const void *b) {
  const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
  return (one > other) - (one < other);
}

bool digest_set_has(const DigestSet *self, uint64_t digest) {
  return self->n > 0 &&
         bsearch(&digest, self->digests, self->n, sizeof digest, compare_digests) != NULL;
}

int results_finished(Results *self, DigestSet *ret_digests, Arena *arena, Diag *diag) {
  static const char sql[] = "SELECT config_digest FROM run WHERE status IN ('done', 'stalled')";
  sqlite3_stmt *statement = NULL;
  DigestSet set = {0};
  int status = sqlite3_prepare_v2(self->db, sql, -1, &statement, NULL);
  if (status == SQLITE_OK)
    while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
      ARENA_RESERVE(arena, set.digests, set.capacity, set.n + 1);
      set.digests[set.n++] = strtoull((const char *)sqlite3_column_text(statement, 0), NULL, 16);
    }
  sqlite3_finalize(statement);
  if (status != SQLITE_DONE) return results_error(self, "read", diag);
  if (set.n > 0) qsort(set.digests, set.n, sizeof *set.digests, compare_digests);
  *ret_digests = set;
  return 0;
}
