/* The decode batch of an instance: who runs, when the next of them finishes, what they hold.
 *
 * The batch counts its iterations; a sequence that joins at count c with r tokens to make finishes
 * at c + r. A heap by that count finds the next finisher, so an iteration run costs O(log n), not
 * O(n). Context grows by one token per sequence and iteration, so the sum needs no visit to any
 * sequence either. An iteration computes the newest token of a sequence's context, and writes its
 * KV behind that of the others: so it needs a new block when context − 1 is a multiple of the block
 * size (as vLLM has it). (count − context) mod block_size never changes while it runs, so counts of
 * sequences by it give the blocks that any number of iterations will take, in closed form. */
#ifndef SIM_CORE_BATCH_H
#define SIM_CORE_BATCH_H
#include "sim/core/request.h"

typedef struct BatchEntry {
  int64_t finish; // iteration count at which the last token is made
  RequestIx request;
} BatchEntry;

typedef struct TakerList {
  RequestIx first, last;
} TakerList;

typedef struct Batch {
  BatchEntry *entries; // heap by (finish, request); Request.batch_index points back
  size_t n_seqs, capacity;
  int64_t iterations;     // made so far, ever
  int64_t context_tokens; // sum over the sequences
  int64_t block_size;
  int32_t block_shift; // its logarithm; -1 when it is no power of two
  int64_t place;       // iterations mod block_size
  int64_t tail;        // iterations that a sequence stays after its last token
  int32_t *takers;     // [block_size] sequences that take a block at each count mod block_size
  TakerList *lists;    // [block_size] the same one by one, by admission; NULL: nobody minds
  TakerList *visits;   // [BATCH_VISITS] by the count at which they are visited; NULL: nobody is
} Batch;

enum { BATCH_VISITS = 256 };

/* What `tokens` >= 0 fill of its blocks; blocks of a power of two need no division. */
static inline int64_t batch_whole_blocks(const Batch *self, int64_t tokens) {
  return self->block_shift >= 0 ? tokens >> self->block_shift : tokens / self->block_size;
}

void batch_init(Batch *self, int64_t block_size, Arena *arena);
/* Keeps the lists of takers from now on; the batch must be empty. */
void batch_keep_lists(Batch *self, Arena *arena);
/* Those that take a block in the iteration `ahead` >= 0 after the next. */
static inline const TakerList *batch_takers(const Batch *self, int64_t ahead) {
  return &self->lists[(self->place + ahead) % self->block_size];
}
/* Sequences may be visited from now on, where it is not their context alone that says when. Each
 * that is has one visit at a time, at a count from the present one to before that of BATCH_VISITS
 * iterations later. */
void batch_keep_visits(Batch *self, Arena *arena);
void batch_visit_at(Batch *self, Request *slots, RequestIx request, int64_t count);
void batch_visit_no_more(Batch *self, Request *slots, RequestIx request, int64_t count);
/* Those visited in the next iteration, by admission. */
static inline RequestIx batch_first_visited(const Batch *self) {
  return self->visits[self->iterations % BATCH_VISITS].first;
}
/* Adds a request with `context` tokens of KV and `remaining` > 0 tokens to make; one more than it
 * will, where that is not known. */
void batch_push(Batch *self, Request *slots, RequestIx request, int64_t context, int64_t remaining,
                Arena *arena);
/* Takes a request out, wherever it is; returns the tokens it still has to make. `context` is what
 * it has now. */
int64_t batch_remove(Batch *self, Request *slots, RequestIx request, int64_t context);
/* Tokens that running request `request` still has to make. */
static inline int64_t batch_remaining(const Batch *self, const Request *request) {
  return self->entries[request->batch_index].finish - self->iterations;
}
/* Its context: the tokens that there are of it. */
static inline int64_t batch_context(const Batch *self, const Request *request) {
  return (int64_t)request->prompt_tokens + request->output_tokens + request->overruns -
         batch_remaining(self, request);
}
/* Iterations until the next sequence finishes; the batch must not be empty. */
static inline int64_t batch_until_finish(const Batch *self) {
  return self->entries[0].finish - self->iterations;
}
/* Makes `n` iterations, none of which may pass a finisher. */
void batch_advance(Batch *self, int64_t n);

/* KV blocks that the next `n` iterations take beyond those held. */
int64_t batch_growth(const Batch *self, int64_t n);
/* The same of the next one. */
static inline int64_t batch_next_growth(const Batch *self) {
  return self->takers[self->place];
}
/* Blocks that KV which comes in leaves free for those that run, or a full instance would take it in
 * only to give it up again: one for each sequence, or what all take for their next
 * BATCH_MARGIN_TOKENS tokens where blocks are larger than that; after the next `n` iterations, with
 * `n_joining` more sequences. */
enum { BATCH_MARGIN_TOKENS = 16 };
int64_t batch_margin(const Batch *self, int64_t n, size_t n_joining);
/* The most iterations, at most `limit`, whose growth fits in `free_blocks`. */
int64_t batch_fitting(const Batch *self, int64_t free_blocks, int64_t limit);
#endif
