/* Contexts, caches and batches of llama.cpp. */
#include "calib/llama_session.h"

/* ---- The model ---- */

CalibStatus llama_session_open(LlamaSession *self, const LlamaApi *api, const CalibModel *shape,
                               int32_t threads, char *error) {
  *self = (LlamaSession){.api = api, .shape = *shape, .threads = threads};
  arena_init(&self->arena);
  self->model = api->model_load(shape->file, api->model_defaults());
  if (!self->model)
    return calib_failed(CALIB_REJECTED, error, "llama.cpp cannot load '%.300s'", shape->file);
  const int32_t layers = api->model_n_layer(self->model), width = api->model_n_embd(self->model);
  const char *why = NULL;
  if (layers != shape->num_hidden_layers || width != shape->hidden_size)
    why = "llama.cpp reads another shape in it";
  if (api->model_is_recurrent(self->model)) why = "its layers are recurrent, without a KV cache";
  if (api->model_has_encoder(self->model)) why = "it has an encoder";
  self->kv_token_bytes =
      4LL * shape->num_hidden_layers * shape->num_key_value_heads * shape->head_dim;
  if (!why) return CALIB_OK;
  llama_session_close(self);
  return calib_failed(CALIB_REJECTED, error, "'%.300s' cannot be run: %s", shape->file, why);
}

static void close_context(LlamaSession *self) {
  if (self->context) self->api->context_free(self->context);
  self->context = NULL;
  self->limits = (LlamaLimits){0};
  arena_done(&self->arena);
}

void llama_session_close(LlamaSession *self) {
  close_context(self);
  if (self->model) self->api->model_free(self->model);
  self->model = NULL;
}

/* ---- The context ---- */

static void make_arrays(LlamaSession *self) {
  const int32_t n = self->limits.tokens;
  Arena *arena = &self->arena;
  self->filled = ARENA_ARRAY(arena, int32_t, self->limits.sequences + 1);
  self->best = ARENA_ARRAY(arena, int32_t, self->limits.sequences + 1);
  self->sequence_of = ARENA_ARRAY(arena, int32_t, n);
  self->batch = (LlamaBatch){.token = ARENA_ARRAY(arena, int32_t, n),
                             .pos = ARENA_ARRAY(arena, int32_t, n),
                             .n_seq_id = ARENA_ARRAY(arena, int32_t, n),
                             .seq_id = ARENA_ARRAY(arena, int32_t *, n),
                             .logits = ARENA_ARRAY(arena, int8_t, n)};
  for (int32_t i = 0; i < n; i++) {
    self->batch.n_seq_id[i] = 1;
    self->batch.seq_id[i] = &self->sequence_of[i];
  }
}

static CalibStatus open_context(LlamaSession *self, const LlamaLimits *limits, char *error) {
  close_context(self);
  LlamaContextParams params = self->api->context_defaults();
  const uint32_t streams = (uint32_t)limits->sequences + 1;
  params.n_ctx = streams * (uint32_t)limits->context;
  params.n_batch = params.n_ubatch = (uint32_t)limits->tokens;
  params.n_seq_max = streams;
  params.n_outputs_max = streams;
  params.n_threads = params.n_threads_batch = self->threads;
  params.kv_unified = false;
  self->context = self->api->context_open(self->model, params);
  if (!self->context)
    return calib_failed(CALIB_OUT_OF_MEMORY, error,
                        "llama.cpp has no room for %d sequences of %d tokens",
                        (int)limits->sequences, (int)limits->context);
  self->limits = *limits;
  make_arrays(self);
  return CALIB_OK;
}

static int32_t power_above(int32_t n, int32_t least) {
  while (least < n && least <= INT32_MAX / 2)
    least *= 2;
  return least < n ? n : least;
}

static int32_t larger(int32_t a, int32_t b) {
  return a > b ? a : b;
}

/* What the batch needs; CALIB_REJECTED when it is none. */
static CalibStatus measure_batch(const CalibBatch *batch, LlamaLimits *ret_need, char *error) {
  const int32_t n = batch->n_prefills + batch->n_decodes;
  int64_t tokens = 0, context = 0;
  bool sound = n > 0 && batch->n_logits >= 0 && batch->n_logits <= n;
  for (int32_t i = 0; i < n; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    const int64_t all = (int64_t)sequence->past_tokens + sequence->new_tokens;
    sound &= sequence->new_tokens >= 1 && sequence->past_tokens >= 0;
    tokens += sequence->new_tokens;
    if (all > context) context = all;
  }
  if (sound && tokens <= INT32_MAX / 4 && context <= INT32_MAX / 4) {
    *ret_need = (LlamaLimits){n, (int32_t)context, (int32_t)tokens};
    return CALIB_OK;
  }
  return calib_failed(CALIB_REJECTED, error,
                      "a batch of %d sequences, %lld tokens and %d logits is not valid", (int)n,
                      (long long)tokens, (int)batch->n_logits);
}

/* Bytes of the cache, with the source. */
static double cache_bytes(const LlamaSession *self, const LlamaLimits *limits) {
  return (double)self->kv_token_bytes * limits->context * (limits->sequences + 1.0);
}

/* A context for this batch and, while there is room, for what is likely to come. */
static CalibStatus reserve(LlamaSession *self, const LlamaLimits *need, int64_t available_bytes,
                           char *error) {
  enum { SEQUENCES = 32, CONTEXT = 2048, TOKENS = 2048, PADDING = 256 };
  const LlamaLimits *have = &self->limits;
  if (self->context && need->sequences <= have->sequences && need->context <= have->context &&
      need->tokens <= have->tokens)
    return CALIB_OK;
  const double room = 0.5 * (double)available_bytes + (self->context ? cache_bytes(self, have) : 0);
  LlamaLimits wanted = {larger(have->sequences, power_above(need->sequences, SEQUENCES)),
                        larger(have->context, power_above(need->context, CONTEXT)),
                        larger(have->tokens, power_above(need->tokens, TOKENS))};
  if (cache_bytes(self, &wanted) > room)
    wanted = (LlamaLimits){need->sequences, (need->context + PADDING - 1) / PADDING * PADDING,
                           power_above(need->tokens, PADDING)};
  const size_t most = self->api->max_sequences();
  if ((size_t)wanted.sequences + 1 > most && (size_t)need->sequences + 1 <= most)
    wanted.sequences = (int32_t)most - 1;
  if (cache_bytes(self, &wanted) <= room && (size_t)wanted.sequences + 1 <= most)
    return open_context(self, &wanted, error);
  return calib_failed(
      CALIB_OUT_OF_MEMORY, error,
      "%d sequences of %d tokens do not fit: the cache would need %.0f MiB of %.0f; at most "
      "%zu sequences are possible",
      (int)need->sequences, (int)need->context, cache_bytes(self, &wanted) / 0x1p20, room / 0x1p20,
      most - 1);
}

/* ---- The cache ---- */

static void add_tokens(LlamaSession *self, int32_t sequence, int32_t past, int32_t n, bool logits) {
  LlamaBatch *batch = &self->batch;
  for (int32_t i = 0; i < n; i++) {
    const int32_t row = batch->n_tokens++;
    batch->token[row] = (int32_t)((7919LL * (past + i) + sequence) % self->shape.vocab_size);
    batch->pos[row] = past + i;
    batch->logits[row] = logits && i == n - 1;
    self->sequence_of[row] = sequence;
  }
}

static CalibStatus decode(LlamaSession *self, char *error) {
  const int32_t code = self->api->decode(self->context, self->batch);
  self->api->synchronize(self->context);
  if (code == 0) return CALIB_OK;
  return calib_failed(code == 1 ? CALIB_OUT_OF_MEMORY : CALIB_ENVIRONMENT, error,
                      "llama_decode of %d tokens failed with %d", (int)self->batch.n_tokens,
                      (int)code);
}

static CalibStatus cut(LlamaSession *self, int32_t sequence, int32_t length, char *error) {
  if (!self->api->seq_rm(self->api->memory(self->context), sequence, length, -1))
    return calib_failed(CALIB_ENVIRONMENT, error,
                        "llama.cpp cannot shorten the cache of this model");
  self->filled[sequence] = length;
  return CALIB_OK;
}

static CalibStatus extend_source(LlamaSession *self, int32_t length, char *error) {
  int32_t *filled = &self->filled[self->limits.sequences];
  CalibStatus status = CALIB_OK;
  while (!status && *filled < length) {
    const int32_t left = length - *filled;
    const int32_t n = left < self->limits.tokens ? left : self->limits.tokens;
    self->batch.n_tokens = 0;
    add_tokens(self, self->limits.sequences, *filled, n, false);
    status = decode(self, error);
    if (!status) *filled += n;
  }
  return status;
}

/* Copies are made by the next call of llama_decode: one that nobody times, of the source. */
static CalibStatus make_copies(LlamaSession *self, char *error) {
  const int32_t source = self->limits.sequences, length = self->filled[source];
  CalibStatus status = cut(self, source, length - 1, error);
  if (status) return status;
  self->batch.n_tokens = 0;
  add_tokens(self, source, length - 1, 1, false);
  status = decode(self, error);
  if (!status) self->filled[source]++;
  return status;
}

static CalibStatus fill(LlamaSession *self, const CalibBatch *batch, char *error) {
  const int32_t n = batch->n_prefills + batch->n_decodes, source = self->limits.sequences;
  LlamaMemory *memory = self->api->memory(self->context);
  bool copies = false;
  for (int32_t i = 0; i < n; i++) {
    const int32_t past = batch->sequences[i].past_tokens;
    if (past <= self->filled[i]) continue;
    CalibStatus status = extend_source(self, past, error);
    if (!status) status = cut(self, i, 0, error);
    if (status) return status;
    self->api->seq_cp(memory, source, i, -1, -1);
    self->filled[i] = self->filled[source];
    copies = true;
  }
  CalibStatus status = copies ? make_copies(self, error) : CALIB_OK;
  for (int32_t i = 0; !status && i < n; i++)
    status = cut(self, i, batch->sequences[i].past_tokens, error);
  return status;
}

CalibStatus llama_session_prepare(LlamaSession *self, const CalibBatch *batch,
                                  int64_t available_bytes, char *error) {
  LlamaLimits need = {0};
  CalibStatus status = measure_batch(batch, &need, error);
  if (!status) status = reserve(self, &need, available_bytes, error);
  return status ? status : fill(self, batch, error);
}

/* ---- Running ---- */

/* Greedy sampling, as an engine does before it can go on. */
static int32_t pick_token(const float *logits, int32_t n) {
  int32_t best = 0;
  for (int32_t i = 1; i < n; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

static CalibStatus sample(LlamaSession *self, char *error) {
  for (int32_t row = 0; row < self->batch.n_tokens; row++) {
    if (!self->batch.logits[row]) continue;
    const float *logits = self->api->logits(self->context, row);
    if (!logits)
      return calib_failed(CALIB_ENVIRONMENT, error, "llama.cpp has no logits of token %d",
                          (int)row);
    self->best[self->sequence_of[row]] = pick_token(logits, self->shape.vocab_size);
  }
  return CALIB_OK;
}

CalibStatus llama_session_run(LlamaSession *self, const CalibBatch *batch, double *ret_seconds,
                              char *error) {
  const int32_t n = batch->n_prefills + batch->n_decodes;
  self->batch.n_tokens = 0;
  for (int32_t i = 0; i < n; i++) // decodes come last and need logits before prompts do
    add_tokens(self, i, batch->sequences[i].past_tokens, batch->sequences[i].new_tokens,
               i >= n - batch->n_logits);
  const double begin = calib_seconds();
  CalibStatus status = decode(self, error);
  if (!status) status = sample(self, error);
  *ret_seconds = calib_seconds() - begin;
  for (int32_t i = 0; i < n; i++)
    self->filled[i] = batch->sequences[i].past_tokens + batch->sequences[i].new_tokens;
  return status;
}
