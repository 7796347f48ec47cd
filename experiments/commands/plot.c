/* `tandem plot`: pictures of fitted models and of what is in a database of results. */
#include "experiments/plot/plot.h"
#include "base/output.h"
#include "base/text.h"
#include "experiments/commands/cli.h"
#include <string.h>

typedef struct Options {
  const char *output_path, *axis, *x, *y;
  const Node *metrics, *runs, *where;
  bool is_inline;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN,
     CLI_TEXT("-o", output_path, "FILE", "file to write: .png, .svg, or .csv for the rows"),
     .required = true},
    {CLI_ROW("--metric", NODE, metrics, "NAME",
             "figure to show, such as ttft.p99 or pool.decode.utilization")},
    {CLI_TEXT("--axis", axis, "KEY", "key along the x axis, or the end of its name")},
    {CLI_ROW("--run", NODE, runs, "RUN", "runs to draw: a number, a name or KEY=VALUE"),
     .absent = "all"},
    {CLI_WHERE},
    {.group = "Maps and pages", CLI_TEXT("--x", x, "KEY", "key along the x axis of a map")},
    {CLI_TEXT("--y", y, "KEY", "key along the y axis of a map")},
    {CLI_FLAG("--inline", is_inline,
              "write SVG for use inside an HTML page, with CSS variables as colours")},
    {0}};

/* The figures there are, NULL-terminated. */
static const char *const *figure_names(Arena *arena) {
  const char *const *queries = plot_query_names(arena);
  int n = 0;
  while (queries[n])
    n++;
  const char **names = ARENA_ARRAY(arena, const char *, n + 2);
  names[0] = "fit";
  memcpy(names + 1, queries, (size_t)n * sizeof *queries);
  return names;
}

static const CliTerm *figures_listed(Arena *arena) {
  return cli_terms(figure_names(arena), plot_about, arena);
}

static int draw_at(const Cli *cli, const PlotChoice *choice, const PlotPlace *place) {
  const char *name = cli->operands[0], *from = cli->operands[1];
  return strcmp(name, "fit") == 0 ? plot_fit(from, cli->operands[2], place, cli->arena, cli->diag)
                                  : plot_query(name, from, choice, place, cli->arena, cli->diag);
}

/* A file that is not gnuplot's is a part of a page, or rows. */
static int draw(const Cli *cli, const PlotChoice *choice) {
  const Options *given = cli->given;
  const char *path = given->output_path;
  if (!given->is_inline && gnuplot_can_draw(path))
    return draw_at(cli, choice, &(PlotPlace){.path = path});
  Output part = {0};
  if (output_open(&part, path, cli->arena, cli->diag)) return -1;
  const PlotPlace place = {.rows = given->is_inline ? NULL : part.file,
                           .page = given->is_inline ? part.file : NULL,
                           .id = cli->operands[0]};
  int status = draw_at(cli, choice, &place);
  if (status == 0) status = output_commit(&part, cli->diag);
  output_drop(&part);
  return status;
}

/* Usage beyond what the rows of options say: EXIT_USAGE, or 0. */
static int check_usage(const Cli *cli, const char *const *where) {
  const Options *given = cli->given;
  const char *name = cli->operands[0], *path = given->output_path;
  const bool is_fit = strcmp(name, "fit") == 0;
  const char *const *figures = figure_names(cli->arena);
  if (!text_is_one(name, figures))
    return cli_unknown("figure", name, figures, "tandem plot --help");
  if (cli->operands[2] && !is_fit) return cli_usage(cli, "only 'fit' takes a PROFILE");
  for (; where && *where; where++)
    if (!strchr(*where, '='))
      return cli_usage(cli, "'--where' must be KEY=VALUE, not '%s'", *where);
  if (given->is_inline && !text_ends_with(path, ".svg"))
    return cli_usage(cli, "'%s' does not end in .svg", path);
  if (!gnuplot_can_draw(path) && (is_fit || !text_ends_with(path, ".csv")))
    return cli_usage(cli, "'%s' does not end in .png or .svg", path);
  return 0;
}

static int run_plot(Cli *cli) {
  const Options *given = cli->given;
  const PlotChoice choice = {.metrics = cli_texts(given->metrics, cli->arena),
                             .axis = given->axis,
                             .x = given->x,
                             .y = given->y,
                             .runs = cli_texts(given->runs, cli->arena),
                             .where = cli_texts(given->where, cli->arena),
                             .memory = cli_memory(0, 1)};
  const int wrong = check_usage(cli, choice.where);
  const char *const inputs[] = {cli->operands[1], cli->operands[2], NULL};
  if (wrong) return wrong;
  if (output_check(given->output_path, inputs, cli->diag) || draw(cli, &choice)) return EXIT_INPUT;
  return EXIT_DONE;
}

const Command command_plot = {
    .name = "plot",
    .group = COMMANDS_RESULTS,
    .help = "draw fitted models and stored runs",
    .description = "Draws a fitted performance model ('plot fit MODEL'), or runs of a database of "
                   "results ('plot NAME DB'). Drawing .png and .svg needs gnuplot.",
    .operands = "NAME MODEL|DB [PROFILE]",
    .arguments = (const CliTerm[]){{"NAME", "figure to draw, from the list below"},
                                   {"MODEL", "fitted performance model (YAML), for 'fit'"},
                                   {"DB", "database of results, for all other figures"},
                                   {"PROFILE", "profile to draw beside MODEL; it must be the one "
                                               "that MODEL was fitted to"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "plots/README.md shows each figure.",
    .listing = "Figures",
    .listed = figures_listed,
    .listed_as = "NAME",
    .examples = "tandem plot load sweep.db --metric ttft.p99 --axis rate -o load.svg",
    .exits = {[EXIT_INPUT] = "the model, profile or database is wrong"},
    .run = run_plot,
};
