/* One GGUF model in llama.cpp, and the KV cache of its sequences, as batches need it.
 *
 * The cache is one stream a sequence (kv_unified off): with a unified one attention runs over the
 * cells of sequences that are not in the batch, too, so that an iteration's time would depend on
 * more than the iteration. The i-th sequence of a batch is sequence i of the context. What it has
 * in its cache already is kept, cut or completed: one sequence more, the source, has as long a past
 * as was ever asked for, and is copied from. Values do not matter, positions do. */
#ifndef CALIB_LLAMA_SESSION_H
#define CALIB_LLAMA_SESSION_H
#include "base/arena.h"
#include "calib/llama_api.h"

typedef struct LlamaLimits {
  int32_t sequences, context; // of the sequences that batches have; tokens of each
  int32_t tokens;             // of a batch, all in one graph
} LlamaLimits;

typedef struct LlamaSession {
  const LlamaApi *api;
  LlamaModel *model;
  LlamaContext *context; // NULL: none yet
  CalibModel shape;
  LlamaLimits limits; // of the context
  int32_t threads;
  int64_t kv_token_bytes; // fp16, all layers
  int32_t *filled;        // [limits.sequences + 1], tokens in the cache; the last is the source
  LlamaBatch batch;       // arrays of limits.tokens
  int32_t *sequence_of;   // [limits.tokens], what batch.seq_id points to
  int32_t *best;          // [limits.sequences], the greatest logit of each row, as sampled
  Arena arena;            // of the context's arrays
} LlamaSession;

/* Loads shape->file. CALIB_REJECTED: it cannot, or the file is of another shape. */
CalibStatus llama_session_open(LlamaSession *self, const LlamaApi *api, const CalibModel *shape,
                               int32_t threads, char *error);
void llama_session_close(LlamaSession *self);
/* Brings the cache to where the batch begins: its past is there and nothing more. Makes a larger
 * context where it must, of at most `available_bytes` of cache. */
CalibStatus llama_session_prepare(LlamaSession *self, const CalibBatch *batch,
                                  int64_t available_bytes, char *error);
/* Runs the prepared batch to its last sampled token. Leaves its tokens in the cache. */
CalibStatus llama_session_run(LlamaSession *self, const CalibBatch *batch, double *ret_seconds,
                              char *error);
#endif
