/* Attention of chunks of new tokens over paged K and V: FlashAttention-2's loop (Dao 2023) on
 * mma.sync, for sm_80 and later.
 *
 * The query heads that share a kv head are packed into the rows of one tile: row = token · group +
 * head of the group. So a tile of 128 rows spans 128 / group tokens, every K and V that is loaded
 * serves all of the group, and little of the causal diagonal is wasted. A block is a tile of rows
 * of one kv head of one sequence; tiles are started from the longest context to the shortest. Where
 * there are few, a block has a split of the keys (split_kv.h), and attention_join.cu joins these.
 *
 * Four warps have 16 or 32 rows each. K and V tiles of 64 tokens take turns in a ring of three
 * slots: K₀ V₀ K₁ V₁ …, two of them in flight while one is used. The addresses of the tile after
 * the next are fetched from the page table meanwhile. */
#include "kernels/attention_chunk.cuh"

namespace {

constexpr int warps = 4, threads = warps * 32;
constexpr int tile_tokens = 64, granules = tile_tokens / KV_GRANULE_TOKENS;
constexpr int stages = 3;

/* What the threads share besides tiles; it is not in registers because there is none to spare. */
template <int rows, bool has_alibi> struct Shared {
  Chunk chunk;
  int32_t kv_rows[2][granules];       // kv_row of the granules of two tiles
  uint16_t tokens[rows];              // of the packed rows, from the tile's first
  float slopes[has_alibi ? rows : 1]; // of their heads, over the scale
};

/* Shared memory: the tile of q, the ring, and Shared. All of it is dynamic, since tiles start at
 * multiples of 256 bytes, as dynamic memory is sure to where there is no other. */
template <int head_dim, int m_tiles> struct Layout {
  static constexpr int rows = warps * 16 * m_tiles;
  static constexpr int tile_bytes = tile_tokens * Tile<head_dim>::row_bytes;
  static constexpr int ring = rows * Tile<head_dim>::row_bytes;
  static constexpr int shared = ring + stages * tile_bytes;
};

template <class Type, int head_dim, int m_tiles>
__device__ __forceinline__ void load_q(const Prefill &args, const Chunk &chunk, uint32_t tile) {
  constexpr int chunks = Tile<head_dim>::chunks;
  const auto *q = static_cast<const typename Type::Element *>(args.q);
  int column = threadIdx.x % chunks;
#pragma unroll 4
  for (int row = threadIdx.x / chunks; row < Layout<head_dim, m_tiles>::rows;
       row += threads / chunks) {
    bool valid = chunk.first_row + row < chunk.n_rows;
    const auto *from = q + (valid ? q_element(args, chunk, row, args.q_stride) + column * 8 : 0);
    cp_async16_or_zero(tile + Tile<head_dim>::offset(row, column), from, valid);
  }
}

/* kv_row of a granule of a tile; of none, past the context. */
__device__ __forceinline__ int32_t granule_row(const Prefill &args, const Chunk &chunk, int tile,
                                               int granule) {
  int32_t token = tile * tile_tokens + granule * KV_GRANULE_TOKENS;
  return token < chunk.context
             ? kv_row(chunk.pages, token, args.page_shift, args.shape.kv_heads, chunk.kv_head)
             : 0;
}

/* Starts copying tile `index` of K₀ V₀ K₁ V₁ … to its slot, as one group; empty past the last.
 * kv_rows are those of its granules. */
template <class Type, int head_dim>
__device__ __forceinline__ void load_tile(const Prefill &args, const Chunk &chunk, int index,
                                          uint32_t slot, const int32_t *kv_rows) {
  constexpr int chunks = Tile<head_dim>::chunks, rows_at_once = threads / chunks;
  int first_token = index / 2 * tile_tokens;
  if (first_token < chunk.context) {
    const auto *kv = static_cast<const typename Type::Element *>(args.shape.kv_pages);
    int column = threadIdx.x % chunks, first = threadIdx.x / chunks;
    int32_t base = index % 2 == 0 ? 0 : kv_value_rows(args.page_shift, args.shape.kv_heads);
#pragma unroll
    for (int i = 0; i < tile_tokens / rows_at_once; i++) {
      int row = first + i * rows_at_once;
      int64_t from = kv_rows[row / KV_GRANULE_TOKENS] + base + row % KV_GRANULE_TOKENS;
      cp_async16_or_zero(slot + Tile<head_dim>::offset(row, column),
                         kv + from * head_dim + column * 8, first_token + row < chunk.context);
    }
  }
  cp_async_commit();
}

/* Writes the rows of a warp, and their states, as the block's split of their results. */
template <int head_dim, int m_tiles>
__device__ __forceinline__ void store_partial(const Prefill &args, const Chunk &chunk, int first,
                                              const float (&acc)[m_tiles][head_dim / 8][4],
                                              const RowState (&state)[m_tiles]) {
  PartialRows partial = partial_rows(args.splits, args.shape.query_heads, head_dim);
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < m_tiles; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      PartialSoftmax own = {state[m].shift[half] * args.shape.scale * log2_of_e,
                            row_sum(state[m].sum[half])};
      int packed = chunk.first_row + first + m * 16 + half * 8 + lane / 4;
      if (packed >= chunk.n_rows) {
        continue;
      }
      int64_t at =
          static_cast<int64_t>(chunk.partial + packed / args.group) * args.shape.query_heads +
          chunk.kv_head * args.group + packed % args.group;
      if (lane % 4 == 0) {
        partial.states[at] = own;
      }
#pragma unroll
      for (int n = 0; n < head_dim / 8; n++) {
        float *to = partial.values + at * head_dim + n * 8 + lane % 4 * 2;
        *reinterpret_cast<float2 *>(to) = make_float2(acc[m][n][2 * half], acc[m][n][2 * half + 1]);
      }
    }
  }
}

/* Makes the chunk the block's split of it; false if it has no such split. */
__device__ __forceinline__ bool find_split(const Prefill &args, Chunk &chunk) {
  int sequence = blockIdx.x / args.shape.kv_heads, index = blockIdx.z;
  int n = split_kv_count(chunk.first_sees + 1, args.splits.plan.tokens);
  SplitRange range = split_kv_range(index, chunk.context, args.splits.plan.tokens);
  chunk.first_tile = range.begin / tile_tokens;
  chunk.context = index + 1 == n ? chunk.context : range.end;
  int32_t rows = args.row_starts[sequence + 1] - chunk.row_start;
  chunk.partial = n > 1 ? args.splits.starts[sequence] + index * rows : -1;
  return index < n;
}

/* What a thread keeps while its block runs. */
template <class Type, int head_dim, int m_tiles, bool has_alibi> struct Worker {
  typedef Layout<head_dim, m_tiles> Memory;
  static constexpr bool keeps_q = m_tiles == 1; // in registers; otherwise each tile reads it again
  const Prefill &args;
  Shared<Memory::rows, has_alibi> &shared;
  uint32_t q, ring;
  int used, free; // slots of the ring
  float acc[m_tiles][head_dim / 8][4];
  RowState state[m_tiles];
  uint32_t q_fragments[keeps_q ? head_dim / 16 : 1][4];

  __device__ __forceinline__ uint32_t slot(int i) const {
    return ring + static_cast<uint32_t>(i * Memory::tile_bytes);
  }

  /* Waits for tile `index`, and with all warps done with the one before, loads into its slot. */
  __device__ __forceinline__ uint32_t next_tile(int index) {
    cp_async_wait<stages - 2>();
    __syncthreads();
    load(index + stages - 1, free);
    uint32_t tile = slot(used);
    free = used;
    used = used + 1 == stages ? 0 : used + 1;
    return tile;
  }

  __device__ __forceinline__ void load(int index, int to) {
    load_tile<Type, head_dim>(args, shared.chunk, index, slot(to), shared.kv_rows[index / 2 % 2]);
  }

  __device__ __forceinline__ void begin() {
    const Chunk &chunk = shared.chunk;
    load_q<Type, head_dim, m_tiles>(args, chunk, q);
    cp_async_commit();
    if (threadIdx.x < 2 * granules) {
      int tile = chunk.first_tile + threadIdx.x / granules, granule = threadIdx.x % granules;
      shared.kv_rows[tile % 2][granule] = granule_row(args, chunk, tile, granule);
    }
    for (int row = threadIdx.x; row < Memory::rows; row += threads) {
      int packed = chunk.last_row_within(chunk.first_row + row);
      shared.tokens[row] =
          static_cast<uint16_t>(packed / args.group - chunk.first_row / args.group);
      if (has_alibi) {
        int head = chunk.kv_head * args.group + packed % args.group;
        shared.slopes[row] = args.shape.alibi_slopes[head] / args.shape.scale;
      }
    }
    __syncthreads();
    used = 0;
    free = stages - 1;
    for (int i = 0; i < stages - 1; i++) {
      load(2 * chunk.first_tile + i, i);
    }
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
      state[m] = {{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
      for (int n = 0; n < head_dim / 8; n++) {
        acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
      }
    }
  }

  /* The A fragment of an m-tile of the warp's rows, which start at `first`. */
  __device__ __forceinline__ void read_q(int first, int m, int step,
                                         uint32_t (&fragment)[4]) const {
    if (keeps_q) {
      memcpy(fragment, q_fragments[step], sizeof fragment);
    } else {
      uint32_t rows = q + Tile<head_dim>::lane_offset(threadIdx.x % 32);
      ldmatrix_x4(fragment,
                  Tile<head_dim>::step(rows + first * Tile<head_dim>::row_bytes, step, m * 16));
    }
  }

  __device__ __forceinline__ void keep_q(int first) {
    uint32_t rows = q + Tile<head_dim>::lane_offset(threadIdx.x % 32);
    cp_async_wait<stages - 1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < head_dim / 16; step++) {
      ldmatrix_x4(q_fragments[step],
                  Tile<head_dim>::step(rows + first * Tile<head_dim>::row_bytes, step, 0));
    }
  }

  /* From a row's own token to the lane's first token of a tile. */
  __device__ __forceinline__ int distance(int first_token, int row) const {
    int lane = threadIdx.x % 32;
    return first_token + lane % 4 * 2 - (shared.chunk.first_sees + shared.tokens[row]);
  }

  /* One tile of tokens for the rows from `first` on, of which all see `all_see` tokens, and none
   * more than `context`. */
  __device__ __forceinline__ void run_tile(int tile, int first, int all_see, int context) {
    int lane = threadIdx.x % 32, first_token = tile * tile_tokens;
    float s[m_tiles][tile_tokens / 8][4];
    uint32_t keys = next_tile(2 * tile) + Tile<head_dim>::lane_offset_of_columns(lane);
    int32_t later = 0;
    if (threadIdx.x < granules) {
      later = granule_row(args, shared.chunk, tile + 2, threadIdx.x);
    }
    if (first_token < context) {
#pragma unroll
      for (int i = 0; i < 2 * m_tiles; i++) {
        int row = first + i * 8 + lane / 4;
        float slope = has_alibi ? shared.slopes[row] : 0.0f;
        start_row<has_alibi>(s[i / 2], i % 2, distance(first_token, row), slope);
      }
      multiply_keys<Type, head_dim>(s, keys, [&](int m, int step, uint32_t(&fragment)[4]) {
        read_q(first, m, step, fragment);
      });
    }
    uint32_t values = next_tile(2 * tile + 1) + Tile<head_dim>::lane_offset(lane);
    if (threadIdx.x < granules) {
      shared.kv_rows[tile % 2][threadIdx.x] = later;
    }
    if (first_token < context) {
      uint32_t p[m_tiles][tile_tokens / 16][4];
      bool is_hiding = first_token + tile_tokens > all_see;
#pragma unroll
      for (int m = 0; m < m_tiles; m++) {
        if (is_hiding) {
          int row = first + m * 16 + lane / 4;
          hide_row(s[m], 0, distance(first_token, row));
          hide_row(s[m], 1, distance(first_token, row + 8));
        }
        take_logits<Type>(state[m], p[m], s[m], acc[m], args.shape.scale * log2_of_e);
      }
      multiply_values<Type, head_dim, m_tiles, tile_tokens / 8>(acc, p, values);
    }
  }

  /* Everything for the warp's rows, `first` and on. */
  __device__ __forceinline__ void run(int first) {
    const Chunk &chunk = shared.chunk;
    begin();
    if (keeps_q) {
      keep_q(first);
    }
    int all_see = chunk.first_sees + shared.tokens[first] + 1;
    int context = chunk.first_sees + shared.tokens[first + 16 * m_tiles - 1] + 1;
    context = chunk.first_row + first < chunk.n_rows ? context : 0;
    for (int tile = chunk.first_tile; tile * tile_tokens < chunk.context; tile++) {
      run_tile(tile, first, all_see, context);
    }
  }
};

/* sm_100 has no registers for 32 rows of 128 elements: ptxas would keep ten of them in memory. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int most_elements = 16 * 128;
#else
constexpr int most_elements = 32 * 128;
#endif
constexpr int wide_lacking_from = 100; // the compute capability of images that lack it

template <class Type, int head_dim, int m_tiles, bool has_alibi>
__global__ void __launch_bounds__(threads, 2) attention_prefill(const Prefill args) {
  if constexpr (16 * m_tiles * head_dim <= most_elements) {
    typedef Layout<head_dim, m_tiles> Memory;
    typedef Shared<Memory::rows, has_alibi> SharedRows;
    KERNEL_SHARED_DYNAMIC(tiles);
    let_kernel_behind_start();
    auto &shared = *reinterpret_cast<SharedRows *>(tiles + Memory::shared);
    Chunk chunk;
    if (!find_chunk(args, Memory::rows, blockIdx.x, blockIdx.y, &chunk) ||
        !(Memory::rows == 128 || find_split(args, chunk))) {
      return;
    }
    if (threadIdx.x == 0) {
      shared.chunk = chunk;
    }
    __syncthreads();
    uint32_t q = shared_address(tiles);
    int first = threadIdx.x / 32 * 16 * m_tiles;
    Worker<Type, head_dim, m_tiles, has_alibi> worker = {args, shared, q, q + Memory::ring, 0, 0,
                                                         {},   {},     {}};
    worker.run(first);
    if (m_tiles == 1 && shared.chunk.partial >= 0) {
      store_partial<head_dim>(args, shared.chunk, first, worker.acc, worker.state);
    } else {
      store_rows<Type, head_dim>(args, shared.chunk, tiles, first, worker.acc, worker.state);
    }
  }
}

/* Everything that launches of one kernel need. */
struct Variant {
  void (*kernel)(const Prefill);
  size_t shared_bytes;
};

template <class Type, int head_dim, int m_tiles> Variant variant_of(bool has_alibi) {
  typedef Layout<head_dim, m_tiles> Memory;
  if (has_alibi) {
    return {attention_prefill<Type, head_dim, m_tiles, true>,
            Memory::shared + sizeof(Shared<Memory::rows, true>)};
  }
  return {attention_prefill<Type, head_dim, m_tiles, false>,
          Memory::shared + sizeof(Shared<Memory::rows, false>)};
}

template <class Type> Variant variant_of(const KernelAttention &shape, bool is_wide) {
  bool has_alibi = shape.alibi_slopes != nullptr;
  if (shape.head_dim == 64) {
    return is_wide ? variant_of<Type, 64, 2>(has_alibi) : variant_of<Type, 64, 1>(has_alibi);
  }
  return is_wide ? variant_of<Type, 128, 2>(has_alibi) : variant_of<Type, 128, 1>(has_alibi);
}

Variant find_variant(const KernelAttention &shape, bool is_wide) {
  return shape.dtype == CALIB_BF16 ? variant_of<Bf16>(shape, is_wide)
                                   : variant_of<Fp16>(shape, is_wide);
}

} // namespace

int kernel_attention_prefill_load(const KernelAttention *shape, int32_t ret_blocks[2]) {
  for (int i = 0; i < 2; i++) {
    Variant variant = find_variant(*shape, i == 1);
    KernelLoaded loaded;
    int error = kernel_load(variant.kernel, threads, variant.shared_bytes, &loaded);
    if (error != 0) {
      return error;
    }
    bool lacks = i == 1 && shape->head_dim == 128 && loaded.image_sm >= wide_lacking_from;
    ret_blocks[i] = lacks || (i == 1 && loaded.local_bytes > 0) ? 0 : loaded.blocks;
  }
  return 0;
}

int kernel_attention_prefill(KernelStream stream, const KernelAttention *shape, int32_t tile_rows,
                             void *out, const void *q, int64_t q_stride, const int32_t *row_starts,
                             const int32_t *past, int32_t rows, int32_t sequences, int32_t max_new,
                             const KernelSplits *splits) {
  attention_require(*shape);
  assert(tile_rows == 64 || (tile_rows == 128 && splits->plan.most == 1));
  if (sequences == 0 || max_new == 0) {
    return 0;
  }
  Prefill args =
      prefill_args(*shape, *splits, out, q, q_stride, row_starts, past, max_new, tile_rows);
  Variant variant = find_variant(*shape, tile_rows == 128);
  dim3 grid(sequences * shape->kv_heads, args.n_row_tiles, splits->plan.most);
  int error =
      kernel_launch(variant.kernel, grid, dim3(threads), variant.shared_bytes, stream, args);
  if (error != 0 || splits->plan.most == 1) {
    return error;
  }
  AttentionJoin join = {
      out,        *splits,         row_starts, past, rows, sequences, shape->query_heads,
      args.group, shape->head_dim, tile_rows};
  return attention_join_launch(stream, shape->dtype, join);
}
