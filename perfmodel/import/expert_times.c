/* moe.csv of LLMServingSim's bundles. */
#include "perfmodel/import/expert_times.h"
#include "base/sort.h"
#include "perfmodel/import/import.h"
#include <math.h>
#include <stdlib.h>

enum { TOKENS_MAX = 1 << 20, EXPERTS_MAX = 1 << 16 };

typedef struct Reading {
  ExpertTimes *times;
  ExpertTime row;
} Reading;

static const CsvColumn columns[] = {CSV_FIELD(ExpertTime, tokens, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(ExpertTime, activated_experts, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(ExpertTime, time_us, CSV_REAL, CSV_POSITIVE),
                                    {0}};

static int take(void *context, const Csv *csv, Diag *diag) {
  Reading *self = context;
  ExpertTimes *times = self->times;
  if (self->row.tokens > TOKENS_MAX || self->row.activated_experts > EXPERTS_MAX)
    return diag_error(diag, csv_place(csv, NULL), "a row has at most %d tokens and %d experts",
                      TOKENS_MAX, EXPERTS_MAX);
  ARENA_RESERVE(csv->lines.arena, times->rows, times->capacity, times->n + 1);
  times->rows[times->n++] = self->row;
  return 0;
}

static int compare(const void *a, const void *b) {
  const ExpertTime *left = a, *right = b;
  const int64_t pairs[][2] = {{left->tokens, right->tokens},
                              {left->activated_experts, right->activated_experts}};
  const int order = compare_pairs(pairs, 2);
  return order != 0 ? order : (left->time_us > right->time_us) - (left->time_us < right->time_us);
}

int expert_times_read(ExpertTimes *self, const char *path, Arena *arena, Diag *diag) {
  Reading reading = {.times = self};
  *self = (ExpertTimes){0};
  if (import_table(path, columns, &reading.row, take, &reading, diag, arena)) return -1;
  if (self->n == 0) return diag_error(diag, place_of_file(path), "the table has no rows");
  qsort(self->rows, self->n, sizeof *self->rows, compare);
  return 0;
}

/* On the line through two points; that of the first where they are at one place. */
static double between(double x0, double y0, double x1, double y1, double x) {
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

/* With the tokens of rows[first..end). */
static double at_experts(const ExpertTimes *self, size_t first, size_t end, double experts) {
  const ExpertTime *row = &self->rows[first], *last = &self->rows[end - 1];
  if (experts <= (double)row->activated_experts) return row->time_us;
  if (experts >= (double)last->activated_experts) return last->time_us;
  while (experts > (double)row[1].activated_experts)
    row++;
  return between((double)row->activated_experts, row->time_us, (double)row[1].activated_experts,
                 row[1].time_us, experts);
}

double expert_times_us(const ExpertTimes *self, double tokens, double experts) {
  double x[2] = {0}, y[2] = {0};
  int seen = 0;
  for (size_t first = 0, end = 0; first < self->n; first = end) {
    while (end < self->n && self->rows[end].tokens == self->rows[first].tokens)
      end++;
    x[0] = x[1], y[0] = y[1];
    x[1] = (double)self->rows[first].tokens;
    y[1] = at_experts(self, first, end, experts);
    seen++;
    if (x[1] >= tokens) break;
  }
  return seen == 1 ? y[1] : between(x[0], y[0], x[1], y[1], tokens);
}

double experts_reached(double experts, double topk, double tokens) {
  return experts * (1 - pow(1 - topk / experts, tokens));
}
