/* What is said of all commands at once, from their tables: the manual page and completion. */
#ifndef EXPERIMENTS_COMMANDS_MANUAL_H
#define EXPERIMENTS_COMMANDS_MANUAL_H
#include "experiments/commands/cli.h"

/* tandem.1, for man(7). */
void manual_print(const Command *const *commands, size_t n, FILE *out);
/* A script for bash; names of policies, models and machines are asked of `tandem list` as they are
 * completed. */
void completion_print(const Command *const *commands, size_t n, FILE *out);
#endif
