/* See closed_loop.h. */
#include "traces/closed_loop.h"
#include "base/heap.h"
#include <math.h>

typedef struct ClosedLoop {
  TraceSource source; // first member
  const ClosedLoopConfig *config;
  Tick *idle_since; // heap [n_idle] of clients
  int64_t n_idle;
  TraceRow row; // the newest of source.rows
  bool has_row; // which nobody has sent
  Tick taken;   // since when its client was idle, once sent
} ClosedLoop;

enum { CLIENTS_MAX = 1000000 };
#define RAMP_MAX 9e6 // seconds

const OptionSpec closed_loop_options[] = {
    {"clients", OPTION_INT, offsetof(ClosedLoopConfig, clients), .required = true, .min = 1,
     .max = CLIENTS_MAX,
     .help = "Number of clients, each of which has one request, or one session, at a time."},
    {"requests", OPTION_INT, offsetof(ClosedLoopConfig, requests), .min = 1, .max = INFINITY,
     .help = "Number of requests after which the workload ends.",
     .absent = "none; the arrivals end it"},
    {"ramp", OPTION_TICKS, offsetof(ClosedLoopConfig, ramp), .max = RAMP_MAX,
     .help = "Time over which the first requests of the clients are spread evenly.",
     .absent = "all clients begin at once"},
    {0}};

static inline Wide heap_key(const Tick *tick) {
  return *tick;
}

static inline void heap_moved(ClosedLoop *self, size_t index, const Tick *tick) {
  (void)self, (void)index, (void)tick;
}

HEAP_STEPS(ClosedLoop, Tick)

static void free_client(ClosedLoop *self, Tick at) {
  heap_rise(self, self->idle_since, (size_t)self->n_idle++, &at);
}

static Tick take_client(ClosedLoop *self) {
  const Tick first = self->idle_since[0], last = self->idle_since[--self->n_idle];
  if (self->n_idle > 0) heap_sink(self, self->idle_since, (size_t)self->n_idle, 0, &last);
  return first;
}

static int closed_loop_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  ClosedLoop *self = (ClosedLoop *)source;
  if (!self->has_row) {
    const int status = trace_next(source->rows, &self->row, diag);
    if (status <= 0) return status;
    self->has_row = true;
    if (!self->config->timed) self->row.at = 0;
  }
  if (self->n_idle == 0) return 0;
  const Tick idle = self->idle_since[0], at = self->row.at > idle ? self->row.at : idle;
  if (self->config->until > 0 && at >= self->config->until) return 0;
  self->taken = take_client(self);
  self->has_row = false;
  *ret_row = self->row;
  ret_row->at = at;
  return 1;
}

static void closed_loop_put_back(TraceSource *source, const TraceRow *row) {
  (void)row; // it is the newest
  ClosedLoop *self = (ClosedLoop *)source;
  self->has_row = true;
  free_client(self, self->taken);
}

/* Nothing is later than the end of time. */
static void closed_loop_ended(TraceSource *source, const TraceEnd *end) {
  const Tick wait = end->served ? 1 : CLOSED_LOOP_REFUSED;
  if (end->at <= TICK_MAX - wait) free_client((ClosedLoop *)source, end->at + wait);
}

TraceSource *closed_loop_open(const ClosedLoopConfig *config, TraceSource *rows, Arena *arena) {
  ClosedLoop *self = ARENA_NEW(arena, ClosedLoop);
  self->source = (TraceSource){.next = closed_loop_next,
                               .rows = rows,
                               .ended = closed_loop_ended,
                               .put_back = closed_loop_put_back,
                               .left_out = rows->left_out,
                               .status = 1};
  self->config = config;
  self->idle_since = ARENA_ARRAY(arena, Tick, config->clients);
  const int64_t n = config->clients;
  for (int64_t k = 0; k < n; k++) // in order, and so a heap; exact, and within a Tick
    self->idle_since[self->n_idle++] = config->ramp / n * k + config->ramp % n * k / n;
  return &self->source;
}
