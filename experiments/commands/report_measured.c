/* `tandem report measured [FOLDER]`: what others measured end to end, beside what Tandem gives. */
#include "base/output.h"
#include "base/text.h"
#include "experiments/base/interrupt.h"
#include "experiments/commands/cli.h"
#include "experiments/measured/measured.h"
#include "experiments/plot/plot.h"
#include <string.h>

/* The first are those of OutputFormat. */
enum { FORMAT_MARKDOWN = OUTPUT_JSON + 1, FORMAT_HTML };
static const char *const formats[] = {"table", "csv", "json", "markdown", "html", NULL};
static const char *const modes[] = {"any", "agg", "disagg", NULL};

typedef struct Options {
  MeasuredOptions asked; // but for the folder
  MeasuredAgainst against;
  const char *config, *output, *figure;
  int64_t jobs, memory;
  int format, mode;
  bool detail;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_TEXT("--engine", asked.engine, "TEXT",
                        "use only points whose engine has TEXT in its name")},
    {CLI_TEXT("--model", asked.model, "TEXT", "use only points whose model has TEXT in its name")},
    {CLI_TEXT("--gpu", asked.gpu, "TEXT", "use only points whose GPU has TEXT in its name")},
    {CLI_ROW("--format", CHOICE, format, "FORMAT",
             "output format; csv and json print points, the others groups"),
     .choices = formats, .fallback = "table"},
    {CLI_TEXT("-o", output, "FILE", "file to write"), .absent = "standard output"},
    {.group = "Points",
     CLI_TEXT("--rows", asked.rows, "FILE",
              "read rows with the columns of inferencex, in place of FOLDER")},
    {CLI_TEXT("--set", asked.set, "NAME", "use one set of measurements, such as inferencex")},
    {CLI_TEXT("--id", asked.id, "ID",
              "use one point, such as a row that 'tandem plan' names as near to its answer")},
    {CLI_ROW("--mode", CHOICE, mode, "MODE",
             "points of one pool (agg) or of prefill and decode pools (disagg)"),
     .choices = modes, .fallback = "any"},
    {CLI_TEXT("--perfmodel", asked.perfmodel, "NAME",
              "performance model in place of that of the engine, such as roofline")},
    {.group = "Output",
     CLI_TEXT("--against", against.path, "FILE",
              "print the errors of another tool's predictions beside these, on the points that "
              "both have: CSV with the columns id, ttft_ms and tpot_ms")},
    {CLI_TEXT("--columns", against.columns, "TEXT",
              "prefix of the names of these columns, such as aic_")},
    {CLI_FLAG("--detail", detail, "separate versions of engines and parallel degrees")},
    {CLI_TEXT("--config", config, "ID", "print the configuration of a point and stop")},
    {CLI_TEXT("--figure", figure, "FILE",
              "draw predictions against measurements, as .png or .svg")},
    {.group = "Resources", CLI_JOBS},
    {CLI_MEMORY},
    {0}};

/* Prints the configuration of one point. */
static int show_config(const Cli *cli, const Measured *measured, const char *id) {
  for (size_t i = 0; i < measured->n_points; i++) {
    const MeasuredPoint *point = &measured->points[i];
    if (strcmp(point->id, id) != 0) continue;
    if (!point->config)
      return diag_error(cli->diag, place_of_file(NULL), "'%s' has no configuration: %s", id,
                        point->why);
    fputs(point->config, stdout);
    return 0;
  }
  return diag_error(cli->diag, place_of_file(NULL), "there is no point with the id '%s'", id);
}

static void print(const Options *given, const Measured *measured, const MeasuredPair *pair,
                  Arena *arena, FILE *out) {
  if (given->against.path)
    measured_print_pair(pair, (OutputFormat)given->format, arena, out);
  else if (given->format == FORMAT_HTML)
    measured_print_html(measured, arena, out);
  else if (given->format == FORMAT_MARKDOWN)
    measured_print_markdown(measured, arena, out);
  else if (given->format == OUTPUT_TABLE)
    measured_print_table(measured, given->detail, arena, out);
  else
    measured_print_points(measured, (OutputFormat)given->format, out);
}

static int print_to(const Options *given, const Measured *measured, const MeasuredPair *pair,
                    const Cli *cli) {
  if (!given->output) {
    print(given, measured, pair, cli->arena, stdout);
    return 0;
  }
  Output output = {0};
  if (output_open(&output, given->output, cli->arena, cli->diag)) return -1;
  print(given, measured, pair, cli->arena, output.file);
  return output_commit(&output, cli->diag);
}

static int run(const Options *given, const MeasuredOptions *asked, const Cli *cli) {
  Measured measured;
  if (measured_load(&measured, asked, cli->arena, cli->diag)) return -1;
  if (given->config) return show_config(cli, &measured, given->config);
  const int jobs = cli_jobs(given->jobs);
  if (measured_simulate(&measured, jobs, cli_memory(given->memory, jobs), cli->diag)) return -1;
  const PlotPlace place = {.path = given->figure};
  if (given->figure && plot_measured(&measured, &place, cli->arena, cli->diag)) return -1;
  MeasuredPair pair;
  if (given->against.path &&
      measured_pair(&pair, &measured, &given->against, cli->arena, cli->diag))
    return -1;
  return print_to(given, &measured, &pair, cli);
}

static int run_report(Cli *cli) {
  const Options *given = cli->given;
  MeasuredOptions asked = given->asked;
  asked.folder = cli->operands[0];
  if (given->mode > 0) asked.mode = modes[given->mode];
  if (!asked.folder == !asked.rows)
    return cli_usage(cli, "missing argument, the FOLDER of measurements, or '--rows FILE'");
  if (given->figure && !gnuplot_can_draw(given->figure))
    return cli_usage(cli, "'--figure' must be a name that ends in .png or .svg");
  if (given->against.path && given->format > OUTPUT_JSON)
    return cli_usage(cli, "'--against' prints table, csv or json");
  if (given->against.columns && !given->against.path)
    return cli_usage(cli, "'--columns' needs '--against'");
  if (asked.set && !text_is_one(asked.set, measured_set_names))
    return cli_unknown("set", asked.set, measured_set_names, NULL);
  interrupt_catch();
  const int status = run(given, &asked, cli);
  cli_interrupted(cli, "nothing is kept; the same command starts again");
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_report_measured = {
    .name = "report measured",
    .group = COMMANDS_RESULTS,
    .help = "compare published measurements with simulations",
    .description =
        "Simulates configurations that others measured end to end, and prints the error of each "
        "prediction. Points that cannot be simulated are listed with the reason.",
    .operands = "[FOLDER]",
    .arguments =
        (const CliTerm[]){{"FOLDER", "folder of measurements; required without --rows"}, {0}},
    CLI_OPTIONS,
    .examples = "tandem report measured measurements --engine vllm --format csv",
    .run = run_report,
};
