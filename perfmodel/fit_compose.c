/* See fit_compose.h. */
#include "perfmodel/fit_compose.h"
#include "base/rng.h"
#include <math.h>

typedef struct Composing {
  const FitPoint *points;
  int64_t *x; // fit_x of each
  int n_points;
  double mixed_factor;
  FitErrors *errors;
  int first[PROFILE_OPS], end[PROFILE_OPS]; // those of an operator are side by side
} Composing;

static void find_operators(Composing *self) {
  for (int i = 0; i < self->n_points; i++) {
    const ProfileOp op = self->points[i].op;
    if (self->end[op] == 0) self->first[op] = i;
    self->end[op] = i + 1;
    self->x[i] = fit_x(op, &self->points[i].batch);
  }
}

/* The row of a term of one variable; NULL: not measured, or never held out. */
static const FitPoint *find(const Composing *self, ProfileOp op, int64_t x) {
  for (int i = self->first[op]; i < self->end[op]; i++) {
    const FitPoint *point = &self->points[i];
    if (self->x[i] == x && point->op == op && !isnan(point->held_out)) return point;
  }
  return NULL;
}

/* Of `a` and, if it is not NULL, `b` in one batch; `logit_seqs` of it need logits. False: some
 * operator of it was not measured. */
static bool compose(const Composing *self, const FitPoint *a, const FitPoint *b, int64_t logit_seqs,
                    bool add) {
  BatchShape batch = a->batch;
  if (b) {
    batch.decode_seqs = b->batch.decode_seqs;
    batch.context_tokens = b->batch.context_tokens;
  }
  batch.logit_seqs = logit_seqs;
  const FitPoint *linear = find(self, PROFILE_LINEAR, batch.prefill_tokens + batch.decode_seqs);
  const FitPoint *head = linear ? find(self, PROFILE_HEAD, logit_seqs) : NULL;
  if (!head || isnan(a->held_out) || (b && isnan(b->held_out))) return false;
  if (!add) return true;
  const double factor = self->mixed_factor;
  fit_errors_add(self->errors, PROFILE_ITERATION, &batch,
                 linear->seconds + head->seconds + a->seconds + (b ? factor * b->seconds : 0),
                 linear->held_out + head->held_out + a->held_out + (b ? factor * b->held_out : 0));
  return true;
}

/* A row of prefill attention with one of decode attention, each that fits as likely. */
static void compose_drawn(const Composing *self, const FitPoint *prefill, Rng *rng) {
  const FitPoint *drawn = NULL;
  int fitting = 0;
  for (int i = 0; i < self->n_points; i++) {
    const FitPoint *decode = &self->points[i];
    if (decode->op != PROFILE_DECODE_ATTENTION ||
        !compose(self, prefill, decode, decode->batch.decode_seqs, false))
      continue;
    if (rng_below(rng, (uint64_t)++fitting) == 0) drawn = decode;
  }
  if (drawn) compose(self, prefill, drawn, drawn->batch.decode_seqs, true);
}

void fit_compose_score(const FitPoint *points, int n_points, double mixed_factor, uint64_t seed,
                       FitErrors *errors) {
  int64_t *x = ARENA_ARRAY(errors->arena, int64_t, n_points + 1);
  Composing self = {points, x, n_points, mixed_factor, errors, {0}, {0}};
  find_operators(&self);
  bool both_measured = false;
  Rng rng;
  rng_init(&rng, seed, "fit iterations");
  for (int i = 0; i < n_points; i++) {
    const BatchShape *batch = &points[i].batch;
    if (points[i].op != PROFILE_DECODE_ATTENTION) continue;
    compose(&self, &points[i], NULL, batch->decode_seqs, true);
    both_measured |= batch->prefill_tokens > 0;
  }
  for (int i = 0; i < n_points; i++) {
    if (points[i].op != PROFILE_PREFILL_ATTENTION) continue;
    compose(&self, &points[i], NULL, 1, true);
    if (!both_measured) compose_drawn(&self, &points[i], &rng);
  }
}
