/* Rows, pages and positions of a batch. */
#include "calib/cpu_batch.h"
#include "base/rng.h"
#include <math.h>

static int64_t pages_of(const CpuModel *model, int64_t tokens) {
  return (tokens + model->shape.block_size - 1) / model->shape.block_size;
}

/* Counts tokens, pages and logits; CALIB_REJECTED when they are not those of a batch. */
static CalibStatus count(CpuBatch *self, const CpuModel *model, const CalibBatch *batch,
                         Arena *arena, char *error) {
  const int32_t n = batch->n_prefills + batch->n_decodes;
  const int64_t dim = model->kv.head_dim;
  int64_t gathered = 0;
  self->row_starts = ARENA_ARRAY(arena, int64_t, n + 1);
  self->page_starts = ARENA_ARRAY(arena, int64_t, n);
  self->gather_starts = ARENA_ARRAY(arena, int64_t, n);
  self->past = ARENA_ARRAY(arena, int32_t, n);
  for (int32_t i = 0; i < n; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    const int64_t context = (int64_t)sequence->past_tokens + sequence->new_tokens;
    const bool is_decode = i >= batch->n_prefills;
    if (sequence->new_tokens < 1 || sequence->past_tokens < 0 ||
        (is_decode && sequence->new_tokens != 1))
      return calib_failed(CALIB_REJECTED, error,
                          "sequence %d has %d new tokens after %d, which is not a valid size",
                          (int)i, (int)sequence->new_tokens, (int)sequence->past_tokens);
    self->row_starts[i] = self->tokens;
    self->page_starts[i] = self->pages;
    self->gather_starts[i] = gathered;
    self->past[i] = sequence->past_tokens;
    self->tokens += sequence->new_tokens;
    self->pages += pages_of(model, context);
    if (!is_decode) gathered += 2 * context * dim * model->kv.kv_heads;
  }
  self->row_starts[n] = self->tokens;
  self->n_logits = batch->n_logits;
  if (n == 0 || batch->n_logits < 0 || batch->n_logits > n)
    return calib_failed(CALIB_REJECTED, error, "a batch of %d sequences cannot have %d logits",
                        (int)n, (int)batch->n_logits);
  return CALIB_OK;
}

static int32_t sets_to_make(const CpuBatch *self, const CpuModel *model) {
  const double set = (double)self->pages * (double)cpu_kv_page_floats(&model->kv) * model->n_layers;
  const double sets = (double)model->read_floats / set;
  return 1 + (int32_t)sets;
}

static CalibStatus reserve(CpuBatch *self, CpuModel *model, int64_t available_bytes, char *error) {
  const int32_t n = self->n_prefills + self->n_decodes;
  const CpuAttention attention = {.kv = model->kv, .query_heads = model->query_heads};
  const int64_t pieces =
      (int64_t)self->n_decodes * model->kv.kv_heads + cpu_threads_count(model->threads);
  int64_t gathered = 0;
  for (int32_t i = 0; i < self->n_prefills; i++) {
    const int64_t context = self->past[i] + self->row_starts[i + 1] - self->row_starts[i];
    gathered += 2 * context * model->kv.head_dim * model->kv.kv_heads;
  }
  const CpuActivations need = {.tokens = self->tokens,
                               .rows = n,
                               .gathered_floats = gathered,
                               .partial_floats = pieces * cpu_decode_piece_floats(&attention)};
  CalibStatus status = cpu_model_reserve(model, &need, available_bytes, error);
  if (status) return status;
  if (cpu_model_reserve_pages(model, self->pages * self->n_sets, available_bytes, error) == 0)
    return CALIB_OK;
  self->n_sets = 1;
  return cpu_model_reserve_pages(model, self->pages, available_bytes, error);
}

static void set_rotation(CpuBatch *self, const CpuModel *model, Arena *arena) {
  if (model->shape.positions != CALIB_ROPE) return;
  const int32_t dim = model->kv.head_dim, half = dim / 2;
  self->rotation = ARENA_ARRAY(arena, float, self->tokens *dim);
  for (int32_t i = 0; i < half; i++) {
    const double frequency = pow(CPU_THETA, -2.0 * i / dim);
    for (int64_t t = 0; t < self->tokens; t++) {
      const double angle = self->positions[t] * frequency;
      self->rotation[t * dim + i] = (float)cos(angle);
      self->rotation[t * dim + half + i] = (float)sin(angle);
    }
  }
}

static void set_rows(CpuBatch *self, const CpuModel *model, Arena *arena) {
  const int32_t n = self->n_prefills + self->n_decodes, size = model->shape.block_size;
  const int32_t limit = model->shape.max_position_embeddings;
  const bool is_learned = model->shape.positions == CALIB_LEARNED;
  Rng rng;
  rng_init(&rng, model->seed, "ids");
  self->ids = ARENA_ARRAY(arena, int32_t, self->tokens);
  self->positions = ARENA_ARRAY(arena, int32_t, self->tokens);
  self->slots = ARENA_ARRAY(arena, int32_t, self->tokens * self->n_sets);
  for (int32_t i = 0; i < n; i++) {
    for (int64_t row = self->row_starts[i]; row < self->row_starts[i + 1]; row++) {
      const int32_t position = self->past[i] + (int32_t)(row - self->row_starts[i]);
      self->ids[row] = (int32_t)rng_below(&rng, (uint64_t)model->vocab);
      self->positions[row] = is_learned ? position % limit : position;
      const int64_t page = self->page_starts[i] + position / size;
      for (int32_t set = 0; set < self->n_sets; set++)
        self->slots[set * self->tokens + row] =
            cpu_batch_pages(self, model, set)[page] * size + position % size;
    }
  }
}

CalibStatus cpu_batch_init(CpuBatch *self, CpuModel *model, const CalibBatch *batch, bool rotates,
                           int64_t available_bytes, Arena *arena, char *error) {
  *self = (CpuBatch){.n_prefills = batch->n_prefills, .n_decodes = batch->n_decodes, .n_sets = 1};
  CalibStatus status = count(self, model, batch, arena, error);
  if (status) return status;
  if (rotates) self->n_sets = sets_to_make(self, model);
  status = reserve(self, model, available_bytes, error);
  if (status) return status;
  set_rows(self, model, arena);
  set_rotation(self, model, arena);
  /* Decodes come last and need logits before prompts do. */
  const int32_t n = self->n_prefills + self->n_decodes;
  self->logit_rows = ARENA_ARRAY(arena, int32_t, self->n_logits);
  for (int32_t i = 0; i < self->n_logits; i++)
    self->logit_rows[i] = (int32_t)self->row_starts[n - self->n_logits + i + 1] - 1;
  return CALIB_OK;
}

const int32_t *cpu_batch_pages(const CpuBatch *self, const CpuModel *model, int64_t set) {
  return model->shuffled + set % self->n_sets * self->pages;
}
