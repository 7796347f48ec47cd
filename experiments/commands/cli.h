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
#include "traces/layout.h"

typedef struct Cli Cli;

/* A name and a text that explains it, in a list ended by {0}. */
typedef struct CliTerm {
  const char *name, *text;
} CliTerm;

typedef enum CommandGroup {
  COMMANDS_SIMULATE,
  COMMANDS_RESULTS,
  COMMANDS_MEASURE,
  COMMANDS_DATA,
  COMMAND_GROUPS
} CommandGroup;

/* Texts are wrapped where they are printed; an empty line separates paragraphs. */
typedef struct Command {
  const char *name;
  CommandGroup group;       // in 'tandem --help'
  const char *help;         // its purpose, in one line
  const char *description;  // two or three sentences
  const char *operands;     // "OUT DB... [NAME]", as usage shows them: those in [] may be left out,
                            // and of those with ... there may be any number more
  const CliTerm *arguments; // the operands; NULL: there are none
  const OptionSpec *options;              // see CLI_ROW; --help is understood everywhere
  size_t size;                            // of the struct that they fill, zeroes but for
  const void *initial;                    // NULL: all of it
  const char *notes;                      // NULL, or more to know
  const char *listing;                    // NULL, or the heading of
  const CliTerm *(*listed)(Arena *arena); // names that an argument or option may have
  const char *listed_as; // how operands or the value of an option call them: "NAME"; NULL: do not
  const char *examples;  // command lines
  const char *exits[EXIT_ENVIRONMENT + 1]; // by exit code; NULL: as others have it, "": never
  int (*run)(Cli *cli);                    // returns the exit code when diag stays empty
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

/* A row of the options that fill `Options`, without its braces: a range, a default or a heading may
 * follow. A flag is OPTION_BOOL, without `value`; OPTION_NODE may be given again and is a list of
 * texts (cli_texts). */
#define CLI_ROW(key_, type_, field_, value_, help_)                                                \
  .key = (key_), .type = OPTION_##type_, .offset = offsetof(Options, field_), .value = (value_),   \
  .help = (help_)
#define CLI_FLAG(key_, field_, help_)         CLI_ROW(key_, BOOL, field_, NULL, help_)
#define CLI_TEXT(key_, field_, value_, help_) CLI_ROW(key_, STRING, field_, value_, help_)
#define CLI_COUNT(key_, field_, help_, max_)  CLI_ROW(key_, INT, field_, "N", help_), .max = (max_)
#define CLI_OPTIONS                           .options = options, .size = sizeof(Options)
#define CLI_MAIN                              .group = "Main options"
/* Rows that several commands have, each said once. */
#define CLI_SET(example)                                                                           \
  CLI_ROW("--set", NODE, set, "KEY=VALUE", "set a key of the configuration, such as " example)
#define CLI_OUTPUT                                                                                 \
  CLI_TEXT("--output", output, "DB", "add the runs to this database of results, made if missing")
#define CLI_FORMAT                                                                                 \
  CLI_ROW("--format", CHOICE, format, "FORMAT", "output format"), .choices = format_names,         \
                                                                  .fallback = "table"
#define CLI_WHERE                                                                                  \
  CLI_ROW("--where", NODE, where, "KEY=VALUE", "use only the runs whose KEY has this value")
#define CLI_JOBS                                                                                   \
  CLI_ROW("--jobs", INT, jobs, "N", "number of threads"), .min = 1, .max = 1024,                   \
                                                          .absent = "one per CPU"
#define CLI_MEMORY                                                                                 \
  CLI_ROW("--memory", BYTES, memory, "SIZE", "memory limit, such as '8 GB'"),                      \
      .min = 1, .max = 1e18,                                                                       \
      .absent = "9/10 of the "                                                                     \
                "free memory"
#define CLI_SEED                                                                                   \
  CLI_COUNT("--seed", seed, "random seed, in place of those of the configuration", 1e19)
#define CLI_TIE_SEED                                                                               \
  CLI_COUNT("--tie-seed", tie_seed, "shuffle events that happen at the same time by this seed",    \
            1e19)
#define CLI_MACHINE(help_) CLI_TEXT("--machine", machine, "NAME", help_), .listed = "machines"
#define CLI_DEVICE                                                                                 \
  CLI_COUNT("--device", device, "number of the device to use", INT32_MAX), .fallback = "0"
#define CLI_THREADS                                                                                \
  CLI_COUNT("--threads", threads, "number of CPU threads to use", INT32_MAX), .absent = "all"
#define CLI_ATTENTION                                                                              \
  CLI_TEXT("--attention", attention, "KERNELS",                                                    \
           "attention kernels: tandem; on the backend cuda also cudnn, wgmma"),                    \
      .absent = "tandem"
#define CLI_DTYPE                                                                                  \
  CLI_TEXT("--dtype", dtype, "TYPE", "number type of activations: bf16, fp16 or fp32"),            \
      .absent = "bf16; fp32 on a CPU"
#define CLI_BUDGET(help_, time)                                                                    \
  CLI_ROW("--budget", TICKS, budget, "TIME", help_), .min = 1e-9, .max = 1e12, .fallback = (time)
#define CLI_EXPORT                                                                                 \
  CLI_TEXT("--export", export, "PROGRAM",                                                          \
           "print the commands or manifests that start the answer under PROGRAM")

#define CLI_TRACE_COLUMNS                                                                          \
  CLI_TEXT("--columns", columns, "LIST",                                                           \
           "columns of the trace, as names or numbers: arrival=C,prompt=C,output=C,session=C")
#define CLI_TRACE_TIME(clock)                                                                      \
  CLI_ROW("--time", CHOICE, clock, "UNIT", "format of its times"), .choices = clock_choices,       \
                                                                   .fallback = "auto"
#define CLI_TRACE_SORT(sort) CLI_FLAG("--sort", sort, "sort its rows by time")

/* The command that the first of `words` name, and how many of them do; NULL: none. */
const Command *cli_find(const Command *const *commands, size_t n_commands, int n_words,
                        char **words, int *ret_used);
/* The option that argument `text` names, up to a '='; NULL: none. */
const OptionSpec *cli_find_option(const Command *command, const char *text);
/* Runs a command with main()'s arguments, argv[0] its name: reads them, or prints help or what is
 * wrong with them, and gives the exit code. An option takes its value as "--x v" or "--x=v"; "--"
 * ends the options. */
int cli_run(const Command *command, int argc, char **argv);
/* The texts of an option that may be given again, NULL-terminated; NULL: it was not given. The
 * second has `last` behind them. */
const char *const *cli_texts(const Node *list, Arena *arena);
const char *const *cli_texts_and(const Node *list, const char *last, Arena *arena);
/* Names, NULL-terminated, each with what `about` says of it. */
const CliTerm *cli_terms(const char *const *names,
                         const char *(*about)(const char *name, Arena *arena), Arena *arena);
/* --jobs, 0 when it was not given. */
int cli_jobs(int64_t given);
/* What a run may take of memory: `given` bytes, or, when that is 0, nine tenths of what is free,
 * `jobs` of them at a time. */
size_t cli_memory(int64_t given, int jobs);
/* `tandem` in $XDG_CACHE_HOME, or in ~/.cache, for what may be lost; it need not be there yet. NULL
 * when neither is said, or not from the root. */
const char *cli_cache_folder(Arena *arena);
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
/* "arrival=ts,prompt=in": a column for each that is named; commas in their names are not possible.
 * `list` NULL: none. Wrong usage: EXIT_USAGE, said on stderr; else 0. */
int cli_read_columns(const Cli *cli, const char *list, const char *ret_columns[TRACE_FIELDS]);
/* The end of the program: prints what is in `diag`, makes sure that stdout was written, and gives
 * the exit code, `code` when nothing was wrong. */
int cli_finish(Diag *diag, int code);
#endif
