/* Trace files of any bytes: the first says which format is stated ('0' none, '1' the first of
 * traces/formats.def, …; '/' none, and that times are not read), or, from 0x80 on, that columns
 * 1 to 4 are named, whether rows are sorted, and how times are written; the rest is the file.
 * Whatever it holds, rows keep what trace.h promises, an end with an error has an entry, one
 * without has none, and a second reading finds the same. */
#include "traces/reuse.h"
#include "traces/trace_file.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Reading {
  int status;
  int64_t rows, hit_tokens;
  Tick last;
} Reading;

static Reading read_all(TraceFile *file, Diag *diag) {
  Reading reading = {.status = 1};
  Reuse reuse;
  TraceRow row;
  reuse_init(&reuse, 16, file->segments.arena);
  while ((reading.status = trace_file_next(file, &row, diag)) > 0) {
    assert(reading.rows == 0 || row.at >= reading.last);
    assert(row.prompt_tokens >= 1 && row.output_tokens >= 1);
    assert(row.place.line >= 1 && row.place.source_length > 0);
    for (int32_t i = 0, end = 0; i < row.n_segments; end = row.segments[i++].end)
      assert(end < row.segments[i].end &&
             (row.segments[i].end <= row.prompt_tokens + row.output_tokens ||
              row.segments[i].end == INT32_MAX));
    reading.hit_tokens += reuse_add(&reuse, &row);
    reading.rows++;
    reading.last = row.at;
  }
  return reading;
}

static const TraceFormat *stated_format(uint8_t digit) {
  int n = 0;
  while (format_at(n))
    n++;
  int i = digit - '1';
  return i >= 0 && i < n ? format_at(i) : NULL;
}

static TraceReading reading_of(uint8_t byte) {
  if (byte < 0x80) return (TraceReading){.format = stated_format(byte), .untimed = byte == '/'};
  TraceReading reading = {.columns = {"1", "2", "3"},
                          .clock = (TraceClock)((byte & 0x7f) / 4 % CLOCKS),
                          .sort = byte & 2};
  if (byte & 1) reading.columns[TRACE_SESSION] = "4";
  return reading;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  Arena arena;
  Diag diag;
  TraceFile file;
  arena_init(&arena);
  diag_init(&diag);
  const TraceReading reading = reading_of(data[0]);
  int status = trace_file_open_text(&file, "fuzz", (const char *)data + 1, size - 1, &reading,
                                    &arena, &diag);
  if (status == 0) {
    Reading first = read_all(&file, &diag);
    status = first.status;
    int n_entries = diag.n_entries;
    assert(trace_file_rewind(&file, &diag) == 0);
    Reading second = read_all(&file, &diag);
    assert(second.status == status && second.rows == first.rows && second.last == first.last &&
           second.hit_tokens == first.hit_tokens);
    assert(diag.n_entries == 2 * n_entries);
    trace_file_close(&file);
  }
  assert((status < 0) == (diag.n_entries > 0));
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
