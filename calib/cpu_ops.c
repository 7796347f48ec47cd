/* Plain loops that a compiler turns into vectors. */
#include "calib/cpu_ops.h"
#include <float.h>
#include <math.h>
#include <string.h>

CPU_CLONES
static void norm_row(const CpuNorm *work, int64_t row) {
  const int64_t n = work->hidden;
  float *restrict residual = work->residual + row * n;
  float *restrict out = work->out + row * n;
  const float *restrict weight = work->weight;
  if (work->x) {
    const float *restrict x = work->x + row * n;
    for (int64_t i = 0; i < n; i++)
      residual[i] += x[i];
  }
  float mean = 0, squares = 0;
  if (work->norm == CALIB_LAYER_NORM) {
    for (int64_t i = 0; i < n; i++)
      mean += residual[i];
    mean /= (float)n;
  }
  for (int64_t i = 0; i < n; i++)
    squares += (residual[i] - mean) * (residual[i] - mean);
  const float scale = 1 / sqrtf(squares / (float)n + (float)CPU_EPSILON);
  if (work->bias) {
    const float *restrict bias = work->bias;
    for (int64_t i = 0; i < n; i++)
      out[i] = (residual[i] - mean) * scale * weight[i] + bias[i];
  } else {
    for (int64_t i = 0; i < n; i++)
      out[i] = (residual[i] - mean) * scale * weight[i];
  }
}

void cpu_norm(const void *work, int32_t part, int32_t n_parts) {
  const CpuNorm *norm = work;
  int64_t begin, end;
  cpu_share(norm->tokens, 1, part, n_parts, &begin, &end);
  for (int64_t row = begin; row < end; row++)
    norm_row(norm, row);
}

CPU_CLONES
static void rotate(float *restrict head, const float *restrict rotation, int32_t dim) {
  const int32_t half = dim / 2;
  for (int32_t i = 0; i < half; i++) {
    const float first = head[i], second = head[half + i];
    const float cosine = rotation[i], sine = rotation[half + i];
    head[i] = first * cosine - second * sine;
    head[half + i] = second * cosine + first * sine;
  }
}

static void norm_heads(float *head, int32_t n, const float *weight, int32_t dim) {
  for (int32_t h = 0; weight && h < n; h++, head += dim) {
    double sum = 0;
    for (int32_t i = 0; i < dim; i++)
      sum += (double)head[i] * head[i];
    const float scale = (float)(1 / sqrt(sum / dim + CPU_EPSILON));
    for (int32_t i = 0; i < dim; i++)
      head[i] *= scale * weight[i];
  }
}

void cpu_rope_append(const void *work, int32_t part, int32_t n_parts) {
  const CpuRopeAppend *rope = work;
  const CpuKvShape *kv = &rope->kv;
  const int32_t dim = kv->head_dim, size = kv->block_size;
  const int64_t heads = rope->query_heads + 2 * (int64_t)kv->kv_heads;
  int64_t begin, end;
  cpu_share(rope->tokens, 1, part, n_parts, &begin, &end);
  for (int64_t t = begin; t < end; t++) {
    float *row = rope->qkv + t * heads * dim;
    const float *rotation = rope->rotation ? rope->rotation + t * dim : NULL;
    norm_heads(row, rope->query_heads, rope->q_norm, dim);
    norm_heads(row + (int64_t)rope->query_heads * dim, kv->kv_heads, rope->k_norm, dim);
    for (int32_t h = 0; rotation && h < rope->query_heads + kv->kv_heads; h++)
      rotate(row + (int64_t)h * dim, rotation, dim);
    const int64_t page = rope->slots[t] / size, offset = rope->slots[t] % size;
    const float *k = row + (int64_t)rope->query_heads * dim;
    const float *v = k + (int64_t)kv->kv_heads * dim;
    float *to = rope->pages + page * cpu_kv_page_floats(kv);
    for (int32_t h = 0; h < kv->kv_heads; h++, to += cpu_kv_head_floats(kv), k += dim, v += dim) {
      for (int32_t i = 0; i < dim; i++)
        to[(int64_t)i * size + offset] = k[i];
      memcpy(to + (size + offset) * dim, v, (size_t)dim * sizeof *v);
    }
  }
}

CPU_CLONES
static void swiglu(float *restrict out, const float *restrict gate, const float *restrict up,
                   int64_t n) {
  for (int64_t i = 0; i < n; i++)
    out[i] = gate[i] / (1 + cpu_exp(-gate[i])) * up[i];
}

/* x·(1 + tanh(y)) / 2 = x / (1 + e⁻²ʸ), y = √(2/π)·(x + 0.044715·x³). */
CPU_CLONES
static void gelu(float *restrict out, const float *restrict in, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float x = in[i], y = 0.79788456f * (x + 0.044715f * x * x * x);
    out[i] = x / (1 + cpu_exp(-2 * y));
  }
}

CPU_CLONES
static void relu(float *restrict out, const float *restrict in, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    out[i] = in[i] > 0 ? in[i] : 0;
}

void cpu_activate(const void *work, int32_t part, int32_t n_parts) {
  const CpuActivate *activate = work;
  const int64_t ffn = activate->ffn;
  int64_t begin, end;
  /* By columns: a single token keeps all threads busy. */
  cpu_share(ffn, CPU_LANES, part, n_parts, &begin, &end);
  for (int64_t t = 0; t < activate->tokens; t++) {
    float *out = activate->out + t * ffn + begin;
    if (activate->activation == CALIB_SWIGLU) {
      const float *gate = activate->in + t * 2 * ffn + begin;
      swiglu(out, gate, gate + ffn, end - begin);
    } else if (activate->activation == CALIB_GELU) {
      gelu(out, activate->in + t * ffn + begin, end - begin);
    } else {
      relu(out, activate->in + t * ffn + begin, end - begin);
    }
  }
}

CPU_CLONES
static void add(float *restrict to, const float *restrict from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] += from[i];
}

void cpu_embed(const void *work, int32_t part, int32_t n_parts) {
  const CpuEmbed *embed = work;
  const int64_t hidden = embed->hidden;
  int64_t begin, end;
  cpu_share(embed->tokens, 1, part, n_parts, &begin, &end);
  for (int64_t t = begin; t < end; t++) {
    float *out = embed->out + t * hidden;
    memcpy(out, embed->table + embed->ids[t] * hidden, (size_t)hidden * sizeof *out);
    if (embed->positions_table)
      add(out, embed->positions_table + embed->positions[t] * hidden, hidden);
  }
}

CPU_CLONES
static float greatest(const float *restrict row, int64_t begin, int64_t end) {
  float best = -FLT_MAX;
  for (int64_t i = begin; i < end; i++)
    best = row[i] > best ? row[i] : best;
  return best;
}

void cpu_argmax(const void *work, int32_t part, int32_t n_parts) {
  const CpuArgmax *argmax = work;
  int64_t begin, end;
  cpu_share(argmax->vocab, CPU_LANES, part, n_parts, &begin, &end);
  for (int64_t i = 0; i < argmax->rows; i++) {
    const float *row = argmax->logits + i * argmax->vocab;
    int64_t at = begin;
    if (begin < end) {
      const float best = greatest(row, begin, end);
      while (row[at] < best)
        at++;
    }
    argmax->best[i * n_parts + part] = begin < end ? at : -1;
  }
}

void cpu_argmax_merge(const void *work, int32_t part, int32_t n_parts) {
  const CpuArgmax *argmax = work;
  int64_t begin, end;
  cpu_share(argmax->rows, 1, part, n_parts, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    const float *row = argmax->logits + i * argmax->vocab;
    int64_t best = 0;
    for (int32_t p = 0; p < n_parts; p++) {
      const int64_t candidate = argmax->best[i * n_parts + p];
      if (candidate >= 0 && row[candidate] > row[best]) best = candidate;
    }
    argmax->ids[i] = (int32_t)best;
  }
}

void cpu_copy(const void *work, int32_t part, int32_t n_parts) {
  const CpuCopy *copy = work;
  int64_t begin, end;
  cpu_share(copy->n_pages, 1, part, n_parts, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    const int64_t to = copy->to_pages ? copy->to_pages[i] : i;
    const int64_t from = copy->from_pages ? copy->from_pages[i] : i;
    const int64_t bytes = i + 1 == copy->n_pages ? copy->last_bytes : copy->page_bytes;
    memcpy(copy->to + to * copy->page_bytes, copy->from + from * copy->page_bytes, (size_t)bytes);
  }
}

/* Steele, Lea & Flood, "Fast splittable pseudorandom number generators": SplitMix64's mixer. */
CPU_INLINE uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

CPU_CLONES
static void fill(const CpuFill *work, int64_t begin, int64_t end) {
  const float half_width = (float)(sqrt(3.0) * work->deviation), mean = (float)work->mean;
  const uint64_t first = mix(work->seed);
  float *restrict out = work->out;
  for (int64_t i = begin; i < end; i++) {
    const uint64_t bits = mix(first + (uint64_t)i * 0x9e3779b97f4a7c15u);
    const int32_t number = (int32_t)(bits >> 40) - (1 << 23); // −2²³ … 2²³ − 1
    out[i] = mean + half_width * (float)number * (1.0f / (1 << 23));
  }
}

void cpu_fill(const void *work, int32_t part, int32_t n_parts) {
  const CpuFill *filling = work;
  int64_t begin, end;
  cpu_share(filling->n, 1, part, n_parts, &begin, &end);
  fill(filling, begin, end);
}
