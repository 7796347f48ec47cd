/* The manual page, in the macros of man(7). */
#include "experiments/commands/manual.h"
#include "experiments/base/version.h"
#include <string.h>

/* The code point of the UTF-8 sequence at *text, which moves behind it. */
static unsigned next_point(const char **text) {
  const unsigned char *at = (const unsigned char *)*text;
  const int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc0 ? 1 : 0;
  unsigned point = more == 0 ? *at : *at & (0x3fu >> more);
  for (int i = 1; i <= more && at[i]; i++)
    point = point << 6 | (at[i] & 0x3f);
  *text += 1 + more;
  return point;
}

/* Text in which nothing is a request or an escape, and hyphens are those of options. */
static void print_text(const char *text, FILE *out) {
  bool begins = true;
  while (*text) {
    const unsigned point = next_point(&text);
    if (begins && (point == '.' || point == '\'')) fputs("\\&", out);
    if (point == '\\')
      fputs("\\e", out);
    else if (point == '-')
      fputs("\\-", out);
    else if (point >= 0x80)
      fprintf(out, "\\[u%04X]", point);
    else
      putc((int)point, out);
    begins = point == '\n';
  }
}

/* Lines that stay as they are. */
static void print_lines(const char *lines, FILE *out) {
  fputs(".PP\n.EX\n", out);
  print_text(lines, out);
  fputs("\n.EE\n", out);
}

/* Another name of an option before it. */
static bool is_alias(const OptionSpec *options, const OptionSpec *option) {
  const OptionSpec *first = options;
  while (first->offset != option->offset)
    first++;
  return first != option;
}

/* One without help stands in that of another, where help must fit a screen. */
static void print_option(const OptionSpec *option, Arena *arena, FILE *out) {
  fputs(".TP\n\\fB", out);
  print_text(option->key, out);
  fputs("\\fR", out);
  if (option->value) {
    fputs(" \\fI", out);
    print_text(option->value, out);
    fputs("\\fR", out);
  }
  putc('\n', out);
  print_text(option->help ? option->help : option_values(option, arena), out);
  for (int i = 0; option->help && option->choices && option->choices[i]; i++) {
    fputs(i ? ", " : ": ", out);
    print_text(option->choices[i], out);
  }
  if (option->fallback) {
    fputs("  [", out);
    print_text(option->fallback, out);
    fputs("]", out);
  }
  putc('\n', out);
}

static void print_command(const Command *command, Arena *arena, FILE *out) {
  fputs(".SS tandem ", out);
  print_text(command->name, out);
  if (*command->operands) putc(' ', out);
  print_text(command->operands, out);
  fputs(" [options]\n", out);
  print_text(command->summary, out);
  putc('\n', out);
  for (const OptionSpec *option = command->options; option && option->key; option++)
    if (!is_alias(command->options, option)) print_option(option, arena, out);
  if (command->notes) print_lines(command->notes, out);
  if (command->more_notes) print_lines(command->more_notes(arena), out);
  fputs(".PP\nExample:\n", out);
  print_lines(arena_printf(arena, "    %s", command->example), out);
  fputs(".PP\nExit codes: ", out);
  const char *codes = command->exit_codes;
  print_text(codes, out);
  putc('\n', out);
}

void manual_print(const Command *const *commands, size_t n, FILE *out) {
  Arena arena;
  arena_init(&arena);
  fprintf(out, ".\\\" Written by 'tandem help --man'.\n.TH TANDEM 1 \"\" \"tandem %s\"\n",
          tandem_version);
  fputs(".SH NAME\ntandem \\- simulates clusters that serve large language models\n"
        ".SH SYNOPSIS\n.B tandem\n.I COMMAND\n.RI [ arguments ]\n.br\n"
        ".B tandem help\n.RI [ COMMAND ]\n"
        ".SH DESCRIPTION\nSays which cluster, run by which policy, serves a traffic within limits "
        "on its latencies at the least cost or power, and why.\n"
        "Data goes to standard output, all else to standard error.\n"
        "In place of a configuration's path, \\- is standard input.\n"
        ".SH COMMANDS\n",
        out);
  for (size_t i = 0; i < n; i++)
    print_command(commands[i], &arena, out);
  fputs(".SH EXIT STATUS\n"
        ".TP\n0\ndone\n.TP\n1\na stated limit was missed, or what was checked does not hold\n"
        ".TP\n2\nwrong usage\n.TP\n3\nthe input is wrong\n"
        ".TP\n4\nthe environment lacks something\n.TP\n130\ninterrupted\n"
        ".SH ENVIRONMENT\n.TP\n.B TANDEM_DATA\n"
        "where models, machines, performance models and lengths are looked up, in place of the "
        "source tree\n"
        ".TP\n.B TANDEM_BACKEND_TIMEOUT\n"
        "seconds that the program of a backend may take for an answer, 600 by default\n"
        ".SH SEE ALSO\n.B tandem list options\nhas every key of a configuration.\n",
        out);
  arena_done(&arena);
}
