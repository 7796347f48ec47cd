/* `tandem compare DB A B`: two sets of runs side by side. */
#include "experiments/compare/compare.h"
#include "experiments/commands/cli.h"
#include <string.h>

typedef struct Options {
  const Node *where, *figures;
  bool all;
  int format;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_WHERE},
    {CLI_ROW("--figure", NODE, figures, "NAME",
             "compare this figure, such as ttft, ttft.p99 or pool.decode.busy_s")},
    {CLI_FLAG("--all", all, "compare all figures")},
    {CLI_FORMAT},
    {0}};

static int run_compare(Cli *cli) {
  const Options *given = cli->given;
  const char *const *operands = cli->operands;
  const bool two = cli->n_operands == 2;
  const char *const *where = cli_texts(given->where, cli->arena);
  if (given->all && given->figures)
    return cli_usage(cli, "'--all' and '--figure' exclude each other");
  for (int i = 0; where && where[i]; i++)
    if (!strchr(where[i], '='))
      return cli_usage(cli, "'--where' must be KEY=VALUE, not '%s'", where[i]);
  const CompareQuestion question = {
      .paths = {operands[0], two ? operands[1] : NULL},
      .names = {two ? NULL : operands[1], two ? NULL : operands[2]},
      .where = where,
      .figures = cli_texts(given->figures, cli->arena),
      .all = given->all,
  };
  Compare compare;
  const int status = compare_open(&compare, &question, cli->arena, cli->diag);
  if (status == 0) {
    compare_print(&compare, (OutputFormat)given->format, stdout);
    cli_note_stale(compare.runs, compare.stale);
  }
  compare_close(&compare);
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_compare = {
    .name = "compare",
    .group = COMMANDS_RESULTS,
    .help = "compare two sets of runs",
    .description =
        "Prints what differs between the configurations of two sets of stored runs, the change "
        "of each figure, its 95% interval over seeds, and whether the change is real. Runs are "
        "paired by seed and by whatever else varies within both sets.",
    .operands = "DB A [B]",
    .arguments = (const CliTerm[]){{"DB", "database of results"},
                                   {"A, B", "sets of runs: a run number, KEY=VALUE of a "
                                            "configuration or an axis (router=jsq), the name of a "
                                            "configuration, or the name of a design. 'compare "
                                            "OLD.db NEW.db' compares all runs of two databases."},
                                   {0}},
    CLI_OPTIONS,
    .examples = "tandem compare sweep.db router=jsq router=token_jsq",
    .exits = {[EXIT_INPUT] = "there are no such runs or figures"},
    .run = run_compare,
};
