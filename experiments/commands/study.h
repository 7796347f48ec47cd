/* A study while a command has it: loaded, searched with progress on the terminal, kept in a
 * database, and its answer as a configuration. What commands print of it is theirs. */
#ifndef EXPERIMENTS_COMMANDS_STUDY_H
#define EXPERIMENTS_COMMANDS_STUDY_H
#include "experiments/commands/cli.h"
#include "experiments/commands/database.h"
#include "experiments/plan/plan.h"

typedef struct Study {
  Provision provision;
  TrialBase base;
  Database database;
  int jobs;                // threads
  DesignOutcome *outcomes; // [provision.n_designs], once it was searched
  int best;                // design with the best answer; -1: none has one
  Arena *arena;
  Diag *diag;
} Study;

/* Options on what machines cost. */
typedef struct MoneyOptions {
  const Node *price;  // texts "h100=2.10"
  const char *prices; // a file; see prices_load
  int sold;           // Sold; -1: as their files have it
} MoneyOptions;

#define CLI_MONEY_PRICE                                                                            \
  CLI_ROW("--price", NODE, money.price, "GPU=USD", "price of one GPU per hour, such as h100=2.10")
#define CLI_MONEY_PRICES                                                                           \
  CLI_TEXT("--prices", money.prices, "FILE", "table of prices: gpu,usd_per_gpu_hour[,date,source]")
#define CLI_MONEY_SOLD                                                                             \
  CLI_ROW("--sold", CHOICE, money.sold, "UNIT", "unit of sale: single GPUs or whole machines"),    \
      .choices = hardware_sold_names, .absent = "that of each machine type"

/* The prices that are given, as a value of `prices`, those of --price last; NULL: none. -1 with
 * entries. */
int study_prices(const MoneyOptions *given, const Node **ret_prices, Arena *arena, Diag *diag);

/* Reads `root`, which is changed, as `path`; `jobs` and `memory` are as given (cli_jobs,
 * cli_memory), `lasting` is of trial_base_init_tree. `self` must not move afterwards, and is closed
 * in any case. -1 with entries. */
int study_open(Study *self, const char *path, Node *root, const ConfigChanges *changes,
               int64_t jobs, int64_t memory, Cache *lasting, Arena *arena, Diag *diag);
/* Searches, with `output` (NULL: none) as its database; with `range` also with times moved by what
 * their models are off by. -1 with entries. */
int study_search(Study *self, const char *output, bool full_runs, bool range);
/* To stderr: which iteration times stood in for others. */
void study_note_times(Study *self);
/* Entries that say of each design why it has no answer; to be used when none has one. */
void study_explain(Study *self);
/* The best answer as a configuration of its own, with `precision` as in ConfigChanges. There must
 * be one. What it is made of is in `cache`; NULL: in the study's, which ends with the study. */
int study_bind_answer(Study *self, double precision, Cache *cache, Config *ret_config);
/* Simulates it, keeps it in the database if there is one, and prints the report. */
int study_run_answer(Study *self, FILE *out);
/* Prints what starts it under a program, which study_check_export knows. The exit code. */
int study_export(Study *self, const char *program);
/* The programs, for help. */
const CliTerm *study_programs(Arena *arena);
/* EXIT_DONE where there is such a program or none is named, else EXIT_USAGE with a message. */
int study_check_export(const char *program, Arena *arena);
/* Says what is left of a search that the user has interrupted, if that is so. */
void study_interrupted(Cli *cli, const char *output);
void study_close(Study *self);
#endif
