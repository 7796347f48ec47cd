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
    {CLI_MAIN, CLI_TEXT("-o", output, "FILE", "page to write, such as report.html"),
     .absent = "standard output"},
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
    .group = COMMANDS_RESULTS,
    .help = "write a database of results as an HTML page",
    .description =
        "Writes one page of HTML that needs no network: the question, the answer and its "
        "certainty, tables, figures, assumptions, and the commands that repeat it. Each sweep, "
        "each study and each set of engine measurements has a chapter.",
    .operands = "[DB]",
    .arguments = (const CliTerm[]){{"DB", "database of results"}, {0}},
    CLI_OPTIONS,
    .notes = "Figures need gnuplot. 'tandem report claims' compares the simulator with papers, "
             "'tandem report measured' with measurements of engines.",
    .examples = "tandem report sweep.db -o report.html",
    .exits = {[EXIT_INPUT] = "the file is not a database of results"},
    .run = run_report,
};
