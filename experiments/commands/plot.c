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
    {CLI_ROW("-o", STRING, output_path, "FILE", "to write: .png, .svg, or .csv, the rows"),
     .required = true},
    {CLI_ROW("--metric", NODE, metrics, "NAME", "to show: ttft.p99, pool.decode.utilization")},
    CLI_TEXT("--axis", axis, "KEY", "along x: a key that varies, or the end of its name"),
    CLI_TEXT("--x", x, "KEY", "of maps: to the right"),
    CLI_TEXT("--y", y, "KEY", "of maps: upwards"),
    {CLI_ROW("--run", NODE, runs, "RUN", "a number, a name or KEY=VALUE, as in compare  [all]")},
    {CLI_ROW("--where", NODE, where, "K=V", "only runs that have it")},
    CLI_FLAG("--inline", is_inline, "SVG to stand in an HTML page, its colours variables of CSS"),
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

/* Lines with all of results, for help. */
static const char *figures_listed(Arena *arena) {
  const char *const *names = plot_query_names(arena);
  const char *text = "";
  size_t column = 0;
  for (int i = 0; names[i]; i++) {
    const char *gap = i == 0 ? "" : column + strlen(names[i]) > 90 ? ",\n" : ", ";
    column = *gap && gap[1] == '\n' ? 0 : column + strlen(gap);
    column += strlen(names[i]);
    text = arena_printf(arena, "%s%s%s", text, gap, names[i]);
  }
  return text;
}

static bool is_known(const char *name, const char *const *names) {
  while (*names && strcmp(name, *names) != 0)
    names++;
  return *names;
}

/* Draws into a file that is not gnuplot's: a part of a page, or rows. */
static int draw_part(const Cli *cli, const PlotChoice *choice) {
  const Options *given = cli->given;
  const char *name = cli->operands[0], *from = cli->operands[1];
  Output part = {0};
  if (output_open(&part, given->output_path, cli->arena, cli->diag)) return -1;
  const PlotPlace place = {.rows = given->is_inline ? NULL : part.file,
                           .page = given->is_inline ? part.file : NULL,
                           .id = name};
  int status = strcmp(name, "fit") == 0
                   ? plot_fit(from, cli->operands[2], &place, cli->arena, cli->diag)
                   : plot_query(name, from, choice, &place, cli->arena, cli->diag);
  if (status == 0) status = output_commit(&part, cli->diag);
  output_drop(&part);
  return status;
}

static int draw(const Cli *cli, const PlotChoice *choice) {
  const Options *given = cli->given;
  const char *name = cli->operands[0], *from = cli->operands[1];
  const PlotPlace place = {.path = given->output_path};
  if (given->is_inline || !gnuplot_can_draw(place.path)) return draw_part(cli, choice);
  return strcmp(name, "fit") == 0 ? plot_fit(from, cli->operands[2], &place, cli->arena, cli->diag)
                                  : plot_query(name, from, choice, &place, cli->arena, cli->diag);
}

/* Usage beyond what the rows of options say: EXIT_USAGE, or 0. */
static int check_usage(const Cli *cli, const char *const *where) {
  const Options *given = cli->given;
  const char *name = cli->operands[0], *path = given->output_path;
  const bool is_fit = strcmp(name, "fit") == 0;
  const char *const *figures = figure_names(cli->arena);
  if (!is_known(name, figures)) return cli_unknown("figure", name, figures, "tandem plot --help");
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
    .help = "pictures of fitted models and of runs",
    .summary = "Draws a fitted model (fit MODEL), or runs in a database of results (NAME DB).",
    .operands = "NAME MODEL|DB [PROFILE]",
    .options = options,
    .size = sizeof(Options),
    .notes = "NAME is fit, with PROFILE an error if MODEL was fitted to another, or, as in "
             "plots/README.md:",
    .more_notes = figures_listed,
    .example = "tandem plot load sweep.db --metric ttft.p99 --axis rate -o load.svg",
    .exit_codes = "0 done, 2 wrong usage, 3 bad model, profile or database, 4 no gnuplot,\n"
                  "  cannot write",
    .run = run_plot,
};
