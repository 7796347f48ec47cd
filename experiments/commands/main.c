/* The program `tandem`: finds the command and runs it. */
#include "base/text.h"
#include "experiments/base/version.h"
#include "experiments/commands/manual.h"
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#define COMMAND(name) extern const Command command_##name;
#include "experiments/commands/commands.def"
#undef COMMAND

#define COMMAND(name) &command_##name,
static const Command *const commands[] = {
#include "experiments/commands/commands.def"
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int unknown_command(const char *name) {
  const char *names[N_COMMANDS + 1] = {NULL};
  for (int i = 0; i < N_COMMANDS; i++)
    names[i] = commands[i]->name;
  return cli_unknown("command", name, names, "tandem --help");
}

/* How many arguments name this command: one for each word of its name, 0 when they name another. */
static int words_of(const Command *command, int argc, char **argv) {
  const size_t length = strcspn(command->name, " ");
  if (strncmp(argv[1], command->name, length) != 0 || argv[1][length]) return 0;
  if (!command->name[length]) return 1;
  return argc > 2 && strcmp(argv[2], command->name + length + 1) == 0 ? 2 : 0;
}

/* The command that the arguments name; NULL: none. */
static const Command *find_command(int argc, char **argv, int *ret_words) {
  for (int i = 0; i < N_COMMANDS; i++)
    if ((*ret_words = words_of(commands[i], argc, argv)) > 0) return commands[i];
  return NULL;
}

/* 'help --all', and what installing takes: 'help --man' and 'help --completion bash'. */
static int print_generated(int argc, char **argv) {
  static const struct {
    const char *option, *value;
    void (*print)(const Command *const *commands, size_t n, FILE *out);
  } texts[] = {{"--all", NULL, help_print_all},
               {"--man", NULL, manual_print},
               {"--completion", "bash", completion_print}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (strcmp(argv[2], texts[i].option) != 0) continue;
    if (texts[i].value && (argc != 4 || strcmp(argv[3], texts[i].value) != 0)) {
      fprintf(stderr, "tandem help: '%s' must be '%s'\n", argv[2], texts[i].value);
      return EXIT_USAGE;
    }
    texts[i].print(commands, N_COMMANDS, stdout);
    return EXIT_DONE;
  }
  return unknown_command(argv[2]);
}

static void print_version(void) {
  printf("tandem %s, commit %s, outcome epoch %016" PRIx64 "\n", tandem_version, tandem_commit,
         outcome_epoch());
}

int main(int argc, char **argv) {
  static const char *const help[] = {"--help", "-h", "help", NULL}, *const version[] = {"--version",
                                                                                        "-V", NULL};
  Arena arena;
  arena_init(&arena);
  config_find_data(&arena);
  arena_done(&arena);
  signal(SIGXFSZ, SIG_IGN); // a file that may grow no more is an error of writing it
  if (argc < 2) {
    fputs("tandem: missing COMMAND; see 'tandem --help'\n", stderr);
    return EXIT_USAGE;
  }
  const bool helps = text_is_one(argv[1], help), generates = helps && argc > 2 && argv[2][0] == '-';
  int words = 0, code = EXIT_DONE;
  if (helps && argc > 2 && !generates) {
    const Command *command = find_command(argc - 1, argv + 1, &words);
    char *ask[] = {argv[2], (char *)help[0], NULL};
    return command ? cli_run(command, 2, ask) : unknown_command(argv[2]);
  }
  if (helps || text_is_one(argv[1], version)) {
    if (generates)
      code = print_generated(argc, argv);
    else if (helps)
      help_print_program(commands, N_COMMANDS, stdout);
    else
      print_version();
    Diag diag;
    diag_init(&diag);
    code = cli_finish(&diag, code);
    diag_done(&diag);
    return code;
  }
  const Command *command = find_command(argc, argv, &words);
  return command ? cli_run(command, argc - words, argv + words) : unknown_command(argv[1]);
}
