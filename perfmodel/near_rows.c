/* See near_rows.h. */
#include "perfmodel/near_rows.h"
#include "base/csv.h"
#include "base/text.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAY_BE_EMPTY(field, kind)                                                                  \
  { .name = #field, .type = kind, .offset = offsetof(NearRow, field), .may_be_empty = true }

static const CsvColumn columns[] = {CSV_FIELD(NearRow, id, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(NearRow, engine, CSV_TEXT, CSV_ANY),
                                    MAY_BE_EMPTY(version, CSV_TEXT),
                                    CSV_FIELD(NearRow, gpu, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(NearRow, model, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(NearRow, weights, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(NearRow, mode, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(NearRow, degrees, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(NearRow, gpus, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(NearRow, isl, CSV_REAL, CSV_POSITIVE),
                                    CSV_FIELD(NearRow, osl, CSV_REAL, CSV_POSITIVE),
                                    MAY_BE_EMPTY(concurrency, CSV_REAL),
                                    CSV_FIELD(NearRow, drafts, CSV_INT, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(NearRow, rows, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(NearRow, ttft_ms, CSV_REAL, CSV_POSITIVE),
                                    CSV_FIELD(NearRow, tpot_ms, CSV_REAL, CSV_POSITIVE),
                                    CSV_FIELD(NearRow, ttft_error, CSV_REAL, CSV_ANY),
                                    CSV_FIELD(NearRow, tpot_error, CSV_REAL, CSV_ANY),
                                    MAY_BE_EMPTY(odd, CSV_TEXT),
                                    {.name = NULL}};

/* ---- The distance ---- */

/* 0 where one of them is not known. */
static double doublings(double a, double b) {
  return a > 0 && b > 0 ? fabs(log2(a / b)) : 0;
}

/* "fp8", "nvfp4": the number in it; 0: none. */
static double bits_of(const char *weights) {
  return strtod(weights + strcspn(weights, "0123456789"), NULL);
}

/* Parameters that a token goes through. */
static double used_parameters(const Llm *model) {
  const double experts = (double)llm_part_parameters(model, LLM_EXPERTS);
  const double used =
      model->num_experts > 0 ? (double)model->num_experts_per_tok / (double)model->num_experts : 1;
  return (double)llm_parameters(model) - experts * (1 - used);
}

static double model_distance(const Llm *a, const Llm *b) {
  if (strcmp(a->name, b->name) == 0) return 0;
  return 8 + doublings((double)llm_parameters(a), (double)llm_parameters(b)) +
         doublings(used_parameters(a), used_parameters(b));
}

/* Those of decode; a degree that is not written is 1. */
static Parallelism degrees_of(const char *text) {
  Parallelism ret = {.tensor = 1, .pipeline = 1, .data = 1, .attention = 1, .expert = 1};
  const char *bar = strchr(text, '|');
  for (const char *at = bar ? bar + 1 : text; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    at += strspn(at, " ");
    const struct {
      const char *word;
      int64_t *degree;
    } words[] = {
        {"tp", &ret.tensor}, {"pp", &ret.pipeline}, {"dp", &ret.attention}, {"ep", &ret.expert}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
      if (strncmp(at, words[i].word, 2) == 0) *words[i].degree = strtoll(at + 2, NULL, 10);
  }
  return ret;
}

static double degree_distance(Parallelism a, Parallelism b) {
  if (a.tensor == 0) return 0;
  return doublings((double)parallelism_gpus(a), (double)parallelism_gpus(b)) +
         ((degree_of(a.attention) > 1) != (degree_of(b.attention) > 1)) +
         ((degree_of(a.expert) > 1) != (degree_of(b.expert) > 1));
}

static double load_distance(const NearQuestion *asked, const NearRow *row) {
  const double in_flight = row->concurrency / (double)row->gpus; // NAN: not known
  return (doublings(asked->prompt_tokens, row->isl) + doublings(asked->output_tokens, row->osl) +
          doublings(asked->in_flight, in_flight)) /
         2;
}

static double distance(const NearQuestion *asked, const NearRow *row, const Llm *model) {
  const double bits = 8 * dtype_bytes(llm_quantization(asked->model));
  double sum = asked->engine && strcmp(asked->engine, row->engine) != 0 ? 64 : 0;
  sum += model_distance(asked->model, model);
  sum += 2 * doublings(round(bits), bits_of(row->weights));
  sum += asked->split != (strcmp(row->mode, "disagg") == 0) ? 4 : 0;
  sum += degree_distance(asked->degrees, degrees_of(row->degrees));
  sum += (asked->drafts > 0) != (row->drafts > 0) ? 4 : 0;
  return sum + load_distance(asked, row);
}

/* ---- The search ---- */

/* The newest model that was loaded: rows of one follow each other. */
typedef struct LastModel {
  const char *theirs; // what a set calls it
  const char *name;   // NULL: it is not known any more
  Llm shape;
} LastModel;

static const Llm *find_model(LastModel *last, const char *theirs, const char *data_dir,
                             Arena *arena, Diag *diag) {
  if (!last->theirs || strcmp(last->theirs, theirs) != 0) {
    last->theirs = theirs;
    last->name = llm_name_of(theirs, data_dir, arena);
    if (last->name &&
        llm_load(&last->shape, last->name, data_dir, place_of_file(NULL), arena, diag))
      return NULL;
  }
  return last->name ? &last->shape : NULL;
}

static void keep(NearRows *self, const NearRow *row, int wanted) {
  int at = self->n < wanted ? self->n++ : wanted;
  for (; at > 0 && self->rows[at - 1].distance > row->distance; at--)
    if (at < wanted) self->rows[at] = self->rows[at - 1];
  if (at < wanted) self->rows[at] = *row;
}

int near_rows_find(NearRows *self, const NearQuestion *asked, const char *data_dir, int wanted,
                   Arena *arena, Diag *diag) {
  const char *path = arena_printf(arena, "%s/measured_rows.csv", data_dir);
  NearRow row = {0};
  LastModel last = {0};
  Csv csv;
  *self = (NearRows){.rows = ARENA_ARRAY(arena, NearRow, (size_t)wanted)};
  if (access(path, F_OK) != 0) return 0;
  if (csv_open(&csv, path, arena, diag) || csv_header(&csv, columns, true, diag)) return -1;
  self->there = true;
  int status;
  while ((status = csv_next(&csv, &row, diag)) > 0) {
    if (strcmp(row.gpu, asked->gpu) != 0) continue;
    self->n_on_gpu++;
    const Llm *model = find_model(&last, row.model, data_dir, arena, diag);
    if (!model) continue;
    row.distance = distance(asked, &row, model);
    keep(self, &row, wanted);
  }
  return status || diag->n_entries > 0 ? -1 : 0;
}

/* ---- Words ---- */

/* "+3%". */
static const char *off(double error, Arena *arena) {
  return arena_printf(arena, "%+.0f%%", 100 * error);
}

const char *near_row_text(const NearRow *self, Arena *arena) {
  const char *model = strrchr(self->model, '/'), *load = "";
  if (self->concurrency > 0)
    load =
        arena_printf(arena, ", %.0f client%s", self->concurrency, self->concurrency > 1 ? "s" : "");
  return arena_printf(arena, "TTFT %s, TPOT %s: %s%s%s, %s %s, %s%s, %.0f + %.0f tokens%s%s",
                      off(self->ttft_error, arena), off(self->tpot_error, arena), self->engine,
                      *self->version ? " " : "", self->version, model ? model + 1 : self->model,
                      self->weights, self->degrees, self->drafts > 0 ? ", drafts" : "", self->isl,
                      self->osl, load, *self->odd ? " (odd)" : "");
}

const char *const *near_rows_lines(const NearRows *self, const char *gpu, Arena *arena) {
  const char **lines = ARENA_ARRAY(arena, const char *, 2 * (size_t)self->n + 3);
  int n = 0;
  if (self->n == 0) {
    lines[n++] = arena_printf(arena, "no row that was measured on %s is known", gpu);
    return lines;
  }
  lines[n++] = arena_printf(arena, "nearest of %" PRId64 " rows on %s; Tandem was off by",
                            self->n_on_gpu, gpu);
  for (int i = 0; i < self->n; i++) {
    lines[n++] = near_row_text(&self->rows[i], arena);
    lines[n++] = arena_printf(arena, "  %s", self->rows[i].id);
  }
  lines[n++] = "to repeat a row: tandem report measured FOLDER --id ID";
  return lines;
}
