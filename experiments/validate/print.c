/* The figures of a validation on paper: a table for people, JSON and CSV for programs. */
#include "experiments/base/writer.h"
#include "experiments/validate/validate.h"
#include <math.h>
#include <string.h>

/* ---- A table for people ---- */

/* "-1.2%", "-" where it is not known. */
static const char *percent(double share, bool with_sign, char text[32]) {
  if (isnan(share)) return strcpy(text, "-");
  snprintf(text, 32, with_sign ? "%+.2f%%" : "%.2f%%", 100 * share);
  return text;
}

static void table_latencies(const Validation *self, FILE *out) {
  fprintf(out, "\n%-10s %10s %10s %9s %9s\n", "latency", "predicted", "measured", "error",
          "repeat");
  for (int i = 0; i < VALIDATE_LATENCIES * VALIDATE_STATISTICS; i++) {
    const ValidateLatency *latency = &self->latencies[i];
    char predicted[32], measured[32], error[32], repeat[32];
    fprintf(out, "%-4.*s %-5s %10s %10s %9s %9s\n", (int)strcspn(latency->name, "_"), latency->name,
            latency->statistic, format_duration(latency->predicted, predicted),
            format_duration(latency->measured, measured), percent(latency->error, true, error),
            percent(latency->repeat, false, repeat));
  }
}

static void table_errors(const Validation *self, FILE *out) {
  fprintf(out, "\n%-10s %8s %10s %7s %7s %7s %8s %8s %8s  %s\n", "iterations", "n", "time", "MAPE",
          "median", "p95", "bias", "total", "worst", "at");
  for (int part = 0; part < VALIDATE_PARTS; part++) {
    const ValidateErrors *errors = &self->errors[part];
    char texts[7][32], batch[96] = "";
    if (errors->n == 0) continue;
    format_batch(&errors->worst_batch, batch, sizeof batch);
    fprintf(out, "%-10s %8zu %10s %7s %7s %7s %8s %8s %8s  %s\n", validate_part_names[part],
            errors->n, format_duration(errors->seconds, texts[0]),
            percent(errors->mape, false, texts[1]), percent(errors->median, false, texts[2]),
            percent(errors->p95, false, texts[3]), percent(errors->bias, true, texts[4]),
            percent(errors->total, true, texts[5]), percent(errors->worst, false, texts[6]), batch);
  }
}

static void print_table(const Validation *self, const Config *config, FILE *out) {
  char text[32];
  write_cell(config->path, 0, out);
  fprintf(out, ": %s run by '%s' on ", config->model.name, self->backend);
  write_cell(self->device.name, 0, out);
  fprintf(out, ", %.0f requests\n", self->measured[0].report.run.requests);
  table_latencies(self, out);
  table_errors(self, out);
  const double extrapolated = self->errors[VALIDATE_ALL].extrapolated;
  putc('\n', out);
  if (extrapolated > 0)
    fprintf(out, "extrapolated %s of these iterations are outside the model's measured range\n",
            percent(extrapolated, false, text));
  if (!isnan(self->repeat))
    fprintf(out, "repeated     equal batches differ by %s, the median over %lld more run%s\n",
            percent(self->repeat, false, text), (long long)self->n_measured - 1,
            self->n_measured == 2 ? "" : "s");
  fputs("             errors are of the prediction, relative to what was measured\n", out);
}

/* ---- JSON ---- */

static void json_errors(const ValidateErrors *errors, FILE *out) {
  char batch[96] = "";
  if (errors->n > 0) format_batch(&errors->worst_batch, batch, sizeof batch);
  write_json_value("{", "iterations", (double)errors->n, out);
  write_json_value(", ", "seconds", errors->seconds, out);
  write_json_value(", ", "mape", errors->mape, out);
  write_json_value(", ", "median", errors->median, out);
  write_json_value(", ", "p95", errors->p95, out);
  write_json_value(", ", "worst", errors->worst, out);
  write_json_value(",\n      ", "bias", errors->bias, out);
  write_json_value(", ", "total", errors->total, out);
  write_json_value(", ", "extrapolated", errors->extrapolated, out);
  write_json_text(", ", "worst_batch", batch, out);
  putc('}', out);
}

static void json_latency(const ValidateLatency *latency, FILE *out) {
  fprintf(out, "{\"name\": \"%s\", \"statistic\": \"%s\"", latency->name, latency->statistic);
  write_json_value(", ", "predicted", latency->predicted, out);
  write_json_value(", ", "measured", latency->measured, out);
  write_json_value(", ", "error", latency->error, out);
  write_json_value(", ", "repeat", latency->repeat, out);
  putc('}', out);
}

static void print_json(const Validation *self, const Config *config, FILE *out) {
  write_json_text("{\n  ", "config", config->path, out);
  write_json_text(",\n  ", "backend", self->backend, out);
  write_json_text(",\n  ", "device", self->device.name, out);
  write_json_value(",\n  ", "runs", (double)self->n_measured, out);
  fputs(",\n  \"latencies\": [", out);
  for (int i = 0; i < VALIDATE_LATENCIES * VALIDATE_STATISTICS; i++) {
    fputs(i > 0 ? ",\n    " : "\n    ", out);
    json_latency(&self->latencies[i], out);
  }
  fputs("],\n  \"errors\": {", out);
  for (int part = 0; part < VALIDATE_PARTS; part++) {
    fprintf(out, "%s\n    \"%s\": ", part > 0 ? "," : "", validate_part_names[part]);
    json_errors(&self->errors[part], out);
  }
  write_json_value("},\n  ", "repeat", self->repeat, out);
  fputs("\n}\n", out);
}

/* ---- CSV: one line per figure ---- */

static void csv_errors(const ValidateErrors *errors, const char *part, FILE *out) {
  const struct {
    const char *statistic, *unit;
    double value;
  } figures[] = {{"n", "", (double)errors->n},
                 {"time", "s", errors->seconds},
                 {"mape", "", errors->mape},
                 {"median", "", errors->median},
                 {"p95", "", errors->p95},
                 {"worst", "", errors->worst},
                 {"bias", "", errors->bias},
                 {"total", "", errors->total},
                 {"extrapolated", "", errors->extrapolated}};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    write_csv_figure("iterations", part, figures[i].statistic, figures[i].value, figures[i].unit,
                     out);
}

static void print_csv(const Validation *self, const Config *config, FILE *out) {
  (void)config;
  fputs("scope,name,statistic,value,unit\n", out);
  for (int i = 0; i < VALIDATE_LATENCIES * VALIDATE_STATISTICS; i++) {
    const ValidateLatency *latency = &self->latencies[i];
    write_csv_figure("predicted", latency->name, latency->statistic, latency->predicted, "s", out);
    write_csv_figure("measured", latency->name, latency->statistic, latency->measured, "s", out);
    write_csv_figure("error", latency->name, latency->statistic, latency->error, "", out);
    write_csv_figure("repeat", latency->name, latency->statistic, latency->repeat, "", out);
  }
  for (int part = 0; part < VALIDATE_PARTS; part++)
    csv_errors(&self->errors[part], validate_part_names[part], out);
  write_csv_figure("repeat", "iterations", "median", self->repeat, "", out);
}

void validate_print(const Validation *self, const Config *config, OutputFormat format, FILE *out) {
  static void (*const printers[])(const Validation *, const Config *, FILE *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  printers[format](self, config, out);
}
