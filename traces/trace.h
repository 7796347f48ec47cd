/* Where requests come from: rows of (arrival, prompt tokens, output tokens), pulled one at a time.
 *
 * A source is opened from its configuration (traces/workload.h) and asked for the next row until it
 * ends; nothing is loaded whole, so memory does not grow with the trace. Rows come in order of
 * time, starting at or after 0: a replayed file is shifted so that its first row arrives at 0
 * unless the format has times from a start of its own (SplitwiseSim, Mooncake), which are kept.
 * A bad row is a located message with file and line and ends the
 * source. */
#ifndef TRACES_TRACE_H
#define TRACES_TRACE_H
#include "sim/base/diag.h"
#include "sim/base/units.h"
#include <stdint.h>

/* Of a prompt, and of an output: as long as the longest context there is, and so few that Σ new·(2·
 * past + new) holds of the largest batch, 65,536 prompts. */
enum { TRACE_TOKENS_MAX = 10000000 };

typedef struct TraceRow {
  Tick at;               // arrival since the start of the run
  int32_t prompt_tokens; // 1 … TRACE_TOKENS_MAX
  int32_t output_tokens; // the same, the first token of prefill included
  Place place;           // where the row stands, for messages about it; path NULL when synthetic
} TraceRow;

/* A kind of source embeds this as its first member and fills it in when it is opened. */
typedef struct TraceSource {
  int (*next)(struct TraceSource *self, TraceRow *ret_row, Diag *diag); // as trace_next
  void (*close)(struct TraceSource *self);                              // NULL: nothing to close
  int status; // 1 while rows may come; then the final answer of trace_next
} TraceSource;

/* Pulls the next row: 1 and `*ret_row`, 0 at the end, -1 with entries in `diag`. After 0 or -1 it
 * goes on returning the same. `ret_row->place` is valid until the next call. */
static inline int trace_next(TraceSource *self, TraceRow *ret_row, Diag *diag) {
  if (self->status > 0) self->status = self->next(self, ret_row, diag);
  return self->status;
}
static inline void trace_close(TraceSource *self) {
  if (self->close) self->close(self);
}
#endif
