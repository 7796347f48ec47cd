/* The index of rows in lines that hold many. */
#include "base/sort.h"
#include "traces/format.h"
#include <assert.h>
#include <stdlib.h>

void trace_index_add_line(TraceIndex *self, const Line *line, int32_t block_tokens) {
  ARENA_RESERVE(self->arena, self->lines, self->lines_capacity, self->n_lines + 1);
  self->lines[self->n_lines++] = (struct TraceIndexLine){*line, block_tokens};
}

void trace_index_add(TraceIndex *self, TraceTime time, Field text) {
  assert(self->n_lines > 0);
  ARENA_RESERVE(self->arena, self->rows, self->rows_capacity, self->n_rows + 1);
  self->rows[self->n_rows++] = (struct TraceIndexRow){time, text, (int32_t)(self->n_lines - 1)};
}

/* Texts of one line are pieces of it. */
static int compare_rows(const void *a, const void *b) {
  const struct TraceIndexRow *left = a, *right = b;
  const int64_t pairs[][2] = {{left->time.seconds, right->time.seconds},
                              {left->time.fraction, right->time.fraction},
                              {left->line, right->line}};
  const int order = compare_pairs(pairs, 3);
  if (order == 0)
    return (left->text.text > right->text.text) - (left->text.text < right->text.text);
  return order;
}

void trace_index_sort(TraceIndex *self) {
  if (self->n_rows > 0) qsort(self->rows, self->n_rows, sizeof *self->rows, compare_rows);
}
