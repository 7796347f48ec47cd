/* Where requests come from: rows of (arrival, prompt tokens, output tokens), pulled one at a time.
 *
 * A source is opened from its configuration and asked for the next row until it ends; nothing is
 * loaded whole, so memory does not grow with the trace. Rows come in order of time, starting at or
 * after 0: a replayed file is shifted so that its first row arrives at 0 unless the format has
 * times from a start of its own (SplitwiseSim, Mooncake), which are kept. Token counts are at
 * least 1. A bad row is a located message with file and line and ends the source. */
#ifndef TRACES_TRACE_H
#define TRACES_TRACE_H
#include "sim/base/arena.h"
#include "sim/base/diag.h"
#include "sim/base/option.h"
#include "sim/base/units.h"
#include <stdint.h>

typedef struct TraceRow {
  Tick at;               // arrival since the start of the run
  int32_t prompt_tokens; // >= 1
  int32_t output_tokens; // >= 1, the first token of prefill included
  Place place;           // where the row stands, for messages about it; path NULL when synthetic
} TraceRow;

typedef struct TraceSource TraceSource;

/* What kind of file; TRACE_FORMAT_AUTO looks at the first line. */
typedef enum TraceFormat {
  TRACE_FORMAT_AUTO,
  TRACE_FORMAT_AZURE,         // TIMESTAMP,ContextTokens,GeneratedTokens
  TRACE_FORMAT_SPLITWISE_SIM, // request_id,request_type,application_id,arrival_timestamp,…
  TRACE_FORMAT_MOONCAKE,      // JSON lines: timestamp (ms), input_length, output_length
} TraceFormat;

typedef struct WorkloadConfig WorkloadConfig; // traces/workload.h

/* Pulls the next row: 1 and `*ret_row`, 0 at the end, -1 with entries in `diag`. After 0 or -1 it
 * goes on returning the same. `ret_row->place` is valid until the next call. */
int trace_next(TraceSource *self, TraceRow *ret_row, Diag *diag);
void trace_close(TraceSource *self);
#endif
