/* See term_errors.h. */
#include "perfmodel/term_errors.h"
#include "base/csv.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

const char *const perf_term_names[PERF_TERMS + 1] = {
    "linear",        "prefill attention", "decode attention", "head",
    "communication", "host time",         "whole iterations"};
const char *const term_move_names[TERM_MOVES + 1] = {"linear", "attention", "communication",
                                                     "host time", "whole iterations"};

double term_errors_of(const TermErrors *self, const double times[PERF_TERMS]) {
  double all = 0, squares = self->of[PERF_SUM] * self->of[PERF_SUM];
  for (int t = 0; t < PERF_SUM; t++)
    all += times[t];
  for (int t = 0; t < PERF_SUM && all > 0; t++)
    squares += pow(times[t] / all * self->of[t], 2);
  return sqrt(squares);
}

TermMove term_move_of(PerfTerm term) {
  static const TermMove moves[PERF_TERMS] = {[PERF_LINEAR] = MOVE_LINEAR,
                                             [PERF_PREFILL_ATTENTION] = MOVE_ATTENTION,
                                             [PERF_DECODE_ATTENTION] = MOVE_ATTENTION,
                                             [PERF_HEAD] = MOVE_LINEAR,
                                             [PERF_COMMUNICATION] = MOVE_COMMUNICATION,
                                             [PERF_HOST] = MOVE_HOST,
                                             [PERF_SUM] = MOVE_SUM};
  return moves[term];
}

double term_factor(const TermErrors *self, const TermShifts *shifts, PerfTerm term) {
  return 1 + shifts->by[term_move_of(term)] * self->of[term];
}

double term_errors_moved(const TermErrors *self, TermMove move) {
  double most = 0;
  for (PerfTerm t = 0; t < PERF_TERMS; t++)
    if (term_move_of(t) == move) most = fmax(most, self->of[t]);
  return most;
}

/* ---- Residuals ---- */

static const CsvColumn columns[] = {CSV_FIELD(Residual, engine, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(Residual, gpu, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(Residual, rows, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(Residual, tpot_low, CSV_REAL, CSV_ANY),
                                    CSV_FIELD(Residual, tpot_median, CSV_REAL, CSV_ANY),
                                    CSV_FIELD(Residual, tpot_high, CSV_REAL, CSV_ANY),
                                    CSV_FIELD(Residual, ttft_low, CSV_REAL, CSV_ANY),
                                    CSV_FIELD(Residual, ttft_median, CSV_REAL, CSV_ANY),
                                    CSV_FIELD(Residual, ttft_high, CSV_REAL, CSV_ANY),
                                    {.name = NULL}};

static const char ALL[] = "all";

int residual_load(Residual *self, const PerfSetup *setup, const char *data_dir, Arena *arena,
                  Diag *diag) {
  const char *path = arena_printf(arena, "%s/residuals.csv", data_dir);
  Residual row = {0};
  Csv csv;
  *self = (Residual){0};
  if (access(path, F_OK) != 0) return 0;
  if (csv_open(&csv, path, arena, diag) || csv_header(&csv, columns, true, diag)) return -1;
  int status;
  while ((status = csv_next(&csv, &row, diag)) > 0) {
    const bool is_own = strcmp(row.engine, setup->engine) == 0 && strcmp(row.gpu, setup->gpu) == 0;
    if (!is_own && (strcmp(row.engine, ALL) != 0 || self->rows > 0)) continue;
    *self = row;
    self->elsewhere = !is_own;
  }
  return status;
}

double residual_spread(const Residual *self) {
  return self->rows > 0 ? (self->tpot_high - self->tpot_low) / 200 : 0;
}

static const char *off(double percent, Arena *arena) {
  const char *side = fabs(percent) < 0.5 ? "off" : percent < 0 ? "low" : "high";
  return arena_printf(arena, "%.0f%% %s", fabs(percent), side);
}

const char *residual_rows_text(const Residual *self, Arena *arena) {
  const char *of = self->elsewhere ? ", none of them of this engine and GPU"
                                   : arena_printf(arena, " of %s on %s", self->engine, self->gpu);
  return arena_printf(arena, "%" PRId64 " measured rows%s", self->rows, of);
}

const char *residual_text(const Residual *self, Arena *arena) {
  return arena_printf(arena, "TPOT was %s to %s (median %s), TTFT %s to %s (median %s)",
                      off(self->tpot_low, arena), off(self->tpot_high, arena),
                      off(self->tpot_median, arena), off(self->ttft_low, arena),
                      off(self->ttft_high, arena), off(self->ttft_median, arena));
}
