/* The manual page, in the macros of man(7). */
#include "experiments/commands/manual.h"
#include "base/text.h"
#include "experiments/base/version.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Text in which nothing is a request or an escape, and hyphens are those of options. */
static void print_text(const char *text, FILE *out) {
  bool begins = true;
  uint32_t point = 0;
  for (size_t length = strlen(text), size; length > 0; text += size, length -= size) {
    size = (size_t)text_decode(text, length, &point);
    assert(size > 0);
    if (begins && (point == '.' || point == '\'')) fputs("\\&", out);
    if (point == '\\')
      fputs("\\e", out);
    else if (point == '-')
      fputs("\\-", out);
    else if (point >= 0x80)
      fprintf(out, "\\[u%04" PRIX32 "]", point);
    else
      putc((int)point, out);
    begins = point == '\n';
  }
}

static void print_term(const char *name, const char *text, FILE *out) {
  fputs(".TP\n.B ", out);
  print_text(name, out);
  putc('\n', out);
  print_text(text, out);
  putc('\n', out);
}

static void print_terms(const char *heading, const CliTerm *terms, FILE *out) {
  if (heading) fprintf(out, ".PP\n%s:\n", heading);
  for (; terms->name; terms++)
    print_term(terms->name, terms->text, out);
}

static void print_option(const OptionSpec *option, Arena *arena, FILE *out) {
  if (option->group) fprintf(out, ".PP\n%s:\n", option->group);
  fputs(".TP\n\\fB", out);
  print_text(option->key, out);
  fputs("\\fR", out);
  if (option->value) {
    fputs(" \\fI", out);
    print_text(option->value, out);
    fputs("\\fR", out);
  }
  putc('\n', out);
  print_text(help_option_text(option, arena), out);
  putc('\n', out);
}

/* Paragraphs. */
static void print_prose(const char *text, Arena *arena, FILE *out) {
  for (const char *end; (end = strstr(text, "\n\n")); text = end + 2) {
    print_text(arena_copy(arena, text, (size_t)(end - text)), out);
    fputs("\n.PP\n", out);
  }
  print_text(text, out);
  putc('\n', out);
}

static void print_command(const Command *command, Arena *arena, FILE *out) {
  fputs(".SS ", out);
  print_text(help_usage(command, arena), out);
  putc('\n', out);
  print_prose(command->description, arena, out);
  if (command->arguments) print_terms("Arguments", command->arguments, out);
  for (const OptionSpec *option = command->options; option->key; option++)
    print_option(option, arena, out);
  if (command->notes) fputs(".PP\n", out);
  if (command->notes) print_prose(command->notes, arena, out);
  if (command->listed) print_terms(command->listing, command->listed(arena), out);
  print_terms("Exit codes", help_exit_terms(command, arena), out);
  fputs(".PP\nExamples:\n.PP\n.EX\n", out);
  print_text(command->examples, out);
  fputs("\n.EE\n", out);
}

void manual_print(const Command *const *commands, size_t n, FILE *out) {
  Arena arena;
  arena_init(&arena);
  fprintf(out, ".\\\" Written by 'tandem help --man'.\n.TH TANDEM 1 \"\" \"tandem %s\"\n",
          tandem_version);
  fputs(".SH NAME\ntandem \\- simulate and plan clusters that serve large language models\n"
        ".SH SYNOPSIS\n.B tandem\n.I COMMAND\n.RI [ arguments ]\n.br\n"
        ".B tandem help\n.RI [ COMMAND ]\n"
        ".SH DESCRIPTION\nTandem simulates clusters that serve large language models. It finds the "
        "cheapest cluster that serves a workload within limits on its latencies, and explains "
        "where the time of requests goes.\n"
        "Results go to standard output, messages to standard error.\n"
        "The path \\- stands for a configuration on standard input.\n"
        ".SH COMMANDS\n",
        out);
  for (size_t i = 0; i < n; i++)
    print_command(commands[i], &arena, out);
  fputs(".SH EXIT STATUS\n", out);
  print_terms(NULL, help_exit_terms(NULL, &arena), out);
  fputs(".SH ENVIRONMENT\n.TP\n.B TANDEM_DATA\n"
        "Folder in which models, machine types, performance models and length tables are looked "
        "up. The default is the source tree or the data that was installed with the program.\n"
        ".TP\n.B TANDEM_BACKEND_TIMEOUT\n"
        "Seconds that a backend may take for one answer. The default is 600.\n"
        ".SH SEE ALSO\n.B tandem list options\nprints every key of a configuration.\n",
        out);
  arena_done(&arena);
}
