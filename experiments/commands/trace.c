/* `tandem trace FILE`: what a trace file holds, in numbers. */
#include "experiments/base/cells.h"
#include "experiments/commands/cli.h"
#include "sim/base/text.h"
#include "traces/reuse.h"
#include "traces/summary.h"
#include "traces/trace_file.h"
#include <math.h>
#include <string.h>

typedef struct Options {
  int trace_format; // of format_choices
  int format;
  int64_t block_size;
} Options;

static const OptionSpec options[] = {
    {CLI_ROW("--trace-format", CHOICE, trace_format, "NAME", "of FILE"), .choices = format_choices,
     .fallback = "auto"},
    {CLI_ROW("--block-size", INT, block_size, "N", "tokens of a block of the prefix cache"),
     .fallback = "16", .min = 1, .max = TRACE_TOKENS_MAX},
    CLI_FORMAT,
    {0}};

/* ---- Printing ---- */

enum { STATISTICS = 7, SERIES = 3, SCALARS = 6 };
static const char *const statistic_names[STATISTICS] = {"mean", "p1",  "p10", "p50",
                                                        "p90",  "p99", "max"};

typedef struct TraceReport {
  const char *path, *format;
  struct {
    const char *name;
    double value;
  } scalars[SCALARS];
  struct {
    const char *name;
    double values[STATISTICS];
  } series[SERIES];
} TraceReport;

static void fill_series(const Histogram *histogram, double unit, double ret[STATISTICS]) {
  static const double quantiles[] = {0.01, 0.10, 0.50, 0.90, 0.99};
  if (histogram->total == 0) {
    for (int i = 0; i < STATISTICS; i++)
      ret[i] = NAN;
    return;
  }
  ret[0] = histogram_mean(histogram) / unit;
  for (int i = 0; i < 5; i++)
    ret[1 + i] = histogram_quantile(histogram, quantiles[i]) / unit;
  ret[STATISTICS - 1] = (double)histogram->max / unit;
}

static TraceReport make_report(const TraceSummary *summary, const Reuse *reuse,
                               const TraceFile *file) {
  TraceReport report = {
      .path = file->reader.path,
      .format = file->format->name,
      .scalars = {{"rows", (double)summary->rows},
                  {"span_s", tick_seconds(summary->last - summary->first)},
                  {"rate_rps", summary_rate(summary)},
                  {"gap_cv", summary_gap_cv(summary)},
                  {"rank_correlation", summary_correlation(summary)},
                  {"prefix_hit_share", reuse_share(reuse)}},
      .series = {{.name = "prompt_tokens"}, {.name = "output_tokens"}, {.name = "gap_s"}},
  };
  fill_series(&summary->prompt_tokens, 1, report.series[0].values);
  fill_series(&summary->output_tokens, 1, report.series[1].values);
  fill_series(&summary->gap_ticks, TICKS_PER_SECOND, report.series[2].values);
  return report;
}

/* "-" where there is none. */
static const char *known(double value, const char *format, char text[32]) {
  if (isnan(value)) return "-";
  snprintf(text, 32, format, value);
  return text;
}

static void print_table(const TraceReport *report) {
  char text[32];
  printf("%-18s", "file");
  write_cell(report->path, 0, stdout);
  printf("\n%-18s%s\n", "format", report->format);
  for (int i = 0; i < SCALARS; i++)
    printf("%-18s%s\n", report->scalars[i].name, known(report->scalars[i].value, "%.9g", text));
  printf("\n%-14s", "");
  for (int k = 0; k < STATISTICS; k++)
    printf(" %10s", statistic_names[k]);
  putchar('\n');
  for (int i = 0; i < SERIES; i++) {
    printf("%-14s", report->series[i].name);
    for (int k = 0; k < STATISTICS; k++)
      printf(" %10s", known(report->series[i].values[k], "%.6g", text));
    putchar('\n');
  }
}

static void put_figure(Rows *rows, const char *name, const char *statistic, double value) {
  rows_put(rows, (Cell[]){{CELL_OF_TEXT("name", name)},
                          {CELL_OF_TEXT("statistic", statistic)},
                          {CELL_OF_NUMBER("value", value)},
                          {0}});
}

static void print_csv(const TraceReport *report) {
  Rows rows = {.format = OUTPUT_CSV, .out = stdout};
  for (int i = 0; i < SCALARS; i++)
    put_figure(&rows, report->scalars[i].name, "value", report->scalars[i].value);
  for (int i = 0; i < SERIES; i++)
    for (int k = 0; k < STATISTICS; k++)
      put_figure(&rows, report->series[i].name, statistic_names[k], report->series[i].values[k]);
}

static void print_json(const TraceReport *report) {
  write_json_text("{\n  ", "file", report->path, stdout);
  write_json_text(",\n  ", "format", report->format, stdout);
  for (int i = 0; i < SCALARS; i++)
    write_json_value(",\n  ", report->scalars[i].name, report->scalars[i].value, stdout);
  for (int i = 0; i < SERIES; i++) {
    printf(",\n  \"%s\": ", report->series[i].name);
    for (int k = 0; k < STATISTICS; k++)
      write_json_value(k ? ", " : "{", statistic_names[k], report->series[i].values[k], stdout);
    putchar('}');
  }
  puts("\n}");
}

/* ---- Running ---- */

static int run_trace(Cli *cli) {
  const Options *given = cli->given;
  const TraceFormat *format = given->trace_format > 0 ? format_at(given->trace_format - 1) : NULL;
  Arena *arena = cli->arena;
  Diag *diag = cli->diag;
  static void (*const printers[])(const TraceReport *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  TraceFile file;
  if (trace_file_open(&file, cli->operands[0], format, arena, diag)) return EXIT_INPUT;
  TraceSummary summary;
  Reuse reuse;
  summary_init(&summary, arena);
  reuse_init(&reuse, given->block_size, arena);
  TraceRow row;
  int status = 1;
  while ((status = trace_file_next(&file, &row, diag)) > 0) {
    summary_add(&summary, &row);
    reuse_add(&reuse, &row);
  }
  if (status == 0) {
    TraceReport report = make_report(&summary, &reuse, &file);
    printers[given->format](&report);
    if (reuse.n_named == 0)
      fprintf(stderr, "%s: nothing is shared: no row names its blocks\n",
              text_shown(report.path, arena));
  }
  trace_file_close(&file);
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_trace = {
    .name = "trace",
    .help = "what a trace file holds",
    .summary = "Reads a trace of requests, which may be gzip, and prints what it holds: rows,\n"
               "span, rate, variation of the gaps, percentiles of lengths and gaps, and what a\n"
               "prefix cache could save.",
    .operands = "FILE",
    .options = options,
    .size = sizeof(Options),
    .notes = "Every row is checked; the first bad one is reported and ends the reading.\n"
             "Means and maxima are exact, percentiles within 0.4%; the rank correlation of\n"
             "prompt and output is that of a sample when there are more than 65,536 rows.\n"
             "prefix_hit_share: of prompt tokens, found by a prefix cache that forgets nothing;\n"
             "- where no row names its blocks (hash_ids), so that nothing is shared.",
    .example = "tandem trace traces/sample/azure_sample.csv --format json",
    .exit_codes = "0 done, 2 wrong usage, 3 bad trace, 4 cannot read FILE or write",
    .run = run_trace,
};
