/* A log and a simulation on paper: a table for people, JSON and CSV for programs. */
#include "base/text.h"
#include "experiments/validate/print.h"
#include <math.h>
#include <string.h>

static int name_length(const char *name) {
  return (int)strcspn(name, "_");
}

static void put_latency(Rows *rows, const ValidateLatency *latency) {
  char which[32], simulated[32], logged[32];
  snprintf(which, sizeof which, "%-4.*s %s", name_length(latency->name), latency->name,
           latency->statistic);
  rows_put(rows,
           (Cell[]){{CELL_OF_TEXT(NULL, which), COLUMN("latency", -10)},
                    {CELL_OF_TEXT("name", latency->name)},
                    {CELL_OF_TEXT("statistic", latency->statistic)},
                    {CELL_OF_NUMBER("simulated", latency->predicted), COLUMN("simulated", 10),
                     .shown = format_duration(latency->predicted, simulated)},
                    {CELL_OF_NUMBER("logged", latency->measured), COLUMN("logged", 10),
                     .shown = format_duration(latency->measured, logged)},
                    {CELL_OF_NUMBER("error", latency->error), COLUMN_PERCENT("error", 9, "%+.2f")},
                    {0}});
}

static void put_latencies(Rows *rows, const Against *self) {
  for (int i = 0; i < AGAINST_FIGURES * AGAINST_STATISTICS; i++)
    put_latency(rows, &self->latencies[i]);
  rows_end(rows);
}

static void put_requests(Rows *rows, const Against *self) {
#define ERROR_CELL(field, heading, width, digits)                                                  \
  { CELL_OF_NUMBER(#field, errors->field), COLUMN_PERCENT(heading, width, digits) }
  for (int i = 0; i < AGAINST_FIGURES; i++) {
    const RequestErrors *errors = &self->requests[i];
    char which[32], worst[32];
    snprintf(which, sizeof which, "%.*s", name_length(errors->name), errors->name);
    snprintf(worst, sizeof worst, "request %zu", errors->worst_request);
    rows_put(rows,
             (Cell[]){{CELL_OF_TEXT(NULL, which), COLUMN("requests", -10)},
                      {CELL_OF_TEXT("name", errors->name)},
                      {CELL_OF_NUMBER("n", (double)errors->n), COLUMN("n", 8), .show = "%.0f"},
                      ERROR_CELL(median, "median", 8, "%.2f"),
                      ERROR_CELL(mean, "mean", 8, "%.2f"),
                      ERROR_CELL(bias, "bias", 8, "%+.2f"),
                      ERROR_CELL(p95, "p95", 8, "%.2f"),
                      ERROR_CELL(worst, "worst", 8, "%.2f"),
                      {CELL_OF_NUMBER("worst_request", (double)errors->worst_request),
                       .only = CELL_IN_JSON | CELL_IN_CSV},
                      {CELL_OF_TEXT(NULL, errors->n > 0 ? worst : ""), COLUMN("at", 0)},
                      {0}});
  }
  rows_end(rows);
}

/* ---- A table for people ---- */

static void print_notes(const Against *self, FILE *out) {
  if (self->n_failed > 0)
    fprintf(out, "left out     %zu requests of the log that failed\n", self->n_failed);
  if (self->n_unserved > 0)
    fprintf(out, "turned away  %zu requests by the simulation; the errors do not count them\n",
            self->n_unserved);
  if (self->cached > 0.001)
    fprintf(out,
            "cached       %.1f%% of the prompts' tokens were found in the engine's prefix cache; "
            "the\n             simulation computes them\n",
            100 * self->cached);
  if (self->extrapolated > 0)
    fprintf(out, "extrapolated %.2f%% of simulated time is outside the model's measured range\n",
            100 * self->extrapolated);
  if (self->n_larger > 0)
    fprintf(out,
            "larger       %zu steps have more decodes than the configuration allows in a batch\n",
            self->n_larger);
  fputs("             errors of the simulation are relative to the log\n", out);
}

static void print_table(const Against *self, const Config *config, FILE *out) {
  Rows latencies = {.format = OUTPUT_TABLE, .out = out, .indent = ""}, requests = latencies;
  Rows errors = latencies;
  write_cell(config->path, 0, out);
  fprintf(out, ": %zu requests of ", self->n_requests);
  write_cell(self->log, 0, out);
  fprintf(out, ", %s\n\n", self->kind);
  put_latencies(&latencies, self);
  putc('\n', out);
  put_requests(&requests, self);
  putc('\n', out);
  if (self->n_steps > 0) {
    validate_put_errors(&errors, self->iterations);
    putc('\n', out);
  }
  print_notes(self, out);
  if (!self->worst) {
    fputs("verdict      not met: nothing could be compared\n", out);
    return;
  }
  fprintf(out, "verdict      %s: %.*s %s has the largest error, %+.1f%%; the limit is %g%%\n",
          validate_verdict_names[self->verdict], name_length(self->worst->name), self->worst->name,
          self->worst->statistic, 100 * self->worst->error, 100 * self->within);
}

/* ---- JSON ---- */

static void print_json(const Against *self, const Config *config, FILE *out) {
  Rows latencies = {OUTPUT_JSON, out, "", .gap = "\n    ", .end = "]"};
  Rows requests = latencies, errors = latencies;
  write_json_text("{\n  ", "config", config->path, out);
  write_json_text(",\n  ", "log", self->log, out);
  write_json_text(",\n  ", "kind", self->kind, out);
  write_json_value(",\n  ", "n_requests", (double)self->n_requests, out);
  write_json_value(",\n  ", "n_failed", (double)self->n_failed, out);
  write_json_value(",\n  ", "n_unserved", (double)self->n_unserved, out);
  write_json_value(",\n  ", "cached", self->cached, out);
  write_json_value(",\n  ", "extrapolated", self->extrapolated, out);
  fputs(",\n  \"latencies\": ", out);
  put_latencies(&latencies, self);
  fputs(",\n  \"requests\": ", out);
  put_requests(&requests, self);
  if (self->n_steps > 0) {
    fputs(",\n  \"errors\": ", out);
    validate_put_errors(&errors, self->iterations);
    fputs("}", out);
  }
  write_json_value(",\n  ", "within", self->within, out);
  write_json_text(",\n  ", "verdict", validate_verdict_names[self->verdict], out);
  fputs("\n}\n", out);
}

/* ---- CSV: one line per figure ---- */

static void print_csv(const Against *self, const Config *config, FILE *out) {
  (void)config;
  Rows errors = {.format = OUTPUT_CSV, .out = out};
  fputs("scope,name,statistic,value,unit\n", out);
  for (int i = 0; i < AGAINST_FIGURES * AGAINST_STATISTICS; i++) {
    const ValidateLatency *latency = &self->latencies[i];
    write_csv_figure("simulated", latency->name, latency->statistic, latency->predicted, "s", out);
    write_csv_figure("logged", latency->name, latency->statistic, latency->measured, "s", out);
    write_csv_figure("error", latency->name, latency->statistic, latency->error, "", out);
  }
  for (int i = 0; i < AGAINST_FIGURES; i++) {
    const RequestErrors *of = &self->requests[i];
    write_csv_figure("requests", of->name, "n", (double)of->n, "", out);
    write_csv_figure("requests", of->name, "median", of->median, "", out);
    write_csv_figure("requests", of->name, "mean", of->mean, "", out);
    write_csv_figure("requests", of->name, "bias", of->bias, "", out);
    write_csv_figure("requests", of->name, "p95", of->p95, "", out);
    write_csv_figure("requests", of->name, "worst", of->worst, "", out);
  }
  if (self->n_steps > 0) validate_put_errors(&errors, self->iterations);
  write_csv_figure("verdict", validate_verdict_names[self->verdict], "within", self->within, "",
                   out);
}

void validate_against_print(const Against *self, const Config *config, OutputFormat format,
                            FILE *out) {
  static void (*const printers[])(const Against *, const Config *, FILE *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  printers[format](self, config, out);
}
