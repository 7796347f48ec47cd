/* What both kernels of prefill attention know of the chunk of a block: its rows, the tokens that
 * they see, where they are in q and in the result. Rows are packed: token · group + head of the
 * group. */
#ifndef KERNELS_ATTENTION_CHUNK_CUH
#define KERNELS_ATTENTION_CHUNK_CUH
#include "kernels/attention.cuh"

struct Prefill {
  KernelAttention shape;
  KernelSplits splits;
  void *out;
  const void *q;
  int64_t q_stride;
  const int32_t *row_starts, *past;
  int32_t group, page_shift, n_row_tiles;
};

/* Of chunks of at most `max_new` tokens. */
inline Prefill prefill_args(const KernelAttention &shape, const KernelSplits &splits, void *out,
                            const void *q, int64_t q_stride, const int32_t *row_starts,
                            const int32_t *past, int32_t max_new, int32_t tile_rows) {
  int32_t group = shape.query_heads / shape.kv_heads;
  return {shape,
          splits,
          out,
          q,
          q_stride,
          row_starts,
          past,
          group,
          __builtin_ctz(shape.block_size),
          (max_new * group + tile_rows - 1) / tile_rows};
}

/* What a block works on. */
struct Chunk {
  const int32_t *pages;
  int32_t kv_head, row_start, past;
  int32_t first_row, n_rows; // packed rows: the tile's first, and all of the chunk
  int32_t first_sees;        // the last token that the tile's first row sees
  int32_t first_tile;        // of the split's keys
  int32_t context;           // tokens that the tile's last row sees, up to the split's end
  int32_t partial;           // the tile's split 0 has row `partial` of the results; -1: no splits

  __device__ __forceinline__ int32_t last_row_within(int32_t row) const {
    return min(row, n_rows - 1);
  }
};

__device__ __forceinline__ int64_t q_element(const Prefill &args, const Chunk &chunk, int row,
                                             int64_t stride) {
  int packed = chunk.first_row + row, token = packed / args.group;
  int head = chunk.kv_head * args.group + packed % args.group;
  return (chunk.row_start + token) * stride + head * args.shape.head_dim;
}

/* The chunk of tile `tile`, from the last on, of sequence · kv_heads + kv_head; false if there is
 * no such tile. */
__device__ __forceinline__ bool find_chunk(const Prefill &args, int tile_rows, int sequence_head,
                                           int tile, Chunk *ret_chunk) {
  Chunk chunk;
  int sequence = sequence_head / args.shape.kv_heads;
  chunk.kv_head = sequence_head % args.shape.kv_heads;
  chunk.pages = args.shape.page_table + static_cast<int64_t>(sequence) * args.shape.max_pages;
  chunk.row_start = args.row_starts[sequence];
  chunk.past = args.past[sequence];
  chunk.n_rows = (args.row_starts[sequence + 1] - chunk.row_start) * args.group;
  chunk.first_row = (args.n_row_tiles - 1 - tile) * tile_rows;
  if (chunk.first_row >= chunk.n_rows) {
    return false;
  }
  int last = chunk.last_row_within(chunk.first_row + tile_rows - 1);
  chunk.first_sees = chunk.past + chunk.first_row / args.group;
  chunk.context = chunk.past + last / args.group + 1;
  chunk.first_tile = 0;
  chunk.partial = -1;
  *ret_chunk = chunk;
  return true;
}

/* Divides by the sums and writes the rows of a warp, by way of its part of the tile of q. */
template <class Type, int head_dim, int m_tiles>
__device__ __forceinline__ void
store_rows(const Prefill &args, const Chunk &chunk, unsigned char *tile, int first,
           const float (&acc)[m_tiles][head_dim / 8][4], const RowState (&state)[m_tiles]) {
  constexpr int chunks = Tile<head_dim>::chunks;
  int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < m_tiles; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float inverse = 1.0f / row_sum(state[m].sum[half]);
      int row = first + m * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int n = 0; n < head_dim / 8; n++) {
        auto *to = tile + Tile<head_dim>::offset(row, n) + lane % 4 * 4;
        *reinterpret_cast<uint32_t *>(to) =
            Type::pack(acc[m][n][2 * half] * inverse, acc[m][n][2 * half + 1] * inverse);
      }
    }
  }
  __syncwarp();
  auto *out = static_cast<typename Type::Element *>(args.out);
  int64_t stride = static_cast<int64_t>(args.shape.query_heads) * head_dim;
  for (int i = lane; i < 16 * m_tiles * chunks; i += 32) {
    int row = first + i / chunks, column = i % chunks;
    if (chunk.first_row + row < chunk.n_rows) {
      auto *to = out + q_element(args, chunk, row, stride) + column * 8;
      *reinterpret_cast<uint4 *>(to) =
          *reinterpret_cast<const uint4 *>(tile + Tile<head_dim>::offset(row, column));
    }
  }
}
#endif
