/* Another tool's predictions of the same rows: see measured.h. */
#include "experiments/measured/set.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Prediction {
  const char *id;
  double ttft_ms, tpot_ms; // NAN: none
} Prediction;

typedef struct Predictions {
  Prediction *items;
  size_t n, capacity;
} Predictions;

static int compare_ids(const void *a, const void *b) {
  return strcmp(((const Prediction *)a)->id, ((const Prediction *)b)->id);
}

static int read_predictions(Predictions *self, const MeasuredAgainst *against, Arena *arena,
                            Diag *diag) {
  const char *prefix = against->columns ? against->columns : "";
  Prediction row = {0};
  Csv csv;
  const CsvColumn columns[] = {
      {.name = "id", .type = CSV_TEXT, .offset = offsetof(Prediction, id)},
      {arena_printf(arena, "%sttft_ms", prefix), CSV_REAL, offsetof(Prediction, ttft_ms),
       CSV_NOT_NEGATIVE, .may_be_empty = true},
      {arena_printf(arena, "%stpot_ms", prefix), CSV_REAL, offsetof(Prediction, tpot_ms),
       CSV_NOT_NEGATIVE, .may_be_empty = true},
      {0}};
  if (csv_open(&csv, against->path, arena, diag) || csv_header(&csv, columns, false, diag))
    return -1;
  int error = 0;
  for (int status; (status = csv_next(&csv, &row, diag)) != 0;) {
    if (status < 0) error = -1;
    ARENA_RESERVE(arena, self->items, self->capacity, self->n + 1);
    self->items[self->n++] = row;
  }
  if (!error && self->n > 0) qsort(self->items, self->n, sizeof *self->items, compare_ids);
  return error;
}

static void add_point(Measured *to, const MeasuredPoint *point) {
  ARENA_RESERVE(to->arena, to->points, to->capacity, to->n_points + 1);
  to->points[to->n_points++] = *point;
}

/* A point that both predict and nothing was fitted to, and theirs in its place. */
static void add_pair(MeasuredPair *self, const MeasuredPoint *ours, const Prediction *theirs) {
  MeasuredPoint point = *ours, other = *ours;
  const double figures[] = {
      [MEASURED_TTFT] = theirs->ttft_ms / 1e3, [MEASURED_TPOT] = theirs->tpot_ms / 1e3};
  bool any = false;
  for (int f = 0; f < MEASURED_FIGURES; f++) {
    const double figure = f == MEASURED_TTFT || f == MEASURED_TPOT ? figures[f] : NAN;
    const bool both = !isnan(figure) && !isnan(measured_error(ours, (MeasuredFigure)f)) &&
                      measured_is_held_out(ours, (MeasuredFigure)f);
    other.predicted[f] = figure;
    if (!both) point.predicted[f] = other.predicted[f] = NAN;
    any |= both;
  }
  if (!any) return;
  add_point(&self->ours, &point);
  add_point(&self->theirs, &other);
}

int measured_pair(MeasuredPair *ret, const Measured *self, const MeasuredAgainst *against,
                  Arena *arena, Diag *diag) {
  Predictions predictions = {0};
  *ret = (MeasuredPair){.ours.arena = arena, .theirs.arena = arena};
  if (read_predictions(&predictions, against, arena, diag)) return -1;
  for (size_t i = 0; i < self->n_points; i++) {
    const Prediction key = {.id = self->points[i].id};
    const Prediction *found =
        predictions.n > 0 ? bsearch(&key, predictions.items, predictions.n, sizeof key, compare_ids)
                          : NULL;
    const bool any = found && !(isnan(found->ttft_ms) && isnan(found->tpot_ms));
    if (any && !self->points[i].why) add_pair(ret, &self->points[i], found);
    ret->ours_alone += !any && !self->points[i].why;
    ret->theirs_alone += any && self->points[i].why;
  }
  return 0;
}

/* ---- On paper ---- */

static const MeasuredFigure compared[] = {MEASURED_TPOT, MEASURED_TTFT};
enum { COMPARED = sizeof compared / sizeof *compared };

/* Some of the points of both, and for each figure of how many ours is nearer to what was
 * measured. */
typedef struct Part {
  MeasuredGroup ours, theirs;
  int nearer[COMPARED];
} Part;

static void add_points(Part *self, const MeasuredPoint *ours, const MeasuredPoint *theirs,
                       Arena *arena) {
  measured_group_add(&self->ours, ours, arena);
  measured_group_add(&self->theirs, theirs, arena);
  for (int f = 0; f < COMPARED; f++)
    self->nearer[f] +=
        fabs(measured_error(ours, compared[f])) < fabs(measured_error(theirs, compared[f]));
}

/* Mean and median errors of both. Of a part with a name that stands in the place of an engine. */
static void put_part(Rows *rows, Part *part, const char *name) {
  const MeasuredPoint *first =
      name ? &(MeasuredPoint){.engine = name, .gpu = "", .model = "", .precision = ""}
           : part->ours.first;
  static const struct {
    const char *head, *names[5];
  } texts[COMPARED] = {
      {"TPOT", {"tpot_mean", "their_tpot_mean", "tpot_median", "their_tpot_median", "tpot_nearer"}},
      {"TTFT",
       {"ttft_mean", "their_ttft_mean", "ttft_median", "their_ttft_median", "ttft_nearer"}}};
  Cell cells[7 + 5 * COMPARED] = {
      {CELL_OF_TEXT("engine", first->engine), COLUMN("engine", -12)},
      {CELL_OF_TEXT("gpu", first->gpu), COLUMN("GPU", -10)},
      {CELL_OF_TEXT("model", first->model), COLUMN("model", -32)},
      {CELL_OF_TEXT("precision", first->precision), COLUMN("format", -6)},
      {CELL_OF_TEXT("mode", name ? "" : measured_mode(first)), COLUMN("mode", -6)},
      {CELL_OF_WHOLE("points", part->ours.points), COLUMN("points", 6)}};
  int n = 6;
  measured_group_end(&part->ours);
  measured_group_end(&part->theirs);
  for (int f = 0; f < COMPARED; f++) {
    MeasuredErrors *ours = &part->ours.errors[compared[f]];
    MeasuredErrors *theirs = &part->theirs.errors[compared[f]];
    const double values[] = {ours->mape, theirs->mape, measured_median(ours),
                             measured_median(theirs),
                             ours->n > 0 ? (double)part->nearer[f] / ours->n : NAN};
    const char *const heads[] = {texts[f].head, "theirs", "median", "theirs", "nearer"};
    for (int v = 0; v < 5; v++)
      cells[n++] =
          (Cell){CELL_OF_NUMBER(texts[f].names[v], values[v]), COLUMN_PERCENT(heads[v], 7, "%.1f")};
  }
  rows_put(rows, cells);
}

typedef enum Which { WHICH_MACHINE, WHICH_SPLIT, WHICH_NOT_ODD, WHICH_ALL, WHICHES } Which;
static const char *const which_names[WHICHES] = {"one machine", "split", "none odd", "all"};

static bool is_of(const MeasuredPoint *point, Which which) {
  return which == WHICH_ALL || (which == WHICH_NOT_ODD ? !point->odd
                                : which == WHICH_SPLIT ? point->split
                                                       : !point->split);
}

/* The points of the group of one, or without one `which`. */
static void put_points(Rows *rows, const MeasuredPair *self, const MeasuredPoint *like, Which which,
                       Arena *arena) {
  Part part = {0};
  for (size_t i = 0; i < self->ours.n_points; i++) {
    const MeasuredPoint *point = &self->ours.points[i];
    if (like ? measured_same_group(point, like) : is_of(point, which))
      add_points(&part, point, &self->theirs.points[i], arena);
  }
  if (part.ours.first) put_part(rows, &part, like ? NULL : which_names[which]);
}

void measured_print_pair(const MeasuredPair *self, OutputFormat format, Arena *arena, FILE *out) {
  Rows rows = {.format = format, .out = out, .indent = "", .gap = "\n  ", .end = "\n]\n"};
  const MeasuredGroup *group = measured_groups(&self->ours, false, arena);
  for (; group->first; group++)
    put_points(&rows, self, group->first, WHICH_ALL, arena);
  for (int which = 0; which < WHICHES; which++)
    put_points(&rows, self, NULL, (Which)which, arena);
  rows_end(&rows);
  if (format == OUTPUT_TABLE)
    fprintf(out, "\n%zu points have a prediction here alone, %zu there alone\n", self->ours_alone,
            self->theirs_alone);
}
