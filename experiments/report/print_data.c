/* The figures of a run for programs: JSON and CSV. */
#include "experiments/base/cells.h"
#include "experiments/base/version.h"
#include "experiments/report/report.h"
#include <inttypes.h>
#include <math.h>

/* ---- JSON: one object, keys always in the same order ---- */

/* "name": value for each figure of a level, whose struct is `values`: after `before`, which follows
 * `first` only. */
static void json_level(Level level, const void *values, const char *first, const char *before,
                       FILE *out) {
  const double *value = values;
  for (const Figure *figure = report_figures; figure->name; figure++)
    if (figure->level == level) {
      write_json_value(value == values ? first : before, figure->name, *value, out);
      value++;
    }
}

/* A key, and an object as its value. */
static void json_distribution(const char *before, const char *name,
                              const Distribution *distribution, FILE *out) {
  fprintf(out, "%s\"%s\": ", before, name);
  for (int k = 0; k < REPORT_STATISTICS; k++)
    write_json_value(k ? ", " : "{", report_statistics[k], distribution->values[k], out);
  for (int k = 0; k < REPORT_STATISTICS; k++)
    if (!isnan(distribution->half_widths[k]))
      write_json_value(", ", report_half_widths[k], distribution->half_widths[k], out);
  putc('}', out);
}

static void json_pool(const PoolReport *report, FILE *out) {
  const PoolSpec *pool = report->pool;
  write_json_text("{", "name", pool->name, out);
  write_json_text(", ", "machine", pool->machine, out);
  write_json_text(", ", "role", role_name(pool->role), out);
  write_json_text(", ", "perfmodel", pool->perfmodel->name, out);
  write_json_value(", ", "count", pool_machines(pool), out);
  json_level(LEVEL_POOL, &report->figures, ", ", ", ", out);
  json_level(LEVEL_MACHINE, &report->machines, ", ", ", ", out);
#define POOL_HISTOGRAM(field, unit, scale, meaning)                                                \
  json_distribution(", ", #field, &report->field, out);
#include "sim/books/metrics.def"
  putc('}', out);
}

static void json_component(const ComponentReport *report, FILE *out) {
  write_json_text("{", "name", report->component->name, out);
  json_level(LEVEL_COMPONENT, &report->figures, ", ", ", ", out);
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning)                                           \
  json_distribution(", ", report->field.name, &report->field, out);
#include "sim/books/metrics.def"
  putc('}', out);
}

static void json_outcomes(const Report *self, FILE *out) {
  Rows rows = {OUTPUT_JSON, out, "", .gap = "\n    ", .end = "\n  ]\n}\n"};
  for (int i = 0; i < self->config->slo->n_specs; i++) {
    const SloOutcome *outcome = &self->outcomes[i];
    rows_put(&rows, (Cell[]){{CELL_OF_TEXT("name", outcome->spec->name)},
                             {CELL_OF_NUMBER("value", outcome->value)},
                             {CELL_OF_NUMBER("limit", outcome->spec->limit)},
                             {CELL_OF_TEXT("unit", slo_unit(outcome->spec))},
                             {CELL_OF_NUMBER("margin", outcome->margin)},
                             {CELL_OF_NUMBER("half_width", outcome->half_width)},
                             {CELL_OF_FLAG("met", outcome->met)},
                             {CELL_OF_TEXT("status", slo_status(outcome))},
                             {0}});
  }
  rows_end(&rows);
}

void report_print_json(const Report *self, FILE *out) {
  write_json_text("{\n  ", "version", tandem_version, out);
  write_json_text(",\n  ", "config", self->config->path, out);
  fprintf(out, ",\n  \"digest\": \"%016" PRIx64 "\"", self->result->digest);
  json_level(LEVEL_RUN, &self->run, ",\n  ", ",\n  ", out);
  json_level(LEVEL_MACHINE, &self->machines, ",\n  ", ",\n  ", out);
  for (int i = 0; i < self->n_latencies; i++)
    json_distribution(",\n  ", self->latencies[i].name, &self->latencies[i], out);
  fputs(",\n  \"extrapolated\": ", out);
  json_level(LEVEL_EXTRAPOLATED, &self->extrapolated, "{", ", ", out);
  fputs("},\n  \"pools\": [", out);
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    fputs(i ? ",\n    " : "\n    ", out);
    json_pool(&self->pools[i], out);
  }
  fputs("\n  ]", out);
  for (uint32_t i = 0; i < self->result->n_components; i++) {
    fputs(i ? ",\n    " : ",\n  \"components\": [\n    ", out);
    json_component(&self->components[i], out);
  }
  fputs(self->result->n_components ? "\n  ],\n  \"groups\": [" : ",\n  \"groups\": [", out);
  for (uint32_t i = 0; i < self->config->sim.n_groups; i++) {
    write_json_text(i ? ",\n    {" : "\n    {", "name", self->groups[i].group->name, out);
    json_level(LEVEL_GROUP, &self->groups[i].figures, ", ", ", ", out);
    putc('}', out);
  }
  fputs(self->config->sim.n_groups ? "\n  ]" : "]", out);
  for (int i = 0; i < MOVES && self->moved[i]; i++) {
    fprintf(out, "%s\"%s\": ", i ? ", " : ",\n  \"moved\": {", report_moves[i]);
    report_print_json(self->moved[i], out);
  }
  fputs(self->moved[0] ? "},\n  \"slo\": " : ",\n  \"slo\": ", out);
  json_outcomes(self, out);
}

/* ---- CSV: one line per figure ---- */

typedef struct Lines {
  const char *move; // that scopes have in front, with times moved; NULL: as they are
  FILE *out;
} Lines;

static void csv_line(void *context, const char *scope, const char *name, const char *statistic,
                     double value, const char *unit) {
  const Lines *self = context;
  Arena arena;
  arena_init(&arena);
  if (self->move) scope = arena_printf(&arena, "%s.%s", self->move, scope);
  write_csv_figure(scope, name, statistic, value, unit, self->out);
  arena_done(&arena);
}

static void csv_figures(const Report *self, Lines *lines) {
  report_visit(self, csv_line, lines);
  for (int i = 0; i < self->config->slo->n_specs; i++) {
    const SloOutcome *outcome = &self->outcomes[i];
    const char *unit = slo_unit(outcome->spec);
    csv_line(lines, "slo", outcome->spec->name, "value", outcome->value, unit);
    csv_line(lines, "slo", outcome->spec->name, "limit", outcome->spec->limit, unit);
    csv_line(lines, "slo", outcome->spec->name, "margin", outcome->margin, "");
    csv_line(lines, "slo", outcome->spec->name, "met", outcome->met, "");
    csv_line(lines, "slo", outcome->spec->name, "measured", !outcome->unmeasured, "");
    if (!isnan(outcome->half_width))
      csv_line(lines, "slo", outcome->spec->name, "half_width", outcome->half_width, unit);
  }
}

void report_print_csv(const Report *self, FILE *out) {
  fputs("scope,name,statistic,value,unit\n", out);
  csv_figures(self, &(Lines){NULL, out});
  for (int i = 0; i < MOVES && self->moved[i]; i++)
    csv_figures(self->moved[i], &(Lines){report_moves[i], out});
  fprintf(out, "run,digest,value,%016" PRIx64 ",\n", self->result->digest);
}
