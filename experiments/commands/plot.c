/* `tandem plot`: pictures of fitted models and of what is in a database of results. */
#include "experiments/plot/plot.h"
#include "experiments/commands/cli.h"
#include "sim/base/output.h"
#include "sim/base/text.h"
#include <string.h>

typedef struct Options {
  const char *output_path;
  bool is_inline;
} Options;

static const OptionSpec options[] = {
    {CLI_ROW("-o", STRING, output_path, "FILE", "picture to write: .png or .svg"),
     .required = true},
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

static bool is_known(const char *name, const char *const *names) {
  while (*names && strcmp(name, *names) != 0)
    names++;
  return *names;
}

static int run_plot(Cli *cli) {
  const Options *given = cli->given;
  const char *name = cli->operands[0], *from = cli->operands[1], *profile = cli->operands[2];
  const char *path = given->output_path;
  const bool is_fit = strcmp(name, "fit") == 0;
  const char *const *figures = figure_names(cli->arena);
  if (!is_known(name, figures)) return cli_unknown("figure", name, figures, "tandem plot --help");
  if (profile && !is_fit) return cli_usage(cli, "only 'fit' takes a PROFILE");
  if (!(given->is_inline ? text_ends_with(path, ".svg") : gnuplot_can_draw(path)))
    return cli_usage(cli, "'%s' does not end in %s.svg", path, given->is_inline ? "" : ".png or ");
  const char *const inputs[] = {from, profile, NULL};
  if (output_check(path, inputs, cli->diag)) return EXIT_INPUT;
  Output part = {0};
  PlotPlace place = {.path = path};
  if (given->is_inline && output_open(&part, path, cli->arena, cli->diag)) return EXIT_INPUT;
  if (given->is_inline) place = (PlotPlace){.page = part.file, .id = name};
  int status = is_fit ? plot_fit(from, profile, &place, cli->arena, cli->diag)
                      : plot_query(name, from, NULL, &place, cli->arena, cli->diag);
  if (status == 0 && given->is_inline) status = output_commit(&part, cli->diag);
  output_drop(&part);
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_plot = {
    .name = "plot",
    .help = "pictures of fitted models and of runs",
    .summary = "Draws a fitted model (fit MODEL), or runs in a database of results (NAME DB).",
    .operands = "NAME MODEL|DB [PROFILE]",
    .options = options,
    .size = sizeof(Options),
    .notes =
        "NAME is fit, or a query of plots/: design-space (SLOs met over machine counts), rates\n"
        "(slowdowns over the rate, by design), timeline (what a group of GPUs did, and its KV\n"
        "memory). The points of a fit come from MODEL; with PROFILE, it is an error if MODEL was\n"
        "fitted to another. Needs gnuplot.",
    .example =
        "tandem plot fit perfmodel/fitted/splitwise-2023/llama2-70b_h100-80gb_tp8.yaml -o fit.svg",
    .exit_codes = "0 done, 2 wrong usage, 3 bad model, profile or database, 4 no gnuplot,\n"
                  "  cannot write",
    .run = run_plot,
};
