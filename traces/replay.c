/* A trace file as a source: cropped, its time scaled, repeated, ended after so many rows.
 *
 * Times of the crop count from its start. Pass k of `loop` is shifted by k periods, where a period
 * is the span from the first row to the last plus one mean gap, so that the mean rate of n passes
 * is that of one. Only `rate` and `loop` need to know the span, which costs one more reading of the
 * file when the source is opened. */
#include "traces/trace_file.h"
#include "traces/workload.h"

typedef struct Replay {
  TraceSource source; // first member
  const WorkloadConfig *config;
  TraceFile file;
  double time_scale; // multiplies times
  Tick period;
  int64_t pass;   // from 0
  int window;     // of `windows`, that the last row was in or before
  int64_t n_rows; // handed out in all
} Replay;

/* The next row of the file inside a window; its time is as if they followed one another. */
static int next_in_windows(Replay *self, TraceRow *ret_row, Diag *diag) {
  const WorkloadConfig *config = self->config;
  for (int status; (status = trace_file_next(&self->file, ret_row, diag)) != 0;) {
    if (status < 0) return status;
    while (self->window < config->n_windows &&
           ret_row->at >= config->windows[self->window] + config->window)
      self->window++;
    if (self->window == config->n_windows) return 0;
    if (ret_row->at < config->windows[self->window]) continue;
    ret_row->at += self->window * config->window - config->windows[self->window];
    return 1;
  }
  return 0;
}

static int rewind_crop(Replay *self, Diag *diag) {
  self->window = 0;
  return trace_file_rewind(&self->file, diag);
}

/* The next row of the file inside the crop, its time counted from the start of the crop. */
static int next_in_crop(Replay *self, TraceRow *ret_row, Diag *diag) {
  const WorkloadConfig *config = self->config;
  int status = 1;
  if (config->windows) return next_in_windows(self, ret_row, diag);
  do
    status = trace_file_next(&self->file, ret_row, diag);
  while (status > 0 && ret_row->at < config->start);
  if (status <= 0) return status;
  ret_row->at -= config->start;
  return config->duration == 0 || ret_row->at < config->duration;
}

static int empty_crop(const Replay *self, Diag *diag) {
  return diag_error(diag, self->config->at,
                    self->config->windows
                        ? "no row of '%s' is in a window of 'windows'"
                        : "no row of '%s' is between 'start' and the end of 'duration'",
                    self->config->trace);
}

/* Adds the shift of this pass, then scales. tick_seconds and the division are monotone, so order
 * is kept; times of an hour come out within 2 ps of the exact ones. */
static int place_in_time(const Replay *self, TraceRow *row, Diag *diag) {
  enum { DAYS_106_S = 9200000 };
  Tick shift = 0;
  bool fits = !__builtin_mul_overflow(self->pass, self->period, &shift) &&
              !__builtin_add_overflow(row->at, shift, &row->at);
  if (fits && self->time_scale != 1) {
    double seconds = tick_seconds(row->at) * self->time_scale;
    fits = seconds < DAYS_106_S;
    if (fits) row->at = tick_from_seconds(seconds);
  }
  return fits ? 0
              : diag_error(diag, row->place,
                           "the scaled or repeated trace is longer than 106 days, the limit of the "
                           "simulator");
}

static int replay_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  Replay *self = (Replay *)source;
  const WorkloadConfig *config = self->config;
  if (config->requests > 0 && self->n_rows == config->requests) return 0;
  TraceRow row;
  int status = next_in_crop(self, &row, diag);
  if (status == 0 && self->n_rows == 0) return empty_crop(self, diag);
  if (status == 0 && self->pass + 1 < config->loop) {
    self->pass++;
    if (rewind_crop(self, diag)) return -1;
    status = next_in_crop(self, &row, diag);
  }
  if (status <= 0) return status;
  if (place_in_time(self, &row, diag)) return -1;
  self->n_rows++;
  *ret_row = row;
  return 1;
}

/* Reads the crop once: its period, and the scale that gives it the wanted rate. */
static int measure(Replay *self, Diag *diag) {
  const WorkloadConfig *config = self->config;
  TraceRow row;
  Tick first = 0, last = 0;
  int64_t rows = 0;
  int status = 1;
  while ((status = next_in_crop(self, &row, diag)) > 0) {
    if (rows++ == 0) first = row.at;
    last = row.at;
  }
  if (status < 0) return -1;
  if (rows == 0) return empty_crop(self, diag);
  Tick span = last - first;
  if (!config->reading.untimed && (rows == 1 || (span == 0 && config->rate > 0)))
    return diag_error(diag, config->at, "the selected part of '%s' has no rate: %s", config->trace,
                      rows == 1 ? "it has one row" : "all its rows have the same time");
  Tick gap = rows > 1 ? span / (rows - 1) : 0;
  if (__builtin_add_overflow(span, gap, &self->period))
    return diag_error(diag, config->at,
                      "the trace '%s' is longer than 106 days, the limit of the simulator",
                      config->trace);
  if (config->rate > 0) self->time_scale = (double)(rows - 1) / (tick_seconds(span) * config->rate);
  return rewind_crop(self, diag);
}

static void replay_close(TraceSource *source) {
  trace_file_close(&((Replay *)source)->file);
}

TraceSource *replay_open(const WorkloadConfig *config, Arena *arena, Diag *diag) {
  Replay *self = ARENA_NEW(arena, Replay);
  self->source = (TraceSource){
      .next = replay_next, .close = replay_close, .status = 1, .left_out = &self->file.n_left_out};
  self->config = config;
  self->time_scale = 1 / config->rate_scale;
  if (trace_file_open(&self->file, config->trace, &config->reading, arena, diag)) return NULL;
  if ((config->rate > 0 || config->loop > 1) && measure(self, diag)) {
    trace_close(&self->source);
    return NULL;
  }
  return &self->source;
}
