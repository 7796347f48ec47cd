/* Points: how readers make them, which are asked for, and how far predictions are off. */
#include "experiments/measured/measured.h"
#include "base/units.h"
#include "experiments/measured/set.h"
#include <math.h>
#include <string.h>
#include <strings.h>

#define SET(name) extern const MeasuredSet measured_##name;
#include "experiments/measured/sets.def"
#undef SET

static const MeasuredSet *const sets[] = {
#define SET(name) &measured_##name,
#include "experiments/measured/sets.def"
#undef SET
    NULL};

const char *const measured_set_names[] = {
#define SET(name) #name,
#include "experiments/measured/sets.def"
#undef SET
    NULL};

/* ---- What readers make ---- */

/* A new point of a set, with nothing measured. */
static MeasuredPoint *measured_add(Measured *self, const MeasuredSet *set) {
  ARENA_RESERVE(self->arena, self->points, self->capacity, self->n_points + 1);
  MeasuredPoint *point = &self->points[self->n_points++];
  *point = (MeasuredPoint){.set = set->name,
                           .id = "",
                           .engine = "",
                           .version = "",
                           .model = "",
                           .gpu = "",
                           .precision = ""};
  for (int i = 0; i < MEASURED_POOLS; i++)
    point->pools[i] = (MeasuredPool){1, 1, 1, 1, 1, 0};
  for (int i = 0; i < MEASURED_FIGURES; i++)
    point->measured[i] = point->predicted[i] = NAN;
  point->extrapolated = NAN;
  return point;
}

int measured_add_rows(Measured *self, const MeasuredSet *set, const char *path,
                      const CsvColumn *columns, void *row, MeasuredTake *take, Diag *diag) {
  Csv csv;
  if (csv_open(&csv, path, self->arena, diag) || csv_header(&csv, columns, false, diag)) return -1;
  int failed = 0;
  for (int status; (status = csv_next(&csv, row, diag)) != 0;)
    if (status > 0)
      take(self, measured_add(self, set), row);
    else
      failed = -1;
  return failed;
}

void measured_refuse(MeasuredPoint *point, const char *why) {
  if (!point->why) point->why = why;
}

void measured_note_odd(MeasuredPoint *point, const char *odd) {
  if (!point->odd) point->odd = odd;
}

bool measured_number(Measured *self, MeasuredPoint *point, const char *column, const char *text,
                     double low, double high, double absent, double *ret) {
  *ret = absent;
  if (!*text && !isnan(absent)) return true;
  if (units_parse(text, DIM_NONE, ret) && *ret >= low && *ret <= high) return true;
  *ret = absent;
  measured_refuse(point,
                  arena_printf(self->arena, "'%s' must be a number from %g to %g, not '%.40s'",
                               column, low, high, text));
  return false;
}

bool measured_count(Measured *self, MeasuredPoint *point, const char *column, const char *text,
                    int64_t most, int64_t absent, int64_t *ret) {
  double number;
  const double low = absent > 0 ? 0 : 1;
  *ret = absent;
  if (!measured_number(self, point, column, text, low, (double)most,
                       absent > 0 ? (double)absent : NAN, &number))
    return false;
  *ret = number == 0 ? absent : (int64_t)number;
  if (number == floor(number)) return true;
  measured_refuse(point,
                  arena_printf(self->arena, "'%s' must be whole, not '%.40s'", column, text));
  return false;
}

void measured_draw(MeasuredRange *tokens, double least, double most) {
  const double written = (double)tokens->written;
  tokens->least = (int64_t)fmax(fmin(written, 1), floor(least * written));
  tokens->most = (int64_t)floor(most * written);
}

/* ---- What was fitted ---- */

typedef struct Fitted {
  const char *id, *what;
  bool ttft;        // alone
  const char *with; // only where the performance model names this engine; NULL: always
} Fitted;

static const Fitted fitted[] = {
#define FITTED(id, what)            {id, what, false, NULL},
#define FITTED_TTFT(id, what)       {id, what, true, NULL},
#define FITTED_WITH(with, id, what) {id, what, false, with},
#include "experiments/measured/fitted.def"
#undef FITTED
#undef FITTED_TTFT
#undef FITTED_WITH
};

static void mark_fitted(MeasuredPoint *point, const char *perfmodel) {
  for (size_t i = 0; i < sizeof fitted / sizeof *fitted; i++)
    if (strcmp(fitted[i].id, point->id) == 0 &&
        (!fitted[i].with || (perfmodel && strstr(perfmodel, fitted[i].with)))) {
      point->fitted = fitted[i].what;
      point->fitted_ttft = fitted[i].ttft;
    }
}

/* ---- Loading ---- */

/* Whether `asked`, where it is said, is in the text, in letters of either case. */
static bool suits(const char *asked, const char *has) {
  const size_t length = asked ? strlen(asked) : 0;
  for (; strlen(has) >= length; has++)
    if (length == 0 || strncasecmp(has, asked, length) == 0) return true;
  return false;
}

/* Points of a log are one run, which is left whole. */
static bool has_id(const char *asked, const MeasuredPoint *point) {
  if (!asked || strcmp(asked, point->id) == 0) return true;
  const char *end = strrchr(point->id, '/');
  const size_t length = end ? (size_t)(end - point->id) : 0;
  return point->log && strncmp(asked, point->id, length) == 0 &&
         (asked[length] == '\0' || (asked[length] == '/' && !strchr(asked + length + 1, '/')));
}

static bool is_asked_for(const MeasuredOptions *options, const MeasuredPoint *point) {
  return suits(options->model, point->model) && suits(options->engine, point->engine) &&
         suits(options->gpu, point->gpu) && has_id(options->id, point) &&
         (!options->mode || strcmp(options->mode, measured_mode(point)) == 0);
}

static void keep_asked_for(Measured *self, const MeasuredOptions *options) {
  size_t n = 0;
  for (size_t i = 0; i < self->n_points; i++)
    if (is_asked_for(options, &self->points[i])) self->points[n++] = self->points[i];
  self->n_points = n;
}

int measured_load(Measured *self, const MeasuredOptions *options, Arena *arena, Diag *diag) {
  *self = (Measured){.arena = arena};
  int status = 0;
  for (int i = 0; sets[i]; i++) {
    if (options->rows ? sets[i] != &measured_inferencex
                      : options->set && strcmp(options->set, sets[i]->name) != 0)
      continue;
    const char *path = options->rows ? options->rows
                                     : arena_printf(arena, "%s/%s", options->folder, sets[i]->file);
    status |= sets[i]->load(self, sets[i], path, diag);
  }
  if (status) return -1;
  keep_asked_for(self, options);
  if (options->id && self->n_points == 0) {
    diag_error(diag, place_of_file(NULL), "there is no point with the id '%s'", options->id);
    return diag_hint(diag, "'--format csv' prints the ids of all points");
  }
  for (size_t i = 0; i < self->n_points; i++) {
    mark_fitted(&self->points[i], options->perfmodel);
    measured_write_config(&self->points[i], options, arena, diag);
  }
  return diag->n_entries > 0 ? -1 : 0;
}

/* ---- Figures ---- */

const char *measured_mode(const MeasuredPoint *point) {
  return point->split ? "disagg" : "agg";
}

int64_t measured_gpus(const MeasuredPoint *point) {
  int64_t gpus = 0;
  for (int i = 0; i < (point->split ? MEASURED_POOLS : 1); i++) {
    const MeasuredPool *pool = &point->pools[i];
    gpus += pool->workers * pool->tensor * pool->attention * pool->pipeline;
  }
  return gpus;
}

int measured_set_index(const char *name) {
  int i = 0;
  while (measured_set_names[i] && strcmp(measured_set_names[i], name) != 0)
    i++;
  return i;
}

/* Little's law: of a closed loop the clients' requests are always there. */
double measured_loop_throughput(const MeasuredPoint *point, const double figures[]) {
  const double mean = (double)(point->output_tokens.least + point->output_tokens.most) / 2;
  const double e2e = figures[MEASURED_TTFT] + (mean - 1) * figures[MEASURED_TPOT];
  return (double)point->clients * mean / e2e / (double)measured_gpus(point);
}

double measured_error(const MeasuredPoint *point, MeasuredFigure figure) {
  return point->why ? NAN : point->predicted[figure] / point->measured[figure] - 1;
}

bool measured_is_held_out(const MeasuredPoint *point, MeasuredFigure figure) {
  return !point->fitted || (point->fitted_ttft && figure != MEASURED_TTFT);
}
