/* `tandem report claims [PAPER]`: what papers claim, beside what Tandem gives for it. */
#include "experiments/base/interrupt.h"
#include "experiments/base/workers.h"
#include "experiments/base/writer.h"
#include "experiments/claims/claims.h"
#include "experiments/commands/cli.h"
#include "sim/base/folder.h"
#include "traces/lengths.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct Options {
  const char *only;
  int format;
  int64_t jobs;
  bool no_sensitivity;
} Options;

static const OptionSpec options[] = {
    CLI_TEXT("--only", only, "ID", "one claim of PAPER, such as SW-F15"),
    CLI_FLAG("--no-sensitivity", no_sensitivity, "no ranges of figures outside"),
    CLI_JOBS("threads"),
    CLI_FORMAT,
    {0}};

/* ---- Figures as text ---- */

enum { FIGURE_TEXT = 32 };

static const char *figure_text(double value, const char *unit, char text[FIGURE_TEXT]) {
  if (isnan(value)) return strcpy(text, "-");
  if (strcmp(unit, "yes") == 0) return strcpy(text, value != 0 ? "yes" : "no");
  if (strcmp(unit, "%") == 0)
    snprintf(text, FIGURE_TEXT, "%.3g%%", 100 * value);
  else
    snprintf(text, FIGURE_TEXT, "%.4g%s%s", value, *unit ? " " : "", unit);
  return text;
}

static const char *allowed_text(const ClaimFigure *figure, char text[2 * FIGURE_TEXT + 4]) {
  char low[FIGURE_TEXT], high[FIGURE_TEXT];
  if (isnan(figure->low)) return strcpy(text, "-");
  if (strcmp(figure->unit, "yes") == 0) return figure_text(figure->low, "yes", text);
  figure_text(figure->low, strcmp(figure->unit, "%") == 0 ? "%" : "", low);
  figure_text(figure->high, figure->unit, high);
  snprintf(text, 2 * FIGURE_TEXT + 4, "%s .. %s", low, high);
  return text;
}

/* "over max_num_seqs 16..64: -38%..-25%, inside at 24..34". */
static const char *range_text(const SensitivityRange *range, const char *unit, Arena *arena) {
  char low[FIGURE_TEXT], high[FIGURE_TEXT];
  const char *values = "no value";
  if (!isnan(range->low)) {
    figure_text(range->low, strcmp(unit, "%") && strcmp(unit, "yes") ? "" : unit, low);
    values = figure_text(range->high, unit, high);
    if (range->low < range->high) values = arena_printf(arena, "%s..%s", low, high);
  }
  const char *inside =
      *range->inside ? arena_printf(arena, "inside at %s", range->inside) : "nowhere inside";
  return arena_printf(arena, "over %s: %s, %s", range->over, values, inside);
}

/* ---- The three formats ---- */

static void print_ranges(const Claim *claim, int figure, Arena *arena, FILE *out) {
  SensitivityRange range;
  for (int k = 0; k < claim->n_sensitivities; k++)
    if (claim_sensitivity(claim, figure, k, &range, arena))
      fprintf(out, "    %s (%s)\n", range_text(&range, claim->figures[figure].unit, arena),
              claim->sensitivities[k].why);
}

static void print_table(const Paper *paper, Arena *arena, FILE *out) {
  int counts[VERDICTS] = {0};
  fprintf(out, "%s\n", paper->title);
  for (int i = 0; i < paper->n_claims; i++) {
    const Claim *claim = &paper->claims[i];
    fprintf(out, "\n%s  %s (%s)\n", claim->id, claim->claim, claim->where);
    for (int f = 0; f < claim->n_figures; f++) {
      const ClaimFigure *figure = &claim->figures[f];
      char released[FIGURE_TEXT], tandem[FIGURE_TEXT], allowed[2 * FIGURE_TEXT + 4];
      if (i + f == 0)
        fprintf(out, "  %-38s %-14s %12s %12s  %-20s %s\n", "", "paper", "released", "tandem",
                "within", "");
      fprintf(out, "  %-38s %-14s %12s %12s  %-20s %s%s%s\n", figure->what, figure->paper,
              figure_text(figure->values[COLUMN_RELEASED], figure->unit, released),
              figure_text(figure->values[COLUMN_TANDEM], figure->unit, tandem),
              allowed_text(figure, allowed), verdict_names[figure->verdict],
              figure->gap ? ": " : "", figure->gap ? figure->gap : "");
      print_ranges(claim, f, arena, out);
      counts[figure->verdict]++;
    }
    if (*claim->note) fprintf(out, "  note: %s\n", claim->note);
  }
  fprintf(out, "\n%d claims:", paper->n_claims);
  for (int v = 0; v < VERDICTS; v++)
    fprintf(out, "%s %d %s", v ? "," : "", counts[v], verdict_names[v]);
  fputs("\n", out);
}

/* All ranges of a figure in one cell. */
static const char *ranges_text(const Claim *claim, int figure, Arena *arena) {
  const char *text = "";
  SensitivityRange range;
  for (int k = 0; k < claim->n_sensitivities; k++)
    if (claim_sensitivity(claim, figure, k, &range, arena))
      text = arena_printf(arena, "%s%s%s", text, *text ? "; " : "",
                          range_text(&range, claim->figures[figure].unit, arena));
  return text;
}

static void print_csv(const Paper *paper, Arena *arena, FILE *out) {
  for (int i = 0; i < paper->n_claims; i++)
    for (int f = 0; f < paper->claims[i].n_figures; f++) {
      const Claim *claim = &paper->claims[i];
      const ClaimFigure *figure = &claim->figures[f];
      const char *texts[] = {claim->id, claim->claim, figure->what, figure->paper};
      const double numbers[] = {figure->values[COLUMN_RELEASED], figure->values[COLUMN_TANDEM],
                                figure->low, figure->high};
      for (int t = 0; t < 4; t++) {
        write_csv_text(texts[t], out);
        putc(',', out);
      }
      for (int n = 0; n < 4; n++) {
        write_csv_number(numbers[n], out);
        putc(',', out);
      }
      write_csv_text(figure->unit, out);
      fprintf(out, ",%s,", verdict_names[figure->verdict]);
      write_csv_text(claim->note, out);
      putc(',', out);
      write_csv_text(ranges_text(claim, f, arena), out);
      putc('\n', out);
    }
}

static void json_ranges(const Claim *claim, int figure, Arena *arena, FILE *out) {
  SensitivityRange range;
  const char *before = "{";
  fputs(", \"sensitivity\": [", out);
  for (int k = 0; k < claim->n_sensitivities; k++) {
    if (!claim_sensitivity(claim, figure, k, &range, arena)) continue;
    write_json_text(before, "over", range.over, out);
    write_json_text(", ", "why", claim->sensitivities[k].why, out);
    write_json_value(", ", "low", range.low, out);
    write_json_value(", ", "high", range.high, out);
    write_json_text(", ", "inside", range.inside, out);
    putc('}', out);
    before = ", {";
  }
  putc(']', out);
}

static void print_json(const Paper *paper, bool first, Arena *arena, FILE *out) {
  for (int i = 0; i < paper->n_claims; i++)
    for (int f = 0; f < paper->claims[i].n_figures; f++, first = false) {
      const Claim *claim = &paper->claims[i];
      const ClaimFigure *figure = &claim->figures[f];
      write_json_text(first ? "[\n  {" : ",\n  {", "paper", paper->name, out);
      write_json_text(", ", "id", claim->id, out);
      write_json_text(", ", "claim", claim->claim, out);
      write_json_text(", ", "figure", figure->what, out);
      write_json_text(", ", "stated", figure->paper, out);
      write_json_value(", ", "released", figure->values[COLUMN_RELEASED], out);
      write_json_value(", ", "tandem", figure->values[COLUMN_TANDEM], out);
      write_json_value(", ", "low", figure->low, out);
      write_json_value(", ", "high", figure->high, out);
      write_json_text(", ", "unit", figure->unit, out);
      write_json_text(", ", "note", claim->note, out);
      json_ranges(claim, f, arena, out);
      write_json_text(", ", "verdict", verdict_names[figure->verdict], out);
      putc('}', out);
    }
}

/* ---- The command ---- */

static void show_progress(int done, int all) {
  fprintf(stderr, "\r%d of %d runs%s", done, all, done == all ? "\r\033[K" : "");
}

static int report_paper(const Options *given, const char *folder, bool first, Arena *arena,
                        Diag *diag) {
  Paper paper;
  const int jobs = cli_jobs(given->jobs);
  int status = paper_load(&paper, folder, given->only, arena, diag);
  if (status == 0)
    status = paper_eval(&paper, jobs, !given->no_sensitivity,
                        isatty(STDERR_FILENO) ? show_progress : NULL, arena, diag);
  if (status == 0 && given->format == OUTPUT_TABLE) {
    if (!first) putchar('\n');
    print_table(&paper, arena, stdout);
  }
  if (status == 0 && given->format == OUTPUT_CSV) print_csv(&paper, arena, stdout);
  if (status == 0 && given->format == OUTPUT_JSON) print_json(&paper, first, arena, stdout);
  paper_done(&paper);
  return status;
}

static int report_claims(const Options *given, const char *paper, Arena *arena, Diag *diag) {
  const char *all = arena_printf(arena, "%s/experiments/papers", config_data_root());
  const char *const one[] = {paper, NULL};
  const char *const *names = paper ? one : folder_names(all, "", arena);
  if (given->format == OUTPUT_CSV)
    puts("id,claim,figure,paper,released,tandem,low,high,unit,verdict,note,sensitivity");
  for (int i = 0; names[i]; i++) {
    const char *folder =
        strchr(names[i], '/') ? names[i] : arena_printf(arena, "%s/%s", all, names[i]);
    if (report_paper(given, folder, i == 0, arena, diag)) return -1;
  }
  if (given->format == OUTPUT_JSON) puts("\n]");
  return 0;
}

static int run_report(Cli *cli) {
  const Options *given = cli->given;
  if (strcmp(cli->operands[0], "claims") != 0)
    return cli_usage(cli, "no report '%s'; there is 'claims'", cli->operands[0]);
  if (given->only && !cli->operands[1]) return cli_usage(cli, "'--only' needs a PAPER");
  interrupt_catch();
  const int status = report_claims(given, cli->operands[1], cli->arena, cli->diag);
  cli_interrupted(cli, "nothing is kept; the same command begins anew");
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_report = {
    .name = "report",
    .help = "the claims of papers beside what Tandem gives",
    .summary = "Runs the studies of a paper and prints each claim beside what they give.",
    .operands = "claims [PAPER]",
    .min_operands = 1,
    .max_operands = 2,
    .options = options,
    .size = sizeof(Options),
    .notes =
        "PAPER is a folder of experiments/papers, or the path of another; all without it.\n"
        "Columns: 'released' by the rules and tables of the simulator that a paper's authors\n"
        "released, where there is one; 'tandem' with the batch-true model. The verdict is of\n"
        "the first that has a figure. Below one that is outside: its range over an input that\n"
        "the paper does not give, and where in it the figure is inside.",
    .example = "tandem report claims splitwise --only SW-F15",
    .exit_codes = "0 done, 2 wrong usage, 3 bad input, 4 the environment lacks something,\n"
                  "  130 interrupted",
    .run = run_report,
};
