/* Requests drawn from distributions: arrivals from a process, lengths from quantiles.
 *
 * Three streams, "arrivals", "prompt_lengths" and "output_lengths", each a function of the seed, so
 * a change of one leaves the others as they were; sharing.h, images.h and arrivals.h have others.
 */
#include "base/rng.h"
#include "traces/workload.h"

typedef struct Synthetic {
  TraceSource source; // first member
  const WorkloadConfig *config;
  Rng prompt_lengths, output_lengths;
  LengthPair lengths;
  Sharing sharing;
  Images images;
  GapDraw gaps;     // in seconds, where the rate does not change
  ArrivalDraw draw; // where it does
  Tick at;          // of the newest arrival
  int64_t n_rows;   // handed out
} Synthetic;

/* The time of the next arrival; false if it is past the range of time. */
static bool next_arrival(Synthetic *self, Tick *ret_at) {
  enum { SECONDS_MAX = 9000000 };
  const ArrivalProcess process = self->config->arrivals;
  double seconds = 0; // from the newest arrival, for ARRIVAL_FIXED from 0
  if (process == ARRIVAL_FIXED)
    seconds = (double)self->n_rows / self->config->rate;
  else if (process != ARRIVAL_AT_ONCE)
    seconds = gap_draw_next(&self->gaps);
  if (seconds > SECONDS_MAX) return false;
  Tick from = process == ARRIVAL_FIXED ? 0 : self->at;
  return !__builtin_add_overflow(from, tick_from_seconds(seconds), ret_at);
}

/* Moves to the next arrival: 1, 0 at the end, -1 when time runs out. */
static int advance(Synthetic *self, Diag *diag) {
  const WorkloadConfig *config = self->config;
  if (config->requests > 0 && self->n_rows == config->requests) return 0;
  Tick at = 0;
  bool fits = false;
  if (config->pattern.given) {
    const int status = arrival_draw_next(&self->draw, &at);
    if (status == 0) return 0;
    fits = status > 0;
  } else {
    fits = next_arrival(self, &at);
  }
  if (config->duration > 0 && (!fits || at >= config->duration)) return 0;
  if (!fits)
    return diag_error(diag, config->at,
                      "the arrivals take longer than 106 days, the limit of the simulator");
  self->at = at;
  return 1;
}

/* A model's context ends somewhere, and with it the output; a prompt leaves room for a token. */
static void cut(TraceRow *row, int64_t max_model_len) {
  if (row->prompt_tokens >= max_model_len) row->prompt_tokens = (int32_t)max_model_len - 1;
  const int64_t room = max_model_len - row->prompt_tokens;
  if (row->output_tokens > room) row->output_tokens = (int32_t)room;
}

static int synthetic_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  Synthetic *self = (Synthetic *)source;
  int status = advance(self, diag);
  if (status <= 0) return status;
  const double u_prompt = rng_uniform(&self->prompt_lengths);
  const double u_output = rng_uniform(&self->output_lengths);
  self->n_rows++;
  *ret_row = (TraceRow){.at = self->at};
  length_pair_at(&self->lengths, u_prompt, u_output, &ret_row->prompt_tokens,
                 &ret_row->output_tokens);
  sharing_begin(&self->sharing, ret_row);
  images_begin(&self->images, ret_row);
  if (self->config->max_model_len > 0) cut(ret_row, self->config->max_model_len);
  sharing_name(&self->sharing, ret_row);
  images_name(&self->images, ret_row);
  return 1;
}

TraceSource *synthetic_open(const WorkloadConfig *config, uint64_t seed, Arena *arena) {
  Synthetic *self = ARENA_NEW(arena, Synthetic);
  self->source = (TraceSource){.next = synthetic_next, .status = 1};
  self->config = config;
  rng_init(&self->prompt_lengths, seed, "prompt_lengths");
  rng_init(&self->output_lengths, seed, "output_lengths");
  length_pair_init(&self->lengths, &config->prompt, &config->output, config->correlation);
  sharing_init(&self->sharing, &config->system_prompts, &config->documents, seed, arena);
  images_init(&self->images, &config->images, seed, arena);
  if (config->pattern.given)
    arrival_draw_init(&self->draw, &config->pattern, seed);
  else if (config->rate > 0)
    gap_draw_init(&self->gaps, config->arrivals, 1 / config->rate, config->cv, seed);
  return &self->source;
}
