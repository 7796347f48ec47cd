/* Attainment and goodput against the rate, on paper. */
#include "experiments/base/cells.h"
#include "experiments/plan/plan.h"
#include <math.h>

/* "97.3% (96.1..98.0%)"; without a range where there is none. */
static const char *percents(CurveRange range, Arena *arena) {
  const double low = 100 * range.low, high = 100 * range.high;
  const char *value = arena_printf(arena, "%.1f%%", 100 * range.value);
  return high - low < 0.05 ? value : arena_printf(arena, "%s (%.1f..%.1f%%)", value, low, high);
}

static const char *rates(CurveRange range, Arena *arena) {
  const char *value = arena_printf(arena, "%.4g", range.value);
  if (range.high - range.low < 1e-3 * range.high) return value;
  return arena_printf(arena, "%s (%.4g..%.4g)", value, range.low, range.high);
}

static void put_point(Rows *rows, const CurvePoint *point, int width, Arena *arena) {
  const Answer *answer = &point->outcome->answers[0];
  const int hidden = CELL_IN_CSV | CELL_IN_JSON;
  rows_put(
      rows,
      (Cell[]){
          {CELL_OF_TEXT("design", point->outcome->design->name), COLUMN("design", -width)},
          {CELL_OF_TEXT("instances", plan_instances(answer, arena)), COLUMN(" instances", 10)},
          {CELL_OF_NUMBER("gpus", answer->fleet.takes.gpus), .only = hidden},
          {CELL_OF_NUMBER("load", point->load), COLUMN_PERCENT("load", 5, "%.0f")},
          {CELL_OF_NUMBER("requests_per_s", point->rate), COLUMN("requests/s", 10), .show = "%.4g"},
          {CELL_OF_NUMBER("attained", point->attained.value), .only = hidden},
          {CELL_OF_NUMBER("attained_low", point->attained.low), .only = hidden},
          {CELL_OF_NUMBER("attained_high", point->attained.high), .only = hidden},
          {CELL_OF_NUMBER("goodput_rps", point->goodput.value), .only = hidden},
          {CELL_OF_NUMBER("goodput_rps_low", point->goodput.low), .only = hidden},
          {CELL_OF_NUMBER("goodput_rps_high", point->goodput.high), .only = hidden},
          {CELL_OF_TEXT(NULL, percents(point->attained, arena)), COLUMN("within the limits", 22)},
          {CELL_OF_TEXT(NULL, rates(point->goodput, arena)), COLUMN("goodput, requests/s", 24)},
          {0}});
}

/* Up to which rate each design keeps the limits. */
static void print_knees(const PlanAnswer *self, FILE *out, Arena *arena) {
  const Curve *curve = self->curve;
  const double share = self->plan->quantile;
  for (int i = 0; i < curve->n && share > 0; i++) {
    const DesignOutcome *outcome = curve->points[i].outcome;
    if (i > 0 && curve->points[i - 1].outcome == outcome) continue;
    const double knee = curve_knee(curve, outcome, share);
    const char *rate =
        knee > 0 ? arena_printf(arena, "up to %.4g requests/s", knee) : "at none of these rates";
    fprintf(out, "%s (%s): %.6g%% of the requests keep the limits %s in all cases\n",
            outcome->design->name, plan_instances(&outcome->answers[0], arena), 100 * share, rate);
  }
}

void plan_print_curve(const PlanAnswer *self, OutputFormat format, FILE *out, Arena *arena) {
  Rows rows = {format, out, "", .gap = "\n  ", .end = "]"};
  const int width = provision_name_width(self->study);
  if (format == OUTPUT_TABLE)
    fputs("\nrequests that keep all limits by themselves, against the rate; in brackets over seeds "
          "and\nwith times shorter and longer by their error\n",
          out);
  for (int i = 0; i < self->curve->n; i++)
    put_point(&rows, &self->curve->points[i], width, arena);
  if (format == OUTPUT_TABLE) print_knees(self, out, arena);
  if (format == OUTPUT_JSON) rows_end(&rows);
}
