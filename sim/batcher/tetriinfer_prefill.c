/* The prefill scheduler (TetriInfer §3.3.1) and its chunks (§3.3.3). */
#include "sim/batcher/tetriinfer.h"
#include <assert.h>
#include <stdlib.h>

void prefill_schedule_init(PrefillSchedule *self, int64_t chunk_tokens, Arena *arena) {
  *self = (PrefillSchedule){.arena = arena, .chunk_tokens = chunk_tokens};
}

static int compare(const void *a, const void *b) {
  const Scheduled *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->position > y->position) - (x->position < y->position);
}

static int64_t key_of(const TetriInfer *options, const Request *request) {
  switch ((PrefillPolicy)options->prefill_policy) {
  case PREFILL_FCFS:
    return 0;
  case PREFILL_SJF:
    return request_prefill_tokens(request);
  case PREFILL_LJF:
    return -(int64_t)request_prefill_tokens(request);
  }
  assert(false);
  return 0;
}

/* Takes the next requests of the raw queue, in order. */
static void refill(PrefillSchedule *self, const TetriInfer *options, const InstanceView *view) {
  const RequestQueue *raw = &view->instance->prefill_queue;
  self->first = self->count = 0;
  RequestIx ix = raw->first;
  while (ix != REQUEST_NONE && (int64_t)self->count < options->prefill_sched_batch) {
    ARENA_RESERVE(self->arena, self->items, self->capacity, self->count + 1);
    self->items[self->count] = (Scheduled){
        .key = key_of(options, &view->requests[ix]), .position = self->count, .request = ix};
    self->count++;
    ix = view->requests[ix].next;
  }
  if (self->count > 1) qsort(self->items, self->count, sizeof *self->items, compare);
}

/* A chunk as far as memory has room for it. */
typedef struct Chunk {
  int64_t tokens, wanted; // it is whole when these are equal
  size_t n_ends;          // requests prefilled to the end
} Chunk;

static int64_t piece_tokens(const PrefillSchedule *self, const InstanceView *view, size_t i,
                            int64_t left) {
  const Request *request = &view->requests[self->items[i].request];
  const bool waits = view_prompts_wait(view) && request->prefilled_tokens == 0;
  const int64_t rest = request_prefill_tokens(request) - request->prefilled_tokens;
  return waits ? 0 : rest < left ? rest : left;
}

/* How much of that memory has room for; a request begins only when all of its prefill fits, or a
 * instance that decodes too would begin it over and over. */
static int64_t fitting_tokens(const InstanceView *view, RequestIx ix, int64_t wanted,
                              int64_t blocks) {
  const Request *request = &view->requests[ix];
  if (request->prefilled_tokens > 0) return fcfs_fitting_tokens(view, ix, wanted, blocks);
  return view_prefill_blocks(view, ix, request_prefill_tokens(request)) <= blocks ? wanted : 0;
}

/* The next chunk, its pieces written into `plan` unless that is NULL. */
static Chunk next_chunk(const PrefillSchedule *self, const InstanceView *view, BatchPlan *plan) {
  Chunk chunk = {0};
  int64_t blocks = view->instance->free_blocks;
  for (size_t i = self->first; i < self->count; i++) {
    const RequestIx ix = self->items[i].request;
    const Request *request = &view->requests[ix];
    const int64_t wanted = piece_tokens(self, view, i, self->chunk_tokens - chunk.wanted);
    if (wanted == 0) break;
    const int64_t tokens = fitting_tokens(view, ix, wanted, blocks);
    chunk.wanted += wanted;
    chunk.tokens += tokens;
    if (tokens == 0) break;
    blocks -= view_prefill_blocks(view, ix, (int32_t)tokens);
    chunk.n_ends += request->prefilled_tokens + tokens == request_prefill_tokens(request);
    if (plan) plan_prefill(plan, ix, (int32_t)tokens);
    if (tokens < wanted) break;
  }
  return chunk;
}

static bool may_run(const Chunk *chunk, bool cut) {
  return chunk->tokens > 0 && (cut || chunk->tokens == chunk->wanted);
}

void prefill_schedule_plan(PrefillSchedule *self, const TetriInfer *options,
                           const InstanceView *view, bool cut, BatchPlan *plan) {
  if (self->first == self->count) refill(self, options, view);
  const Chunk chunk = next_chunk(self, view, NULL);
  if (!may_run(&chunk, cut)) return;
  next_chunk(self, view, plan);
  plan_pad(plan, self->chunk_tokens - chunk.tokens, 0); // attention to it is masked
  self->first += chunk.n_ends;
}

void prefill_schedule_drop(PrefillSchedule *self, RequestIx request) {
  size_t i = self->first;
  while (i < self->count && self->items[i].request != request)
    i++;
  if (i == self->count) return;
  for (self->count--; i < self->count; i++)
    self->items[i] = self->items[i + 1];
}

bool prefill_schedule_ready(PrefillSchedule *self, const TetriInfer *options,
                            const InstanceView *view) {
  const bool empty = self->first == self->count;
  if (empty) refill(self, options, view);
  const Chunk chunk = next_chunk(self, view, NULL);
  if (empty) self->first = self->count = 0; // scheduled when an iteration begins, not before
  return may_run(&chunk, false);
}
