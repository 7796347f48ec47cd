/* Attention of chunks of new tokens over paged K and V for compute capability 9.0a: the products by
 * wgmma, K and V by the bulk copy engine, as in FlashAttention-3 (Shah and others 2024).
 *
 * Rows are packed as in attention_prefill.cu. Consumer warpgroups have 64 rows of a tile each; one
 * warp of another warpgroup, the producer, starts the copies. Tiles of K and of V have rings of
 * slots in shared memory, and each slot two barriers: `full` when its tile has come, `empty` when
 * every consumer warp is done with it. A consumer has the products of the next K and of this V
 * under way while it exponentiates; the two consumers take turns in starting products, so that one
 * multiplies while the other exponentiates.
 *
 * A block takes tiles of rows in steps of the grid, from the longest context on. */
#include "kernels/attention_chunk.cuh"
#include "kernels/hopper.cuh"

namespace {

constexpr int group_threads = 128, group_warps = 4;
constexpr int load_rows = KV_GRANULE_TOKENS; // of a box

struct Wgmma {
  Prefill prefill;
  int32_t n_items, sequence_heads; // tiles of rows; of each height
  KernelTensorMap kv;              // all rows of the pool
};

/* The sizes of a kernel. */
template <int head_dim_, int consumers_, int tile_tokens_, int stages_> struct Shape {
  static constexpr int head_dim = head_dim_, consumers = consumers_, tile_tokens = tile_tokens_;
  static constexpr int stages = stages_, rows = consumers * 64;
  static constexpr int threads = (consumers + 1) * group_threads;
  static constexpr int blocks = head_dim / swizzled_elements; // of columns
  static constexpr int group_bytes = 64 * head_dim * 2;       // of q, of a consumer
  static constexpr int tile_bytes = tile_tokens * head_dim * 2;
  static constexpr int out = consumers * group_bytes, key_ring = 2 * out;
  static constexpr int value_ring = key_ring + stages * tile_bytes;
  static constexpr int barriers = value_ring + stages * tile_bytes;
  static constexpr int n_barriers = 4 * stages + 1;
  static constexpr int shared = (barriers + n_barriers * 8 + 1023) / 1024 * 1024;
  static_assert(tile_tokens / load_rows * blocks <= 32, "each lane loads a box at most");
};

/* A ring of K or of V, and a place in it. */
template <class Of> struct Ring {
  uint32_t tiles, barriers;
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ uint32_t tile() const { return tiles + slot * Of::tile_bytes; }
  __device__ __forceinline__ uint32_t full() const { return barriers + slot * 8; }
  __device__ __forceinline__ uint32_t empty() const { return full() + Of::stages * 8; }
  __device__ __forceinline__ void next() {
    slot = slot + 1 == Of::stages ? 0 : slot + 1;
    parity ^= slot == 0;
  }
};

template <class Of> struct Rings {
  Ring<Of> keys, values;
  uint32_t tail; // the barrier of a tile that is not whole

  explicit __device__ __forceinline__ Rings(uint32_t shared)
      : keys{shared + Of::key_ring, shared + Of::barriers}, values{shared + Of::value_ring,
                                                                   shared + Of::barriers +
                                                                       2 * Of::stages * 8},
        tail(shared + Of::barriers + 4 * Of::stages * 8) {}
};

template <class Of> __device__ __forceinline__ void make_barriers(uint32_t shared) {
  Rings<Of> rings(shared);
  for (int i = 0; i < Of::stages; i++) {
    mbarrier_init(rings.keys.full(), 1);
    mbarrier_init(rings.keys.empty(), Of::consumers * group_warps);
    mbarrier_init(rings.values.full(), 1);
    mbarrier_init(rings.values.empty(), Of::consumers * group_warps);
    rings.keys.next();
    rings.values.next();
  }
  mbarrier_init(rings.tail, 1);
  mbarrier_init_fence();
}

// --- what a block works on ---------------------------------------------------------------------

/* The chunks of a block, from long contexts to short ones: in turn from the first block to the last
 * and back, so that sums are about the same. */
template <class Of> struct Chunks {
  const Wgmma &args;
  int round = 0;

  __device__ __forceinline__ bool next(Chunk *ret_chunk) {
    for (;;) {
      int blocks = gridDim.x, block = blockIdx.x;
      int item = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
      if (round++ * blocks >= args.n_items) {
        return false;
      }
      if (item < args.n_items && find_chunk(args.prefill, Of::rows, item % args.sequence_heads,
                                            item / args.sequence_heads, ret_chunk)) {
        return true;
      }
    }
  }
};

// --- the producer ------------------------------------------------------------------------------

/* One warp. A lane has a granule of each tile, and a block of its columns. */
template <class Of> struct Producer {
  static constexpr int granules = Of::tile_tokens / load_rows;
  const Wgmma &args;
  Rings<Of> rings;
  uint32_t tail_parity = 0;
  int lane = threadIdx.x % 32, granule = lane % granules, block = lane / granules;

  /* Loads what the slot's tile has of `tokens`, from the lane's kv row on. */
  __device__ __forceinline__ void load(const Ring<Of> &ring, int32_t row, int tokens,
                                       uint32_t barrier) {
    int valid = min((tokens + load_rows - 1) / load_rows, granules);
    if (lane == 0) {
      mbarrier_arrive_expecting(barrier, valid * load_rows * Of::head_dim * 2);
    }
    __syncwarp();
    if (granule < valid && block < Of::blocks) {
      load_box(ring.tile() + (block * Of::tile_tokens + granule * load_rows) * swizzled_row_bytes,
               &args.kv, block * swizzled_elements, row, barrier);
    }
  }

  /* Zeroes the rows of the slot's tile from `tokens` on: what would else be multiplied by zero need
   * not be a number. */
  __device__ __forceinline__ void wipe(const Ring<Of> &ring, int tokens) {
    constexpr int chunks = Of::head_dim / 8;
    for (int i = tokens * chunks + lane; i < Of::tile_tokens * chunks; i += 32) {
      store_zero16(ring.tile() + swizzled_offset(i / chunks, i % chunks, Of::tile_tokens));
    }
    fence_async();
    __syncwarp();
  }

  __device__ __forceinline__ void run_tile(const Chunk &chunk, int first_token) {
    const KernelAttention &shape = args.prefill.shape;
    int page_shift = args.prefill.page_shift, tokens = chunk.context - first_token;
    int32_t row = 0;
    if (granule * load_rows < tokens) {
      row = kv_row(chunk.pages, first_token + granule * load_rows, page_shift, shape.kv_heads,
                   chunk.kv_head);
    }
    mbarrier_wait(rings.keys.empty(), rings.keys.parity ^ 1);
    load(rings.keys, row, tokens, rings.keys.full());
    rings.keys.next();
    row += kv_value_rows(page_shift, shape.kv_heads);
    mbarrier_wait(rings.values.empty(), rings.values.parity ^ 1);
    if (tokens >= Of::tile_tokens) {
      load(rings.values, row, tokens, rings.values.full());
    } else {
      load(rings.values, row, tokens, rings.tail);
      mbarrier_wait(rings.tail, tail_parity);
      tail_parity ^= 1;
      wipe(rings.values, tokens);
      if (lane == 0) {
        mbarrier_arrive(rings.values.full());
      }
    }
    rings.values.next();
  }

  __device__ __forceinline__ void run(const Chunk &chunk) {
    for (int token = 0; token < chunk.context; token += Of::tile_tokens) {
      run_tile(chunk, token);
    }
  }
};

// --- consumers ---------------------------------------------------------------------------------

/* A warpgroup with 64 rows. Barriers 1 to `consumers` are of one each, those after them are for
 * taking turns. */
template <class Type, class Of> struct Consumer {
  static constexpr int head_dim = Of::head_dim, n_tiles = Of::tile_tokens / 8;
  const Wgmma &args;
  Rings<Of> rings;
  unsigned char *shared;
  int index, warp, lane; // of the consumer, of its warp, of the lane
  int32_t sees[2] = {};  // the last token that each of the lane's rows sees
  float s[n_tiles][4] = {}, acc[1][head_dim / 8][4] = {}, weight[2] = {};
  uint32_t p[n_tiles / 2][4] = {};
  RowState state[1] = {};
  bool has_grown = false;

  __device__ __forceinline__ void meet() { named_barrier_wait(1 + index, group_threads); }
  __device__ __forceinline__ void release(uint32_t barrier) {
    if (lane == 0) {
      mbarrier_arrive(barrier);
    }
  }
  __device__ __forceinline__ int turn_of(int consumer) const {
    return 1 + Of::consumers + consumer;
  }
  __device__ __forceinline__ void take_turn() {
    named_barrier_wait(turn_of(index), 2 * group_threads);
  }
  __device__ __forceinline__ void pass_turn() {
    named_barrier_arrive(turn_of(index + 1 == Of::consumers ? 0 : index + 1), 2 * group_threads);
  }

  __device__ __forceinline__ uint32_t q() const {
    return shared_address(shared) + index * Of::group_bytes;
  }

  __device__ __forceinline__ void load_q(const Chunk &chunk) {
    constexpr int chunks = head_dim / 8;
    const auto *from = static_cast<const typename Type::Element *>(args.prefill.q);
    int column = threadIdx.x % chunks, first = threadIdx.x % group_threads / chunks;
#pragma unroll 4
    for (int row = first; row < 64; row += group_threads / chunks) {
      int packed = index * 64 + row;
      bool valid = chunk.first_row + packed < chunk.n_rows;
      int64_t at =
          valid ? q_element(args.prefill, chunk, packed, args.prefill.q_stride) + column * 8 : 0;
      cp_async16_or_zero(q() + swizzled_offset(row, column, 64), from + at, valid);
    }
    cp_async_commit();
  }

  /* With the q of the chunk on its way. */
  __device__ __forceinline__ void begin(const Chunk &chunk) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = index * 64 + warp * 16 + half * 8 + lane / 4;
      sees[half] = chunk.past + chunk.last_row_within(chunk.first_row + row) / args.prefill.group;
    }
    state[0] = {{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
    for (int i = 0; i < head_dim / 8 * 4; i++) {
      acc[0][i / 4][i % 4] = 0;
    }
    cp_async_wait<0>();
    fence_async();
    meet();
  }

  /* Starts s = q·kᵀ with the keys of the slot. */
  __device__ __forceinline__ void multiply_keys() {
#pragma unroll
    for (int step = 0; step < head_dim / 16; step++) {
      uint32_t block = step / 4, along = step % 4 * 32;
      wgmma_along_k<Type>(
          s, wgmma_operand(q() + block * 64 * swizzled_row_bytes + along, 0),
          wgmma_operand(rings.keys.tile() + block * Of::tile_tokens * swizzled_row_bytes + along,
                        0),
          step > 0);
    }
    wgmma_commit();
  }

  /* Starts acc += p·v with the values of the slot. */
  __device__ __forceinline__ void multiply_values() {
#pragma unroll
    for (int step = 0; step < Of::tile_tokens / 16; step++) {
      wgmma_transposed<Type>(acc[0], p[step],
                             wgmma_operand(rings.values.tile() + step * 16 * swizzled_row_bytes,
                                           Of::tile_tokens * swizzled_row_bytes));
    }
    wgmma_commit();
  }

  /* s becomes 2^(logit − shift). acc and p may be in use: what of them is to change waits. */
  __device__ __forceinline__ void take_logits(int first_token) {
    float scale_log2 = args.prefill.shape.scale * log2_of_e, max[2];
    if (first_token + Of::tile_tokens - 1 > __shfl_sync(0xffffffffu, sees[0], 0)) {
      hide_row(s, 0, first_token + lane % 4 * 2 - sees[0]);
      hide_row(s, 1, first_token + lane % 4 * 2 - sees[1]);
    }
    has_grown = take_max(max, state[0], s, scale_log2);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (has_grown) {
        weight[half] = exp2_approximate((state[0].shift[half] - max[half]) * scale_log2);
        state[0].shift[half] = max[half];
        state[0].sum[half] *= weight[half];
      }
      float shift = state[0].shift[half] * scale_log2;
#pragma unroll
      for (int i = 0; i < 2 * n_tiles; i++) {
        float &x = s[i / 2][2 * half + i % 2];
        x = exp2_approximate(x * scale_log2 - shift);
        state[0].sum[half] += x;
      }
    }
  }

  __device__ __forceinline__ void rescale_acc() {
#pragma unroll
    for (int i = 0; i < head_dim / 8 * 4; i++) {
      acc[0][i / 4][i % 4] *= weight[i % 4 / 2];
    }
  }

  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int i = 0; i < 2 * n_tiles; i++) {
      p[i / 4][i % 4] = Type::pack(s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
    }
  }

  /* The products of a tile of keys, and beside them those of the values before. */
  __device__ __forceinline__ void run_tile(int first_token) {
    mbarrier_wait(rings.keys.full(), rings.keys.parity);
    take_turn();
    wgmma_fence();
    multiply_keys();
    mbarrier_wait(rings.values.full(), rings.values.parity);
    multiply_values();
    pass_turn();
    wgmma_wait<1>();
    wgmma_done(s);
    release(rings.keys.empty());
    rings.keys.next();
    take_logits(first_token);
    // The compiler moves a wait to the start of its block, before all that is to be done meanwhile.
    wgmma_done(s);
    if (has_grown) {
      wgmma_wait<0, 1>();
      wgmma_done(acc[0]);
      rescale_acc();
    } else {
      wgmma_wait<0, 2>();
      wgmma_done(acc[0]);
    }
    release(rings.values.empty());
    rings.values.next();
    pack();
  }

  __device__ __forceinline__ void end_values() {
    wgmma_wait<0>();
    wgmma_done(acc[0]);
    release(rings.values.empty());
    rings.values.next();
  }

  /* With the q of `chunk` on its way. Makes it the next one, whose q is on its way then; false if
   * there is none. */
  __device__ __forceinline__ bool run(Chunk &chunk, Chunks<Of> &chunks) {
    begin(chunk);
    mbarrier_wait(rings.keys.full(), rings.keys.parity);
    wgmma_fence();
    multiply_keys();
    wgmma_wait<0>();
    wgmma_done(s);
    release(rings.keys.empty());
    rings.keys.next();
    take_logits(0);
    pack();
    for (int token = Of::tile_tokens; token < chunk.context; token += Of::tile_tokens) {
      run_tile(token);
    }
    mbarrier_wait(rings.values.full(), rings.values.parity);
    wgmma_fence();
    multiply_values();
    meet(); // q is not read any more
    Chunk next = {};
    bool has_next = chunks.next(&next);
    if (has_next) {
      load_q(next);
    }
    end_values();
    store_rows<Type, head_dim, 1>(args.prefill, chunk, shared + Of::out, index * 64 + warp * 16,
                                  acc, state);
    chunk = next;
    return has_next;
  }
};

// --- the kernel --------------------------------------------------------------------------------

template <class Of>
__device__ __forceinline__ void produce(const Wgmma &args, const Rings<Of> &rings) {
  Producer<Of> producer = {args, rings};
  Chunks<Of> chunks = {args};
  for (Chunk chunk; chunks.next(&chunk);) {
    producer.run(chunk);
  }
}

template <class Type, class Of>
__device__ __forceinline__ void consume(const Wgmma &args, const Rings<Of> &rings,
                                        unsigned char *memory, int index) {
  int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) % group_threads / 32, 0);
  int lane = static_cast<int>(threadIdx.x) % 32;
  Consumer<Type, Of> consumer = {args, rings, memory, index, warp, lane};
  Chunks<Of> chunks = {args};
  Chunk chunk = {};
  if (index + 1 == Of::consumers) {
    consumer.pass_turn(); // the first one begins
  }
  if (chunks.next(&chunk)) {
    consumer.load_q(chunk);
    while (consumer.run(chunk, chunks)) {
    }
  }
}

template <class Type, class Of>
__global__ void __launch_bounds__(Of::threads, 1)
    attention_wgmma(const __grid_constant__ Wgmma args) {
  KERNEL_SHARED_DYNAMIC(memory);
  uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0) {
    make_barriers<Of>(shared);
  }
  __syncthreads();
  int index = static_cast<int>(threadIdx.x) / group_threads;
  Rings<Of> rings(shared);
  if (index == Of::consumers) {
    give_registers<Of::consumers == 2 ? 40 : 32>();
    if (threadIdx.x % group_threads < 32) {
      produce<Of>(args, rings);
    }
  } else {
    take_registers<Of::consumers == 2 ? 232 : 160>();
    consume<Type, Of>(args, rings, memory, index);
  }
}

struct Variant {
  void (*kernel)(const Wgmma);
  int rows, threads;
  size_t shared_bytes;
};

template <class Type, class Of> Variant variant_of() {
  return {attention_wgmma<Type, Of>, Of::rows, Of::threads, Of::shared};
}

template <class Type> Variant variant_of(int32_t head_dim, int32_t tile_rows) {
  if (head_dim == 64) {
    return tile_rows == 128 ? variant_of<Type, Shape<64, 2, 128, 2>>()
                            : variant_of<Type, Shape<64, 3, 128, 4>>();
  }
  return tile_rows == 128 ? variant_of<Type, Shape<128, 2, 128, 2>>()
                          : variant_of<Type, Shape<128, 3, 64, 4>>();
}

Variant find_variant(const KernelAttention &shape, int32_t tile_rows) {
  return shape.dtype == CALIB_BF16 ? variant_of<Bf16>(shape.head_dim, tile_rows)
                                   : variant_of<Fp16>(shape.head_dim, tile_rows);
}

} // namespace

int kernel_attention_wgmma_load(const KernelAttention *shape, int32_t *ret_blocks) {
  *ret_blocks = 0;
  for (int rows = 128; rows <= 192 && shape->alibi_slopes == nullptr; rows += 64) {
    Variant variant = find_variant(*shape, rows);
    int error = kernel_load_90a(variant.kernel, variant.threads, variant.shared_bytes, ret_blocks);
    if (error != 0) {
      return error;
    }
  }
  return 0;
}

int kernel_attention_wgmma(KernelStream stream, const KernelAttention *shape, int32_t tile_rows,
                           int32_t blocks, void *out, const void *q, int64_t q_stride,
                           const int32_t *row_starts, const int32_t *past, int32_t sequences,
                           int32_t max_new) {
  attention_require(*shape);
  assert(blocks > 0 && shape->alibi_slopes == nullptr);
  assert(tile_rows == 128 || tile_rows == 192);
  if (sequences == 0 || max_new == 0) {
    return 0;
  }
  Variant variant = find_variant(*shape, tile_rows);
  Wgmma args = {};
  args.prefill = prefill_args(*shape, {}, out, q, q_stride, row_starts, past, max_new, tile_rows);
  args.sequence_heads = sequences * shape->kv_heads;
  args.n_items = args.sequence_heads * args.prefill.n_row_tiles;
  int error = kernel_tensor_map(&args.kv, shape->kv_pages, shape->head_dim, load_rows);
  return error != 0 ? error
                    : kernel_launch(variant.kernel, dim3(min(args.n_items, blocks)),
                                    dim3(variant.threads), variant.shared_bytes, stream, args);
}
