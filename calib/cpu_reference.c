/* The formulas. */
#include "calib/cpu_reference.h"
#include <math.h>
#include <string.h>

void reference_norm(CalibNorm norm, double *out, double *residual, const double *x,
                    const float *weight, const float *bias, int64_t tokens, int64_t hidden) {
  for (int64_t t = 0; t < tokens; t++, out += hidden, residual += hidden) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < hidden; i++) {
      if (x) residual[i] += x[t * hidden + i];
      mean += residual[i] / (double)hidden;
    }
    if (norm == CALIB_RMS_NORM) mean = 0;
    for (int64_t i = 0; i < hidden; i++)
      squares += (residual[i] - mean) * (residual[i] - mean);
    const double deviation = sqrt(squares / (double)hidden + CPU_EPSILON);
    for (int64_t i = 0; i < hidden; i++)
      out[i] = (residual[i] - mean) / deviation * weight[i] + (bias ? bias[i] : 0);
  }
}

void reference_gemm(double *out, const double *in, const float *weights, const float *bias,
                    int64_t tokens, int64_t n, int64_t k, int64_t step) {
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t column = 0; column < n; column += step) {
      double sum = bias ? bias[column] : 0;
      for (int64_t i = 0; i < k; i++)
        sum += in[t * k + i] * weights[column * k + i];
      out[t * n + column] = sum;
    }
  }
}

void reference_rotate(double *qkv, int32_t heads, int32_t head_dim, int64_t position) {
  const int32_t half = head_dim / 2;
  for (int32_t h = 0; h < heads; h++, qkv += head_dim) {
    for (int32_t i = 0; i < half; i++) {
      const double angle = (double)position * pow(CPU_THETA, -2.0 * i / head_dim);
      const double first = qkv[i], second = qkv[half + i];
      qkv[i] = first * cos(angle) - second * sin(angle);
      qkv[half + i] = second * cos(angle) + first * sin(angle);
    }
  }
}

void reference_activate(CalibActivation activation, double *out, const double *in, int64_t tokens,
                        int64_t ffn) {
  const int64_t columns = activation == CALIB_SWIGLU ? 2 * ffn : ffn;
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t i = 0; i < ffn; i++) {
      const double x = in[t * columns + i];
      double y = x > 0 ? x : 0;
      if (activation == CALIB_SWIGLU) y = x / (1 + exp(-x)) * in[t * columns + ffn + i];
      if (activation == CALIB_GELU)
        y = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
      out[t * ffn + i] = y;
    }
  }
}

void reference_attend(double *out, const double *query, const double *keys, const double *values,
                      int64_t stride, int64_t context, int32_t head_dim, double slope,
                      double *weights) {
  double maximum = -INFINITY, sum = 0;
  for (int64_t t = 0; t < context; t++) {
    double dot = 0;
    for (int32_t i = 0; i < head_dim; i++)
      dot += query[i] * keys[t * stride + i];
    weights[t] = dot / sqrt((double)head_dim) + slope * (double)(t - (context - 1));
    maximum = fmax(maximum, weights[t]);
  }
  memset(out, 0, (size_t)head_dim * sizeof *out);
  for (int64_t t = 0; t < context; t++) {
    const double weight = exp(weights[t] - maximum);
    sum += weight;
    for (int32_t i = 0; i < head_dim; i++)
      out[i] += weight * values[t * stride + i];
  }
  for (int32_t i = 0; i < head_dim; i++)
    out[i] /= sum;
}

/* --- a run */
typedef struct Reference {
  const CpuModel *model;
  const CpuBatch *batch;
  const CpuRun *run;
  double *normed, *qkv, *up, *ffn; // activations that nothing compares
  double *keys, *values;           // of one sequence, [context][kv_heads·head_dim]
  double *weights;                 // [context]
  ReferenceResult *result;
} Reference;

static double *numbers(Arena *arena, int64_t n, const float *from) {
  double *out = ARENA_ARRAY(arena, double, n);
  for (int64_t i = 0; from && i < n; i++)
    out[i] = from[i];
  return out;
}

/* One token's keys and values out of a page. */
static void read_page(const Reference *self, int64_t slot, const float *pages, int64_t token) {
  const CpuKvShape *kv = &self->model->kv;
  const int64_t dim = kv->head_dim, size = kv->block_size, offset = slot % size;
  const float *head = pages + slot / size * cpu_kv_page_floats(kv);
  for (int32_t h = 0; h < kv->kv_heads; h++, head += cpu_kv_head_floats(kv)) {
    for (int64_t i = 0; i < dim; i++) {
      self->keys[(token * kv->kv_heads + h) * dim + i] = head[i * size + offset];
      self->values[(token * kv->kv_heads + h) * dim + i] = head[(size + offset) * dim + i];
    }
  }
}

/* The past out of pages; what is new out of qkv where this run appends it, else out of pages. */
static void gather(const Reference *self, int32_t sequence, const float *pages) {
  const CpuModel *model = self->model;
  const CpuBatch *batch = self->batch;
  const int32_t size = model->kv.block_size;
  const int64_t width = (int64_t)model->kv.kv_heads * model->kv.head_dim;
  const int64_t first = batch->row_starts[sequence], past = batch->past[sequence];
  const int64_t context = past + batch->row_starts[sequence + 1] - first;
  const int32_t *pages_of = cpu_batch_pages(batch, model, 0) + batch->page_starts[sequence];
  for (int64_t t = 0; t < context; t++) {
    if (t < past || !(self->run->parts & CPU_LINEAR)) {
      read_page(self, (int64_t)pages_of[t / size] * size + t % size, pages, t);
      continue;
    }
    const double *k = self->qkv + (first + t - past) * model->qkv_columns +
                      (int64_t)model->query_heads * model->kv.head_dim;
    memcpy(self->keys + t * width, k, (size_t)width * sizeof *k);
    memcpy(self->values + t * width, k + width, (size_t)width * sizeof *k);
  }
}

static void attend_sequence(const Reference *self, int32_t sequence, const float *pages) {
  const CpuModel *model = self->model;
  const int64_t dim = model->kv.head_dim, stride = model->kv.kv_heads * dim;
  const int32_t group = model->query_heads / model->kv.kv_heads;
  const int64_t first = self->batch->row_starts[sequence];
  gather(self, sequence, pages);
  for (int64_t row = first; row < self->batch->row_starts[sequence + 1]; row++) {
    const int64_t context = self->batch->past[sequence] + row - first + 1;
    for (int32_t h = 0; h < model->query_heads; h++)
      reference_attend(self->result->attention + (row * model->query_heads + h) * dim,
                       self->qkv + row * model->qkv_columns + h * dim, self->keys + h / group * dim,
                       self->values + h / group * dim, stride, context, (int32_t)dim,
                       model->slopes ? model->slopes[h] : 0, self->weights);
  }
}

static void attend(const Reference *self, const float *pages) {
  const CpuBatch *batch = self->batch;
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++)
    if (self->run->parts & (i < batch->n_prefills ? CPU_PREFILL : CPU_DECODE))
      attend_sequence(self, i, pages);
}

static void run_layer(const Reference *self, const CpuLayer *layer, const float *pages,
                      bool is_first) {
  const CpuModel *model = self->model;
  const CpuBatch *batch = self->batch;
  const CalibModel *shape = &model->shape;
  const int64_t hidden = shape->hidden_size, tokens = batch->tokens;
  const int64_t attention = (int64_t)model->query_heads * model->kv.head_dim;
  ReferenceResult *result = self->result;
  const bool is_linear = self->run->parts & CPU_LINEAR;
  if (is_linear) {
    reference_norm(shape->norm, self->normed, result->residual, is_first ? NULL : result->delta,
                   layer->norm, layer->norm_bias, tokens, hidden);
    reference_gemm(self->qkv, self->normed, layer->qkv, layer->qkv_bias, tokens, model->qkv_columns,
                   hidden, 1);
    for (int64_t t = 0; batch->rotation && t < tokens; t++)
      reference_rotate(self->qkv + t * model->qkv_columns, model->query_heads + model->kv.kv_heads,
                       model->kv.head_dim, batch->positions[t]);
  }
  attend(self, pages);
  if (!is_linear) return;
  reference_gemm(result->delta, result->attention, layer->o, layer->o_bias, tokens, hidden,
                 attention, 1);
  reference_norm(shape->norm, self->normed, result->residual, result->delta, layer->ffn_norm,
                 layer->ffn_norm_bias, tokens, hidden);
  reference_gemm(self->up, self->normed, layer->up, layer->up_bias, tokens, model->up_columns,
                 hidden, 1);
  reference_activate(shape->activation, self->ffn, self->up, tokens, model->ffn);
  reference_gemm(result->delta, self->ffn, layer->down, layer->down_bias, tokens, hidden,
                 model->ffn, 1);
}

static void embed(const Reference *self) {
  const CpuModel *model = self->model;
  const int64_t hidden = model->shape.hidden_size;
  for (int64_t t = 0; t < self->batch->tokens; t++)
    for (int64_t i = 0; i < hidden; i++)
      self->result->residual[t * hidden + i] =
          (double)model->embedding[self->batch->ids[t] * hidden + i] +
          (model->positions ? model->positions[self->batch->positions[t] * hidden + i] : 0);
}

static void run_head(const Reference *self, Arena *arena) {
  const CpuModel *model = self->model;
  const ReferenceResult *result = self->result;
  const int64_t hidden = model->shape.hidden_size, rows = self->batch->n_logits;
  double *in = numbers(arena, rows * hidden, NULL), *normed = numbers(arena, rows * hidden, NULL);
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = self->batch->logit_rows[r];
    for (int64_t i = 0; i < hidden; i++)
      in[r * hidden + i] = result->residual[row * hidden + i] + result->delta[row * hidden + i];
  }
  reference_norm(model->shape.norm, normed, in, NULL, model->final_norm, model->final_norm_bias,
                 rows, hidden);
  reference_gemm(result->logits, normed, model->head, NULL, rows, model->vocab, hidden,
                 result->step);
}

static int64_t longest_context(const CpuBatch *batch) {
  int64_t longest = 0;
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++) {
    const int64_t context = batch->past[i] + batch->row_starts[i + 1] - batch->row_starts[i];
    if (context > longest) longest = context;
  }
  return longest;
}

void reference_run(ReferenceResult *ret_result, const CpuModel *model, const CpuBatch *batch,
                   const CpuRun *run, int64_t step, Arena *arena) {
  const CpuActivations *room = &model->activations;
  const int64_t tokens = batch->tokens, hidden = model->shape.hidden_size;
  const int64_t heads = (int64_t)model->query_heads * model->kv.head_dim;
  const int64_t longest = longest_context(batch);
  const int64_t width = (int64_t)model->kv.kv_heads * model->kv.head_dim;
  *ret_result = (ReferenceResult){
      .attention = numbers(arena, tokens * heads, room->attention),
      .residual = numbers(arena, tokens * hidden, room->residual),
      .delta = numbers(arena, tokens * hidden, room->delta),
      .logits = numbers(arena, batch->n_logits * model->vocab, NULL),
      .step = step,
  };
  Reference self = {
      .model = model,
      .batch = batch,
      .run = run,
      .normed = numbers(arena, tokens * hidden, NULL),
      .qkv = numbers(arena, tokens * model->qkv_columns, room->qkv),
      .up = numbers(arena, tokens * model->up_columns, NULL),
      .ffn = numbers(arena, tokens * model->ffn, NULL),
      .keys = numbers(arena, longest * width, NULL),
      .values = numbers(arena, longest * width, NULL),
      .weights = numbers(arena, longest, NULL),
      .result = ret_result,
  };
  if (run->parts & CPU_LINEAR) embed(&self);
  for (int32_t i = 0; i < run->layers; i++) {
    const int32_t at = run->hot ? 0 : i % model->n_layers;
    run_layer(&self, &model->layers[at], cpu_model_pool(model, at), i == 0);
  }
  if (run->parts & CPU_HEAD) run_head(&self, arena);
}
