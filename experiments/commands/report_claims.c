/* `tandem report claims [PAPER]`: what papers claim, beside what Tandem gives for it. */
#include "base/folder.h"
#include "experiments/base/cells.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/workers.h"
#include "experiments/claims/claims.h"
#include "experiments/commands/cli.h"
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
    {CLI_MAIN, CLI_TEXT("--only", only, "ID", "check only this claim of PAPER, such as SW-F15")},
    {CLI_FLAG("--no-sensitivity", no_sensitivity, "do not vary inputs that the paper leaves open")},
    {CLI_FORMAT},
    {CLI_JOBS},
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
  if (isinf(figure->low) || isinf(figure->high)) {
    const bool above = isinf(figure->high);
    snprintf(text, 2 * FIGURE_TEXT + 4, "%c%s %s", above ? '>' : '<', figure->open ? "" : "=",
             figure_text(above ? figure->low : figure->high, figure->unit, low));
    return text;
  }
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
      *range->inside ? arena_printf(arena, "inside at %s", range->inside) : "never inside";
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

/* "measured, held-out error up to 2.9%; up to 12.5% of the time of a run …". */
static const char *times_line(const TimesKnown *times, Arena *arena) {
  const char *extrapolated = times_extrapolated_text(times, "a run", arena);
  return arena_printf(arena, "%s%s%s", times_text(times, arena), extrapolated ? "; " : "",
                      extrapolated ? extrapolated : "");
}

/* What the times of a claim are, where that was not said of the one before; `told` has that. */
static void print_times(const Claim *claim, const char *told[CLAIM_COLUMNS], Arena *arena,
                        FILE *out) {
  for (int c = 0; c < CLAIM_COLUMNS; c++) {
    const TimesKnown times = claim_times(claim, (ClaimColumn)c);
    const char *line = times_line(&times, arena);
    if (!*line || (told[c] && strcmp(told[c], line) == 0)) continue;
    fprintf(out, "  times (%s): %s\n", claim_columns[c], line);
    told[c] = line;
  }
}

/* NAN: the figure is not outside by that column, or it is a yes or no. */
static double miss_by(const ClaimFigure *figure, ClaimColumn column) {
  const bool counts = figure->by[column] == VERDICT_OUTSIDE && strcmp(figure->unit, "yes") != 0;
  return counts ? tolerance_miss(figure, figure->values[column]) : NAN;
}

/* "within", "outside by 12%", "outside by 3 points". */
static const char *judged_text(const ClaimFigure *figure, ClaimColumn column, Arena *arena) {
  const char *name = verdict_names[figure->by[column]];
  const double miss = miss_by(figure, column);
  if (isnan(miss) || isinf(miss)) return name;
  const char *unit = strcmp(figure->unit, "%") == 0 ? " points" : "%";
  return arena_printf(arena, "%s by %.3g%s", name, 100 * miss, unit);
}

/* By both columns where they differ; "within (input)". */
static const char *verdict_text(const Paper *paper, const ClaimFigure *figure, Arena *arena) {
  const Verdict released = figure->by[COLUMN_RELEASED], tandem = figure->by[COLUMN_TANDEM];
  const bool first = paper->columns[COLUMN_RELEASED].present && released != VERDICTS;
  const char *text = judged_text(figure, first ? COLUMN_RELEASED : COLUMN_TANDEM, arena);
  if (first && paper->columns[COLUMN_TANDEM].present && tandem != VERDICTS && released != tandem)
    text = arena_printf(arena, "%s; %s: %s", text, claim_columns[COLUMN_TANDEM],
                        judged_text(figure, COLUMN_TANDEM, arena));
  const Verdict h100 = figure->by[COLUMN_H100], shown = first ? released : tandem;
  if (paper->columns[COLUMN_H100].present && h100 != VERDICTS && h100 != shown)
    text = arena_printf(arena, "%s; %s: %s", text, claim_columns[COLUMN_H100],
                        judged_text(figure, COLUMN_H100, arena));
  if (figure->kind == KIND_PREDICTION || isnan(figure->low)) return text;
  return arena_printf(arena, "%s (%s)", text, figure_kinds[figure->kind]);
}

/* Predictions, and apart from them what comes back, by the verdicts of a column. */
static void print_counts(const Paper *paper, ClaimColumn column, FILE *out) {
  int counts[2][VERDICTS] = {0};
  for (int i = 0; i < paper->n_claims; i++)
    for (int f = 0; f < paper->claims[i].n_figures; f++) {
      const ClaimFigure *figure = &paper->claims[i].figures[f];
      const bool apart = figure->kind != KIND_PREDICTION && !isnan(figure->low);
      if (figure->by[column] != VERDICTS) counts[apart][figure->by[column]]++;
    }
  fprintf(out, "%d claims by %s:", paper->n_claims, claim_columns[column]);
  for (int v = 0; v < VERDICTS; v++)
    fprintf(out, "%s %d %s", v ? "," : "", counts[0][v], verdict_names[v]);
  if (counts[1][VERDICT_WITHIN] + counts[1][VERDICT_OUTSIDE] > 0)
    fprintf(out, "; inputs, formulas and fits: %d within, %d outside", counts[1][VERDICT_WITHIN],
            counts[1][VERDICT_OUTSIDE]);
  putc('\n', out);
}

/* What inputs that the paper leaves out can do, one setting of them for each group. */
static void print_joint(const Paper *paper, Arena *arena, FILE *out) {
  int n_groups, n = 0, n_within = 0, n_best = 0;
  const JointSetting *joint = paper_joint(paper, &n_groups, arena);
  for (int i = 0; i < n_groups; i++) {
    const JointSetting *of = &joint[i];
    n += of->n;
    n_within += of->n_within;
    n_best += of->n_best;
    if (of->n_best > of->n_within)
      fprintf(out, "  %s: %d of %d predictions within; with %s: %d\n", of->group, of->n_within,
              of->n, of->setting, of->n_best);
  }
  fprintf(out, "one setting for each group: %d of %d predictions within; as configured: %d\n",
          n_best, n, n_within);
}

/* The same of all claims together. */
static void print_all_times(const Paper *paper, Arena *arena, FILE *out) {
  for (int c = 0; c < CLAIM_COLUMNS; c++) {
    TimesKnown all = {0};
    for (int i = 0; i < paper->n_claims; i++) {
      const TimesKnown times = claim_times(&paper->claims[i], (ClaimColumn)c);
      times_merge(&all, &times);
    }
    const char *line = times_line(&all, arena);
    if (*line) fprintf(out, "%s: times %s\n", claim_columns[c], line);
  }
}

static bool has_h100(const Paper *paper) {
  return paper->columns[COLUMN_H100].present;
}

/* Its cell, where the paper has that column. */
static const char *h100_text(const Paper *paper, const ClaimFigure *figure, Arena *arena) {
  char text[FIGURE_TEXT];
  if (!has_h100(paper)) return "";
  return arena_printf(arena, " %12s", figure_text(figure->values[COLUMN_H100], figure->unit, text));
}

static void print_table(const Paper *paper, bool sensitivity, Arena *arena, FILE *out) {
  const char *told[CLAIM_COLUMNS] = {0};
  fprintf(out, "%s\n", paper->title);
  for (int i = 0; i < paper->n_claims; i++) {
    const Claim *claim = &paper->claims[i];
    fprintf(out, "\n%s  %s (%s)\n", claim->id, claim->claim, claim->where);
    for (int f = 0; f < claim->n_figures; f++) {
      const ClaimFigure *figure = &claim->figures[f];
      char released[FIGURE_TEXT], tandem[FIGURE_TEXT], allowed[2 * FIGURE_TEXT + 4];
      if (i + f == 0)
        fprintf(out, "  %-38s %-14s %12s %12s%s  %-20s %s\n", "", "paper", "released", "tandem",
                has_h100(paper) ? "         h100" : "", "within", "");
      fprintf(out, "  %-38s %-14s %12s %12s%s  %-20s %s%s%s\n", figure->what, figure->paper,
              figure_text(figure->values[COLUMN_RELEASED], figure->unit, released),
              figure_text(figure->values[COLUMN_TANDEM], figure->unit, tandem),
              h100_text(paper, figure, arena), allowed_text(figure, allowed),
              verdict_text(paper, figure, arena), figure->gap ? ": " : "",
              figure->gap ? figure->gap : "");
      print_ranges(claim, f, arena, out);
    }
    if (*claim->note) fprintf(out, "  note: %s\n", claim->note);
    print_times(claim, told, arena, out);
  }
  putc('\n', out);
  if (paper->n_claims > 1) print_all_times(paper, arena, out);
  for (int c = 0; c < CLAIM_COLUMNS; c++)
    if (paper->columns[c].present) print_counts(paper, (ClaimColumn)c, out);
  if (sensitivity) print_joint(paper, arena, out);
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

/* A figure, and where its ranges are made. */
typedef struct Judged {
  const Claim *claim;
  int figure;
  Arena *arena;
} Judged;

static void json_ranges(const void *of, FILE *out) {
  const Judged *judged = of;
  const Claim *claim = judged->claim;
  SensitivityRange range;
  Rows rows = {OUTPUT_JSON, out, "", .gap = "", .end = "]"};
  for (int k = 0; k < claim->n_sensitivities; k++)
    if (claim_sensitivity(claim, judged->figure, k, &range, judged->arena))
      rows_put(&rows, (Cell[]){{CELL_OF_TEXT("over", range.over)},
                               {CELL_OF_TEXT("why", claim->sensitivities[k].why)},
                               {CELL_OF_NUMBER("low", range.low)},
                               {CELL_OF_NUMBER("high", range.high)},
                               {CELL_OF_TEXT("inside", range.inside)},
                               {0}});
  rows_end(&rows);
}

static double finite_only(double value) {
  return isinf(value) ? NAN : value;
}

static const char *by_text(const Paper *paper, const ClaimFigure *figure, ClaimColumn column) {
  const bool judged = paper->columns[column].present && figure->by[column] != VERDICTS;
  return judged ? verdict_names[figure->by[column]] : "";
}

static void put_figure(Rows *rows, const Paper *paper, const Judged *of) {
  const Claim *claim = of->claim;
  const ClaimFigure *figure = &claim->figures[of->figure];
  const bool released = !isnan(figure->values[COLUMN_RELEASED]);
  const TimesKnown times = claim_times(claim, released ? COLUMN_RELEASED : COLUMN_TANDEM);
  rows_put(rows,
           (Cell[]){{CELL_OF_TEXT("paper", paper->name), .only = CELL_IN_JSON},
                    {CELL_OF_TEXT("id", claim->id)},
                    {CELL_OF_TEXT("claim", claim->claim)},
                    {CELL_OF_TEXT("figure", figure->what)},
                    {CELL_OF_TEXT("paper", figure->paper), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("stated", figure->paper), .only = CELL_IN_JSON},
                    {CELL_OF_NUMBER("released", figure->values[COLUMN_RELEASED])},
                    {CELL_OF_NUMBER("tandem", figure->values[COLUMN_TANDEM])},
                    {CELL_OF_NUMBER("low", finite_only(figure->low))},
                    {CELL_OF_NUMBER("high", finite_only(figure->high))},
                    {CELL_OF_TEXT("unit", figure->unit)},
                    {CELL_OF_TEXT("verdict", verdict_names[figure->verdict]), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("note", claim->note)},
                    {CELL_OF_JSON("sensitivity", json_ranges, of),
                     .text = ranges_text(claim, of->figure, of->arena)},
                    {CELL_OF_TEXT("verdict", verdict_names[figure->verdict]), .only = CELL_IN_JSON},
                    {CELL_OF_TEXT("times", times_text(&times, of->arena))},
                    {CELL_OF_NUMBER("extrapolated", times.extrapolated)},
                    {CELL_OF_TEXT("kind", isnan(figure->low) ? "" : figure_kinds[figure->kind])},
                    {CELL_OF_TEXT("by_released", by_text(paper, figure, COLUMN_RELEASED))},
                    {CELL_OF_TEXT("by_tandem", by_text(paper, figure, COLUMN_TANDEM))},
                    {CELL_OF_NUMBER("miss_released", miss_by(figure, COLUMN_RELEASED))},
                    {CELL_OF_NUMBER("miss_tandem", miss_by(figure, COLUMN_TANDEM))},
                    {CELL_OF_NUMBER("h100", figure->values[COLUMN_H100])},
                    {CELL_OF_TEXT("by_h100", by_text(paper, figure, COLUMN_H100))},
                    {CELL_OF_NUMBER("miss_h100", miss_by(figure, COLUMN_H100))},
                    {0}});
}

/* ---- The command ---- */

static void show_progress(int done, int all) {
  fprintf(stderr, "\r%d of %d runs%s", done, all, done == all ? "\r\033[K" : "");
}

static int report_paper(const Options *given, const char *folder, Rows *rows, Arena *arena,
                        Diag *diag) {
  Paper paper;
  const int jobs = cli_jobs(given->jobs);
  int status = paper_load(&paper, folder, given->only, arena, diag);
  if (status == 0)
    status = paper_eval(&paper, jobs, !given->no_sensitivity,
                        isatty(STDERR_FILENO) ? show_progress : NULL, arena, diag);
  if (status == 0 && given->format == OUTPUT_TABLE) {
    if (rows->any) putchar('\n');
    print_table(&paper, !given->no_sensitivity, arena, stdout);
    rows->any = true;
  }
  for (int i = 0; status == 0 && given->format != OUTPUT_TABLE && i < paper.n_claims; i++)
    for (int f = 0; f < paper.claims[i].n_figures; f++)
      put_figure(rows, &paper, &(Judged){&paper.claims[i], f, arena});
  paper_done(&paper);
  return status;
}

static int report_claims(const Options *given, const char *paper, Arena *arena, Diag *diag) {
  const char *all = arena_printf(arena, "%s/experiments/papers", config_data_root());
  const char *const one[] = {paper, NULL};
  const char *const *names = paper ? one : folder_names(all, "", arena);
  Rows rows = {(OutputFormat)given->format, stdout, "", .gap = "\n  ", .end = "\n]\n"};
  for (int i = 0; names[i]; i++) {
    const char *folder =
        strchr(names[i], '/') ? names[i] : arena_printf(arena, "%s/%s", all, names[i]);
    if (report_paper(given, folder, &rows, arena, diag)) return -1;
  }
  rows_end(&rows);
  return 0;
}

static int run_report(Cli *cli) {
  const Options *given = cli->given;
  if (given->only && !cli->operands[0]) return cli_usage(cli, "'--only' needs a PAPER");
  interrupt_catch();
  const int status = report_claims(given, cli->operands[0], cli->arena, cli->diag);
  cli_interrupted(cli, "nothing is kept; the same command starts again");
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_report_claims = {
    .name = "report claims",
    .group = COMMANDS_RESULTS,
    .help = "compare claims of papers with simulations",
    .description =
        "Runs the studies of a paper and prints each claim beside the simulated figures and a "
        "verdict. For a figure outside the claimed range, it varies the inputs that the paper "
        "does not state, and prints the resulting range.",
    .operands = "[PAPER]",
    .arguments = (const CliTerm[]){{"PAPER", "folder in experiments/papers, or the path of another "
                                             "folder; all papers by default"},
                                   {0}},
    CLI_OPTIONS,
    .notes =
        "Column 'released' uses the rules and tables of the simulator that the authors "
        "released, if there is one; column 'tandem' uses Tandem's own model of batches; column "
        "'h100' uses times measured on an H100, for claims of that machine alone. The "
        "verdict is that of the first column that has a figure.",
    .examples = "tandem report claims splitwise --only SW-F15",
    .run = run_report,
};
