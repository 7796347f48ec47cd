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

/* Texts that are no command's help: 'help --all', what installing takes, 'help --man' and 'help
 * --completion SHELL', and what shells ask for, 'help --words WORD...'. */
static int print_generated(int argc, char **argv) {
  if (strcmp(argv[2], "--all") == 0) {
    help_print_all(commands, N_COMMANDS, stdout);
  } else if (strcmp(argv[2], "--man") == 0) {
    manual_print(commands, N_COMMANDS, stdout);
  } else if (strcmp(argv[2], "--words") == 0) {
    completion_words(commands, N_COMMANDS, argc - 3, argv + 3, stdout);
  } else if (strcmp(argv[2], "--completion") != 0) {
    return unknown_command(argv[2]);
  } else if (argc != 4 || !completion_print(argv[3], stdout)) {
    fputs("tandem help: '--completion' must be 'bash', 'zsh' or 'fish'\n", stderr);
    return EXIT_USAGE;
  }
  return EXIT_DONE;
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
    const Command *command = cli_find(commands, N_COMMANDS, argc - 2, argv + 2, &words);
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
  const Command *command = cli_find(commands, N_COMMANDS, argc - 1, argv + 1, &words);
  return command ? cli_run(command, argc - words, argv + words) : unknown_command(argv[1]);
}
