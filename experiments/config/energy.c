/* `energy`: what a building draws for each kWh of its machines, and what a kWh emits by the hour.
 *
 * The table has a row for each hour and region: hour, from 0 on; region, unless there is only one;
 * and g_per_kwh, grams of CO2 equivalent. After the last hour of a region comes its first again, so
 * that 24 rows are every day. */
#include "base/csv.h"
#include "base/output.h"
#include "experiments/config/config.h"
#include <stdlib.h>
#include <string.h>

#define ENERGY(field, kind, ...) OPTION_OF(EnergyConfig, field, kind, __VA_ARGS__)

const OptionSpec config_energy_options[] = {
    ENERGY(pue, OPTION_REAL, .fallback = "1", .min = 1, .max = 10,
           .help =
               "Power usage effectiveness: what the building draws for what its machines draw."),
    ENERGY(carbon, OPTION_NODE,
           .help = "Carbon intensity of the electricity: grams of CO2 equivalent per kWh, or the "
                   "path of a table hour,g_per_kwh[,region], which begins again after its end.",
           .absent = "not known; no emissions are computed"),
    ENERGY(region, OPTION_STRING, .help = "Region of the table, whose rows count.",
           .absent = "the only one"),
    ENERGY(start_hour, OPTION_INT, .fallback = "0", .max = 1e6,
           .help = "Hour of the table at which the run begins."),
    {0}};

typedef struct HourRow {
  int64_t hour;
  double g_per_kwh;
  const char *region;
} HourRow;

typedef struct HourTable {
  double *of; // [n]
  size_t n, capacity;
  const char *region; // NULL: that of the first row
  Arena *arena;
} HourTable;

static int add_row(HourTable *self, const HourRow *row, const Csv *csv, Diag *diag) {
  if (!self->region) self->region = row->region;
  if (strcmp(self->region, row->region) != 0) return 0;
  if (row->hour != (int64_t)self->n)
    return diag_error(diag, csv_place(csv, "hour"),
                      "hour %lld of region '%s' must be %zu: they begin at 0 and follow each other",
                      (long long)row->hour, self->region, self->n);
  ARENA_RESERVE(self->arena, self->of, self->capacity, self->n + 1);
  self->of[self->n++] = row->g_per_kwh;
  return 0;
}

static int read_table(EnergyConfig *self, const char *path, Place at, Arena *arena, Diag *diag) {
  static const CsvColumn columns[] = {
      CSV_FIELD(HourRow, hour, CSV_INT, CSV_NOT_NEGATIVE),
      CSV_FIELD(HourRow, g_per_kwh, CSV_REAL, CSV_NOT_NEGATIVE),
      {"region", CSV_TEXT, offsetof(HourRow, region), .may_be_empty = true, .may_miss = true},
      {0}};
  Csv csv;
  HourRow row = {0};
  HourTable table = {.region = self->region, .arena = arena};
  bool several = false;
  int status = 0;
  if (csv_open(&csv, path, arena, diag) || csv_header(&csv, columns, false, diag)) return -1;
  for (int next; (next = csv_next(&csv, &row, diag)) != 0;) {
    status |= next < 0 ? -1 : add_row(&table, &row, &csv, diag);
    several |= next > 0 && strcmp(table.region, row.region) != 0;
  }
  if (status) return -1;
  if (several && !self->region) {
    diag_error(diag, at, "'%s' has several regions", path);
    return diag_hint(diag, "choose one with 'region', such as region: %s", table.region);
  }
  if (table.n == 0)
    return diag_error(diag, at, "'%s' has no hour%s%s", path, self->region ? " of region " : "",
                      self->region ? self->region : "");
  self->g_per_kwh = table.of;
  self->n_hours = table.n;
  return 0;
}

int config_bind_energy(Config *self, const Node *node, Arena *arena, Diag *diag) {
  static const OptionSpec grams = {.key = "carbon", .type = OPTION_REAL, .max = 1e5};
  EnergyConfig *energy = &self->energy;
  if (option_bind(config_energy_options, node, NULL, node->at, energy, diag)) return -1;
  const Node *carbon = energy->carbon;
  char *end = NULL;
  energy->is_given = true;
  if (!carbon) return 0;
  self->sim.meters_hours = true;
  const bool is_text = carbon->kind == NODE_SCALAR && carbon->text[0];
  if (is_text && (strtod(carbon->text, &end), *end)) {
    energy->path = path_resolve(carbon->text, self->directory, arena);
    return read_table(energy, energy->path, carbon->at, arena, diag);
  }
  energy->g_per_kwh = ARENA_NEW(arena, double);
  energy->n_hours = 1;
  return option_bind_one(&grams, carbon, energy->g_per_kwh, diag);
}

double config_grams_per_kwh(const EnergyConfig *self, size_t hour) {
  return self->g_per_kwh[(hour + (size_t)self->start_hour) % self->n_hours];
}
