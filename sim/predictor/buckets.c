/* A small model that sorts requests into buckets of output length and is often wrong (TetriInfer
 * §3.3.2, §5.2.2). Where it errs is not published: here in a bucket next to the true one, either
 * with the same chance; a confusion matrix says otherwise.
 *
 * What it costs a prefill instance. In parallel, an iteration in which a prompt begins lasts longer
 * by a constant share: the paper has its main model's prefills 10% longer on average under stress,
 * when prompts begin in every chunk. It has those of four requests in five unchanged, which is
 * `unaffected: 0.8`: the others, who are drawn, then prolong an iteration by as much more that the
 * mean is the same, each by its share of the prompts that begin in it. In sequence, the
 * small model runs first over the prompts that begin, padded to the longest of them; those above
 * the padding limit run alone. */
#include "base/hash.h"
#include "sim/predictor/predictor.h"
#include <math.h>

typedef enum Mode { MODE_PARALLEL, MODE_SEQUENTIAL, MODE_FREE } Mode;

typedef struct State {
  int64_t granularity, max_tokens; // output tokens
  double accuracy;                 // 0: that of the granularity
  const Node *confusion;
  int mode; // Mode
  double interference, unaffected, speedup;
  int64_t padding_limit; // prompt tokens
  // made by check
  int64_t last_bucket;
  const double *cumulative; // [true bucket][predicted bucket]; NULL: neighbours
} State;

/* --- options */

/* TetriInfer §5.2.2, OPT-125M for OPT-13B on ShareGPT. */
static const struct {
  int64_t granularity;
  double accuracy;
} MEASURED[] = {{100, 0.589}, {200, 0.749}, {400, 0.85}};
enum { N_MEASURED = sizeof MEASURED / sizeof *MEASURED };

static double measured_accuracy(int64_t granularity) {
  for (int i = 0; i < N_MEASURED; i++)
    if (MEASURED[i].granularity == granularity) return MEASURED[i].accuracy;
  return 0;
}

static Place place_of(const Node *map, const char *key, Place owner) {
  const Node *node = node_find(map, key);
  return node ? node->at : owner;
}

/* One row of the matrix, as running sums that end at 1. */
static int read_row(const Node *row, int n, double *cumulative, Diag *diag) {
  static const OptionSpec share = {.key = "confusion", .type = OPTION_REAL, .min = 0, .max = 1};
  if (row->kind != NODE_LIST || row->n_children != n)
    return diag_error(
        diag, row->at,
        "each row of 'confusion' must be a list of %d shares, one for each of the %d rows", n, n);
  double sum = 0;
  int i = 0;
  for (const Node *cell = row->first; cell; cell = cell->next) {
    double value = 0;
    if (option_bind_one(&share, cell, &value, diag)) return -1;
    cumulative[i++] = sum += value;
  }
  if (fabs(sum - 1) > 1e-6)
    return diag_error(diag, row->at, "the shares of a row of 'confusion' must sum to 1, not %g",
                      sum);
  for (i = 0; i < n; i++)
    cumulative[i] /= sum;
  return 0;
}

static int read_confusion(State *self, const Node *map, Arena *arena, Diag *diag) {
  static const char *const implied[] = {"accuracy", "max_tokens"};
  const Node *matrix = self->confusion;
  for (int i = 0; i < 2; i++)
    if (node_find(map, implied[i]))
      return diag_error(diag, node_find(map, implied[i])->key_at,
                        "'%s' follows from 'confusion': the two exclude each other", implied[i]);
  if (matrix->kind != NODE_LIST || matrix->n_children == 0)
    return diag_error(diag, matrix->at, "'confusion' must be a list of rows, one for each bucket");
  const int n = matrix->n_children;
  double *cumulative = ARENA_ARRAY(arena, double, (size_t)n *(size_t)n);
  int status = 0, i = 0;
  for (const Node *row = matrix->first; row; row = row->next, i++)
    status |= read_row(row, n, &cumulative[(size_t)i * (size_t)n], diag);
  self->cumulative = cumulative;
  self->last_bucket = n - 1;
  return status;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  State *self = state;
  if (self->confusion) return read_confusion(self, map, arena, diag);
  self->last_bucket = self->max_tokens / self->granularity;
  if (self->accuracy == 0) self->accuracy = measured_accuracy(self->granularity);
  if (self->accuracy > 0) return 0;
  diag_error(diag, place_of(map, "granularity", owner),
             "no accuracy is known for a 'granularity' of %lld: set 'accuracy'",
             (long long)self->granularity);
  diag_hint(diag, "the accuracies for 100, 200 and 400 tokens are known");
  return -1;
}

/* --- predicting */

/* Right below the accuracy; else the bucket above or below, of which one that does not exist is
 * never taken. */
static int64_t err_to_neighbour(const State *self, int64_t bucket, double uniform, bool up) {
  if (uniform < self->accuracy || self->last_bucket == 0) return bucket;
  if (bucket == 0) up = true;
  if (bucket == self->last_bucket) up = false;
  return up ? bucket + 1 : bucket - 1;
}

static int64_t err_by_matrix(const State *self, int64_t bucket, double uniform) {
  const double *row = &self->cumulative[bucket * (self->last_bucket + 1)];
  int64_t predicted = 0;
  while (uniform >= row[predicted])
    predicted++;
  return predicted;
}

static Prediction predict(const void *state, const Request *request, uint64_t random) {
  const State *self = state;
  int64_t bucket = request->output_tokens / self->granularity;
  if (bucket > self->last_bucket) bucket = self->last_bucket;
  const double uniform = (double)(random >> 11) * 0x1p-53; // its low bits are left for the side
  bucket = self->cumulative ? err_by_matrix(self, bucket, uniform)
                            : err_to_neighbour(self, bucket, uniform, random & 1);
  const int64_t low = bucket * self->granularity, high = low + self->granularity;
  return (Prediction){(int32_t)(low < INT32_MAX ? low : INT32_MAX),
                      (int32_t)(high < INT32_MAX ? high : INT32_MAX),
                      (double)(hash_mix(random) >> 11) * 0x1p-53 >= self->unaffected};
}

/* --- what that costs */

static double small_model_ticks(const State *self, const PerfModel *perfmodel, int64_t n,
                                int64_t tokens) {
  if (n == 0) return 0;
  const int64_t ranks = perfmodel->ranks > 1 ? perfmodel->ranks : 1;
  const int64_t most = ranks_padded(n, ranks) / ranks;
  const BatchShape batch = {
      .prefill_tokens = n * tokens, .prefill_area2 = n * tokens * tokens, .logit_seqs = n};
  const RankShare busiest = {most * tokens, most * tokens * tokens};
  return round((double)perfmodel_iteration_on(perfmodel, &batch, &busiest, NULL) / self->speedup);
}

/* The share of the prompts that begin whose prefill is disturbed. */
static double disturbed_share(const InstanceView *view) {
  const Instance *instance = view->instance;
  int64_t begun = 0, disturbed = 0;
  for (size_t i = 0; i < instance->n_chunks; i++) {
    const Request *request = &view->requests[instance->chunks[i]];
    if (!prediction_begins(request)) continue;
    begun++;
    disturbed += request->disturbed;
  }
  return begun > 0 ? (double)disturbed / (double)begun : 0;
}

/* Prompts up to the limit in one batch, padded; the longer ones alone. */
static double sequential_ticks(const State *self, const InstanceView *view) {
  const Instance *instance = view->instance;
  const PerfModel *perfmodel = instance->pool->perfmodel;
  int64_t n_padded = 0, longest = 0;
  double ticks = 0;
  for (size_t i = 0; i < instance->n_chunks; i++) {
    const Request *request = &view->requests[instance->chunks[i]];
    if (!prediction_begins(request)) continue;
    if (request->prompt_tokens > self->padding_limit) {
      ticks += small_model_ticks(self, perfmodel, 1, request->prompt_tokens);
    } else {
      n_padded++;
      if (request->prompt_tokens > longest) longest = request->prompt_tokens;
    }
  }
  return ticks + small_model_ticks(self, perfmodel, n_padded, longest);
}

static double cost(const void *state, const InstanceView *view, Tick ticks) {
  const State *self = state;
  switch ((Mode)self->mode) {
  case MODE_PARALLEL:
    return round((double)ticks * disturbed_share(view) * self->interference /
                 (1 - self->unaffected));
  case MODE_SEQUENTIAL:
    return sequential_ticks(self, view);
  case MODE_FREE:
    break;
  }
  return 0;
}

static const char *const modes[] = {"parallel", "sequential", "free", NULL}; // as Mode

#define OPTION(field, kind, ...)                                                                   \
  { .key = #field, .type = kind, .offset = offsetof(State, field), __VA_ARGS__ }

static const OptionSpec options[] = {
    OPTION(granularity, OPTION_INT, .fallback = "200", .min = 1, .max = 1e9,
           .help = "Number of output tokens in one bucket."),
    OPTION(accuracy, OPTION_REAL, .min = 0.01, .max = 1,
           .help = "Share of predictions that name the right bucket.",
           .absent = "as published for a granularity of 100, 200 or 400; else required"),
    OPTION(max_tokens, OPTION_INT, .fallback = "2048", .min = 1, .max = 1e9,
           .help = "Longest output in tokens. Longer outputs fall into the last bucket."),
    OPTION(confusion, OPTION_NODE,
           .help = "Confusion matrix: a list of rows, one per true bucket, with the probability of "
                   "each predicted bucket. It replaces accuracy and max_tokens.",
           .absent = "errors go to a neighbouring bucket"),
    OPTION(
        mode, OPTION_CHOICE, .fallback = "parallel", .choices = modes,
        .help =
            "Way in which the prediction model runs: beside the main model (parallel), before it "
            "(sequential) or at no cost (free)."),
    OPTION(interference, OPTION_REAL, .fallback = "0.1", .min = 0, .max = 10,
           .help = "Share by which iterations in which a prompt begins take longer. It applies to "
                   "mode parallel."),
    OPTION(unaffected, OPTION_REAL, .fallback = "0", .min = 0, .max = 0.99,
           .help = "Share of requests whose prefill does not take longer; the others then take so "
                   "much longer that the mean stays. It applies to mode parallel."),
    OPTION(speedup, OPTION_REAL, .fallback = "10", .min = 1, .max = 1e6,
           .help = "Speed of the prediction model relative to the main model. It applies to mode "
                   "sequential."),
    OPTION(padding_limit, OPTION_INT, .fallback = "512", .min = 1, .max = 1e6,
           .help = "Longest prompt in tokens that is predicted in a batch; longer prompts run "
                   "alone. It applies to mode sequential."),
    {0},
};

const Predictor predictor_buckets = {
    .policy = {.name = "buckets",
               .help = "Predicts a range of output lengths with a small model that is sometimes "
                       "wrong (TetriInfer).",
               .draws = policy_always_draws,
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .predict = predict,
    .cost = cost,
};
