/* `tandem trace FILE`: what a trace file holds, in numbers. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/commands/cli.h"
#include "traces/reuse.h"
#include "traces/summary.h"
#include "traces/trace_file.h"
#include "traces/workload.h"
#include <math.h>
#include <string.h>

typedef struct Options {
  int trace_format; // of format_choices
  int clock;        // of clock_choices
  const char *columns;
  bool sort;
  int format;
  int64_t block_size;
  Tick every;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_ROW("--trace-format", CHOICE, trace_format, "NAME", "format of FILE"),
     .choices = format_choices, .fallback = "auto"},
    {CLI_TRACE_COLUMNS},
    {CLI_ROW("--every", TICKS, every, "TIME",
             "print the arrival rate in each interval of this length instead"),
     .min = 1e-3, .max = 9e6},
    {CLI_FORMAT},
    {.group = "Reading", CLI_TRACE_TIME(clock)},
    {CLI_TRACE_SORT(sort)},
    {CLI_ROW("--block-size", INT, block_size, "N", "tokens in a block of the prefix cache"),
     .fallback = "16", .min = 1, .max = TRACE_TOKENS_MAX},
    {0}};

/* ---- Printing ---- */

enum { STATISTICS = 7, SERIES = 3, SCALARS = 7, TEXTS = 3 };
static const char *const statistic_names[STATISTICS] = {"mean", "p1",  "p10", "p50",
                                                        "p90",  "p99", "max"};

typedef struct TraceReport {
  const char *path;
  struct {
    const char *name, *text;
  } texts[TEXTS];
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

/* "ts (arrival), in (prompt), out (output), of JSON": where a row has what. */
static const char *columns_text(const TraceLayout *layout, Arena *arena) {
  const char *text = "";
  for (int i = 0; i < TRACE_FIELDS; i++)
    if (layout->names[i])
      text = arena_printf(arena, "%s%s%s (%s)", text, *text ? ", " : "",
                          text_shown(layout->names[i], arena), trace_field_names[i]);
  const char *between = layout->separator == '\t'  ? "tabs"
                        : layout->separator == ';' ? "semicolons"
                                                   : "commas";
  return layout->is_json ? arena_printf(arena, "%s; keys of JSON", text)
                         : arena_printf(arena, "%s; between %s", text, between);
}

static const char *times_text(const TraceFile *file, Arena *arena) {
  const TraceClock clock = file->layout.clock;
  return arena_printf(arena, "%s, %s; %s%s", clock_choices[clock], clock_name(clock),
                      clock_is_wall(clock) ? "the first row is at 0" : "kept",
                      file->reading.sort ? ", sorted" : "");
}

static TraceReport make_report(const TraceSummary *summary, const Reuse *reuse,
                               const TraceFile *file, Arena *arena) {
  TraceReport report = {
      .path = file->reader.path,
      .texts = {{"format", file->layout.format->name},
                {"columns", columns_text(&file->layout, arena)},
                {"times", times_text(file, arena)}},
      .scalars = {{"rows", (double)summary->rows},
                  {"left_out", (double)file->n_left_out},
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
  putchar('\n');
  for (int i = 0; i < TEXTS; i++)
    printf("%-18s%s\n", report->texts[i].name, report->texts[i].text);
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
  for (int i = 0; i < TEXTS; i++)
    write_json_text(",\n  ", report->texts[i].name, report->texts[i].text, stdout);
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

/* ---- Rates ---- */

enum { INTERVALS_MAX = 100000 };

typedef struct Interval {
  int64_t rows, prompt_tokens, output_tokens;
} Interval;

typedef struct Rates {
  Tick every;
  Interval *intervals; // [n][n_components]
  size_t capacity;
  int n, n_components;
  const WorkloadComponent *components; // NULL: no mix
} Rates;

static int add_row(Rates *self, const TraceRow *row, Arena *arena, Diag *diag) {
  if (row->at / self->every >= INTERVALS_MAX)
    return diag_error(diag, row->place,
                      "there are more than %d intervals: choose a longer '--every'", INTERVALS_MAX);
  const int i = (int)(row->at / self->every);
  for (; self->n <= i; self->n++) {
    ARENA_RESERVE(arena, self->intervals, self->capacity, (self->n + 1) * self->n_components);
    memset(&self->intervals[self->n * self->n_components], 0,
           (size_t)self->n_components * sizeof *self->intervals);
  }
  Interval *interval = &self->intervals[i * self->n_components + row->component];
  interval->rows++;
  interval->prompt_tokens += row->prompt_tokens;
  interval->output_tokens += row->output_tokens;
  return 0;
}

static void print_rates(const Rates *self, OutputFormat format) {
  Rows rows = {.format = format, .out = stdout, .indent = "", .gap = "\n  ", .end = "\n]\n"};
  for (int i = 0; i < self->n * self->n_components; i++) {
    const Interval *interval = &self->intervals[i];
    const int component = i % self->n_components;
    const double start_s = tick_seconds(self->every) * (i / self->n_components);
    const double rate = (double)interval->rows / tick_seconds(self->every);
    Cell cells[] = {
        {CELL_OF_NUMBER("start_s", start_s), COLUMN("start s", 10)},
        {CELL_OF_WHOLE("requests", interval->rows), COLUMN("requests", 10)},
        {CELL_OF_NUMBER("rate_rps", rate), COLUMN("rate /s", 9)},
        {CELL_OF_WHOLE("prompt_tokens", interval->prompt_tokens), COLUMN("prompt tokens", 14)},
        {CELL_OF_WHOLE("output_tokens", interval->output_tokens), COLUMN("output tokens", 14)},
        {0},
        {0}};
    if (self->components)
      cells[5] = (Cell){CELL_OF_TEXT("component", self->components[component].name),
                        COLUMN("component", 0)};
    rows_put(&rows, cells);
  }
  rows_end(&rows);
}

static int count_file(Rates *self, const char *path, const TraceReading *reading, Arena *arena,
                      Diag *diag) {
  TraceFile file;
  TraceRow row;
  int status = 1;
  if (trace_file_open(&file, path, reading, arena, diag)) return -1;
  while (status > 0 && (status = trace_file_next(&file, &row, diag)) > 0)
    if (add_row(self, &row, arena, diag)) status = -1;
  trace_file_close(&file);
  return status;
}

/* The seed of a run stands at the top, where the workload has none. */
static int count_drawn(Rates *self, const char *path, Arena *arena, Diag *diag) {
  Config config;
  if (config_load(&config, path, NULL, arena, diag)) return -1;
  const WorkloadConfig *workload = &config.workload;
  if (config.length.automatic)
    return diag_error(diag, workload->at, "'duration' of the workload is known only after a run");
  if (workload_waits(workload))
    return diag_error(diag, workload->at,
                      "requests of the workload wait for answers, which only a run has");
  self->components = workload->components;
  if (workload->n_components > 0) self->n_components = workload->n_components;
  TraceSource *source = workload_open(workload, config.sim.seed, arena, diag);
  if (!source) return -1;
  TraceRow row;
  int status = 1;
  while (status > 0 && (status = trace_next(source, &row, diag)) > 0)
    if (add_row(self, &row, arena, diag)) status = -1;
  trace_close(source);
  return status;
}

static bool is_config(const char *path) {
  return text_ends_with(path, ".yaml") || text_ends_with(path, ".yml");
}

/* The intervals of the trace at `path`, read as `reading`, or of the workload of a configuration,
 * drawn by its seed. */
static int show_rates(const char *path, const TraceReading *reading, Tick every,
                      OutputFormat format, Arena *arena, Diag *diag) {
  Rates rates = {.every = every, .n_components = 1};
  const int status = is_config(path) ? count_drawn(&rates, path, arena, diag)
                                     : count_file(&rates, path, reading, arena, diag);
  if (status == 0) print_rates(&rates, format);
  return status;
}

/* ---- Running ---- */

static int run_trace(Cli *cli) {
  const Options *given = cli->given;
  TraceReading reading = {.clock = (TraceClock)given->clock, .sort = given->sort};
  if (given->trace_format > 0) reading.format = format_at(given->trace_format - 1);
  if (cli_read_columns(cli, given->columns, reading.columns)) return EXIT_USAGE;
  Arena *arena = cli->arena;
  Diag *diag = cli->diag;
  static void (*const printers[])(const TraceReport *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  const bool piped = strcmp(cli->operands[0], "-") == 0;
  const char *path = piped ? "/dev/stdin" : cli->operands[0];
  if (given->every > 0)
    return show_rates(path, &reading, given->every, (OutputFormat)given->format, arena, diag)
               ? diag_exit_code(diag)
               : EXIT_DONE;
  if (is_config(path))
    return cli_usage(cli,
                     "only the rates of a configuration can be shown: add '--every', such as 1h");
  TraceFile file;
  if (trace_file_open(&file, path, &reading, arena, diag)) return EXIT_INPUT;
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
    TraceReport report = make_report(&summary, &reuse, &file, arena);
    printers[given->format](&report);
    if (reuse.n_named == 0)
      fprintf(stderr, "%s: requests share no tokens, because no row names its blocks\n",
              text_shown(report.path, arena));
  }
  trace_file_close(&file);
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_trace = {
    .name = "trace",
    .group = COMMANDS_DATA,
    .help = "describe a trace of requests",
    .description =
        "Reads a trace of requests and prints how it was understood and what it contains: time "
        "span, arrival rate, token counts, gaps between arrivals, and the share of prompt tokens "
        "that a prefix cache could save.",
    .operands = "FILE",
    .arguments = (const CliTerm[]){{"FILE", "trace, plain or gzip, or - for standard input; with "
                                            "--every also a configuration (.yaml), whose workload "
                                            "is drawn"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "The first invalid row ends the reading. Formats that record failed requests leave "
             "them out; 'left_out' counts them. Means and maxima are exact, percentiles within "
             "0.4%. 'prefix_hit_share' is the share of prompt tokens that an unlimited prefix "
             "cache finds; it is '-' if no row names its blocks or its session.",
    .examples = "tandem trace traces/sample/azure_sample.csv --format json\n"
                "tandem trace traces/sample/azure_sample.csv --every '10 s'",
    .exits = {[EXIT_INPUT] = "the trace is wrong"},
    .run = run_trace,
};
