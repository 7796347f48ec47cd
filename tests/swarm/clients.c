/* See clients.h. */
#include "tests/swarm/clients.h"
#include "base/rng.h"
#include "traces/arrivals.h"
#include <assert.h>
#include <string.h>

enum { CLUSTERS_PER_DRAW = 3 };

/* A time up to about the whole trace, often none. */
static Tick draw_ticks(Rng *rng, Tick most) {
  return rng_below(rng, 3) == 0 ? 0 : (Tick)(rng_uniform(rng) * rng_uniform(rng) * (double)most);
}

static LengthDistribution draw_lengths(Rng *rng, double mean) {
  const LengthKind kinds[] = {LENGTH_CONSTANT, LENGTH_EXPONENTIAL};
  return (LengthDistribution){.kind = kinds[rng_below(rng, 2)],
                              .mean = 1 + mean * rng_uniform(rng)};
}

static void draw_sessions(Clients *self, Rng *rng, Tick span, int64_t largest) {
  self->sessions.given = true;
  self->sessions.turns = draw_lengths(rng, 6);
  self->sessions.prompt = draw_lengths(rng, (double)largest / 4);
  self->sessions.output = draw_lengths(rng, 20);
  self->sessions.think_time = (ThinkTime){.kind = (ThinkKind)rng_below(rng, THINK_LOGNORMAL + 1),
                                          .mean = draw_ticks(rng, span),
                                          .sigma = rng_uniform(rng)};
  self->setting.context = largest + 1;
}

bool clients_draw(Clients *self, uint64_t seed, const TraceRow *rows, int n_rows) {
  Rng rng;
  rng_init(&rng, seed, "clients");
  *self = (Clients){.setting = {.requests = n_rows, .seed = seed}};
  if (rng_below(&rng, CLUSTERS_PER_DRAW) > 0) return false;
  const Tick span = rows[n_rows - 1].at + 1;
  int64_t largest = 0;
  for (int i = 0; i < n_rows; i++)
    if (rows[i].prompt_tokens + rows[i].output_tokens > largest)
      largest = rows[i].prompt_tokens + rows[i].output_tokens;
  const bool talk = rng_below(&rng, 2);
  if (talk) draw_sessions(self, &rng, span, largest);
  if (talk && rng_below(&rng, 2)) return true;
  self->loop.clients = 1 + (int64_t)rng_below(&rng, 1 + rng_below(&rng, (uint64_t)n_rows));
  self->loop.timed = rng_below(&rng, 2);
  if (!self->loop.timed) self->loop.ramp = draw_ticks(&rng, span);
  if (rng_below(&rng, 4) == 0) self->loop.until = 1 + draw_ticks(&rng, span);
  return true;
}

TraceSource *clients_open(const Clients *self, TraceSource *rows, Arena *arena) {
  TraceSource *source = rows;
  if (self->loop.clients > 0) source = closed_loop_open(&self->loop, source, arena);
  if (!self->sessions.given) return source;
  SessionsSetting setting = self->setting;
  setting.starts = source;
  return sessions_open(&self->sessions, &setting, arena);
}

/* ---- Rates that change ---- */

void arrivals_draw(TraceRow *rows, int n_rows, uint64_t seed, int64_t scale, Arena *arena) {
  enum { POINTS = 4, STATES = 2 };
  Rng rng;
  rng_init(&rng, seed, "arrivals");
  if (rng_below(&rng, CLUSTERS_PER_DRAW) > 0) return;
  const Tick gap = rows[n_rows - 1].at / scale / n_rows + TICKS_PER_SECOND / 1000000;
  const double rate = 1 / tick_seconds(gap);
  const double values[POINTS] = {rate * rng_uniform(&rng), 0, 2 * rate, rate};
  const Tick step = gap * (1 + (Tick)rng_below(&rng, 20));
  const RateState states[STATES] = {{0.3, step}, {4, step / 3 + 1}};
  const bool linear = rng_below(&rng, 2), has_states = rng_below(&rng, 2);
  /* One by one: members of an initialiser may be taken in any order. */
  const ArrivalProcess gaps = (ArrivalProcess)rng_below(&rng, ARRIVAL_AT_ONCE);
  const double cv = 0.2 + 2 * rng_uniform(&rng);
  const bool drifts = rng_below(&rng, 2);
  const double drift_cv = drifts * rng_uniform(&rng);
  ArrivalPattern pattern = {.given = true,
                            .gaps = gaps,
                            .cv = cv,
                            .states = states,
                            .n_states = has_states ? STATES : 0,
                            .drift_cv = drift_cv,
                            .drift_time = 8 * step};
  rate_curve_steps(&pattern.curve, values, POINTS, step, linear, true, arena);
  ArrivalDraw arrivals;
  arrival_draw_init(&arrivals, &pattern, seed);
  for (int i = 0; i < n_rows; i++) {
    Tick at = 0;
    const int status = arrival_draw_next(&arrivals, &at);
    assert(status > 0);
    rows[i].at = at * scale;
  }
}

/* ---- What was sent ---- */

static int recorder_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  Recorder *self = (Recorder *)source;
  const int status = trace_next(self->of, ret_row, diag);
  if (status <= 0) return status;
  ARENA_RESERVE(self->arena, self->rows, self->capacity, self->n_rows + 1);
  TraceRow *row = &self->rows[self->n_rows++];
  *row = *ret_row;
  const size_t n = (size_t)row->n_segments;
  TraceSegment *segments = ARENA_ARRAY(self->arena, TraceSegment, n);
  if (n > 0) memcpy(segments, row->segments, n * sizeof *segments);
  row->segments = segments;
  TraceInput *inputs = ARENA_ARRAY(self->arena, TraceInput, row->n_inputs);
  if (row->n_inputs > 0) memcpy(inputs, row->inputs, (size_t)row->n_inputs * sizeof *inputs);
  row->inputs = inputs;
  return 1;
}

static void recorder_put_back(TraceSource *source, const TraceRow *row) {
  Recorder *self = (Recorder *)source;
  self->n_rows--;
  self->of->put_back(self->of, row);
}

static void recorder_ended(TraceSource *source, const TraceEnd *end) {
  Recorder *self = (Recorder *)source;
  self->of->ended(self->of, end);
}

void recorder_init(Recorder *self, TraceSource *of, Arena *arena) {
  *self = (Recorder){.source = {.next = recorder_next,
                                .ended = recorder_ended,
                                .put_back = recorder_put_back,
                                .status = 1},
                     .of = of,
                     .arena = arena};
}
