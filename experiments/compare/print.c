/* A comparison on paper, and for programs. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/compare/figures.h"
#include <math.h>
#include <string.h>

static const char *verdict_of(const Compared *figure) {
  const Difference *of = &figure->difference;
  if (of->value == 0 && !(of->half_width > 0)) return "equal";
  if (isnan(of->half_width)) return "no interval";
  return figure->holds ? "real" : of->p < 0.05 ? "real alone" : "not told apart";
}

/* ---- Configurations ---- */

static const char *value_of(const Param *param, Arena *arena) {
  if (!param) return NULL;
  return param->varies ? arena_printf(arena, "%lld values", (long long)param->n_values)
                       : param->value;
}

/* Whether a key is one that makes a difference: the same on all runs of a side, but another, or not
 * there. Of what was measured only keys that it has are asked. */
static bool is_difference(const Compare *self, const Param *a, const Param *b) {
  const char *key = a ? a->key : b->key;
  if (strcmp(key, "seed") == 0) return false;
  const bool measured = self->sides[0].measured || self->sides[1].measured;
  if (measured && strcmp(key, SIDE_PROGRAM) == 0) return false;
  if ((!a && self->sides[0].measured) || (!b && self->sides[1].measured)) return false;
  return !a || !b || a->varies != b->varies || (!a->varies && strcmp(a->value, b->value) != 0);
}

typedef void (*VisitKey)(void *context, const char *key, const Param *a, const Param *b);

/* The keys of both sides in order. */
static void visit_keys(const Compare *self, VisitKey visit, void *context) {
  const Side *one = &self->sides[0], *other = &self->sides[1];
  size_t i = 0, k = 0;
  while (i < one->n_params || k < other->n_params) {
    const int order = i == one->n_params     ? 1
                      : k == other->n_params ? -1
                                             : strcmp(one->params[i].key, other->params[k].key);
    const Param *a = order <= 0 ? &one->params[i++] : NULL;
    const Param *b = order >= 0 ? &other->params[k++] : NULL;
    visit(context, a ? a->key : b->key, a, b);
  }
}

typedef struct Printing {
  const Compare *compare;
  Rows rows;
  int key_width, a_width;
  const char *shared; // keys that vary in both sides
} Printing;

static void measure_key(void *context, const char *key, const Param *a, const Param *b) {
  Printing *self = context;
  Arena *arena = self->compare->arena;
  if (a && b && a->varies && b->varies && strcmp(key, "seed") != 0)
    self->shared =
        arena_printf(arena, "%s%s%s (%lld values)", self->shared, *self->shared ? ", " : " and ",
                     text_shown(key, arena), (long long)a->n_values);
  if (!is_difference(self->compare, a, b)) return;
  const char *text = value_of(a, arena);
  const int key_width = text_width(key), a_width = text ? text_width(text) : 1;
  if (key_width > self->key_width) self->key_width = key_width;
  if (a_width > self->a_width) self->a_width = a_width;
}

static void put_key(void *context, const char *key, const Param *a, const Param *b) {
  Printing *self = context;
  Arena *arena = self->compare->arena;
  if (!is_difference(self->compare, a, b)) return;
  rows_put(&self->rows,
           (Cell[]){{CELL_OF_TEXT("kind", "param"), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("name", key), COLUMN("differs in", -self->key_width)},
                    {CELL_OF_TEXT("unit", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("a", value_of(a, arena)), COLUMN("A", -self->a_width)},
                    {CELL_OF_TEXT("b", value_of(b, arena)), COLUMN("B", 0)},
                    {CELL_OF_TEXT("difference", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("low", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("high", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("p", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("n", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("different", NULL), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("verdict", NULL), .only = CELL_IN_CSV},
                    {0}});
}

/* ---- Figures ---- */

/* A difference as a share of A; NAN where A is nothing. */
static double share(const Difference *of, double difference) {
  return of->a == 0 ? NAN : difference / fabs(of->a);
}

static const char *show_interval(const Difference *of, Arena *arena) {
  const double low = of->value - of->half_width, high = of->value + of->half_width;
  if (isnan(of->half_width)) return "-";
  return of->a == 0 ? arena_printf(arena, "%+.4g .. %+.4g", low, high)
                    : arena_printf(arena, "%+.2f%% .. %+.2f%%", 100 * share(of, low),
                                   100 * share(of, high));
}

static const char *show_change(const Difference *of, Arena *arena) {
  return of->a == 0 ? arena_printf(arena, "%+.4g", of->value)
                    : arena_printf(arena, "%+.2f%%", 100 * share(of, of->value));
}

static void put_figure(Printing *self, const Compared *figure) {
  const Difference *of = &figure->difference;
  Arena *arena = self->compare->arena;
  rows_put(&self->rows,
           (Cell[]){{CELL_OF_TEXT("kind", "figure"), .only = CELL_IN_CSV},
                    {CELL_OF_TEXT("name", figure->name), COLUMN("figure", -self->key_width)},
                    {CELL_OF_TEXT("unit", figure->unit), COLUMN("unit", -4)},
                    {CELL_OF_NUMBER("a", of->a), COLUMN("A", 10), .show = "%.5g"},
                    {CELL_OF_NUMBER("b", of->b), COLUMN("B", 10), .show = "%.5g"},
                    {CELL_OF_NUMBER("difference", of->value)},
                    {CELL_OF_TEXT(NULL, show_change(of, arena)), COLUMN("change", 10)},
                    {CELL_OF_TEXT(NULL, show_interval(of, arena)), COLUMN("95% interval", 21)},
                    {CELL_OF_NUMBER("low", of->value - of->half_width)},
                    {CELL_OF_NUMBER("high", of->value + of->half_width)},
                    {CELL_OF_NUMBER("p", of->p)},
                    {CELL_OF_WHOLE("n", (int64_t)of->n), COLUMN("n", 3)},
                    {CELL_OF_WHOLE("different", (int64_t)of->different),
                     .only = CELL_IN_CSV | CELL_IN_JSON},
                    {CELL_OF_TEXT("verdict", verdict_of(figure)), COLUMN("", 0)},
                    {0}});
}

static void put_figures(Printing *self) {
  for (size_t i = 0; i < self->compare->n_figures; i++)
    put_figure(self, &self->compare->figures[i]);
}

/* ---- All of it ---- */

static void print_json(Printing *self, FILE *out) {
  const Compare *compare = self->compare;
  fputs("{\n", out);
  for (int i = 0; i < 2; i++) {
    fprintf(out, "  \"%c\": {", "ab"[i]);
    write_json_text("", "name", compare->sides[i].name, out);
    fprintf(out, ", \"runs\": %s},\n", compare->sides[i].ids);
  }
  fprintf(out, "  \"paired\": %s,\n  \"configuration\": ", compare->paired ? "true" : "false");
  self->rows = (Rows){OUTPUT_JSON, out, "", .gap = "\n    ", .end = "\n  ]"};
  visit_keys(compare, put_key, self);
  rows_end(&self->rows);
  fputs(",\n  \"figures\": ", out);
  self->rows = (Rows){OUTPUT_JSON, out, "", .gap = "\n    ", .end = "\n  ]"};
  put_figures(self);
  rows_end(&self->rows);
  fputs("\n}\n", out);
}

/* How many runs, and what makes pairs of them. */
static void print_sides(const Printing *self, FILE *out) {
  const Compare *compare = self->compare;
  for (int i = 0; i < 2; i++) {
    const Side *side = &compare->sides[i];
    const char *name = text_shown(side->name, compare->arena);
    fprintf(out, "%c: %s, ", "AB"[i], name);
    if (side->n_runs == 1)
      fprintf(out, "run %lld%s\n", (long long)side->runs[0].id, side->measured ? ", measured" : "");
    else
      fprintf(out, "%zu runs%s\n", side->n_runs, side->measured ? ", measured" : "");
  }
  if (compare->paired && compare->n_pairs > 1)
    fprintf(out, "%zu pairs with equal seed%s\n", compare->n_pairs, self->shared);
  else if (!compare->paired && (compare->sides[0].n_runs > 1 || compare->sides[1].n_runs > 1))
    fputs("not paired: the seeds differ\n", out);
}

/* Why seeds change nothing: a key that all runs of a side share decides what is drawn, or none. */
static const char *same_words(const Compare *self) {
  for (int i = 0; i < 2; i++) {
    const Param *seed = side_param(&self->sides[i], "workload.seed");
    if (self->sides[i].n_runs > 1 && seed && !seed->varies)
      return "'workload.seed' is the same in all of them; other seeds change nothing";
  }
  return "the runs draw nothing at random, so seeds change nothing";
}

/* Says what is no more than fewer runs would say; whether that is no more than one would. */
static bool print_repeated(const Compare *self, FILE *out) {
  const size_t a = self->sides[0].n_runs, b = self->sides[1].n_runs, n = a < b ? a : b;
  if (self->n_different == n) return false;
  fprintf(out,
          "%zu of %zu runs repeat the outcomes of another; equal outcomes count as one observation",
          n - self->n_different, n);
  if (self->n_different == 1) fprintf(out, ":\n%s", same_words(self));
  putc('\n', out);
  return self->n_different == 1;
}

static void print_caution(const Compare *self, FILE *out) {
  size_t n = 0, alone = 0;
  for (size_t i = 0; i < self->n_figures; i++) {
    n += !isnan(self->figures[i].difference.half_width);
    alone += strcmp(verdict_of(&self->figures[i]), "real alone") == 0;
  }
  if (print_repeated(self, out)) return;
  if (n == 0)
    fputs("one run each: there is no interval; runs with other seeds give one\n", out);
  else
    fprintf(
        out,
        "real: differs with all %zu figures tested together (5%%, Holm)\nreal alone (%zu): differs "
        "only when tested alone, as about one of 20 equal figures does by chance\n",
        n, alone);
}

static void print_table(Printing *self, FILE *out) {
  const Compare *compare = self->compare;
  self->rows = (Rows){.format = OUTPUT_TABLE, .out = out, .indent = ""};
  self->key_width = (int)strlen("differs in");
  self->shared = "";
  visit_keys(compare, measure_key, self);
  print_sides(self, out);
  putc('\n', out);
  visit_keys(compare, put_key, self);
  if (!self->rows.any) fputs("the configurations are equal except for seeds\n", out);
  putc('\n', out);
  self->key_width = (int)strlen("extrapolated.time_share");
  for (size_t i = 0; i < compare->n_figures; i++) {
    const int width = text_width(compare->figures[i].name);
    if (width > self->key_width) self->key_width = width;
  }
  self->rows = (Rows){.format = OUTPUT_TABLE, .out = out, .indent = ""};
  put_figures(self);
  if (compare->n_figures > 0)
    print_caution(compare, out);
  else
    fputs("the two sets have no figure in common\n", out);
}

void compare_print(const Compare *self, OutputFormat format, FILE *out) {
  Printing printing = {.compare = self};
  if (format == OUTPUT_JSON)
    print_json(&printing, out);
  else if (format == OUTPUT_TABLE)
    print_table(&printing, out);
  else {
    printing.rows = (Rows){.format = OUTPUT_CSV, .out = out, .indent = ""};
    visit_keys(self, put_key, &printing);
    put_figures(&printing);
  }
}
