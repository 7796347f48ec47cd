/* A study while a command has it: loaded, searched with progress on the terminal, kept in a
 * database, and its answer as a configuration. What commands print of it is theirs. */
#ifndef EXPERIMENTS_COMMANDS_STUDY_H
#define EXPERIMENTS_COMMANDS_STUDY_H
#include "experiments/commands/cli.h"
#include "experiments/plan/plan.h"
#include "experiments/results/results.h"

typedef struct Study {
  Provision provision;
  TrialBase base;
  const char *output; // database; NULL: nothing is kept
  Results results;
  ResultsLock lock;
  bool locked;
  int jobs;                // threads
  DesignOutcome *outcomes; // [provision.n_designs], once it was searched
  int best;                // design with the best answer; -1: none has one
  Arena *arena;
  Diag *diag;
} Study;

/* Reads `root`, which is changed, as `path`; `jobs` and `memory` are as given (cli_jobs,
 * cli_memory). `self` must not move afterwards, and is closed in any case. -1 with entries. */
int study_open(Study *self, const char *path, Node *root, const ConfigChanges *changes,
               int64_t jobs, int64_t memory, Arena *arena, Diag *diag);
/* Searches, with `output` (NULL: none) as its database; with `range` also with times moved by what
 * their models are off by. -1 with entries. */
int study_search(Study *self, const char *output, bool full_runs, bool range);
/* Entries that say of each design why it has no answer; to be used when none has one. */
void study_explain(Study *self);
/* The best answer as a configuration of its own, with `precision` as in ConfigChanges. There must
 * be one. */
int study_bind_answer(Study *self, double precision, Config *ret_config);
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
