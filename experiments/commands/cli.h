/* What all commands share: options as rows, help made from them, exit codes, and formats.
 *
 * A command is a function of main()'s arguments that returns the exit code; argv[0] is its name.
 * Data goes to stdout, all else to stderr. */
#ifndef EXPERIMENTS_COMMANDS_CLI_H
#define EXPERIMENTS_COMMANDS_CLI_H
#include "experiments/base/exit_code.h"
#include "experiments/base/version.h"
#include "experiments/base/writer.h"
#include "sim/base/diag.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum CliKind {
  CLI_FLAG,   // bool
  CLI_TEXT,   // const char *
  CLI_LIST,   // CliList: may be given again
  CLI_NUMBER, // int64_t >= 0
  CLI_BYTES,  // int64_t, of a size with unit
  CLI_OUTPUT, // OutputFormat
} CliKind;

typedef struct CliList {
  const char **items; // NULL-terminated once parsed
  size_t n, capacity;
} CliList;

typedef struct CliOption {
  const char *name;  // "--output"
  const char *value; // what help calls its value; NULL for a flag
  CliKind kind;
  size_t offset; // of the field in the command's options
  const char *help;
} CliOption;

typedef struct CliCommand {
  const char *name;
  const char *summary;  // one sentence, or two lines
  const char *operands; // "CONFIG", as usage shows them
  int min_operands, max_operands;
  const CliOption *options; // ended by a row without name; --help is understood everywhere
  const char *notes;        // NULL, or lines below the options
  const char *example;
  const char *exit_codes;
} CliCommand;

enum { CLI_GO_ON = -1 };
/* Fills `target` from the options and ret_operands[max_operands] (the rest NULL). CLI_GO_ON, or the
 * exit code after help was printed or the usage was wrong. An option takes its value as "--x v" or
 * "--x=v"; "--" ends the options. */
int cli_parse(const CliCommand *command, int argc, char **argv, void *target,
              const char **ret_operands, Arena *arena);
/* What a run may take of memory: `given` bytes, or, when that is 0, nine tenths of what is free,
 * `jobs` of them at a time. */
size_t cli_memory(int64_t given, int64_t jobs);
/* Wrong usage beyond what cli_parse sees: one line on stderr, EXIT_USAGE. */
int cli_usage(const CliCommand *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* When the command was interrupted, which `diag` then says: a line on stderr, of what is kept and
 * how to go on. */
void cli_interrupted(const CliCommand *command, const Diag *diag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A line on stderr when runs of a database are stale. */
void cli_note_stale(int64_t runs, int64_t stale);
/* The end of a command: prints what is in `diag`, makes sure that stdout was written, and gives the
 * exit code, `code` when nothing was wrong. */
int cli_finish(Diag *diag, int code);

/* The commands, one file each. */
int cmd_calibrate(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_fit(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_provision(int argc, char **argv);
int cmd_query(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_validate(int argc, char **argv);
#endif
