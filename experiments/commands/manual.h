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

/* What may stand in place of the last of the words behind the program's name, "WORD<tab>HELP" in a
 * line each; the line "/" alone says that files may stand there too. New commands, options, keys
 * and names follow from their tables. */
void completion_words(const Command *const *commands, size_t n, int n_words, char **words,
                      FILE *out);
/* The script by which a shell asks for them; false: there is none for this shell. */
bool completion_print(const char *shell, FILE *out);
extern const char *const completion_shells[]; // NULL-terminated
/* The names in a list of `tandem list`, with what explains policies; NULL: it has no names. */
const CliTerm *list_terms(const char *what, Arena *arena);
#endif
