/* SQLite statements with their values in order, for the parts that write and read results. */
#ifndef EXPERIMENTS_RESULTS_VALUES_H
#define EXPERIMENTS_RESULTS_VALUES_H
#include "experiments/results.h"

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

static inline Value value_count(uint64_t value) {
  return value_whole((int64_t)value);
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
void results_finalize(sqlite3_stmt **statement);
#define CLEANUP_STATEMENT __attribute__((cleanup(results_finalize)))

/* Binds values from column `first` on (from 1) and runs a statement that has no results. */
int results_step(Results *self, sqlite3_stmt *statement, int first, const Value *values, int n,
                 Diag *diag);
/* A statement used once: results_prepare and results_step. */
int results_change(Results *self, const char *sql, const Value *values, int n, Diag *diag);
/* A query for one whole number: 1 and *ret_value, 0 when there is no row or it is NULL, or -1. */
int results_ask(Results *self, const char *sql, const Value *values, int n, int64_t *ret_value,
                Diag *diag);
/* The same for a text, copied into `arena`. */
int results_ask_text(Results *self, const char *sql, const Value *values, int n,
                     const char **ret_text, Arena *arena, Diag *diag);
#endif
