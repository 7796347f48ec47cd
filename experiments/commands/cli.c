/* Options, help and endings of commands. */
#include "experiments/commands/cli.h"
#include "base/text.h"
#include "calib/cpu_machine.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/stack.h"
#include "experiments/base/workers.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

enum { GO_ON = -1 };

int cli_usage(const Cli *cli, const char *format, ...) {
  const char *name = cli->command->name;
  va_list list;
  va_start(list, format);
  fprintf(stderr, "tandem %s: %s; see 'tandem %s --help'\n", name,
          text_shown(arena_vprintf(cli->arena, format, list), cli->arena), name);
  va_end(list);
  return EXIT_USAGE;
}

int cli_unknown(const char *what, const char *name, const char *const *names, const char *where) {
  Diag diag;
  diag_init(&diag);
  diag_error(&diag, place_of_file(NULL), "unknown %s '%s'", what, name);
  diag_hint_choices(&diag, name, names, where);
  diag_print(&diag, stderr);
  diag_done(&diag);
  return EXIT_USAGE;
}

void cli_interrupted(const Cli *cli, const char *format, ...) {
  if (diag_exit_code(cli->diag) != EXIT_INTERRUPTED) return;
  va_list list;
  va_start(list, format);
  fprintf(stderr, "tandem %s: interrupted, ", cli->command->name);
  vfprintf(stderr, format, list);
  fputs("\n", stderr);
  va_end(list);
}

void cli_note_stale(int64_t runs, int64_t stale) {
  if (stale > 0)
    fprintf(stderr,
            "note: %lld of %lld runs are stale: another version of the program, with other "
            "outcomes, made them\n",
            (long long)stale, (long long)runs);
}

int cli_jobs(int64_t given) {
  return given > 0 ? (int)given : workers_cpus();
}

size_t cli_memory(int64_t given, int jobs) {
  const int64_t all = given > 0 ? given : cpu_machine_available_bytes() / 10 * 9;
  return (size_t)(all / jobs);
}

const char *const *cli_texts(const Node *list, Arena *arena) {
  if (!list) return NULL;
  const char **texts = ARENA_ARRAY(arena, const char *, list->n_children + 1);
  int n = 0;
  for (const Node *node = list->first; node; node = node->next)
    texts[n++] = node->text;
  return texts;
}

/* ---- Help ---- */

/* "--output DB" */
static const char *option_usage(const OptionSpec *option, Arena *arena) {
  return option->value ? arena_printf(arena, "%s %s", option->key, option->value) : option->key;
}

/* Choices go on in a line of their own where they would be too wide. */
static void print_option(const OptionSpec *option, int width, Arena *arena) {
  enum { WIDEST = 100 };
  if (!option->help) return; // another name of one that has it
  const int indent = 2 + width + 2;
  int column = printf("  %-*s  %s", width, option_usage(option, arena), option->help);
  for (int i = 0; option->choices && option->choices[i]; i++) {
    const char *choice = option->choices[i];
    column += printf("%s", i ? "," : ":");
    if (column + 2 + (int)strlen(choice) > WIDEST - 1) column = printf("\n%*s", indent - 1, "") - 1;
    column += printf(" %s", choice);
  }
  if (option->fallback) printf("  [%s]", option->fallback);
  putchar('\n');
}

static void print_help(const Cli *cli) {
  const Command *command = cli->command;
  static const OptionSpec help = {.key = "--help", .help = "this text"};
  int width = (int)strlen(help.key);
  for (const OptionSpec *option = command->options; option && option->key; option++) {
    const int length = (int)strlen(option_usage(option, cli->arena));
    if (length > width) width = length;
  }
  printf("%s\n\nusage: tandem %s%s%s [options]\n\n", command->summary, command->name,
         *command->operands ? " " : "", command->operands);
  for (const OptionSpec *option = command->options; option && option->key; option++)
    print_option(option, width, cli->arena);
  print_option(&help, width, cli->arena);
  if (command->notes) printf("\n%s\n", command->notes);
  if (command->more_notes) printf("\n%s\n", command->more_notes(cli->arena));
  printf("\nexample: %s\nexit codes: %s\n", command->example, command->exit_codes);
}

/* ---- Options ---- */

/* The option that argument `text` names, up to a '='. */
static const OptionSpec *find_option(const Command *command, const char *text) {
  const size_t length = strcspn(text, "=");
  for (const OptionSpec *option = command->options; option && option->key; option++)
    if (strlen(option->key) == length && strncmp(option->key, text, length) == 0) return option;
  return NULL;
}

static int unknown_option(const Cli *cli, const char *text) {
  const OptionSpec *options = cli->command->options;
  int n = 0;
  while (options && options[n].key)
    n++;
  const char **names = ARENA_ARRAY(cli->arena, const char *, n + 2);
  names[n] = "--help";
  while (n-- > 0)
    names[n] = options[n].key;
  return cli_unknown("option", arena_copy(cli->arena, text, strcspn(text, "=")), names,
                     arena_printf(cli->arena, "tandem %s --help", cli->command->name));
}

/* Appends to the list of an option that may be given again. */
static void append(const Node **list, const char *text, Arena *arena) {
  if (!*list) {
    Node *made = ARENA_NEW(arena, Node);
    made->kind = NODE_LIST;
    *list = made;
  }
  Node *self = (Node *)*list, *node = ARENA_NEW(arena, Node);
  *node = (Node){.kind = NODE_SCALAR, .text = text, .parent = self};
  Node **end = &self->first;
  while (*end)
    end = &(*end)->next;
  *end = node;
  self->n_children++;
}

/* Says what is wrong with a value. */
static int wrong_value(const Cli *cli) {
  const DiagEntry *entry = &cli->diag->entries[0];
  cli_usage(cli, "%s", entry->message);
  if (entry->hint) fprintf(stderr, "  hint: %s\n", entry->hint);
  cli->diag->n_entries = 0;
  return EXIT_USAGE;
}

/* Texts are taken as they are: an SQL statement has lines, and files have any name. */
static int set_option(const Cli *cli, const OptionSpec *option, const char *text, void *target) {
  void *field = (char *)target + option->offset;
  const Node value = {.kind = NODE_SCALAR, .text = text};
  if (option->type == OPTION_NODE)
    append(field, text, cli->arena);
  else if (option->type == OPTION_STRING)
    *(const char **)field = text;
  else if (option_bind_one(option, &value, target, cli->diag))
    return wrong_value(cli);
  return GO_ON;
}

/* Takes argument *i, and the next one when it is the value. */
static int take_option(const Cli *cli, int argc, char **argv, int *i, void *target) {
  const char *text = argv[*i];
  if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
    print_help(cli);
    return EXIT_DONE;
  }
  const OptionSpec *option = find_option(cli->command, text);
  if (!option) return unknown_option(cli, text);
  const char *value = strchr(text, '=');
  if (!option->value)
    return value ? cli_usage(cli, "'%s' takes no value", option->key)
                 : set_option(cli, option, "true", target);
  if (!value && *i + 1 == argc)
    return cli_usage(cli, "'%s' needs a value: %s", option->key, option->value);
  return set_option(cli, option, value ? value + 1 : argv[++*i], target);
}

/* Whether all options without which the command cannot be were among the arguments. */
static int check_required(const Cli *cli, int argc, char **argv) {
  for (const OptionSpec *option = cli->command->options; option && option->key; option++) {
    bool given = !option->required;
    for (int i = 1; i < argc && !given && strcmp(argv[i], "--") != 0; i++)
      given = argv[i][0] == '-' && find_option(cli->command, argv[i]) == option;
    if (!given) return cli_usage(cli, "'%s' is missing", option_usage(option, cli->arena));
  }
  return GO_ON;
}

static void count_operands(const char *usage, int *ret_min, int *ret_max) {
  *ret_min = *ret_max = 0;
  for (const char *word = usage; *word; word += strspn(word, " ")) {
    *ret_min += *word != '[';
    *ret_max += 1;
    word += strcspn(word, " ");
  }
  if (strstr(usage, "...")) *ret_max = INT_MAX;
}

static int parse(Cli *cli, int argc, char **argv, void *target) {
  const Command *command = cli->command;
  int min_operands, max_operands;
  count_operands(command->operands, &min_operands, &max_operands);
  bool options_end = false;
  for (int i = 1; i < argc; i++) {
    const bool is_option = !options_end && argv[i][0] == '-' && argv[i][1] != '\0';
    if (is_option && strcmp(argv[i], "--") == 0) {
      options_end = true;
    } else if (is_option) {
      const int code = take_option(cli, argc, argv, &i, target);
      if (code != GO_ON) return code;
    } else if (cli->n_operands == max_operands) {
      return cli_usage(cli, "unexpected argument '%s'", argv[i]);
    } else {
      cli->operands[cli->n_operands++] = argv[i];
    }
  }
  if (cli->n_operands < min_operands)
    return cli_usage(cli, "missing argument %s", command->operands);
  return check_required(cli, argc, argv);
}

/* ---- A call ---- */

int cli_finish(Diag *diag, int code) {
  if (fflush(stdout) != 0 || ferror(stdout))
    diag_environment(diag, place_of_file(NULL), "cannot write to standard output: %s",
                     strerror(errno));
  diag_print(diag, stderr);
  if (diag->n_entries > 0) code = diag_exit_code(diag);
  return code == EXIT_INTERRUPTED ? 128 + (int)interrupt_signal : code;
}

int cli_run(const Command *command, int argc, char **argv) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  config_find_data(&arena);
  void *given = arena_alloc(&arena, command->size + 1);
  if (command->initial) memcpy(given, command->initial, command->size);
  if (command->options) option_defaults(command->options, given);
  Cli cli = {.command = command,
             .given = given,
             .operands = ARENA_ARRAY(&arena, const char *, argc + 1),
             .arena = &arena,
             .diag = &diag};
  int code = parse(&cli, argc, argv, given);
  if (code == GO_ON)
    code = stack_check(&diag) || config_check_data(&diag) ? EXIT_ENVIRONMENT : command->run(&cli);
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
