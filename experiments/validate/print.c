/* The figures of a validation on paper: a table for people, JSON and CSV for programs. */
#include "experiments/validate/print.h"
#include <math.h>
#include <string.h>

static void put_latency(Rows *rows, const ValidateLatency *latency, const ValidateSides *sides) {
  char which[32], here[32], there[32];
  const double predicted = latency->predicted, measured = latency->measured;
  snprintf(which, sizeof which, "%-4.*s %s", (int)strcspn(latency->name, "_"), latency->name,
           latency->statistic);
  rows_put(rows,
           (Cell[]){{CELL_OF_TEXT(NULL, which), COLUMN("latency", -10)},
                    {CELL_OF_TEXT("name", latency->name)},
                    {CELL_OF_TEXT("statistic", latency->statistic)},
                    {CELL_OF_NUMBER(sides->predicted, predicted), COLUMN(sides->predicted, 10),
                     .shown = format_duration(predicted, here)},
                    {CELL_OF_NUMBER(sides->measured, measured), COLUMN(sides->measured, 10),
                     .shown = format_duration(measured, there)},
                    {CELL_OF_NUMBER("error", latency->error), COLUMN_PERCENT("error", 9, "%+.2f")},
                    {CELL_OF_NUMBER("repeat", latency->repeat), COLUMN_PERCENT("repeat", 9, "%.2f"),
                     .only = sides->repeat ? 0 : CELL_NOWHERE},
                    {0}});
}

static void put_latency_figures(const ValidateLatency *latency, const ValidateSides *sides,
                                FILE *out) {
  const char *name = latency->name, *statistic = latency->statistic;
  write_csv_figure(sides->predicted, name, statistic, latency->predicted, "s", out);
  write_csv_figure(sides->measured, name, statistic, latency->measured, "s", out);
  write_csv_figure("error", name, statistic, latency->error, "", out);
  if (sides->repeat) write_csv_figure("repeat", name, statistic, latency->repeat, "", out);
}

void validate_put_latencies(Rows *rows, const ValidateLatency *latencies, int n,
                            const ValidateSides *sides) {
  for (int i = 0; i < n; i++)
    if (rows->format == OUTPUT_CSV)
      put_latency_figures(&latencies[i], sides, rows->out);
    else
      put_latency(rows, &latencies[i], sides);
  rows_end(rows);
}

static void put_errors(Rows *rows, const char *part, const ValidateErrors *errors) {
  char time[32], at[96] = "";
  if (errors->n > 0) format_batch(&errors->worst_batch, at, sizeof at);
#define ERROR_CELL(field, heading, width, digits)                                                  \
  { CELL_OF_NUMBER(#field, errors->field), COLUMN_PERCENT(heading, width, digits) }
  const Cell cells[] = {
      {CELL_OF_TEXT(NULL, part), COLUMN("iterations", -10)},
      {CELL_OF_NUMBER("n", (double)errors->n), COLUMN("n", 8), .show = "%.0f",
       .only = CELL_IN_TABLE | CELL_IN_CSV},
      {CELL_OF_NUMBER("iterations", (double)errors->n), .only = CELL_IN_JSON},
      {CELL_OF_NUMBER("time", errors->seconds), COLUMN("time", 10), .unit = "s",
       .shown = format_duration(errors->seconds, time), .only = CELL_IN_TABLE | CELL_IN_CSV},
      {CELL_OF_NUMBER("seconds", errors->seconds), .only = CELL_IN_JSON},
      ERROR_CELL(mape, "MAPE", 7, "%.2f"),
      ERROR_CELL(median, "median", 7, "%.2f"),
      ERROR_CELL(p95, "p95", 7, "%.2f"),
      ERROR_CELL(bias, "bias", 8, "%+.2f"),
      ERROR_CELL(total, "total", 8, "%+.2f"),
      ERROR_CELL(worst, "worst", 8, "%.2f"),
      {CELL_OF_NUMBER("extrapolated", errors->extrapolated)},
      {CELL_OF_TEXT("worst_batch", at), COLUMN("at", 0), .only = CELL_IN_TABLE | CELL_IN_JSON},
      {0}};
  if (rows->format == OUTPUT_CSV) {
    cells_figures(cells, "iterations", part, rows->out);
  } else if (rows->format == OUTPUT_TABLE) {
    if (errors->n > 0) rows_put(rows, cells);
  } else {
    fprintf(rows->out, "%s\n    \"%s\": ", rows->any ? "," : "{", part);
    cells_json(cells, "{", ", ", rows->out);
    putc('}', rows->out);
    rows->any = true;
  }
}

void validate_put_errors(Rows *rows, const ValidateErrors errors[VALIDATE_PARTS]) {
  for (int part = 0; part < VALIDATE_PARTS; part++)
    put_errors(rows, validate_part_names[part], &errors[part]);
}

/* ---- A table for people ---- */

void validate_print_worst(ValidateVerdict verdict, const ValidateLatency *worst, double within,
                          FILE *out) {
  fprintf(out, "verdict      %s: %.*s %s has the largest error, %+.1f%%; the limit is %g%%\n",
          validate_verdict_names[verdict], (int)strcspn(worst->name, "_"), worst->name,
          worst->statistic, 100 * worst->error, 100 * within);
}

static void print_verdict(const Validation *self, FILE *out) {
  if (self->verdict != VALIDATE_WORTHLESS) {
    validate_print_worst(self->verdict, self->worst, self->within, out);
    return;
  }
  fprintf(out,
          "verdict      worthless: the same batches took %+.1f%% after the runs, more than the "
          "limit of\n             %g%%: end other work on the device or fix its clock, then run "
          "it again\n",
          100 * self->drift, 100 * self->within);
}

static const ValidateSides sides = {"predicted", "measured", true};
enum { LATENCIES = VALIDATE_LATENCIES * VALIDATE_STATISTICS };

static void print_table(const Validation *self, const Config *config, FILE *out) {
  Rows latencies = {.format = OUTPUT_TABLE, .out = out, .indent = ""}, errors = latencies;
  write_cell(config->path, 0, out);
  fprintf(out, ": %s run by '%s' on ", config->model.name, self->backend);
  write_cell(self->device.name, 0, out);
  fprintf(out, ", %.0f requests\n\n", self->measured[0].report.run.requests);
  validate_put_latencies(&latencies, self->latencies, LATENCIES, &sides);
  putc('\n', out);
  validate_put_errors(&errors, self->errors);
  const double extrapolated = self->errors[VALIDATE_ALL].extrapolated;
  putc('\n', out);
  if (extrapolated > 0)
    fprintf(out, "extrapolated %.2f%% of these iterations are outside the model's measured range\n",
            100 * extrapolated);
  fprintf(out, "replayed     %d times each: the median counts, and times differ by %.2f%%\n",
          VALIDATE_REPLAYS, 100 * self->replay);
  if (!isnan(self->repeat))
    fprintf(out, "repeated     equal batches differ by %.2f%%, the median over %lld more run%s\n",
            100 * self->repeat, (long long)self->n_measured - 1, self->n_measured == 2 ? "" : "s");
  fputs("             errors of the prediction are relative to the measurement\n", out);
  print_verdict(self, out);
}

/* ---- JSON ---- */

static void print_json(const Validation *self, const Config *config, FILE *out) {
  Rows latencies = {OUTPUT_JSON, out, "", .gap = "\n    ", .end = "]"};
  Rows errors = latencies;
  write_json_text("{\n  ", "config", config->path, out);
  write_json_text(",\n  ", "backend", self->backend, out);
  write_json_text(",\n  ", "device", self->device.name, out);
  write_json_value(",\n  ", "runs", (double)self->n_measured, out);
  fputs(",\n  \"latencies\": ", out);
  validate_put_latencies(&latencies, self->latencies, LATENCIES, &sides);
  fputs(",\n  \"errors\": ", out);
  validate_put_errors(&errors, self->errors);
  write_json_value("},\n  ", "replay", self->replay, out);
  write_json_value(",\n  ", "repeat", self->repeat, out);
  write_json_value(",\n  ", "drift", self->drift, out);
  write_json_value(",\n  ", "within", self->within, out);
  write_json_text(",\n  ", "verdict", validate_verdict_names[self->verdict], out);
  fputs("\n}\n", out);
}

/* ---- CSV: one line per figure ---- */

static void print_csv(const Validation *self, const Config *config, FILE *out) {
  (void)config;
  Rows rows = {.format = OUTPUT_CSV, .out = out};
  fputs("scope,name,statistic,value,unit\n", out);
  validate_put_latencies(&rows, self->latencies, LATENCIES, &sides);
  validate_put_errors(&rows, self->errors);
  write_csv_figure("replay", "iterations", "median", self->replay, "", out);
  write_csv_figure("repeat", "iterations", "median", self->repeat, "", out);
  write_csv_figure("drift", "batches", "median", self->drift, "", out);
  write_csv_figure("verdict", validate_verdict_names[self->verdict], "within", self->within, "",
                   out);
}

void validate_print(const Validation *self, const Config *config, OutputFormat format, FILE *out) {
  static void (*const printers[])(const Validation *, const Config *, FILE *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  printers[format](self, config, out);
}
