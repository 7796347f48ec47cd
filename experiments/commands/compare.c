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
    {CLI_ROW("--where", NODE, where, "K=V", "of both sides, only runs that have it")},
    {CLI_ROW("--figure", NODE, figures, "NAME", "a figure: ttft, ttft.p99, pool.decode.busy_s")},
    CLI_FLAG("--all", all, "all figures"),
    CLI_FORMAT,
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
    .help = "two sets of runs side by side",
    .summary = "Sets two sets of stored runs side by side: what differs in their configuration,\n"
               "each figure's change, its 95% interval over seeds, and whether it is real.",
    .operands = "DB A [B]",
    .options = options,
    .size = sizeof(Options),
    .notes = "A and B are runs by number, all runs with a KEY=VALUE (router=jsq) of their\n"
             "configuration or an axis, those of a configuration by its name, or a design. With\n"
             "two databases, 'compare OLD.db NEW.db', they are all runs of each. Runs are paired\n"
             "by their seed and by what else varies within A and B.",
    .example = "tandem compare sweep.db router=jsq router=token_jsq",
    .exit_codes = "0 done, 2 wrong usage, 3 no such runs or figures, 4 cannot read it",
    .run = run_compare,
};
