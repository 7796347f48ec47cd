/* Prefill: tiles of queries against tiles of keys, two products each, softmax between them. */
#include "calib/cpu_attention.h"
#include <assert.h>
#include <string.h>

enum { TILE_QUERIES = 64, TILE_KEYS = 256 };
static const float NO_MAXIMUM = -1e30f;

static int64_t context_of(const CpuAttention *self, int32_t sequence) {
  return self->past[sequence] + self->row_starts[sequence + 1] - self->row_starts[sequence];
}

/* One page of one head to its place among the gathered tokens. */
static void gather_page(const CpuPrefill *work, int32_t sequence, int32_t head, int64_t page) {
  const CpuAttention *attention = &work->attention;
  const CpuKvShape *kv = &attention->kv;
  const int64_t dim = kv->head_dim, size = kv->block_size;
  const int64_t context = context_of(attention, sequence), first = page * size;
  const int64_t tokens = context - first < size ? context - first : size;
  const int32_t at = attention->pages_of[attention->page_starts[sequence] + page];
  const float *from =
      attention->pages + at * cpu_kv_page_floats(kv) + head * cpu_kv_head_floats(kv);
  float *k = work->gathered + work->gather_starts[sequence] + head * 2 * dim * context;
  float *v = k + dim * context;
  for (int64_t i = 0; i < dim; i++)
    memcpy(k + i * context + first, from + i * size, (size_t)tokens * sizeof *k);
  memcpy(v + first * dim, from + size * dim, (size_t)(tokens * dim) * sizeof *v);
}

void cpu_attention_gather(const void *work, int32_t part, int32_t n_parts) {
  const CpuPrefill *prefill = work;
  const CpuAttention *attention = &prefill->attention;
  for (int32_t i = 0; i < attention->n_sequences; i++) {
    const int64_t pages =
        (context_of(attention, i) + attention->kv.block_size - 1) / attention->kv.block_size;
    int64_t begin, end;
    cpu_share(pages * attention->kv.kv_heads, 1, part, n_parts, &begin, &end);
    for (int64_t item = begin; item < end; item++)
      gather_page(prefill, i, (int32_t)(item / pages), item % pages);
  }
}

/* A tile of queries of one head, and its state. */
typedef struct Tile {
  int32_t sequence, head;
  int64_t first, rows; // of the sequence's new tokens
  float maximum[TILE_QUERIES], sum[TILE_QUERIES];
  float logits[TILE_QUERIES][TILE_KEYS];
  float values[TILE_QUERIES][CPU_MAX_HEAD_DIM];
} Tile;

/* Turns `valid` logits of a row into weights against its new maximum, which it returns, and the
 * rest up to `keys` into zeros. The key before the row's own position is `distance` away. */
CPU_CLONES
static float weigh(float *restrict row, int64_t valid, int64_t keys, float slope, float distance,
                   float maximum, float *ret_sum) {
  float sum = 0;
  if (slope != 0)
    for (int64_t i = 0; i < valid; i++)
      row[i] += slope * ((float)i - distance);
  for (int64_t i = 0; i < valid; i++)
    maximum = row[i] > maximum ? row[i] : maximum;
  for (int64_t i = 0; i < valid; i++) {
    row[i] = cpu_exp(row[i] - maximum);
    sum += row[i];
  }
  for (int64_t i = valid; i < keys; i++)
    row[i] = 0;
  *ret_sum = sum;
  return maximum;
}

static void weigh_rows(const CpuAttention *attention, Tile *tile, int64_t first_key, int64_t keys) {
  const int32_t dim = attention->kv.head_dim;
  const float slope = attention->slopes ? attention->slopes[tile->head] : 0;
  for (int64_t r = 0; r < tile->rows; r++) {
    const int64_t position = attention->past[tile->sequence] + tile->first + r;
    int64_t valid = position + 1 - first_key;
    valid = valid < 0 ? 0 : valid < keys ? valid : keys;
    float sum;
    const float maximum = weigh(tile->logits[r], valid, keys, slope, (float)(position - first_key),
                                tile->maximum[r], &sum);
    const float keep = cpu_exp(tile->maximum[r] - maximum);
    tile->sum[r] = tile->sum[r] * keep + sum;
    tile->maximum[r] = maximum;
    for (int32_t i = 0; i < dim; i++)
      tile->values[r][i] *= keep;
  }
}

static void attend(const CpuPrefill *work, Tile *tile) {
  const CpuAttention *attention = &work->attention;
  const int32_t dim = attention->kv.head_dim, i = tile->sequence, rows = (int32_t)tile->rows;
  const int64_t context = context_of(attention, i);
  const int64_t group = attention->query_heads / attention->kv.kv_heads;
  const int64_t row = attention->row_starts[i] + tile->first;
  const float *q = attention->q + row * attention->q_stride + (int64_t)tile->head * dim;
  const float *k = work->gathered + work->gather_starts[i] + tile->head / group * 2 * dim * context;
  const float *v = k + dim * context;
  const int64_t visible = attention->past[i] + tile->first + tile->rows;
  const int32_t stride = (int32_t)context, q_stride = (int32_t)attention->q_stride;
  const int32_t logits_stride = TILE_KEYS, values_stride = CPU_MAX_HEAD_DIM;
  const float zero = 0, one = 1;
  for (int64_t r = 0; r < tile->rows; r++) {
    tile->maximum[r] = NO_MAXIMUM;
    tile->sum[r] = 0;
    memset(tile->values[r], 0, (size_t)dim * sizeof tile->values[r][0]);
  }
  for (int64_t first = 0; first < visible; first += TILE_KEYS) {
    const int32_t keys = (int32_t)(visible - first < TILE_KEYS ? visible - first : TILE_KEYS);
    work->blas->sgemm("N", "N", &keys, &rows, &dim, &attention->scale, k + first, &stride, q,
                      &q_stride, &zero, tile->logits[0], &logits_stride);
    weigh_rows(attention, tile, first, keys);
    work->blas->sgemm("N", "N", &dim, &rows, &keys, &one, v + first * dim, &dim, tile->logits[0],
                      &logits_stride, &one, tile->values[0], &values_stride);
  }
  for (int64_t r = 0; r < tile->rows; r++) {
    float *out = attention->out + ((row + r) * attention->query_heads + tile->head) * dim;
    for (int32_t c = 0; c < dim; c++)
      out[c] = tile->values[r][c] / tile->sum[r];
  }
}

/* The tile of this number: those of later tokens, which see more keys, come first. False: none. */
static bool find_tile(const CpuAttention *attention, int64_t number, Tile *tile) {
  for (int32_t i = 0; i < attention->n_sequences; i++) {
    const int64_t rows = attention->row_starts[i + 1] - attention->row_starts[i];
    const int64_t tiles = (rows + TILE_QUERIES - 1) / TILE_QUERIES;
    if (number >= tiles * attention->query_heads) {
      number -= tiles * attention->query_heads;
      continue;
    }
    tile->sequence = i;
    tile->head = (int32_t)(number % attention->query_heads);
    tile->first = (tiles - 1 - number / attention->query_heads) * TILE_QUERIES;
    tile->rows = rows - tile->first < TILE_QUERIES ? rows - tile->first : TILE_QUERIES;
    return true;
  }
  return false;
}

void cpu_attention_prefill(const void *work, int32_t part, int32_t n_parts) {
  (void)part, (void)n_parts;
  const CpuPrefill *prefill = work;
  assert(prefill->attention.kv.head_dim <= CPU_MAX_HEAD_DIM);
  Tile tile;
  while (find_tile(&prefill->attention, atomic_fetch_add(prefill->next, 1), &tile))
    attend(prefill, &tile);
}
