/* The decode scheduler (TetriInfer §3.4): who may join the batch, by what is predicted of them.
 *
 * Predictions delay a request, they do not bar it: where nothing runs, the first in line joins if
 * memory has room for its next token. */
#include "sim/batcher/tetriinfer.h"

/* Predicted output tokens of a request still to be made, at least the next one. */
static int64_t predicted_left(const TetriInfer *self, const InstanceView *view, RequestIx ix) {
  const Request *request = &view->requests[ix];
  const int64_t output = prediction_output(request, (Estimate)self->estimate);
  int64_t made = request->generated_tokens;
  if (request->state == REQUEST_RUNS)
    made = request->output_tokens - batch_remaining(&view->instance->batch, request);
  return output > made ? output - made : 1;
}

/* Blocks that a request outside the batch takes beyond those it holds here to make `n` more
 * tokens. */
static int64_t blocks_after(const InstanceView *view, RequestIx ix, int64_t n) {
  const Request *request = &view->requests[ix];
  const int64_t tokens = request_kv_tokens(request) + n;
  const int64_t held = request->state == REQUEST_WAITS_DECODE ? request->kv_blocks : 0;
  const int64_t more = blocks_of(view->instance, tokens) - held;
  return more > 0 ? more : 0;
}

/* Below, `n_joining` requests at the head of decode_queue count as if they were in the batch. */

/* Iterations until the first is predicted to finish. */
static int64_t first_finish(const TetriInfer *self, const InstanceView *view, size_t n_joining) {
  const Batch *batch = &view->instance->batch;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < batch->n_seqs && least > 1; i++) {
    const int64_t left = predicted_left(self, view, batch->entries[i].request);
    if (left < least) least = left;
  }
  RequestIx ix = view->instance->decode_queue.first;
  for (; n_joining > 0 && least > 1; n_joining--, ix = view->requests[ix].next) {
    const int64_t left = predicted_left(self, view, ix);
    if (left < least) least = left;
  }
  return least;
}

/* Blocks that are left when all have made `n` more tokens. */
static int64_t spare_after(const InstanceView *view, size_t n_joining, int64_t n) {
  int64_t blocks = view->instance->free_blocks - batch_growth(&view->instance->batch, n);
  RequestIx ix = view->instance->decode_queue.first;
  for (; n_joining > 0; n_joining--, ix = view->requests[ix].next)
    blocks -= blocks_after(view, ix, n);
  return blocks;
}

/* Whether a request fits even if each that counts takes the most blocks that `n` tokens may be:
 * usually, and then nobody need look at every one. Room for fewer tokens follows. */
static bool fits_amply(const InstanceView *view, size_t n_joining, RequestIx ix, int64_t n) {
  const Instance *instance = view->instance;
  const int64_t others = (int64_t)(instance->batch.n_seqs + n_joining);
  const int64_t most = others * (n / instance->pool->block_size + 1);
  return blocks_after(view, ix, n) <= instance->free_blocks - most;
}

/* Reserve-static: its predicted KV is no more than is free in this iteration. Reserve-dynamic: all
 * have room until the first of them is predicted to finish. */
static bool may_join(const TetriInfer *self, const InstanceView *view, size_t n_joining,
                     RequestIx ix) {
  const bool alone = view->instance->batch.n_seqs == 0 && n_joining == 0;
  const int64_t left = predicted_left(self, view, ix);
  if (fits_amply(view, n_joining, ix, left)) return true;
  const int64_t spare = spare_after(view, n_joining, 1);
  if (alone || self->decode_policy == DECODE_GREEDY) return blocks_after(view, ix, 1) <= spare;
  if (self->decode_policy == DECODE_RESERVE_STATIC) return blocks_after(view, ix, left) <= spare;
  const int64_t first = first_finish(self, view, n_joining);
  const int64_t n = first < left ? first : left;
  return blocks_after(view, ix, n) <= spare_after(view, n_joining, n);
}

void tetriinfer_admit(const TetriInfer *self, const InstanceView *view, BatchPlan *plan) {
  const Instance *instance = view->instance;
  Budget budget = {.tokens = self->limits.max_num_seqs,
                   .seqs = self->limits.max_num_seqs - (int64_t)instance->batch.n_seqs};
  RequestIx ix = instance->decode_queue.first;
  for (; ix != REQUEST_NONE && budget.seqs > 0; ix = view->requests[ix].next) {
    if (!may_join(self, view, plan->n_admits, ix)) break;
    plan_admit(plan, ix);
    budget.seqs--;
  }
  budget.blocks = spare_after(view, plan->n_admits, 1);
  fcfs_admit_swapped(view, plan, &budget);
}

/* The finish that reserve-dynamic looks at is at first the request's own, and room only shrinks.
 * Once it is that of the batch, at `first`, it stays where it is, and the later the request joins
 * the fewer tokens it has made by then. Past it, and for the other policies, room only shrinks. */
int64_t tetriinfer_joins_after(const TetriInfer *self, const InstanceView *view) {
  const Instance *instance = view->instance;
  const RequestIx ix = instance->decode_queue.first;
  if (ix == REQUEST_NONE || (int64_t)instance->batch.n_seqs >= self->limits.max_num_seqs)
    return INT64_MAX;
  if (may_join(self, view, 0, ix)) return 0;
  if (self->decode_policy != DECODE_RESERVE_DYNAMIC || instance->batch.n_seqs == 0)
    return INT64_MAX;
  const Request *request = &view->requests[ix];
  const int64_t first = first_finish(self, view, 0);
  const int64_t spare = spare_after(view, 0, first);
  const int64_t tokens = request_kv_tokens(request);
  const int64_t room = (request->kv_blocks + spare) * instance->pool->block_size;
  const int64_t left = predicted_left(self, view, ix);
  int64_t after = first > left ? first - left : 1;
  if (tokens + first - room > after) after = tokens + first - room;
  return spare >= 0 && after < first ? after : INT64_MAX;
}

bool tetriinfer_receives(const TetriInfer *self, const InstanceView *view, RequestIx ix) {
  return may_join(self, view, (size_t)view->instance->decode_queue.count, ix);
}
