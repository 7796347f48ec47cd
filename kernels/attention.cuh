/* What both attention kernels do with tiles in shared memory, with softmax in registers and with
 * partial results.
 *
 * A tile is rows of head_dim elements in chunks of 16 bytes. Chunk c of row r lies at c ^ (r % 8),
 * so that the 8 rows of each matrix that ldmatrix reads lie in different banks. Tiles start at
 * multiples of 256 bytes: then the address of chunk 2k + c is that of chunk c with 32k flipped in.
 *
 * A warp has m-tiles of 16 rows, as mma.sync lays them out (ptx.cuh): a lane holds row g in
 * elements 0 and 1 of a C fragment and row g + 8 in 2 and 3. Logits are in base 2. */
#ifndef KERNELS_ATTENTION_CUH
#define KERNELS_ATTENTION_CUH
#include <assert.h>

#include "kernels/dtype.cuh"
#include "kernels/split_kv.h"

/* Makes both kernels of a shape's prefill attention ready, and says how many blocks of each run at
 * once (attention_prefill.cu). A cudaError_t, as launchers return. */
int kernel_attention_prefill_load(const KernelAttention *shape, int32_t ret_blocks[2]);

/* Partial results: of each row and query head values on the scale of a state. A row of sequence i
 * that is the r-th of its n has that of its s-th split at starts[i] + s · n + r. */
struct PartialRows {
  float *values;          // [row][query_head][head_dim]
  PartialSoftmax *states; // [row][query_head]
};

__host__ __device__ __forceinline__ PartialRows partial_rows(const KernelSplits &splits,
                                                             int32_t query_heads,
                                                             int32_t head_dim) {
  auto *values = static_cast<float *>(splits.partial);
  int64_t n = static_cast<int64_t>(splits.plan.rows) * query_heads;
  return {values, reinterpret_cast<PartialSoftmax *>(values + n * head_dim)};
}

/* The join of all rows (attention_join.cu). Without row_starts each sequence has a row, and
 * contexts are what it sees; with them contexts are the tokens before a chunk, and rows are split
 * as the tiles of tile_rows that they are in. */
struct AttentionJoin {
  void *out;
  KernelSplits splits;
  const int32_t *row_starts, *contexts;
  int32_t rows, sequences, query_heads, group, head_dim, tile_rows;
};
int attention_join_load(CalibDtype dtype);
int attention_join_launch(KernelStream stream, CalibDtype dtype, const AttentionJoin &args);

constexpr float log2_of_e = 1.44269504f;

/* Asserts what kernels.h asks of a shape. A page table entry for each granule needs that pages hold
 * whole ones, and the running maximum that the scale is positive. */
inline void attention_require(const KernelAttention &shape) {
  assert(shape.head_dim == 64 || shape.head_dim == 128);
  assert(shape.kv_heads > 0 && shape.query_heads % shape.kv_heads == 0);
  assert(shape.block_size >= KV_GRANULE_TOKENS);
  assert((shape.block_size & (shape.block_size - 1)) == 0);
  assert(shape.scale > 0);
}

template <int head_dim> struct Tile {
  static constexpr int row_bytes = head_dim * 2;
  static constexpr int chunks = row_bytes / 16;

  static __device__ __forceinline__ uint32_t offset(int row, int chunk) {
    return static_cast<uint32_t>(row * row_bytes + ((chunk ^ (row & 7)) << 4));
  }
  /* Where a lane points ldmatrix for 16 rows × 32 bytes as an A fragment (plain), or as the B
   * fragments of two n-tiles with the rows along k (transposed). */
  static __device__ __forceinline__ uint32_t lane_offset(int lane) {
    return offset(lane & 15, lane >> 4);
  }
  /* The same as the B fragments of two n-tiles with the rows along n. */
  static __device__ __forceinline__ uint32_t lane_offset_of_columns(int lane) {
    return offset((lane & 7) + (lane >> 4) * 8, lane >> 3 & 1);
  }
  /* `address` moved by whole 32-byte steps along the row and by whole rows, 8 at a time. */
  static __device__ __forceinline__ uint32_t step(uint32_t address, int along, int rows) {
    return (address ^ static_cast<uint32_t>(along * 32)) + static_cast<uint32_t>(rows * row_bytes);
  }
};

/* Starts a row's products with ALiBi's bias in units of q·k. `distance` is that of the lane's first
 * key from the row's own token, `slope` of the head, over the scale. */
template <bool has_alibi, int n_tiles>
__device__ __forceinline__ void start_row(float (&s)[n_tiles][4], int half, int distance,
                                          float slope) {
  float first = has_alibi ? slope * static_cast<float>(distance) : 0.0f;
#pragma unroll
  for (int i = 0; i < 2 * n_tiles; i++) {
    float &product = s[i / 2][2 * half + i % 2];
    product = has_alibi ? first + slope * static_cast<float>(i / 2 * 8 + i % 2) : 0.0f;
  }
}

/* Hides the keys after a row's last one, which lies `distance` before the lane's first key. */
template <int n_tiles>
__device__ __forceinline__ void hide_row(float (&s)[n_tiles][4], int half, int distance) {
#pragma unroll
  for (int i = 0; i < 2 * n_tiles; i++) {
    float &product = s[i / 2][2 * half + i % 2];
    product = distance + i / 2 * 8 + i % 2 > 0 ? -INFINITY : product;
  }
}

/* s += q·kᵀ for 16·m_tiles rows and 8·n_tiles keys, q being read by `load_q(m, step, fragment)`.
 * `keys` is the lane's address in the tile of keys. */
template <class Type, int head_dim, int m_tiles, int n_tiles, class LoadQ>
__device__ __forceinline__ void multiply_keys(float (&s)[m_tiles][n_tiles][4], uint32_t keys,
                                              LoadQ load_q) {
#pragma unroll
  for (int step = 0; step < head_dim / 16; step++) {
    uint32_t q[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
      load_q(m, step, q[m]);
    }
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      uint32_t k[4];
      ldmatrix_x4(k, Tile<head_dim>::step(keys, step, n * 8));
#pragma unroll
      for (int m = 0; m < m_tiles; m++) {
        Type::mma(s[m][n], q[m], {k[0], k[1]});
        Type::mma(s[m][n + 1], q[m], {k[2], k[3]});
      }
    }
  }
}

/* acc += p·v for 16·m_tiles rows and 8·n_tiles keys; p are A fragments, 16 keys each. */
template <class Type, int head_dim, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_values(float (&acc)[m_tiles][head_dim / 8][4],
                                                const uint32_t (&p)[m_tiles][n_tiles / 2][4],
                                                uint32_t values) {
#pragma unroll
  for (int n = 0; n < n_tiles; n += 2) {
#pragma unroll
    for (int step = 0; step < head_dim / 16; step++) {
      uint32_t v[4];
      ldmatrix_x4_trans(v, Tile<head_dim>::step(values, step, n * 8));
#pragma unroll
      for (int m = 0; m < m_tiles; m++) {
        Type::mma(acc[m][2 * step], p[m][n / 2], {v[0], v[1]});
        Type::mma(acc[m][2 * step + 1], p[m][n / 2], {v[2], v[3]});
      }
    }
  }
}

/* The state of a lane's two rows of an m-tile. `shift` is what their logits are reduced by; it lies
 * at most max_growth_log2 below the greatest. Sums are of the lane's own columns. */
struct RowState {
  float shift[2], sum[2];
};

/* How far logits may rise above the shift before all that was summed is rescaled, which takes a
 * multiplication for each element of acc. 2^8 is safe in fp16. */
constexpr float max_growth_log2 = 8.0f;

/* The same number in the four lanes that share a row. */
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* The greatest products of a tile's rows, or their shifts where those are greater. Whether a row of
 * the warp has grown above its shift by more than it may. */
template <int n_tiles>
__device__ __forceinline__ bool take_max(float (&ret_max)[2], const RowState &state,
                                         const float (&s)[n_tiles][4], float scale_log2) {
  bool has_grown = false;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float max = s[0][2 * half];
#pragma unroll
    for (int n = 0; n < n_tiles; n++) {
      max = fmaxf(max, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    }
    ret_max[half] = fmaxf(row_max(max), state.shift[half]);
    has_grown |= (ret_max[half] - state.shift[half]) * scale_log2 > max_growth_log2;
  }
  return __any_sync(0xffffffffu, has_grown);
}

/* Moves the shift of the rows to `max`, and what was summed with it. */
template <int acc_tiles>
__device__ __forceinline__ void rescale(RowState &state, const float (&max)[2],
                                        float (&acc)[acc_tiles][4], float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float weight = exp2_approximate((state.shift[half] - max[half]) * scale_log2);
    state.shift[half] = max[half];
    state.sum[half] *= weight;
#pragma unroll
    for (int n = 0; n < acc_tiles; n++) {
      acc[n][2 * half] *= weight;
      acc[n][2 * half + 1] *= weight;
    }
  }
}

/* Takes the products of one tile into the state of the rows; p becomes 2^(logit − shift) as A
 * fragments, with logit = scale_log2 · product. Each row has a finite logit in its first tile. */
template <class Type, int n_tiles, int acc_tiles>
__device__ __forceinline__ void take_logits(RowState &state, uint32_t (&p)[n_tiles / 2][4],
                                            const float (&s)[n_tiles][4],
                                            float (&acc)[acc_tiles][4], float scale_log2) {
  float max[2];
  if (take_max(max, state, s, scale_log2)) {
    rescale(state, max, acc, scale_log2);
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float shift = state.shift[half] * scale_log2;
#pragma unroll
    for (int n = 0; n < n_tiles; n++) {
      float low = exp2_approximate(s[n][2 * half] * scale_log2 - shift);
      float high = exp2_approximate(s[n][2 * half + 1] * scale_log2 - shift);
      state.sum[half] += low + high;
      p[n / 2][n % 2 * 2 + half] = Type::pack(low, high);
    }
  }
}
#endif
