/* What all commands share: options, help, usage, endings.
 *
 * A command is one file NAME.c with `const Command command_NAME` and one line COMMAND(NAME) in
 * commands.def. Its options are rows as those of keys are, read by the same code: the key with its
 * dashes, the unit, range, default and help. Data goes to stdout, all else to stderr. */
#ifndef EXPERIMENTS_COMMANDS_CLI_H
#define EXPERIMENTS_COMMANDS_CLI_H
#include "base/option.h"
#include "experiments/base/exit_code.h"
#include "experiments/base/writer.h"
#include "experiments/config/config.h"

typedef struct Cli Cli;

typedef struct Command {
  const char *name;
  const char *help;     // half a line, for 'tandem --help'
  const char *summary;  // one sentence, or a few lines
  const char *operands; // "OUT DB... [NAME]", as usage shows them: those in [] may be left out, and
                        // of those with ... there may be any number more
  const OptionSpec *options; // see CLI_ROW; NULL: none; --help is understood everywhere
  size_t size;               // of the struct that they fill, zeroes but for
  const void *initial;       // NULL: all of it
  const char *notes;         // NULL, or lines below the options
  const char *(*more_notes)(Arena *arena); // NULL, or lines below those
  const char *(*words)(Arena *arena);      // NULL, or what the first operand may be, between spaces
  const char *example;
  const char *exit_codes;
  int (*run)(Cli *cli); // returns the exit code when diag stays empty
} Command;

/* One call of a command. */
struct Cli {
  const Command *command;
  const void *given;     // the struct of its options
  const char **operands; // [n_operands], then NULL
  int n_operands;
  Arena *arena;
  Diag *diag;
};

/* A row of the options that fill `Options`, but for ranges. A flag is OPTION_BOOL, without `value`;
 * OPTION_NODE may be given again and is a list of texts (cli_texts). */
#define CLI_ROW(key_, type_, field_, value_, help_)                                                \
  .key = (key_), .type = OPTION_##type_, .offset = offsetof(Options, field_), .value = (value_),   \
  .help = (help_)
#define CLI_FLAG(key_, field_, help_)                                                              \
  { CLI_ROW(key_, BOOL, field_, NULL, help_) }
#define CLI_TEXT(key_, field_, value_, help_)                                                      \
  { CLI_ROW(key_, STRING, field_, value_, help_) }
/* Those that several commands have. */
#define CLI_SET(example)                                                                           \
  { CLI_ROW("--set", NODE, set, "K=V", "sets a key: --set " example) }
#define CLI_FORMAT                                                                                 \
  {                                                                                                \
    CLI_ROW("--format", CHOICE, format, "F", "of what is printed"), .choices = format_names,       \
                                                                    .fallback = "table"            \
  }
#define CLI_JOBS(help)                                                                             \
  { CLI_ROW("--jobs", INT, jobs, "N", help "  [one per CPU]"), .min = 1, .max = 1024 }
#define CLI_MEMORY(help)                                                                           \
  {                                                                                                \
    CLI_ROW("--memory", BYTES, memory, "SIZE", help "  [9/10 of what is free]"), .min = 1,         \
                                                                                 .max = 1e18       \
  }
#define CLI_SEED(key_, field_, help)                                                               \
  { CLI_ROW(key_, INT, field_, "N", help), .max = 1e19 }

/* Runs a command with main()'s arguments, argv[0] its name: reads them, or prints help or what is
 * wrong with them, and gives the exit code. An option takes its value as "--x v" or "--x=v"; "--"
 * ends the options. */
int cli_run(const Command *command, int argc, char **argv);
/* The texts of an option that may be given again, NULL-terminated. */
const char *const *cli_texts(const Node *list, Arena *arena);
/* --jobs, 0 when it was not given. */
int cli_jobs(int64_t given);
/* What a run may take of memory: `given` bytes, or, when that is 0, nine tenths of what is free,
 * `jobs` of them at a time. */
size_t cli_memory(int64_t given, int jobs);
/* Wrong usage beyond what the rows say: one line on stderr, EXIT_USAGE. */
int cli_usage(const Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* No `what` has this name; `names` is NULL-terminated, and `where` all of them are listed. A hint
 * too, EXIT_USAGE. */
int cli_unknown(const char *what, const char *name, const char *const *names, const char *where);
/* When the command was interrupted, which its diag then says: a line on stderr, of what is kept and
 * how to go on. */
void cli_interrupted(const Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr when runs of a database are stale. */
void cli_note_stale(int64_t runs, int64_t stale);
/* The end of the program: prints what is in `diag`, makes sure that stdout was written, and gives
 * the exit code, `code` when nothing was wrong. */
int cli_finish(Diag *diag, int code);
#endif
