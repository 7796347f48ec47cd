/* One question of several GPUs, GPUs of prefill, engines, formats of weights, numbers of drafts and
 * tiers for KV, answered side by side. */
#ifndef EXPERIMENTS_COMMANDS_PLAN_SIDES_H
#define EXPERIMENTS_COMMANDS_PLAN_SIDES_H
#include "experiments/commands/study.h"

enum { SIDES_MAX = 64 };

/* Lists of texts, NULL-terminated; of what is not given {NULL, NULL}: one that is absent. */
typedef struct Sides {
  const Question *question; // all but these six
  const char *const *gpus, *const *prefill_gpus, *const *engines, *const *weights, *const *offloads;
  const int64_t *drafts; // [n_drafts]; NULL: not given
  int n_drafts;
  const char *output; // database; NULL: none
  const char *figure; // of all fronts; NULL: none
  OutputFormat format;
  int64_t jobs, memory;
} Sides;

/* The items of "h100,h200"; of NULL one that is NULL. */
const char *const *sides_list(const char *text, Arena *arena);
/* The numbers of "0..4", "0,1,3" or both; of NULL none. -1 with an entry. */
int sides_drafts(Sides *self, const char *text, Arena *arena, Diag *diag);
/* How many questions there are. */
int sides_count(const Sides *self);
/* Sets what is asked of one of them. -1 with an entry. */
int sides_question(const Sides *self, int i, Question *ret_question, Diag *diag);
/* Answers all and prints a table, the best first. The exit code: EXIT_INPUT when none has an
 * answer. */
int sides_answer(Cli *cli, const Sides *self);
#endif
