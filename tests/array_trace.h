/* Requests from an array, for tests of the engine. */
#ifndef TESTS_ARRAY_TRACE_H
#define TESTS_ARRAY_TRACE_H
#include "traces/trace.h"

typedef struct ArrayTrace {
  TraceSource source;
  const TraceRow *rows;
  int n_rows, next;
} ArrayTrace;

static inline int array_trace_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  (void)diag;
  ArrayTrace *self = (ArrayTrace *)source;
  if (self->next == self->n_rows) return 0;
  *ret_row = self->rows[self->next++];
  return 1;
}

static inline void array_trace_init(ArrayTrace *self, const TraceRow *rows, int n_rows) {
  *self = (ArrayTrace){
      .source = {.next = array_trace_next, .status = 1}, .rows = rows, .n_rows = n_rows};
}
#endif
