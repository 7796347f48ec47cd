/* `tandem report DB`: what a database of results says, as a page for people. */
#include "base/output.h"
#include "base/text.h"
#include "experiments/commands/cli.h"
#include "experiments/findings/findings.h"
#include <unistd.h>

typedef struct Options {
  const char *output;
} Options;

static const OptionSpec options[] = {
    {CLI_ROW("-o", STRING, output, "FILE",
             "page to write, such as report.html  [standard output]")},
    {0}};

static int write_page(const Cli *cli, const char *database, const char *path) {
  const char *const inputs[] = {database, NULL};
  Output page = {0};
  if (!path) return findings_write(database, stdout, cli->arena, cli->diag);
  if (output_check(path, inputs, cli->diag) || output_open(&page, path, cli->arena, cli->diag))
    return -1;
  int status = findings_write(database, page.file, cli->arena, cli->diag);
  if (status == 0) status = output_commit(&page, cli->diag);
  output_drop(&page);
  return status;
}

static int run_report(Cli *cli) {
  const Options *given = cli->given;
  const char *database = cli->operands[0];
  if (!database || (access(database, F_OK) != 0 && !text_ends_with(database, ".db")))
    return cli_usage(cli,
                     "%s; 'tandem report claims [PAPER]' reports on papers, 'tandem report "
                     "measured FOLDER' on engines",
                     database ? arena_printf(cli->arena, "there is no database '%s'",
                                             text_shown(database, cli->arena))
                              : "missing argument, a database of results");
  return write_page(cli, database, given->output) ? EXIT_INPUT : EXIT_DONE;
}

const Command command_report = {
    .name = "report",
    .help = "a database of results as a page: question, answer, how sure",
    .summary =
        "Writes what a database of results says as one page of HTML that needs no network:\n"
        "the question, the answer and how sure it is, tables, figures, what was assumed, and\n"
        "how to repeat it.",
    .operands = "[DB]",
    .options = options,
    .size = sizeof(Options),
    .notes =
        "DB may hold runs, sweeps, studies of 'provision' and what engines measured; each sweep\n"
        "and study has a chapter, and so have the runs of neither. Figures need gnuplot.\n"
        "'tandem report claims' is of papers, 'tandem report measured' of engines.",
    .example = "tandem report sweep.db -o report.html",
    .exit_codes = "0 done, 2 wrong usage, 3 not a database of results, 4 cannot read or write",
    .run = run_report,
};
