/* Opening a database of results, for writing or for reading only. */
#include "base/folder.h"
#include "base/hash.h"
#include "base/key_map.h"
#include "experiments/base/epoch.h"
#include "experiments/base/student.h"
#include "experiments/results/results.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  APPLICATION_ID = 0x54616e64, // 'Tand', as in schema.sql
  BUSY_MS = 60000,             // how long to wait for another writer
};

/* ---- A database in a file that has no name ----
 *
 * SQLite opens files by name and follows no links, so this is where it reads and writes one that is
 * open already (sqlite.org/vfs.html). Nobody else knows the file, which needs no locks, and nothing
 * is made beside it. */

/* Nothing is ever beside a file of such a name. */
static const char name_format[] = "/proc/self/fd/%d";

typedef struct Descriptor {
  sqlite3_file base; // first: SQLite knows no more of it
  int file;
} Descriptor;

static int file_of(const sqlite3_file *self) {
  return ((const Descriptor *)self)->file;
}

static int read_at(sqlite3_file *self, void *to, int n, sqlite3_int64 at) {
  int done = 0;
  for (ssize_t got = 1; done < n && got > 0; done += (int)got) {
    got = pread(file_of(self), (char *)to + done, (size_t)(n - done), at + done);
    if (got < 0) return SQLITE_IOERR_READ;
  }
  memset((char *)to + done, 0, (size_t)(n - done));
  return done == n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int write_at(sqlite3_file *self, const void *from, int n, sqlite3_int64 at) {
  for (int done = 0; done < n;) {
    const ssize_t put =
        pwrite(file_of(self), (const char *)from + done, (size_t)(n - done), at + done);
    if (put < 0) return errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    done += (int)put;
  }
  return SQLITE_OK;
}

static int cut(sqlite3_file *self, sqlite3_int64 size) {
  return ftruncate(file_of(self), size) ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int sync_file(sqlite3_file *self, int flags) {
  (void)flags;
  return fsync(file_of(self)) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int get_size(sqlite3_file *self, sqlite3_int64 *ret_size) {
  struct stat status;
  if (fstat(file_of(self), &status)) return SQLITE_IOERR_FSTAT;
  *ret_size = status.st_size;
  return SQLITE_OK;
}

static int stay_open(sqlite3_file *self) {
  (void)self;
  return SQLITE_OK;
}

static int need_no_lock(sqlite3_file *self, int level) {
  (void)self, (void)level;
  return SQLITE_OK;
}

static int nobody_has_it(sqlite3_file *self, int *ret_is_locked) {
  (void)self;
  *ret_is_locked = 0;
  return SQLITE_OK;
}

static int know_no_control(sqlite3_file *self, int control, void *argument) {
  (void)self, (void)control, (void)argument;
  return SQLITE_NOTFOUND;
}

static int default_of_file(sqlite3_file *self) {
  (void)self;
  return 0;
}

static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = stay_open,
                                           .xRead = read_at,
                                           .xWrite = write_at,
                                           .xTruncate = cut,
                                           .xSync = sync_file,
                                           .xFileSize = get_size,
                                           .xLock = need_no_lock,
                                           .xUnlock = need_no_lock,
                                           .xCheckReservedLock = nobody_has_it,
                                           .xFileControl = know_no_control,
                                           .xSectorSize = default_of_file,
                                           .xDeviceCharacteristics = default_of_file};

static sqlite3_vfs *files; // by name, as ever

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags) {
  int number;
  (void)vfs;
  if (!(flags & SQLITE_OPEN_MAIN_DB) || sscanf(name, name_format, &number) != 1)
    return files->xOpen(files, name, file, flags, ret_flags);
  *(Descriptor *)file = (Descriptor){.base.pMethods = &methods, .file = number};
  if (ret_flags) *ret_flags = flags;
  return SQLITE_OK;
}

/* That of a database to attach is one already. */
static int keep_name(sqlite3_vfs *vfs, const char *name, int size, char *ret_name) {
  (void)vfs;
  sqlite3_snprintf(size, ret_name, "%s", name);
  return SQLITE_OK;
}

/* Opens the database in `file`, which stays the caller's and open until it is closed. Others that
 * are attached to it are files as ever. An SQLite status; the database is to be closed with any. */
static int open_descriptor(sqlite3 **ret_db, int file, int flags) {
  static sqlite3_vfs vfs;
  if (!files) {
    files = sqlite3_vfs_find(NULL);
    vfs = *files;
    vfs.zName = "descriptor";
    vfs.xOpen = open_file;
    vfs.xFullPathname = keep_name;
    if (vfs.szOsFile < (int)sizeof(Descriptor)) vfs.szOsFile = sizeof(Descriptor);
    sqlite3_vfs_register(&vfs, 0);
  }
  char name[32];
  snprintf(name, sizeof name, name_format, file);
  return sqlite3_open_v2(name, ret_db, flags, vfs.zName);
}

/* ---- For writing ---- */

int results_check_path(const char *path, Diag *diag) {
  struct stat status;
  const bool is_name = *path != '\0' && *path != ':' && strncmp(path, "file:", 5) != 0;
  const bool is_there = is_name && stat(path, &status) == 0;
  if (is_name && (!is_there || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return 0;
  diag_error(diag, place_of_file(NULL), "'%s' is not a file that can hold a database", path);
  if (!is_name && *path) diag_hint(diag, "to use a file of this name write './%s'", path);
  return -1;
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
  diag_error(diag, at, "'%s' has schema version %d, but this program has version %d", self->path,
             version, RESULTS_SCHEMA_VERSION);
  return diag_hint(diag,
                   "name another file, or use the version of the program that wrote this one");
}

/* is_stale(EPOCH) in SQL: rows that a program with other rules made, which nobody measured. */
static void give_stale(sqlite3_context *context, int n_arguments, sqlite3_value **arguments) {
  (void)n_arguments;
  const char *epoch = (const char *)sqlite3_value_text(arguments[0]);
  const bool measured = epoch && strcmp(epoch, RESULTS_MEASURED) == 0;
  sqlite3_result_int(context, !epoch || (!measured && epoch_is_stale(epoch)));
}

/* epochs_agree(EPOCH, EPOCH) in SQL: rows of programs with the same rules, as far as they show. */
static void give_agree(sqlite3_context *context, int n_arguments, sqlite3_value **arguments) {
  (void)n_arguments;
  const char *a = (const char *)sqlite3_value_text(arguments[0]);
  const char *b = (const char *)sqlite3_value_text(arguments[1]);
  sqlite3_result_int(context, a && b && epoch_agrees(a, b));
}

/* half_width(VALUE, DIGEST) in SQL, an aggregate: of the 95% t-interval of the mean, where values
 * whose runs have one digest of outcomes are one observation; NULL of one. Without DIGEST each
 * value is one. */
typedef struct Replicates {
  Moments moments;
  KeyMap seen;
  Arena arena; // of `seen`
} Replicates;

static void take_value(sqlite3_context *context, int n_arguments, sqlite3_value **arguments) {
  Replicates *self = sqlite3_aggregate_context(context, sizeof *self);
  if (!self || sqlite3_value_type(arguments[0]) == SQLITE_NULL) return;
  const char *digest = n_arguments > 1 ? (const char *)sqlite3_value_text(arguments[1]) : NULL;
  uint32_t once = 0, *times = &once;
  if (digest)
    times = key_map_put(&self->seen, hash_bytes(digest, strlen(digest)) | 1, &self->arena);
  moments_add(&self->moments, sqlite3_value_double(arguments[0]), (*times)++ > 0);
}

static void give_half_width(sqlite3_context *context) {
  Replicates *self = sqlite3_aggregate_context(context, 0);
  if (!self) return;
  const double half_width = moments_half_width(&self->moments);
  if (!isnan(half_width)) sqlite3_result_double(context, half_width);
  arena_done(&self->arena);
}

static int give_functions(Results *self) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
  sqlite3 *db = self->db;
  int status =
      sqlite3_create_function_v2(db, "is_stale", 1, flags, NULL, give_stale, NULL, NULL, NULL);
  if (status == SQLITE_OK)
    status = sqlite3_create_function_v2(db, "epochs_agree", 2, flags, NULL, give_agree, NULL, NULL,
                                        NULL);
  for (int n_arguments = 1; status == SQLITE_OK && n_arguments <= 2; n_arguments++)
    status = sqlite3_create_function_v2(db, "half_width", n_arguments, flags, NULL, NULL,
                                        take_value, give_half_width, NULL);
  return status;
}

/* SQLite says of all of these that it is unable to open the file. */
static int cannot_open(Results *self, Diag *diag) {
  const char *missing = folder_missing(self->path, &diag->arena);
  results_error(self, "open", diag);
  if (missing)
    diag_hint(diag, "there is no folder '%s'", missing);
  else if (access(self->path, F_OK) && errno == ENOENT)
    diag_hint(diag, "there is no such file");
  return -1;
}

/* `status` is what opening it gave. */
static int prepare_database(Results *self, int status, Diag *diag) {
  if (status != SQLITE_OK) return cannot_open(self, diag);
  sqlite3_extended_result_codes(self->db, 0);
  if (give_functions(self) != SQLITE_OK) return results_error(self, "open", diag);
  sqlite3_busy_timeout(self->db, BUSY_MS);
  return 0;
}

/* `name` is the path, or a URI of it. */
static int open_database(Results *self, const char *path, const char *name, int flags, Diag *diag) {
  *self = (Results){.path = path};
  if (results_check_path(path, diag)) return -1;
  flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  return prepare_database(self, sqlite3_open_v2(name, &self->db, flags, NULL), diag);
}

static bool is_column(const Figure *figure) {
  return figure->level == LEVEL_MACHINE || figure->level == LEVEL_REQUEST;
}

static const char *type_of(const Figure *figure) {
  return *figure->unit ? "REAL" : "INTEGER";
}

/* The schema with a column for each figure of machines and requests (sim/books/metrics.def), where
 * its comments say so; to be freed by SQLite. */
static char *make_schema(const char *text) {
  static const struct {
    const char *mark;
    Level level;
  } marks[] = {{"/* figures of machines */", LEVEL_MACHINE},
               {"/* figures of requests */", LEVEL_REQUEST}};
  sqlite3_str *sql = sqlite3_str_new(NULL);
  for (int i = 0; i < 2; i++) {
    const char *mark = strstr(text, marks[i].mark);
    if (!mark) continue;
    sqlite3_str_append(sql, text, (int)(mark - text));
    for (const Figure *figure = report_figures; figure->name; figure++)
      if (figure->level == marks[i].level)
        sqlite3_str_appendf(sql, "%s %s, ", figure->name, type_of(figure));
    text = mark + strlen(marks[i].mark);
  }
  sqlite3_str_appendall(sql, text);
  char *schema = sqlite3_str_finish(sql);
  if (!schema) arena_exhausted(0);
  return schema;
}

/* Adds the columns of figures that the program which made the database did not know; when it is not
 * locked, it only says that one is missing: 1. */
static int add_columns(Results *self, bool locked, Diag *diag) {
  for (const Figure *figure = report_figures; figure->name; figure++) {
    const char *table = figure->level == LEVEL_MACHINE ? "machine" : "request";
    int64_t there = 0;
    if (!is_column(figure)) continue;
    if (results_ask(self, "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?",
                    VALUES(value_text(table), value_text(figure->name)), &there, diag) < 0)
      return -1;
    if (there) continue;
    if (!locked) return 1;
    char sql[160];
    snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN %s %s", table, figure->name,
             type_of(figure));
    if (results_execute(self, sql, "change", diag)) return -1;
  }
  return 0;
}

/* Nothing is locked when none is missing. */
static int complete_columns(Results *self, Diag *diag) {
  const int missing = add_columns(self, false, diag);
  if (missing <= 0) return missing;
  if (results_execute(self, "BEGIN IMMEDIATE", "change", diag)) return -1;
  if (add_columns(self, true, diag) == 0) return results_execute(self, "COMMIT", "change", diag);
  sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
  return -1;
}

/* Two programs may do this at once: the second one finds the schema there. */
static int create_schema(Results *self, const char *data_root, Arena *arena, Diag *diag) {
  const char *text =
      folder_text(arena_printf(arena, "%s/experiments/results/schema.sql", data_root), arena, diag);
  if (!text || results_execute(self, "BEGIN IMMEDIATE", "create", diag)) return -1;
  int status = check_schema(self, diag);
  if (status == 1) {
    char *schema = make_schema(text);
    status = results_execute(self, schema, "create", diag);
    sqlite3_free(schema);
  }
  if (status == 0) status = results_execute(self, "COMMIT", "create", diag);
  return status;
}

/* Whether the file may be written to. SQLite itself would say so only after the run, and leave a
 * log beside it that others cannot write to. */
static int check_writable(Results *self, Diag *diag) {
  if (!sqlite3_db_readonly(self->db, "main")) return 0;
  return diag_environment(diag, place_of_file(self->path),
                          "cannot write '%s': the database is read-only", self->path);
}

/* SQLite makes other files beside it while it writes. */
static int check_name(const char *path, Diag *diag) {
  static const char longest[] = "-journal";
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (strlen(name) + strlen(longest) <= NAME_MAX) return 0;
  diag_error(diag, place_of_file(NULL), "the name '%s' is too long for a database", name);
  return diag_hint(diag, "SQLite adds '%s' to it: at most %d bytes", longest,
                   NAME_MAX - (int)strlen(longest));
}

int results_open(Results *self, const char *path, const char *data_root, Arena *arena, Diag *diag) {
  *self = (Results){.path = path};
  if (check_name(path, diag)) return -1;
  int status = open_database(self, path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, diag);
  if (status == 0) status = check_writable(self, diag);
  if (status == 0) status = check_schema(self, diag);
  status = status == 1   ? create_schema(self, data_root, arena, diag)
           : status == 0 ? complete_columns(self, diag)
                         : status;
  if (status == 0) status = results_execute(self, "PRAGMA foreign_keys = ON", "open", diag);
  // WAL lets others read meanwhile. It is refused while they use the file, which does no harm: the
  // mode stays with the file once one program has set it.
  if (status == 0) sqlite3_exec(self->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
  // A loss of power may take the last runs, never a part of one.
  if (status == 0) sqlite3_exec(self->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
  if (status) results_close(self);
  return status;
}

/* A new one that nobody else has; `status` is what opening it gave. */
static int make_own(Results *self, int status, const char *pragmas, const char *data_root,
                    Arena *arena, Diag *diag) {
  status = prepare_database(self, status, diag) || results_execute(self, pragmas, "open", diag) ||
                   create_schema(self, data_root, arena, diag)
               ? -1
               : 0;
  if (status) results_close(self);
  return status;
}

int results_open_unnamed(Results *self, const UnnamedFile *unnamed, const char *data_root,
                         Arena *arena, Diag *diag) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  *self = (Results){.path = unnamed->path};
  return make_own(self, open_descriptor(&self->db, unnamed->file, flags),
                  "PRAGMA main.journal_mode = OFF; PRAGMA main.synchronous = OFF; "
                  "PRAGMA main.locking_mode = EXCLUSIVE; PRAGMA foreign_keys = ON",
                  data_root, arena, diag);
}

int results_open_temporary(Results *self, const char *data_root, Arena *arena, Diag *diag) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  *self = (Results){.path = "a temporary database"};
  return make_own(self, sqlite3_open_v2("", &self->db, flags, NULL),
                  "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", data_root, arena, diag);
}

/* ---- For reading only ---- */

/* Pragmas that tell something; with a value some of them set it, which makes them no reading. */
static bool is_question(const char *pragma) {
  static const char *const names[] = {
      "application_id",    "collation_list",   "compile_options", "database_list",  "encoding",
      "foreign_key_check", "foreign_key_list", "freelist_count",  "function_list",  "index_info",
      "index_list",        "index_xinfo",      "integrity_check", "module_list",    "page_count",
      "page_size",         "pragma_list",      "quick_check",     "schema_version", "table_info",
      "table_list",        "table_xinfo",      "user_version"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (sqlite3_stricmp(pragma, names[i]) == 0) return true;
  return false;
}

/* Fits sqlite3_set_authorizer: what a statement of a reader may do. */
static int authorize(void *context, int action, const char *first, const char *second,
                     const char *database, const char *trigger) {
  (void)context, (void)second, (void)database, (void)trigger;
  // Of a table that is a function, such as json_each; as a statement it is no reading.
  const bool declares = action == SQLITE_UPDATE && strcmp(first, "sqlite_master") == 0;
  const bool reads = action == SQLITE_SELECT || action == SQLITE_READ ||
                     action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE ||
                     (action == SQLITE_PRAGMA && is_question(first)) || declares;
  return reads ? SQLITE_OK : SQLITE_DENY;
}

/* A URI of the file that is open, whose absolute path SQLite knows. */
static const char *make_uri(const Results *self, const char *parameters, Arena *arena) {
  const char *path = sqlite3_db_filename(self->db, "main");
  char *uri = arena_alloc(arena, 3 * strlen(path) + strlen(parameters) + sizeof "file:?");
  char *end = stpcpy(uri, "file:");
  for (; *path; path++) {
    const bool is_special = *path == '%' || *path == '?' || *path == '#';
    end += snprintf(end, 4, is_special ? "%%%02x" : "%c", (unsigned char)*path);
  }
  stpcpy(stpcpy(end, "?"), parameters);
  return uri;
}

static bool has_log(const Results *self, Arena *arena) {
  const char *path = sqlite3_db_filename(self->db, "main");
  return access(arena_printf(arena, "%s-wal", path), F_OK) == 0 ||
         access(arena_printf(arena, "%s-journal", path), F_OK) == 0;
}

/* Whether SQLite could make its log beside the file, and would be able to take it away again. */
static bool may_write(const Results *self, Arena *arena) {
  const char *path = sqlite3_db_filename(self->db, "main");
  const char *folder = arena_copy(arena, path, (size_t)(strrchr(path, '/') - path) + 1);
  return !sqlite3_db_readonly(self->db, "main") && access(folder, W_OK) == 0;
}

/* A file without a log is one that nobody has open: it is taken for one that does not change, where
 * SQLite could not make a log or is not to. */
static int reopen_unchanging(Results *self, bool no_log, Arena *arena, Diag *diag) {
  const char *path = self->path;
  const bool unchanging = (no_log || !may_write(self, arena)) && !has_log(self, arena);
  const char *uri = make_uri(self, unchanging ? "mode=ro&immutable=1" : "mode=rw", arena);
  int status = 0;
  if (unchanging) {
    results_close(self);
    status = open_database(self, path, uri, SQLITE_OPEN_READONLY, diag);
  }
  self->uri = uri;
  self->unchanging = unchanging;
  return status;
}

static int open_reader(Results *self, const char *path, bool no_log, Arena *arena, Diag *diag) {
  // A connection that may only read cannot fold the write-ahead log into the file when it closes.
  int status = open_database(self, path, path, SQLITE_OPEN_READWRITE, diag);
  if (status == 0) status = reopen_unchanging(self, no_log, arena, diag);
  if (status == 0) status = check_schema(self, diag);
  if (status < 0 && self->uri && has_log(self, arena) && !may_write(self, arena))
    diag_hint(diag, "copy it, with the log beside it, to a folder that you may write to");
  if (status == 0)
    status =
        results_execute(self, "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF", "open", diag);
  if (status == 1) diag_error(diag, place_of_file(path), "'%s' has no results", path);
  if (status == 0) sqlite3_set_authorizer(self->db, authorize, NULL);
  if (status) results_close(self);
  return status ? -1 : 0;
}

int results_open_reader(Results *self, const char *path, Arena *arena, Diag *diag) {
  return open_reader(self, path, false, arena, diag);
}

int results_open_source(Results *self, const char *path, Arena *arena, Diag *diag) {
  return open_reader(self, path, true, arena, diag);
}
