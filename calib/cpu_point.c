/* From a point to operators. */
#include "calib/cpu_point.h"

enum { COPY_BYTES = 4096 }; // dealt out to the threads as if they were pages

const char *cpu_point_supports(const CalibPoint *point) {
  if (point->mode != CALIB_GRAPH) return "a CPU has no launch modes";
  if (point->busy) return "a CPU runs one batch at a time";
  if (calib_is_to_gpu(point->op)) return "a CPU is a single device";
  if (calib_is_to_host(point->op)) return "a CPU has no memory of its own";
  return point->op >= CALIB_MOE_ROUTING ? "the cpu backend has no experts" : NULL;
}

/* A batch that has `size` rows: one prompt, or for the head as many sequences. */
static CalibBatch rows_batch(const CalibPoint *point, Arena *arena) {
  const bool is_head =
      point->op == CALIB_HEAD || point->op == CALIB_GEMM_HEAD || point->op == CALIB_ARGMAX;
  const int32_t n = is_head ? (int32_t)point->size : 1;
  CalibSequence *sequences = ARENA_ARRAY(arena, CalibSequence, n);
  for (int32_t i = 0; i < n; i++)
    sequences[i].new_tokens = is_head ? 1 : (int32_t)point->size;
  return (CalibBatch){.sequences = sequences, .n_prefills = n, .n_logits = is_head ? n : 0};
}

static CalibStatus init_rows(CpuPoint *self, int64_t available_bytes, Arena *arena, char *error) {
  const CalibPoint *point = &self->point;
  const bool is_batch = calib_op_size(point->op) == CALIB_SIZE_batch;
  if (!is_batch && (point->size < 1 || point->size > INT32_MAX))
    return calib_failed(CALIB_REJECTED, error, "%lld tokens are not a valid batch",
                        (long long)point->size);
  const CalibBatch batch = is_batch ? point->batch : rows_batch(point, arena);
  /* In an iteration the weights lie between two uses of the same pages already. */
  const bool rotates = point->op != CALIB_ITERATION && !point->hot;
  return cpu_batch_init(&self->batch, self->model, &batch, rotates, available_bytes, arena, error);
}

/* Pages, or bytes twice: room in the pool for them, and as much as the weights have. */
static CalibStatus init_memory(CpuPoint *self, int64_t available_bytes, Arena *arena, char *error) {
  CpuModel *model = self->model;
  const int64_t page_floats = cpu_kv_page_floats(&model->kv), n = self->point.size;
  const int64_t page_bytes = page_floats * (int64_t)sizeof(float);
  const int64_t asked = calib_op_size(self->point.op) == CALIB_SIZE_pages
                            ? n * model->n_layers
                            : 2 * (n / page_bytes + 1);
  const int64_t all = model->read_floats / page_floats + asked;
  if (n < 1 || asked > available_bytes / page_bytes)
    return calib_failed(n < 1 ? CALIB_REJECTED : CALIB_OUT_OF_MEMORY, error,
                        "%lld pages or bytes do not fit in memory", (long long)n);
  if (calib_op_size(self->point.op) == CALIB_SIZE_pages)
    self->buffer = cpu_model_numbers(model, arena, n * page_floats, 0, 1);
  return cpu_model_reserve_pages(model, all / model->n_layers + 1, available_bytes, error);
}

CalibStatus cpu_point_init(CpuPoint *self, CpuModel *model, const CalibPoint *point,
                           int64_t available_bytes, Arena *arena, char *error) {
  *self = (CpuPoint){.model = model, .point = *point};
  if (calib_op_size(point->op) == CALIB_SIZE_pages || point->op == CALIB_COPY_D2D)
    return init_memory(self, available_bytes, arena, error);
  return init_rows(self, available_bytes, arena, error);
}

static void run_product(CpuPoint *self) {
  CpuModel *model = self->model;
  CpuGemm gemm = cpu_run_product(model, self->point.op, &model->layers[0], self->point.size);
  gemm.weights = self->point.hot ? model->weights : cpu_model_slice(model, gemm.n * gemm.k);
  self->weights = gemm.weights;
  cpu_threads_run(model->threads, cpu_gemm, &gemm);
}

static void run_rope_append(CpuPoint *self) {
  CpuModel *model = self->model;
  const int64_t round = self->point.hot ? 0 : self->round;
  cpu_run_rope_append(model, &self->batch, &model->layers[0],
                      cpu_model_pool(model, (int32_t)(round % model->n_layers)), round);
}

/* From one part of the pool to the next. */
static void run_copy(CpuPoint *self) {
  CpuModel *model = self->model;
  const int64_t n = self->point.size, pages = (n + COPY_BYTES - 1) / COPY_BYTES;
  const int64_t all =
      model->n_layers * model->pool_pages * cpu_kv_page_floats(&model->kv) * (int64_t)sizeof(float);
  const int64_t parts = all / n, first = self->point.hot ? 0 : 2 * self->round;
  const CpuCopy copy = {.to = (char *)model->pool + (first + 1) % parts * n,
                        .from = (const char *)model->pool + first % parts * n,
                        .n_pages = pages,
                        .page_bytes = COPY_BYTES,
                        .last_bytes = n - (pages - 1) * COPY_BYTES};
  cpu_threads_run(model->threads, cpu_copy, &copy);
}

static void run_pages(CpuPoint *self) {
  CpuModel *model = self->model;
  const int64_t n = self->point.size, round = self->point.hot ? 0 : self->round;
  const int64_t page_bytes = cpu_kv_page_floats(&model->kv) * (int64_t)sizeof(float);
  const int32_t *pages = model->shuffled + round / model->n_layers % (model->pool_pages / n) * n;
  float *pool = cpu_model_pool(model, (int32_t)(round % model->n_layers));
  CpuCopy copy = {.n_pages = n, .page_bytes = page_bytes, .last_bytes = page_bytes};
  if (self->point.op == CALIB_KV_GATHER) {
    copy.from = (const char *)pool;
    copy.from_pages = pages;
    copy.to = (char *)self->buffer;
  } else {
    copy.from = (const char *)self->buffer;
    copy.to = (char *)pool;
    copy.to_pages = pages;
  }
  cpu_threads_run(model->threads, cpu_copy, &copy);
}

static void run_head(CpuPoint *self) {
  CpuModel *model = self->model;
  const int64_t floats = (int64_t)model->vocab * model->shape.hidden_size;
  self->weights = self->point.hot ? model->head : cpu_model_slice(model, floats);
  cpu_run_head(model, &self->batch, self->weights);
}

static void run_terms(CpuPoint *self) {
  const int32_t layers = self->point.layers;
  const CpuRun run = {.parts = calib_parts(self->point.op),
                      .layers = layers > 0 ? layers : self->model->shape.num_hidden_layers,
                      .hot = self->point.hot};
  cpu_run(self->model, &self->batch, &run, self->round);
}

void cpu_point_run(CpuPoint *self) {
  CpuModel *model = self->model;
  switch (self->point.op) {
  case CALIB_ITERATION:
  case CALIB_LINEAR:
  case CALIB_PREFILL_ATTENTION:
  case CALIB_DECODE_ATTENTION:
    run_terms(self);
    break;
  case CALIB_HEAD:
    run_head(self);
    break;
  case CALIB_NORM:
    cpu_run_norm(model, model->activations.delta, model->final_norm, model->final_norm_bias,
                 self->point.size);
    break;
  case CALIB_ROPE_APPEND:
    run_rope_append(self);
    break;
  case CALIB_ACTIVATION:
    cpu_run_activation(model, self->point.size);
    break;
  case CALIB_EMBEDDING:
    cpu_run_embedding(model, &self->batch);
    break;
  case CALIB_ARGMAX:
    cpu_run_argmax(model, self->point.size);
    break;
  case CALIB_COPY_D2D:
    run_copy(self);
    break;
  case CALIB_KV_GATHER:
  case CALIB_KV_SCATTER:
    run_pages(self);
    break;
  default:
    run_product(self);
  }
  self->round++;
}
