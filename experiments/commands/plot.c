/* `tandem plot`: pictures of fitted models and of what is in a database of results. */
#include "experiments/plot/plot.h"
#include "experiments/commands/cli.h"
#include "sim/base/output.h"
#include <stddef.h>
#include <string.h>

typedef struct Options {
  const char *output_path;
} Options;

static const CliOption plot_options[] = {
    {"-o", "FILE", CLI_TEXT, offsetof(Options, output_path), "picture to write: .png or .svg"},
    {0}};

static const CliCommand command = {
    .name = "plot",
    .summary = "Draws a fitted model (fit MODEL), or runs in a database of results (NAME DB).",
    .operands = "NAME MODEL|DB [PROFILE]",
    .min_operands = 2,
    .max_operands = 3,
    .options = plot_options,
    .notes =
        "NAME is fit, or a query of plots/: design-space (SLOs met over machine counts), rates\n"
        "(slowdowns over the rate, by design), timeline (what a group of GPUs did, and its KV\n"
        "memory). The points of a fit come from MODEL; with PROFILE, it is an error if MODEL was\n"
        "fitted to another. Needs gnuplot.",
    .example = "tandem plot fit perfmodel/fitted/llama2-70b_h100-80gb_tp8.yaml -o fit.svg",
    .exit_codes = "0 done, 2 wrong usage, 3 bad model, profile or database, 4 no gnuplot,\n"
                  "  cannot write",
};

static int check_name(const char *name, Arena *arena) {
  if (strcmp(name, "fit") == 0) return CLI_GO_ON;
  for (const char *const *known = plot_query_names(arena); *known; known++)
    if (strcmp(name, *known) == 0) return CLI_GO_ON;
  return cli_usage(&command, "there is no figure '%s'", name);
}

static int check_usage(const Options *options, const char *const *operands, Arena *arena) {
  if (check_name(operands[0], arena) != CLI_GO_ON) return EXIT_USAGE;
  if (operands[2] && strcmp(operands[0], "fit") != 0)
    return cli_usage(&command, "only 'fit' takes a PROFILE");
  if (!options->output_path) return cli_usage(&command, "it needs '-o FILE'");
  if (!gnuplot_can_draw(options->output_path))
    return cli_usage(&command, "'%s' does not end in .png or .svg", options->output_path);
  return CLI_GO_ON;
}

static void draw(const Options *options, const char *const *operands, Arena *arena, Diag *diag) {
  if (strcmp(operands[0], "fit") == 0)
    plot_fit(operands[1], operands[2], options->output_path, arena, diag);
  else
    plot_query(operands[0], operands[1], options->output_path, arena, diag);
}

int cmd_plot(int argc, char **argv) {
  Options options = {0};
  const char *operands[3] = {NULL};
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  int code = cli_parse(&command, argc, argv, &options, operands, &arena);
  if (code == CLI_GO_ON) code = check_usage(&options, operands, &arena);
  if (code == CLI_GO_ON) {
    code = EXIT_DONE; // what fails is in `diag`
    const char *const inputs[] = {operands[1], operands[2], NULL};
    if (output_check(options.output_path, inputs, &diag) == 0)
      draw(&options, operands, &arena, &diag);
  }
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
