/* Binding, stepping and asking. */
#include "experiments/results/results.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *results_hex(uint64_t digest, Arena *arena) {
  return arena_printf(arena, "%016" PRIx64, digest);
}

sqlite3_stmt *results_prepare(Results *self, const char *sql, Diag *diag) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(self->db, sql, -1, &statement, NULL) == SQLITE_OK) return statement;
  results_error(self, "use", diag);
  return NULL;
}

void results_finalize(sqlite3_stmt **statement) {
  sqlite3_finalize(*statement);
}

static int bind_value(sqlite3_stmt *statement, int column, const Value *value) {
  switch (value->kind) {
  case VALUE_INT:
    return sqlite3_bind_int64(statement, column, value->whole);
  case VALUE_TEXT:
    return sqlite3_bind_text(statement, column, value->text, -1, SQLITE_STATIC);
  case VALUE_REAL:
    break;
  }
  return isfinite(value->real) ? sqlite3_bind_double(statement, column, value->real)
                               : sqlite3_bind_null(statement, column);
}

static int bind_values(sqlite3_stmt *statement, const Value *values, int n) {
  int status = SQLITE_OK;
  for (int i = 0; i < n && status == SQLITE_OK; i++)
    status = bind_value(statement, 1 + i, &values[i]);
  return status;
}

sqlite3_stmt *results_query(Results *self, const char *sql, const Value *values, int n,
                            Diag *diag) {
  sqlite3_stmt *statement = results_prepare(self, sql, diag);
  const int most = sqlite3_bind_parameter_count(statement); // 0 of NULL
  if (bind_values(statement, values, n < most ? n : most) == SQLITE_OK) return statement;
  results_error(self, "use", diag);
  sqlite3_finalize(statement);
  return NULL;
}

int results_next(const Results *self, sqlite3_stmt *statement, Diag *diag) {
  if (!statement) return -1;
  const int code = sqlite3_step(statement);
  return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : results_error(self, "read", diag);
}

const char *results_text(sqlite3_stmt *row, int column, Arena *arena) {
  const char *text = (const char *)sqlite3_column_text(row, column);
  return text ? arena_copy(arena, text, strlen(text)) : "";
}

double results_real(sqlite3_stmt *row, int column) {
  const int type = sqlite3_column_type(row, column);
  return type == SQLITE_INTEGER || type == SQLITE_FLOAT ? sqlite3_column_double(row, column) : NAN;
}

/* INSERT INTO table VALUES (?, …) */
static sqlite3_stmt *prepare_insert(Results *self, const char *table, int n, Diag *diag) {
  sqlite3_str *sql = sqlite3_str_new(self->db);
  sqlite3_str_appendf(sql, "INSERT INTO %s VALUES (?", table);
  for (int i = 1; i < n; i++)
    sqlite3_str_appendall(sql, ",?");
  sqlite3_str_appendall(sql, ")");
  char *text = sqlite3_str_finish(sql);
  sqlite3_stmt *statement = text ? results_prepare(self, text, diag) : NULL;
  if (!text) results_error(self, "use", diag);
  sqlite3_free(text);
  return statement;
}

/* `text` is a statement, or the table that a row is inserted into. */
static int change(Results *self, const char *text, bool inserts, const Value *values, int n,
                  Diag *diag) {
  int at = 0;
  while (self->kept[at].text && self->kept[at].text != text)
    at++;
  assert(at < RESULTS_STATEMENTS - 1);
  sqlite3_stmt **statement = &self->kept[at].statement;
  if (!*statement)
    *statement = inserts ? prepare_insert(self, text, n, diag) : results_prepare(self, text, diag);
  if (!*statement) return -1;
  self->kept[at].text = text;
  int status = bind_values(*statement, values, n);
  if (status == SQLITE_OK) status = sqlite3_step(*statement);
  sqlite3_reset(*statement);
  return status == SQLITE_DONE ? 0 : results_error(self, "write", diag);
}

int results_insert(Results *self, const char *table, const Value *values, int n, Diag *diag) {
  return change(self, table, true, values, n, diag);
}

int results_change(Results *self, const char *sql, const Value *values, int n, Diag *diag) {
  return change(self, sql, false, values, n, diag);
}

/* 1 when a row with something in it is there. */
static int first_row(Results *self, sqlite3_stmt *statement, Diag *diag) {
  const int status = results_next(self, statement, diag);
  return status == 1 ? sqlite3_column_type(statement, 0) != SQLITE_NULL : status;
}

int results_ask(Results *self, const char *sql, const Value *values, int n, int64_t *ret_value,
                Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(self, sql, values, n, diag);
  const int status = first_row(self, statement, diag);
  if (status == 1) *ret_value = sqlite3_column_int64(statement, 0);
  return status;
}

int results_ask_text(Results *self, const char *sql, const Value *values, int n,
                     const char **ret_text, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(self, sql, values, n, diag);
  const int status = first_row(self, statement, diag);
  if (status == 1) *ret_text = results_text(statement, 0, arena);
  return status;
}

const char *const *results_texts(Results *self, const char *sql, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_prepare(self, sql, diag);
  const char **texts = NULL;
  size_t n = 0, capacity = 0;
  int status = SQLITE_OK;
  if (!statement) return NULL;
  ARENA_RESERVE(arena, texts, capacity, 1);
  while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    if (!text) continue;
    ARENA_RESERVE(arena, texts, capacity, n + 2);
    texts[n++] = arena_copy(arena, text, strlen(text));
    texts[n] = NULL;
  }
  if (status == SQLITE_DONE) return texts;
  results_error(self, "read", diag);
  return NULL;
}
