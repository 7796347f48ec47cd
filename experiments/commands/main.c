/* The program `tandem`: finds the command and runs it. */
#include "experiments/commands/cli.h"
#include <inttypes.h>
#include <signal.h>
#include <string.h>

typedef struct Command {
  const char *name;
  int (*function)(int argc, char **argv);
  const char *help;
} Command;

static const Command commands[] = {
    {"calibrate", cmd_calibrate, "measure a model's operators on the device at hand"},
    {"check", cmd_check, "what in a profile cannot be"},
    {"fit", cmd_fit, "performance models from a profile, and how good they are"},
    {"import", cmd_import, "a profile from another project's measurements"},
    {"list", cmd_list, "what there is: policies, models, machines, traces, options"},
    {"merge", cmd_merge, "join databases of results"},
    {"plot", cmd_plot, "pictures of fitted models and of runs"},
    {"provision", cmd_provision, "the cheapest cluster that meets the limits"},
    {"query", cmd_query, "ask a results database"},
    {"report", cmd_report, "the claims of papers beside what Tandem gives"},
    {"run", cmd_run, "simulate one configuration"},
    {"sweep", cmd_sweep, "simulate all points that axes span"},
    {"trace", cmd_trace, "what a trace file holds"},
    {"validate", cmd_validate, "predictions against batches that are really run"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
  puts("Simulates clusters that serve large language models.\n\n"
       "usage: tandem COMMAND [arguments]\n");
  for (int i = 0; i < N_COMMANDS; i++)
    printf("  %-9s %s\n", commands[i].name, commands[i].help);
  puts("\n'tandem COMMAND --help' tells more; 'tandem --version' prints the version.\n\n"
       "example: tandem run experiments/examples/quickstart.yaml");
}

static int unknown_command(const char *name) {
  const char *names[N_COMMANDS + 1] = {NULL};
  for (int i = 0; i < N_COMMANDS; i++)
    names[i] = commands[i].name;
  Diag diag;
  diag_init(&diag);
  diag_error(&diag, place_of_file(NULL), "unknown command '%s'", name);
  diag_hint_near(&diag, name, names);
  diag_print(&diag, stderr);
  diag_done(&diag);
  return EXIT_USAGE;
}

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); // a file that may grow no more is an error of writing it
  if (argc < 2) {
    fputs("tandem: which command? See 'tandem --help'\n", stderr);
    return EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--version") == 0) {
    if (argv[1][2] == 'h')
      print_help();
    else
      printf("tandem %s, commit %s, outcome epoch %016" PRIx64 "\n", tandem_version, tandem_commit,
             outcome_epoch());
    Diag diag;
    diag_init(&diag);
    int code = cli_finish(&diag, EXIT_DONE);
    diag_done(&diag);
    return code;
  }
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].function(argc - 1, argv + 1);
  return unknown_command(argv[1]);
}
