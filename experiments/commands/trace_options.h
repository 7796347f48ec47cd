/* How options say where rows of a trace have what: the columns, and how times are written. */
#ifndef EXPERIMENTS_COMMANDS_TRACE_OPTIONS_H
#define EXPERIMENTS_COMMANDS_TRACE_OPTIONS_H
#include "experiments/commands/cli.h"
#include "traces/layout.h"

/* "arrival=ts,prompt=in": a column for each that is named; commas in their names are not possible.
 * `list` NULL: none. Wrong usage: EXIT_USAGE, said on stderr; else 0. */
int trace_read_columns(const Cli *cli, const char *list, const char *ret_columns[TRACE_FIELDS]);
#endif
