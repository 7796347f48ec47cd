/* Decode: one query row of a sequence per head against its pages, 16 tokens at a time. */
#include "calib/cpu_attention.h"
#include <string.h>

/* 16 numbers at once on any processor; the compiler takes as many registers as that needs. */
typedef float Lanes __attribute__((vector_size(CPU_LANES * sizeof(float))));

enum { HEADS_AT_ONCE = 4 }; // of one KV head: they share what is read
static const float NO_MAXIMUM = -1e30f;

/* Queries of one KV head and what they have gathered so far: head h at query + h·head_dim and
 * state + h·(2 + head_dim), which is maximum, sum and weighted values. */
typedef struct Heads {
  const float *query, *slopes; // slopes NULL: none
  float *state;
  float scale;
  int32_t dim;
} Heads;

/* 16 tokens of a page: k [head_dim] rows k_stride apart, v [16][head_dim]. */
typedef struct Tokens {
  const float *k, *v;
  int64_t k_stride;
  int32_t n;      // that count; the others hold any finite number
  float distance; // of the first from the query's position
} Tokens;

CPU_INLINE void load(Lanes *to, const float *from) {
  memcpy(to, from, sizeof *to);
}

/* Logits to weights; updates maximum and sum, and says by how much the old values shrink. */
CPU_INLINE float weigh(const Tokens *tokens, float scale, float slope, float *state,
                       float *restrict logits) {
  float maximum = state[0], sum = 0;
  for (int32_t t = 0; t < CPU_LANES; t++) {
    const float logit = logits[t] * scale + slope * ((float)t - tokens->distance);
    logits[t] = t < tokens->n ? logit : NO_MAXIMUM;
  }
  for (int32_t t = 0; t < CPU_LANES; t++)
    maximum = logits[t] > maximum ? logits[t] : maximum;
  for (int32_t t = 0; t < CPU_LANES; t++) {
    const float weight = cpu_exp(logits[t] - maximum);
    logits[t] = t < tokens->n ? weight : 0;
    sum += logits[t];
  }
  const float keep = cpu_exp(state[0] - maximum);
  state[0] = maximum;
  state[1] = state[1] * keep + sum;
  return keep;
}

/* `n` is a constant where this is inlined. */
CPU_INLINE void attend(const Heads *heads, int32_t first, const int32_t n, const Tokens *tokens) {
  const int32_t dim = heads->dim;
  const float *query = heads->query + (int64_t)first * dim;
  float *state = heads->state + (int64_t)first * (2 + dim);
  Lanes sums[HEADS_AT_ONCE] = {{0}};
  for (int32_t i = 0; i < dim; i++) {
    Lanes k;
    load(&k, tokens->k + i * tokens->k_stride);
    for (int32_t h = 0; h < n; h++)
      sums[h] += query[h * dim + i] * k;
  }
  float weights[HEADS_AT_ONCE][CPU_LANES], keep[HEADS_AT_ONCE];
  for (int32_t h = 0; h < n; h++) {
    memcpy(weights[h], &sums[h], sizeof weights[h]);
    const float slope = heads->slopes ? heads->slopes[first + h] : 0;
    keep[h] = weigh(tokens, heads->scale, slope, state + (int64_t)h * (2 + dim), weights[h]);
  }
  for (int32_t i = 0; i < dim; i += CPU_LANES) {
    Lanes values[HEADS_AT_ONCE];
    for (int32_t h = 0; h < n; h++) {
      load(&values[h], state + h * (2 + dim) + 2 + i);
      values[h] *= keep[h];
    }
    for (int32_t t = 0; t < CPU_LANES; t++) {
      Lanes v;
      load(&v, tokens->v + (int64_t)t * dim + i);
      for (int32_t h = 0; h < n; h++)
        values[h] += weights[h][t] * v;
    }
    for (int32_t h = 0; h < n; h++)
      memcpy(state + h * (2 + dim) + 2 + i, &values[h], sizeof values[h]);
  }
}

CPU_CLONES
static void attend_group(const Heads *heads, int32_t group, const Tokens *tokens) {
  int32_t first = 0;
  for (; first + HEADS_AT_ONCE <= group; first += HEADS_AT_ONCE)
    attend(heads, first, HEADS_AT_ONCE, tokens);
  for (; first < group; first++)
    attend(heads, first, 1, tokens);
}

static int64_t group_of(const CpuAttention *self) {
  return self->query_heads / self->kv.kv_heads;
}

int64_t cpu_decode_piece_floats(const CpuAttention *attention) {
  return group_of(attention) * (2 + attention->kv.head_dim);
}

static int64_t pages_of(const CpuAttention *self, int32_t sequence) {
  return (self->past[sequence] + self->kv.block_size) / self->kv.block_size;
}

/* Pages begin … end of a sequence for one KV head, into a piece of `partial`. */
static void attend_pages(const CpuAttention *self, int32_t sequence, int32_t head, int64_t begin,
                         int64_t end, float *piece) {
  const CpuKvShape *kv = &self->kv;
  const int32_t dim = kv->head_dim, group = (int32_t)group_of(self);
  const int64_t size = kv->block_size, context = self->past[sequence] + 1;
  const Heads heads = {
      .query = self->q + self->row_starts[sequence] * self->q_stride + (int64_t)head * group * dim,
      .slopes = self->slopes ? self->slopes + (int64_t)head * group : NULL,
      .state = piece,
      .scale = self->scale,
      .dim = dim,
  };
  for (int32_t h = 0; h < group; h++) {
    float *state = piece + (int64_t)h * (2 + dim);
    memset(state, 0, (size_t)(2 + dim) * sizeof *state);
    state[0] = NO_MAXIMUM;
  }
  for (int64_t page = begin; page < end; page++) {
    const int32_t at = self->pages_of[self->page_starts[sequence] + page];
    const float *k = self->pages + at * cpu_kv_page_floats(kv) + head * cpu_kv_head_floats(kv);
    const float *v = k + size * dim;
    for (int64_t t = 0; t < size && page * size + t < context; t += CPU_LANES) {
      const int64_t left = context - page * size - t;
      const Tokens tokens = {.k = k + t,
                             .v = v + t * dim,
                             .k_stride = size,
                             .n = (int32_t)(left < CPU_LANES ? left : CPU_LANES),
                             .distance = (float)(left - 1)};
      attend_group(&heads, group, &tokens);
    }
  }
}

static int64_t all_pages(const CpuAttention *self) {
  int64_t pages = 0;
  for (int32_t i = 0; i < self->n_sequences; i++)
    pages += pages_of(self, i) * self->kv.kv_heads;
  return pages;
}

void cpu_attention_decode(const void *work, int32_t part, int32_t n_parts) {
  const CpuDecode *decode = work;
  const CpuAttention *self = &decode->attention;
  const int64_t piece_floats = cpu_decode_piece_floats(self);
  int64_t begin, end, before = 0;
  cpu_share(all_pages(self), 1, part, n_parts, &begin, &end);
  for (int32_t i = 0; i < self->n_sequences && before < end; i++) {
    const int64_t pages = pages_of(self, i);
    for (int32_t head = 0; head < self->kv.kv_heads; head++, before += pages) {
      const int64_t from = begin > before ? begin - before : 0;
      const int64_t to = end < before + pages ? end - before : pages;
      const int64_t pair = (int64_t)i * self->kv.kv_heads + head;
      if (from < to)
        attend_pages(self, i, head, from, to, decode->partial + (pair + part) * piece_floats);
    }
  }
}

/* One query head from the pieces of parts first … last. */
CPU_CLONES
static void combine(float *restrict out, const float *restrict state, int64_t stride, int32_t n,
                    int32_t dim) {
  float maximum = NO_MAXIMUM, sum = 0;
  for (int32_t p = 0; p < n; p++) {
    const float m = state[p * stride];
    maximum = m > maximum ? m : maximum;
  }
  for (int32_t i = 0; i < dim; i++)
    out[i] = 0;
  for (int32_t p = 0; p < n; p++) {
    const float *piece = state + p * stride;
    const float weight = cpu_exp(piece[0] - maximum);
    sum += weight * piece[1];
    for (int32_t i = 0; i < dim; i++)
      out[i] += weight * piece[2 + i];
  }
  for (int32_t i = 0; i < dim; i++)
    out[i] /= sum;
}

/* The parts that had pages begin … end of all. */
static void find_parts(int64_t total, int64_t begin, int64_t end, int32_t n_parts,
                       int32_t *ret_first, int32_t *ret_n) {
  *ret_first = *ret_n = 0;
  for (int32_t part = 0; part < n_parts; part++) {
    int64_t from, to;
    cpu_share(total, 1, part, n_parts, &from, &to);
    if (from >= to || to <= begin || from >= end) continue;
    if (*ret_n == 0) *ret_first = part;
    *ret_n = part + 1 - *ret_first;
  }
}

void cpu_attention_combine(const void *work, int32_t part, int32_t n_parts) {
  const CpuDecode *decode = work;
  const CpuAttention *self = &decode->attention;
  const int64_t piece_floats = cpu_decode_piece_floats(self), total = all_pages(self);
  const int64_t group = group_of(self), dim = self->kv.head_dim;
  int64_t begin, end, before = 0;
  cpu_share(self->n_sequences, 1, part, n_parts, &begin, &end);
  for (int32_t i = 0; i < end; i++) {
    const int64_t pages = pages_of(self, i);
    float *row = self->out + self->row_starts[i] * self->query_heads * dim;
    for (int32_t head = 0; head < self->kv.kv_heads; head++, before += pages) {
      if (i < begin) continue;
      int32_t first, n;
      find_parts(total, before, before + pages, n_parts, &first, &n);
      const int64_t pair = (int64_t)i * self->kv.kv_heads + head;
      const float *pieces = decode->partial + (pair + first) * piece_floats;
      for (int64_t h = 0; h < group; h++)
        combine(row + (head * group + h) * dim, pieces + h * (2 + dim), piece_floats, n,
                (int32_t)dim);
    }
  }
}
