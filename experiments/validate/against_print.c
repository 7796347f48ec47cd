/* A log and a simulation on paper: a table for people, JSON and CSV for programs. */
#include "base/text.h"
#include "experiments/validate/print.h"
#include <math.h>
#include <string.h>

static const ValidateSides sides = {"simulated", "logged", false};
enum { LATENCIES = AGAINST_FIGURES * AGAINST_STATISTICS };

static void put_requests(Rows *rows, const Against *self) {
#define ERROR_CELL(field, heading, digits)                                                         \
  { CELL_OF_NUMBER(heading, errors->field), COLUMN_PERCENT(heading, 8, digits) }
  for (int i = 0; i < AGAINST_FIGURES; i++) {
    const ValidateErrors *errors = &self->requests[i];
    const char *name = self->latencies[i * AGAINST_STATISTICS].name;
    char which[32], worst[32];
    snprintf(which, sizeof which, "%.*s", (int)strcspn(name, "_"), name);
    snprintf(worst, sizeof worst, "request %zu", errors->worst_at);
    const Cell cells[] = {
        {CELL_OF_TEXT(NULL, which), COLUMN("requests", -10)},
        {CELL_OF_TEXT("name", name)},
        {CELL_OF_NUMBER("n", (double)errors->n), COLUMN("n", 8), .show = "%.0f"},
        ERROR_CELL(median, "median", "%.2f"),
        ERROR_CELL(mape, "mean", "%.2f"),
        ERROR_CELL(bias, "bias", "%+.2f"),
        ERROR_CELL(p95, "p95", "%.2f"),
        ERROR_CELL(worst, "worst", "%.2f"),
        {CELL_OF_NUMBER("worst_request", (double)errors->worst_at), .only = CELL_IN_JSON},
        {CELL_OF_TEXT(NULL, errors->n > 0 ? worst : ""), COLUMN("at", 0)},
        {0}};
    if (rows->format == OUTPUT_CSV)
      cells_figures(cells, "requests", name, rows->out);
    else
      rows_put(rows, cells);
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
  validate_put_latencies(&latencies, self->latencies, LATENCIES, &sides);
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
  validate_print_worst(self->verdict, self->worst, self->within, out);
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
  validate_put_latencies(&latencies, self->latencies, LATENCIES, &sides);
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
  Rows rows = {.format = OUTPUT_CSV, .out = out};
  fputs("scope,name,statistic,value,unit\n", out);
  validate_put_latencies(&rows, self->latencies, LATENCIES, &sides);
  put_requests(&rows, self);
  if (self->n_steps > 0) validate_put_errors(&rows, self->iterations);
  write_csv_figure("verdict", validate_verdict_names[self->verdict], "within", self->within, "",
                   out);
}

void validate_against_print(const Against *self, const Config *config, OutputFormat format,
                            FILE *out) {
  static void (*const printers[])(const Against *, const Config *, FILE *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  printers[format](self, config, out);
}
