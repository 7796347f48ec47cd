/* See patience.h. */
#include "traces/patience.h"
#include "base/hash.h"
#include "base/rng.h"

#define PATIENCE_MIN 1e-9 // seconds
#define PATIENCE_MAX 9e6

typedef struct Patience {
  TraceSource source; // first member
  const PatienceConfig *config;
  uint64_t seed, n_rows; // handed out
} Patience;

typedef struct Keys {
  const Node *ttft, *e2e;
  double share;
} Keys;

const OptionSpec patience_options[] = {
    {"ttft", OPTION_NODE, offsetof(Keys, ttft),
     .help = "Time to the first token after which a client gives up: a time or a distribution such "
             "as {exponential: {mean: …}}.",
     .absent = "no limit"},
    {"e2e", OPTION_NODE, offsetof(Keys, e2e),
     .help = "Time to the last token after which a client gives up: a time or a distribution.",
     .absent = "no limit"},
    {"share", OPTION_REAL, offsetof(Keys, share), "1", .min = 0, .max = 1,
     .help = "Share of the clients that may give up."},
    {0}};

/* A time alone is a constant one. */
static int bind_time(ThinkTime *self, const Node *node, Diag *diag) {
  const OptionSpec time = {.key = node->key,
                           .type = OPTION_TICKS,
                           .offset = offsetof(ThinkTime, mean),
                           .min = PATIENCE_MIN,
                           .max = PATIENCE_MAX};
  if (node->kind == NODE_MAP) return think_time_bind(self, node, diag);
  *self = (ThinkTime){.kind = THINK_CONSTANT};
  return option_bind_one(&time, node, self, diag);
}

int patience_bind(PatienceConfig *self, const Node *node, Diag *diag) {
  Keys keys = {0};
  if (option_bind(patience_options, node, NULL, node->at, &keys, diag)) return -1;
  if (!keys.ttft && !keys.e2e) {
    diag_error(diag, node->at, "'patience' needs 'ttft' or 'e2e', the time for which clients wait");
    diag_hint(diag, "for example {ttft: 10 s, e2e: {exponential: {mean: 60 s}}}");
    return -1;
  }
  *self = (PatienceConfig){
      .share = keys.share, .of_first = keys.ttft != NULL, .of_last = keys.e2e != NULL};
  const int status = keys.ttft ? bind_time(&self->ttft, keys.ttft, diag) : 0;
  return (keys.e2e && bind_time(&self->e2e, keys.e2e, diag)) || status ? -1 : 0;
}

/* At least a tick: none would be for ever. */
static Tick draw(const ThinkTime *of, double u) {
  const Tick time = think_time_at(of, u);
  return time > 0 ? time : 1;
}

static int patience_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  Patience *self = (Patience *)source;
  const int status = trace_next(source->rows, ret_row, diag);
  if (status <= 0) return status;
  Rng rng;
  rng_init(&rng, hash_fold(self->seed, self->n_rows++), "patience");
  const bool gives_up = rng_uniform(&rng) < self->config->share;
  const double first = rng_uniform(&rng), last = rng_uniform(&rng);
  const PatienceConfig *config = self->config;
  ret_row->first_token_patience = gives_up && config->of_first ? draw(&config->ttft, first) : 0;
  ret_row->patience = gives_up && config->of_last ? draw(&config->e2e, last) : 0;
  return 1;
}

static void patience_put_back(TraceSource *source, const TraceRow *row) {
  Patience *self = (Patience *)source;
  self->n_rows--;
  source->rows->put_back(source->rows, row);
}

static void patience_ended(TraceSource *source, const TraceEnd *end) {
  source->rows->ended(source->rows, end);
}

TraceSource *patience_open(const PatienceConfig *config, TraceSource *rows, uint64_t seed,
                           Arena *arena) {
  Patience *self = ARENA_NEW(arena, Patience);
  self->source =
      (TraceSource){.next = patience_next, .rows = rows, .status = 1, .left_out = rows->left_out};
  if (rows->ended) {
    self->source.ended = patience_ended;
    self->source.put_back = patience_put_back;
  }
  self->config = config;
  self->seed = seed;
  return &self->source;
}
