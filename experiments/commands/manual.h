/* What is said of commands, all from their tables: help, the manual page and completion. */
#ifndef EXPERIMENTS_COMMANDS_MANUAL_H
#define EXPERIMENTS_COMMANDS_MANUAL_H
#include "experiments/commands/cli.h"

/* The help of a command. */
void help_print(const Command *command, FILE *out);
/* That of the program: its commands. */
void help_print_program(const Command *const *commands, size_t n, FILE *out);
/* All of it as a page of Markdown. */
void help_print_all(const Command *const *commands, size_t n, FILE *out);

/* "tandem plan --model NAME [options]" */
const char *help_usage(const Command *command, Arena *arena);
/* "--output DB" */
const char *help_option_usage(const OptionSpec *option, Arena *arena);
/* Its help with its choices, its default and what else its row says. */
const char *help_option_text(const OptionSpec *option, Arena *arena);
/* The exit codes of a command, or those of all commands where it is NULL. */
const CliTerm *help_exit_terms(const Command *command, Arena *arena);

/* tandem.1, for man(7). */
void manual_print(const Command *const *commands, size_t n, FILE *out);
/* A script for bash; names of policies, models and machines are asked of `tandem list` as they are
 * completed. */
void completion_print(const Command *const *commands, size_t n, FILE *out);
#endif
