/* How options say where rows of a trace have what: the columns, and how times are written. */
#ifndef EXPERIMENTS_COMMANDS_TRACE_OPTIONS_H
#define EXPERIMENTS_COMMANDS_TRACE_OPTIONS_H
#include "experiments/commands/cli.h"
#include "traces/layout.h"

#define CLI_TRACE_COLUMNS                                                                          \
  CLI_TEXT("--columns", columns, "LIST",                                                           \
           "columns of the trace, as names or numbers: arrival=C,prompt=C,output=C,session=C")
#define CLI_TRACE_TIME(clock)                                                                      \
  CLI_ROW("--time", CHOICE, clock, "UNIT", "format of its times"), .choices = clock_choices,       \
                                                                   .fallback = "auto"
#define CLI_TRACE_SORT(sort) CLI_FLAG("--sort", sort, "sort its rows by time")

/* "arrival=ts,prompt=in": a column for each that is named; commas in their names are not possible.
 * `list` NULL: none. Wrong usage: EXIT_USAGE, said on stderr; else 0. */
int trace_read_columns(const Cli *cli, const char *list, const char *ret_columns[TRACE_FIELDS]);
#endif
