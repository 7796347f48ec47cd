/* `tandem plan --batch N`: hours and money of requests that are all there at once. */
#ifndef EXPERIMENTS_COMMANDS_PLAN_BATCH_H
#define EXPERIMENTS_COMMANDS_PLAN_BATCH_H
#include "experiments/commands/plan_sides.h"

/* Answers all questions, whose `batch` is set, and prints a table: of one all designs, of several
 * the best of each; the cheapest first. The exit code: EXIT_INPUT when none has an answer. */
int batch_answer(Cli *cli, const Sides *sides);
#endif
