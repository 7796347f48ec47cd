/* `tandem plot fit MODEL`: measurements, fit and residuals, drawn by gnuplot with plots/fit.gp. */
#include "experiments/cli.h"
#include "experiments/config.h"
#include "perfmodel/fit_file.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
  const char *output_path;
} Options;

static const CliOption plot_options[] = {
    {"-o", "FILE", CLI_TEXT, offsetof(Options, output_path), "picture to write: .png or .svg"},
    {0}};

static const CliCommand command = {
    .name = "plot",
    .summary = "Draws a fitted model: what was measured, the fit, and how far it is off.",
    .operands = "fit MODEL [PROFILE]",
    .min_operands = 2,
    .max_operands = 3,
    .options = plot_options,
    .notes = "The points come from MODEL; with PROFILE, it is an error if MODEL was fitted to\n"
             "another. Needs gnuplot.",
    .example = "tandem plot fit perfmodel/fitted/llama2-70b_h100-80gb_tp8.yaml -o fit.svg",
    .exit_codes = "0 done, 2 wrong usage, 3 bad model or profile, 4 no gnuplot, cannot write",
};

static const char *terminal_of(const char *path) {
  static const struct {
    const char *extension, *terminal;
  } terminals[] = {{".png", "pngcairo"}, {".svg", "svg"}};
  size_t length = strlen(path);
  for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++)
    if (length > 4 && strcmp(path + length - 4, terminals[i].extension) == 0)
      return terminals[i].terminal;
  return NULL;
}

/* As gnuplot's single quotes want it. */
static void write_quoted(FILE *out, const char *text) {
  putc('\'', out);
  for (; *text; text++) {
    if (*text == '\'') putc('\'', out);
    putc(*text, out);
  }
  putc('\'', out);
}

/* What a panel has along x. */
static int64_t panel_x(FitPart part, const BatchShape *batch) {
  if (part == FIT_DECODE) return batch->decode_seqs;
  return fit_x(part < FIT_OPERATORS ? PROFILE_LINEAR : (ProfileOp)(part - FIT_OPERATORS), batch);
}

static const char *panel_label(FitPart part) {
  static const char *const labels[] = {
      [FIT_PREFILL] = "prompt tokens",
      [FIT_DECODE] = "sequences",
      [FIT_MIXED] = "new tokens",
      [FIT_OPERATORS + PROFILE_LINEAR] = "new tokens",
      [FIT_OPERATORS + PROFILE_PREFILL_ATTENTION] = "sum of new * (2 * past + new)",
      [FIT_OPERATORS + PROFILE_DECODE_ATTENTION] = "context tokens",
      [FIT_OPERATORS + PROFILE_HEAD] = "sequences that need logits"};
  return labels[part];
}

/* One data block per panel: x, measured and fitted ms, and the error in percent. */
static int write_panels(FILE *out, const FitRecord *record, const PerfModel *model) {
  int n_panels = 0;
  for (int part = 0; part < FIT_PARTS; part++) {
    bool empty = true;
    for (int i = 0; i < record->n_points; i++) {
      const FitPoint *point = &record->points[i];
      if (fit_part(point->op, &point->batch) != (FitPart)part) continue;
      if (empty) fprintf(out, "$panel%d << END\n", ++n_panels);
      empty = false;
      double seconds = fit_record_eval(model, point);
      fprintf(out, "%lld %.9g %.9g %.6g\n", (long long)panel_x((FitPart)part, &point->batch),
              1e3 * point->seconds, 1e3 * seconds, 100 * (seconds / point->seconds - 1));
    }
    if (!empty)
      fprintf(out, "END\ntitle%d = '%s'\nlabel%d = '%s'\n", n_panels, fit_part_name((FitPart)part),
              n_panels, panel_label((FitPart)part));
  }
  return n_panels;
}

static void write_script(FILE *out, const FitRecord *record, const PerfModel *model,
                         const char *path, Arena *arena) {
  int n_panels = write_panels(out, record, model);
  fprintf(out, "panels = %d\nset terminal %s noenhanced size %d,640\nset output ", n_panels,
          terminal_of(path), 100 + 420 * n_panels);
  write_quoted(out, path);
  fputs("\nheading = ", out);
  write_quoted(out, model->name);
  fputs("\nload ", out);
  write_quoted(out, arena_printf(arena, "%s/plots/fit.gp", config_data_root()));
  putc('\n', out);
}

/* gnuplot reads the script from a pipe; what it cannot do it says on stderr. */
static int draw(const FitRecord *record, const PerfModel *model, const char *path, Arena *arena,
                Diag *diag) {
  Place at = place_of_file(path);
  if (system("command -v gnuplot >/dev/null 2>&1") != 0)
    return diag_environment(diag, place_of_file(NULL), "'gnuplot' was not found: install it");
  signal(SIGPIPE, SIG_IGN); // its exit status says more
  FILE *out = popen("gnuplot", "w");
  if (!out) return diag_environment(diag, at, "cannot run gnuplot: %s", strerror(errno));
  write_script(out, record, model, path, arena);
  if (pclose(out) != 0) return diag_environment(diag, at, "gnuplot could not draw it");
  return 0;
}

static int64_t most_decodes(const FitRecord *record) {
  int64_t most = 1;
  for (int i = 0; i < record->n_points; i++)
    if (record->points[i].batch.decode_seqs > most) most = record->points[i].batch.decode_seqs;
  return most;
}

static int plot(const char *const *operands, const char *path, Arena *arena, Diag *diag) {
  FitRecord record;
  PerfModel model;
  Profile profile;
  if (fit_record_load(&record, operands[1], arena, diag) ||
      perfmodel_load(&model, operands[1], most_decodes(&record), arena, diag))
    return EXIT_INPUT;
  if (operands[2] && (profile_load(&profile, operands[2], arena, diag) ||
                      fit_record_check(&record, &profile, diag)))
    return EXIT_INPUT;
  draw(&record, &model, path, arena, diag); // what fails is in `diag`
  return EXIT_DONE;
}

static int check_usage(const Options *options, const char *what) {
  if (strcmp(what, "fit") != 0) return cli_usage(&command, "'%s' is not 'fit'", what);
  if (!options->output_path) return cli_usage(&command, "it needs '-o FILE'");
  if (!terminal_of(options->output_path))
    return cli_usage(&command, "'%s' does not end in .png or .svg", options->output_path);
  return CLI_GO_ON;
}

int cmd_plot(int argc, char **argv) {
  Options options = {0};
  const char *operands[3] = {NULL};
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  int code = cli_parse(&command, argc, argv, &options, operands, &arena);
  if (code == CLI_GO_ON) code = check_usage(&options, operands[0]);
  if (code == CLI_GO_ON) code = plot(operands, options.output_path, &arena, &diag);
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
