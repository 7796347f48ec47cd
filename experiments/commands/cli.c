/* Options and endings of commands. */
#include "base/text.h"
#include "calib/cpu_machine.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/workers.h"
#include "experiments/commands/manual.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
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

/* As the XDG base directory specification has it: a path that is relative counts as none. */
const char *cli_cache_folder(Arena *arena) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (cache && *cache == '/') return arena_printf(arena, "%s/tandem", cache);
  return home && *home == '/' ? arena_printf(arena, "%s/.cache/tandem", home) : NULL;
}

const char *const *cli_texts_and(const Node *list, const char *last, Arena *arena) {
  const char **texts = ARENA_ARRAY(arena, const char *, (list ? list->n_children : 0) + 2);
  int n = 0;
  for (const Node *node = list ? list->first : NULL; node; node = node->next)
    texts[n++] = node->text;
  texts[n] = last;
  return texts;
}

const char *const *cli_texts(const Node *list, Arena *arena) {
  return list ? cli_texts_and(list, NULL, arena) : NULL;
}

const CliTerm *cli_terms(const char *const *names,
                         const char *(*about)(const char *name, Arena *arena), Arena *arena) {
  int n = 0;
  while (names[n])
    n++;
  CliTerm *terms = ARENA_ARRAY(arena, CliTerm, n + 1);
  while (n-- > 0)
    terms[n] = (CliTerm){names[n], about(names[n], arena)};
  return terms;
}

/* How many words name this command: one for each word of its name, 0 when they name another. */
static int words_of(const Command *command, int n_words, char **words) {
  const size_t length = strcspn(command->name, " ");
  if (strncmp(words[0], command->name, length) != 0 || words[0][length]) return 0;
  if (!command->name[length]) return 1;
  return n_words > 1 && strcmp(words[1], command->name + length + 1) == 0 ? 2 : 0;
}

const Command *cli_find(const Command *const *commands, size_t n_commands, int n_words,
                        char **words, int *ret_used) {
  for (size_t i = 0; i < n_commands; i++)
    if ((*ret_used = words_of(commands[i], n_words, words)) > 0) return commands[i];
  return NULL;
}

/* ---- Options ---- */

const OptionSpec *cli_find_option(const Command *command, const char *text) {
  const size_t length = strcspn(text, "=");
  for (const OptionSpec *option = command->options; option->key; option++)
    if (strlen(option->key) == length && strncmp(option->key, text, length) == 0) return option;
  return NULL;
}

static int unknown_option(const Cli *cli, const char *text) {
  const OptionSpec *options = cli->command->options;
  int n = 0;
  while (options[n].key)
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
    help_print(cli->command, stdout);
    return EXIT_DONE;
  }
  const OptionSpec *option = cli_find_option(cli->command, text);
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
  for (const OptionSpec *option = cli->command->options; option->key; option++) {
    bool given = !option->required;
    for (int i = 1; i < argc && !given && strcmp(argv[i], "--") != 0; i++)
      given = argv[i][0] == '-' && cli_find_option(cli->command, argv[i]) == option;
    if (!given) return cli_usage(cli, "'%s' is missing", help_option_usage(option, cli->arena));
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

/* Of a trace: the field that `text` begins with the name of, up to its '='; TRACE_FIELDS: none. */
static int field_named(const char *text, size_t length) {
  int i = 0;
  while (i < TRACE_FIELDS && (strlen(trace_field_names[i]) != length ||
                              strncmp(trace_field_names[i], text, length) != 0))
    i++;
  return i;
}

int cli_read_columns(const Cli *cli, const char *list, const char *ret_columns[TRACE_FIELDS]) {
  if (list && !*list) return cli_usage(cli, "'--columns' is empty");
  for (const char *at = list; at && *at;) {
    const size_t length = strcspn(at, ","), key = strcspn(at, "=");
    const int i = field_named(at, key);
    if (i == TRACE_FIELDS || key + 1 >= length)
      return cli_usage(cli, "'--columns' must be arrival=C,prompt=C,output=C,session=C, not '%s'",
                       list);
    if (ret_columns[i])
      return cli_usage(cli, "'--columns' names '%s' twice: '%s'", trace_field_names[i], list);
    ret_columns[i] = arena_copy(cli->arena, at + key + 1, length - key - 1);
    at += length + (at[length] == ',');
  }
  return 0;
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
  void *given = arena_alloc(&arena, command->size + 1);
  if (command->initial) memcpy(given, command->initial, command->size);
  option_defaults(command->options, given);
  Cli cli = {.command = command,
             .given = given,
             .operands = ARENA_ARRAY(&arena, const char *, argc + 1),
             .arena = &arena,
             .diag = &diag};
  int code = parse(&cli, argc, argv, given);
  if (code == GO_ON)
    code = workers_check_stack(&diag) || config_check_data(&diag) ? EXIT_ENVIRONMENT
                                                                  : command->run(&cli);
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
