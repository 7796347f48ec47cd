/* `tandem plan --batch N`: hours and money of requests that are all there at once. */
#ifndef EXPERIMENTS_COMMANDS_PLAN_BATCH_H
#define EXPERIMENTS_COMMANDS_PLAN_BATCH_H
#include "experiments/commands/plan_sides.h"

/* What one instance of a design takes. */
typedef struct BatchTimes {
  double n[2], s[2]; // requests and their time
  double output;     // tokens of a request
  const Lot *lots;   // [n_lots] of it
  int n_lots;
  const char *why_not; // NULL: it takes that
} BatchTimes;

/* Of a study that was searched. */
BatchTimes batch_times(const DesignOutcome *outcome);
/* How long so many requests take on one instance. */
double batch_seconds(const BatchTimes *self, double requests);
/* The least number of instances that meets a deadline; 0: more than there are requests. */
double batch_instances(const BatchTimes *self, double requests, double deadline_s);
Takes batch_takes(const BatchTimes *times, double instances, Arena *arena);

/* Answers all questions, whose `batch` is set, and prints a table: of one all designs, of several
 * the best of each; the cheapest first. The exit code: EXIT_INPUT when none has an answer. */
int batch_answer(Cli *cli, const Sides *sides);
#endif
