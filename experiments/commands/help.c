/* Help from the tables of commands: for a terminal, and all of it as a page. */
#include "base/text.h"
#include "experiments/commands/manual.h"
#include <string.h>

enum { WIDTH = 80, INDENT = 2, GAP = 2, TERM_MAX = 24 };

static const char *const exits[] = {
    [EXIT_DONE] = "success",
    [EXIT_NOT_MET] = "a limit was missed, or a check failed", // where a command says so
    [EXIT_USAGE] = "wrong usage",
    [EXIT_INPUT] = "the input is wrong",
    [EXIT_ENVIRONMENT] = "a file, a device or a program is missing, or a file cannot be written",
};

const CliTerm *help_exit_terms(const Command *command, Arena *arena) {
  enum { CODES = sizeof exits / sizeof *exits };
  CliTerm *terms = ARENA_ARRAY(arena, CliTerm, CODES + 2);
  int n = 0;
  for (int code = 0; code < CODES; code++) {
    const char *own = command ? command->exits[code] : NULL;
    const char *text = own || (command && code == EXIT_NOT_MET) ? own : exits[code];
    if (text && *text) terms[n++] = (CliTerm){arena_printf(arena, "%d", code), text};
  }
  terms[n++] = (CliTerm){"130", "interrupted"};
  terms[n] = (CliTerm){0};
  return terms;
}

/* ---- Options ---- */

const char *help_option_usage(const OptionSpec *option, Arena *arena) {
  return option->value ? arena_printf(arena, "%s %s", option->key, option->value) : option->key;
}

static const char *with_fact(const char *text, const char *fact, const char *value, Arena *arena) {
  return arena_printf(arena, "%s%s%s%s", text, *text ? "; " : "", fact, value);
}

const char *help_option_text(const OptionSpec *option, Arena *arena) {
  const char *text = option->help, *facts = "";
  for (int i = 0; option->choices && option->choices[i]; i++)
    text = arena_printf(arena, "%s%s%s", text,
                        i == 0                   ? ": "
                        : option->choices[i + 1] ? ", "
                                                 : " or ",
                        option->choices[i]);
  if (option->type == OPTION_NODE) facts = with_fact(facts, "may be repeated", "", arena);
  if (option->listed) facts = with_fact(facts, "see tandem list ", option->listed, arena);
  if (option->required)
    facts = with_fact(facts, "required", "", arena);
  else if (option_default(option))
    facts = with_fact(facts, "default: ", option_default(option), arena);
  return *facts ? arena_printf(arena, "%s (%s)", text, facts) : text;
}

const char *help_usage(const Command *command, Arena *arena) {
  const char *text = arena_printf(arena, "tandem %s%s%s", command->name,
                                  *command->operands ? " " : "", command->operands);
  for (const OptionSpec *option = command->options; option->key; option++)
    if (option->required)
      text = arena_printf(arena, "%s %s", text, help_option_usage(option, arena));
  return arena_printf(arena, "%s [options]", text);
}

/* ---- On a terminal ---- */

/* Words from `column` on, in lines that begin at `indent`; each newline of `text` is one. */
static void put_wrapped(const char *text, int column, int indent, FILE *out) {
  bool begins = true; // a line: its next word stands where it is
  for (const char *at = text; *at;) {
    if (*at == '\n') {
      putc('\n', out);
      column = 0, begins = true, at++;
      continue;
    }
    const int length = (int)strcspn(at, " \n");
    if (!begins && column + 1 + length > WIDTH) {
      putc('\n', out);
      column = 0, begins = true;
    }
    if (column < indent) column += fprintf(out, "%*s", indent - column, "");
    column += fprintf(out, "%s%.*s", begins ? "" : " ", length, at);
    begins = false;
    at += length + (at[length] == ' ');
  }
  putc('\n', out);
}

/* "  NAME  text", the text below a name that is longer than `width`. */
static void put_term(const char *name, const char *text, int width, FILE *out) {
  const int indent = INDENT + width + GAP;
  int column = fprintf(out, "%*s%s", INDENT, "", name);
  if (column + GAP > indent) {
    putc('\n', out);
    column = 0;
  }
  put_wrapped(text, column, indent, out);
}

static void widen(int *width, const char *name) {
  const int length = (int)strlen(name);
  if (length > *width && length <= TERM_MAX) *width = length;
}

static void put_terms(const char *heading, const CliTerm *terms, FILE *out) {
  int width = 0;
  for (const CliTerm *term = terms; term->name; term++)
    widen(&width, term->name);
  fprintf(out, "\n%s:\n", heading);
  for (; terms->name; terms++)
    put_term(terms->name, terms->text, width, out);
}

static void put_options(const Command *command, Arena *arena, FILE *out) {
  int width = 0;
  for (const OptionSpec *option = command->options; option->key; option++)
    widen(&width, help_option_usage(option, arena));
  for (const OptionSpec *option = command->options; option->key; option++) {
    if (option->group) fprintf(out, "\n%s:\n", option->group);
    put_term(help_option_usage(option, arena), help_option_text(option, arena), width, out);
  }
  put_terms("Help", (const CliTerm[]){{"-h, --help", "print this text"}, {0}}, out);
}

/* Lines of a text as they are. */
static void put_lines(const char *heading, const char *lines, FILE *out) {
  fprintf(out, "\n%s:\n", heading);
  while (*lines) {
    const int length = (int)strcspn(lines, "\n");
    fprintf(out, "%*s%.*s\n", INDENT, "", length, lines);
    lines += length + (lines[length] == '\n');
  }
}

void help_print(const Command *command, FILE *out) {
  Arena arena;
  arena_init(&arena);
  fprintf(out, "tandem %s - %s\n\nusage: ", command->name, command->help);
  put_wrapped(help_usage(command, &arena), (int)strlen("usage: "), 2 * INDENT, out);
  putc('\n', out);
  put_wrapped(command->description, 0, 0, out);
  if (command->arguments) put_terms("Arguments", command->arguments, out);
  put_options(command, &arena, out);
  if (command->notes) putc('\n', out);
  if (command->notes) put_wrapped(command->notes, 0, 0, out);
  if (command->listed) put_terms(command->listing, command->listed(&arena), out);
  put_terms("Exit codes", help_exit_terms(command, &arena), out);
  put_lines("Examples", command->examples, out);
  arena_done(&arena);
}

/* ---- Of the program ---- */

static const char *const headings[COMMAND_GROUPS] = {
    [COMMANDS_SIMULATE] = "Simulate and search",
    [COMMANDS_RESULTS] = "Study results",
    [COMMANDS_MEASURE] = "Measure, fit and validate iteration times",
    [COMMANDS_DATA] = "Look up what there is",
};

void help_print_program(const Command *const *commands, size_t n, FILE *out) {
  fputs("tandem - simulate and plan clusters that serve large language models\n\n"
        "usage: tandem COMMAND [arguments]\n",
        out);
  for (int group = 0; group < COMMAND_GROUPS; group++) {
    fprintf(out, "\n%s:\n", headings[group]);
    for (size_t i = 0; i < n; i++)
      if ((int)commands[i]->group == group)
        put_term(commands[i]->name, commands[i]->help, (int)strlen("import vllm-bench"), out);
  }
  fputs("\n'tandem help COMMAND' describes a command, 'tandem help --all' all of them.\n"
        "'tandem --version' prints the version.\n\nExamples:\n"
        "  tandem run experiments/examples/quickstart.yaml\n"
        "  tandem plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 30 \\\n"
        "    --slo 'ttft.p99<2s,tpot.p99<50ms'\n",
        out);
}

void help_print_all(const Command *const *commands, size_t n, FILE *out) {
  fputs("# Commands\n\n<!-- Written by `tandem help --all`; `ninja -C build commands` writes it "
        "anew. -->\n\nThe help texts of all commands, as `tandem help COMMAND` prints them.\n\n"
        "## tandem\n\n```\n",
        out);
  help_print_program(commands, n, out);
  for (size_t i = 0; i < n; i++) {
    fprintf(out, "```\n\n## tandem %s\n\n```\n", commands[i]->name);
    help_print(commands[i], out);
  }
  fputs("```\n", out);
}
