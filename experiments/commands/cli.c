/* Options, help and endings of commands. */
#include "experiments/commands/cli.h"
#include "calib/cpu_machine.h"
#include "experiments/base/interrupt.h"
#include "sim/base/text.h"
#include "sim/base/units.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const output_names[] = {"table", "csv", "json", NULL}; // as OutputFormat

int cli_usage(const CliCommand *command, const char *format, ...) {
  va_list list;
  va_start(list, format);
  Arena arena;
  arena_init(&arena);
  fprintf(stderr, "tandem %s: %s; see 'tandem %s --help'\n", command->name,
          text_shown(arena_vprintf(&arena, format, list), &arena), command->name);
  arena_done(&arena);
  va_end(list);
  return EXIT_USAGE;
}

void cli_interrupted(const CliCommand *command, const Diag *diag, const char *format, ...) {
  if (diag_exit_code(diag) != EXIT_INTERRUPTED) return;
  va_list list;
  va_start(list, format);
  fprintf(stderr, "tandem %s: interrupted, ", command->name);
  vfprintf(stderr, format, list);
  fputs("\n", stderr);
  va_end(list);
}

static void print_help(const CliCommand *command) {
  int width = (int)strlen("--help");
  for (const CliOption *option = command->options; option->name; option++) {
    int length = (int)strlen(option->name);
    if (option->value) length += 1 + (int)strlen(option->value);
    if (length > width) width = length;
  }
  printf("%s\n\nusage: tandem %s%s%s [options]\n\n", command->summary, command->name,
         *command->operands ? " " : "", command->operands);
  for (const CliOption *option = command->options; option->name; option++) {
    int used = printf("  %s%s%s", option->name, option->value ? " " : "",
                      option->value ? option->value : "");
    printf("%*s%s\n", width + 4 - used, "", option->help);
  }
  printf("  %-*s  this text\n", width, "--help");
  if (command->notes) printf("\n%s\n", command->notes);
  printf("\nexample: %s\n\nexit codes: %s\n", command->example, command->exit_codes);
}

static int parse_number(const char *text, int64_t *ret_number) {
  char *end = NULL;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (end == text || *end || errno || number < 0 || text[0] < '0' || text[0] > '9') return -1;
  *ret_number = number;
  return 0;
}

static int parse_bytes(const char *text, int64_t *ret_bytes) {
  double bytes = 0;
  if (!units_parse(text, DIM_BYTES, &bytes) || bytes < 1 || bytes > 1e18) return -1;
  *ret_bytes = (int64_t)bytes;
  return 0;
}

size_t cli_memory(int64_t given, int64_t jobs) {
  const int64_t all = given > 0 ? given : cpu_machine_available_bytes() / 10 * 9;
  return (size_t)(all / jobs);
}

static int find_output(const char *text, OutputFormat *ret_format) {
  for (int i = 0; output_names[i]; i++) {
    if (strcmp(output_names[i], text) != 0) continue;
    *ret_format = (OutputFormat)i;
    return 0;
  }
  return -1;
}

static int set_option(const CliCommand *command, const CliOption *option, const char *value,
                      void *target, Arena *arena) {
  void *field = (char *)target + option->offset;
  CliList *list = field;
  switch (option->kind) {
  case CLI_FLAG:
    *(bool *)field = true;
    break;
  case CLI_TEXT:
    *(const char **)field = value;
    break;
  case CLI_LIST:
    ARENA_RESERVE(arena, list->items, list->capacity, list->n + 2);
    list->items[list->n++] = value;
    list->items[list->n] = NULL;
    break;
  case CLI_NUMBER:
    if (parse_number(value, field))
      return cli_usage(command, "'%s' wants a whole number, not '%s'", option->name, value);
    break;
  case CLI_BYTES:
    if (parse_bytes(value, field))
      return cli_usage(command, "'%s' wants a size such as '8 GiB', not '%s'", option->name, value);
    break;
  case CLI_OUTPUT:
    if (find_output(value, field))
      return cli_usage(command, "'%s' is table, csv or json, not '%s'", option->name, value);
    break;
  }
  return CLI_GO_ON;
}

/* The option that argument `text` names, up to a '='. */
static const CliOption *find_option(const CliCommand *command, const char *text) {
  size_t length = strcspn(text, "=");
  const CliOption *option = command->options;
  while (option->name &&
         (strlen(option->name) != length || strncmp(option->name, text, length) != 0))
    option++;
  return option->name ? option : NULL;
}

static int unknown_option(const CliCommand *command, const char *text, Arena *arena) {
  const char *word = arena_copy(arena, text, strcspn(text, "="));
  int n = 0;
  while (command->options[n].name)
    n++;
  const char **names = ARENA_ARRAY(arena, const char *, n + 2);
  names[n] = "--help";
  while (n-- > 0)
    names[n] = command->options[n].name;
  Diag diag;
  diag_init(&diag);
  diag_error(&diag, place_of_file(NULL), "unknown option '%s' of 'tandem %s'", word, command->name);
  diag_hint_near(&diag, word, names);
  diag_print(&diag, stderr);
  diag_done(&diag);
  return EXIT_USAGE;
}

/* Takes argument *i, and the next one when it is the value. */
static int take_option(const CliCommand *command, int argc, char **argv, int *i, void *target,
                       Arena *arena) {
  const char *text = argv[*i];
  if (strcmp(text, "--help") == 0) {
    print_help(command);
    return EXIT_DONE;
  }
  const CliOption *option = find_option(command, text);
  if (!option) return unknown_option(command, text, arena);
  const char *value = strchr(text, '=');
  if (!option->value) {
    if (value) return cli_usage(command, "'%s' takes no value", option->name);
    return set_option(command, option, NULL, target, arena);
  }
  if (!value && *i + 1 == argc)
    return cli_usage(command, "'%s' needs a value: %s", option->name, option->value);
  value = value ? value + 1 : argv[++*i];
  return set_option(command, option, value, target, arena);
}

int cli_parse(const CliCommand *command, int argc, char **argv, void *target,
              const char **ret_operands, Arena *arena) {
  int n_operands = 0;
  bool options_end = false;
  memset(ret_operands, 0, (size_t)command->max_operands * sizeof *ret_operands);
  for (int i = 1; i < argc; i++) {
    bool is_option = !options_end && argv[i][0] == '-' && argv[i][1] != '\0';
    if (is_option && strcmp(argv[i], "--") == 0) {
      options_end = true;
    } else if (is_option) {
      int code = take_option(command, argc, argv, &i, target, arena);
      if (code != CLI_GO_ON) return code;
    } else if (n_operands == command->max_operands) {
      return cli_usage(command, "'%s' is one argument too many", argv[i]);
    } else {
      ret_operands[n_operands++] = argv[i];
    }
  }
  if (n_operands < command->min_operands)
    return cli_usage(command, "it needs %s", command->operands);
  return CLI_GO_ON;
}

void cli_note_stale(int64_t runs, int64_t stale) {
  if (stale > 0)
    fprintf(stderr, "note: %lld of %lld runs are stale: a program with other outcomes made them\n",
            (long long)stale, (long long)runs);
}

int cli_finish(Diag *diag, int code) {
  if (fflush(stdout) != 0 || ferror(stdout))
    diag_environment(diag, place_of_file(NULL), "cannot write to standard output: %s",
                     strerror(errno));
  diag_print(diag, stderr);
  if (diag->n_entries > 0) code = diag_exit_code(diag);
  return code == EXIT_INTERRUPTED ? 128 + (int)interrupt_signal : code;
}
