/* What `tandem query` knows by name: the files of experiments/queries/, and help with one's own.
 *
 * A comment "axes of X" in a query, marked as below, is where the axes of the database's sweeps
 * become columns of their own: SQL has no columns that depend on rows. */
#ifndef EXPERIMENTS_COMMANDS_QUERIES_H
#define EXPERIMENTS_COMMANDS_QUERIES_H
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"

/* All of them, each with the first line of its comment. */
const CliTerm *queries_listed(Arena *arena);
/* The same as a table. */
void queries_print(OutputFormat format, Arena *arena);
/* The text of one, with the columns of its axes; NULL with an entry. */
const char *queries_load(const char *name, Results *results, Arena *arena, Diag *diag);
/* Gives parameters their values, texts "NAME=VALUE" (NULL: none); the others stay NULL. */
int queries_bind(sqlite3_stmt *statement, const char *const *assignments, Arena *arena, Diag *diag);
/* An entry for what SQLite said last, with the tables or columns that there are. */
int queries_explain(Results *results, Arena *arena, Diag *diag);
#endif
