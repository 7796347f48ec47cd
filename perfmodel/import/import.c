/* The list of importers, and what is done after each of them. */
#include "perfmodel/import/import.h"
#include <gsl/gsl_statistics_double.h>
#include <stdlib.h>
#include <string.h>

#define IMPORT(name) extern const Importer import_##name;
#include "perfmodel/import/imports.def"
#undef IMPORT

static const Importer *const importers[] = {
#define IMPORT(name) &import_##name,
#include "perfmodel/import/imports.def"
#undef IMPORT
    NULL};

const Importer *importer_at(int i) {
  return importers[i];
}

const Importer *importer_find(const char *name) {
  for (int i = 0; importers[i]; i++)
    if (strcmp(importers[i]->name, name) == 0) return importers[i];
  return NULL;
}

/* ---- For importers ---- */

int import_table(const char *path, const CsvColumn *columns, void *row, ImportTake *take,
                 void *context, Diag *diag, Arena *arena) {
  Csv csv;
  if (csv_open(&csv, path, arena, diag) || csv_header(&csv, columns, true, diag)) return -1;
  int error = 0;
  for (int status; (status = csv_next(&csv, row, diag)) != 0;)
    if (status < 0 || take(context, &csv, diag)) error = -1;
  return error;
}

ProfileRow import_row(const char *model, const char *gpu, int64_t tensor_parallel_size,
                      ProfileOp op, BatchShape batch, double median_us) {
  ProfileRow row = profile_row(model, gpu, (int32_t)tensor_parallel_size);
  row.op = op;
  row.batch = batch;
  row.median_us = median_us;
  return row;
}

/* ---- Units ---- */

/* The fastest and slowest that the median row of an operator can be. A model of billions of
 * parameters is not iterated over in 50 us, nor is one operator of all layers done in 5 us; neither
 * takes minutes. */
static const struct {
  double low_us, high_us;
} PLAUSIBLE[PROFILE_TERMS] = {
    [PROFILE_ITERATION] = {50, 100e6},
    [PROFILE_LINEAR] = {5, 100e6},
    [PROFILE_PREFILL_ATTENTION] = {5, 100e6},
    [PROFILE_DECODE_ATTENTION] = {5, 100e6},
    [PROFILE_HEAD] = {0.5, 100e6},
};

/* Times of another unit are a thousand times off or more. */
static int check_unit(const Importer *importer, const Profile *profile, Diag *diag) {
  double *times = ARENA_ARRAY(profile->arena, double, profile->n_rows);
  for (int op = 0; op < PROFILE_TERMS; op++) {
    size_t n = 0;
    for (size_t i = 0; i < profile->n_rows; i++)
      if (profile->rows[i].op == (ProfileOp)op) times[n++] = profile->rows[i].median_us;
    if (n == 0) continue;
    const double median = gsl_stats_median(times, 1, n);
    if (median >= PLAUSIBLE[op].low_us && median <= PLAUSIBLE[op].high_us) continue;
    diag_error(diag, place_of_file(profile->path),
               "the median of '%s' is %.3g us, which is not plausible: the times are not in %s",
               profile_op_name((ProfileOp)op), median, importer->units);
    return -1;
  }
  return 0;
}

/* ---- Importing ---- */

int import_profile(const Importer *importer, const ImportInput *input, Profile *profile,
                   Diag *diag) {
  profile_set_fact(profile, "source", input->path);
  profile_set_fact(profile, "format", importer->name);
  profile_set_fact(profile, "source_units", importer->units);
  if (importer->read(input, profile, diag)) return -1;
  if (profile->n_rows < 2)
    return diag_error(diag, place_of_file(input->path),
                      "a profile needs at least two points, found %zu", profile->n_rows);
  if (profile->n_rows > PROFILE_MAX_ROWS)
    return diag_error(diag, place_of_file(input->path), "the import makes more than %d rows",
                      PROFILE_MAX_ROWS);
  profile_number(profile);
  return check_unit(importer, profile, diag);
}
