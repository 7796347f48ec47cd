/* See trace_rates.h. */
#include "experiments/commands/trace_rates.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/config/config.h"
#include "traces/workload.h"
#include <string.h>

enum { INTERVALS_MAX = 100000 };

typedef struct Interval {
  int64_t rows, prompt_tokens, output_tokens;
} Interval;

typedef struct Rates {
  Tick every;
  Interval *intervals; // [n][n_components]
  size_t capacity;
  int n, n_components;
  const WorkloadComponent *components; // NULL: no mix
} Rates;

static int add(Rates *self, const TraceRow *row, Arena *arena, Diag *diag) {
  if (row->at / self->every >= INTERVALS_MAX)
    return diag_error(diag, row->place,
                      "there are more than %d intervals: choose a longer '--every'", INTERVALS_MAX);
  const int i = (int)(row->at / self->every);
  for (; self->n <= i; self->n++) {
    ARENA_RESERVE(arena, self->intervals, self->capacity, (self->n + 1) * self->n_components);
    memset(&self->intervals[self->n * self->n_components], 0,
           (size_t)self->n_components * sizeof *self->intervals);
  }
  Interval *interval = &self->intervals[i * self->n_components + row->component];
  interval->rows++;
  interval->prompt_tokens += row->prompt_tokens;
  interval->output_tokens += row->output_tokens;
  return 0;
}

static void print(const Rates *self, OutputFormat format) {
  Rows rows = {.format = format, .out = stdout, .indent = "", .gap = "\n  ", .end = "\n]\n"};
  for (int i = 0; i < self->n * self->n_components; i++) {
    const Interval *interval = &self->intervals[i];
    const int component = i % self->n_components;
    const double start_s = tick_seconds(self->every) * (i / self->n_components);
    const double rate = (double)interval->rows / tick_seconds(self->every);
    Cell cells[] = {
        {CELL_OF_NUMBER("start_s", start_s), COLUMN("start s", 10)},
        {CELL_OF_WHOLE("requests", interval->rows), COLUMN("requests", 10)},
        {CELL_OF_NUMBER("rate_rps", rate), COLUMN("rate /s", 9)},
        {CELL_OF_WHOLE("prompt_tokens", interval->prompt_tokens), COLUMN("prompt tokens", 14)},
        {CELL_OF_WHOLE("output_tokens", interval->output_tokens), COLUMN("output tokens", 14)},
        {0},
        {0}};
    if (self->components)
      cells[5] = (Cell){CELL_OF_TEXT("component", self->components[component].name),
                        COLUMN("component", 0)};
    rows_put(&rows, cells);
  }
  rows_end(&rows);
}

static int count_file(Rates *self, const char *path, const TraceReading *reading, Arena *arena,
                      Diag *diag) {
  TraceFile file;
  TraceRow row;
  int status = 1;
  if (trace_file_open(&file, path, reading, arena, diag)) return -1;
  while (status > 0 && (status = trace_file_next(&file, &row, diag)) > 0)
    if (add(self, &row, arena, diag)) status = -1;
  trace_file_close(&file);
  return status;
}

/* The seed of a run stands at the top, where the workload has none. */
static int count_drawn(Rates *self, const char *path, Arena *arena, Diag *diag) {
  Config config;
  if (config_load(&config, path, NULL, arena, diag)) return -1;
  const WorkloadConfig *workload = &config.workload;
  if (config.length.automatic)
    return diag_error(diag, workload->at, "'duration' of the workload is known only after a run");
  if (workload_waits(workload))
    return diag_error(diag, workload->at,
                      "requests of the workload wait for answers, which only a run has");
  self->components = workload->components;
  if (workload->n_components > 0) self->n_components = workload->n_components;
  TraceSource *source = workload_open(workload, config.sim.seed, arena, diag);
  if (!source) return -1;
  TraceRow row;
  int status = 1;
  while (status > 0 && (status = trace_next(source, &row, diag)) > 0)
    if (add(self, &row, arena, diag)) status = -1;
  trace_close(source);
  return status;
}

bool trace_is_config(const char *path) {
  return text_ends_with(path, ".yaml") || text_ends_with(path, ".yml");
}

int trace_print_rates(const char *path, const TraceReading *reading, Tick every,
                      OutputFormat format, Arena *arena, Diag *diag) {
  Rates rates = {.every = every, .n_components = 1};
  const int status = trace_is_config(path) ? count_drawn(&rates, path, arena, diag)
                                           : count_file(&rates, path, reading, arena, diag);
  if (status == 0) print(&rates, format);
  return status;
}
