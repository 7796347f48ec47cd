/* Attention of one new token per sequence over paged K and V, split over blocks as split_kv.h
 * plans. Bound by reading K and V once.
 *
 * A block is a split of a sequence and a kv head; its four warps take the split's granules of 16
 * tokens in turn. Each warp has a ring of granules of its own in shared memory, so that warps never
 * wait for each other while they stream. The query heads of the group are the rows of one m-tile,
 * padded to 16: the tensor cores have time for that even with one head, and so one path serves all
 * groups. At the end the warps' partial softmaxes are joined; where a sequence has several splits,
 * attention_join.cu joins those. */
#include "kernels/attention.cuh"

namespace {

constexpr int warps = 4, threads = warps * 32;
constexpr int tile_heads = 16;

struct Decode {
  KernelAttention shape;
  KernelSplits splits;
  void *out;
  const void *q;
  int64_t q_stride;
  const int32_t *contexts, *split_sequences;
  int32_t group, page_shift;
};

/* Shared memory: a ring for each warp, later its rows of values (padded against bank conflicts) and
 * states. As many granules as let two blocks share a multiprocessor of 227 KB; one of 163 or of
 * 99 KB has one. */
template <int head_dim> struct Layout {
  static constexpr int stages = head_dim == 128 ? 3 : 5;
  static constexpr int part_bytes = KV_GRANULE_TOKENS * Tile<head_dim>::row_bytes;
  static constexpr int stage_bytes = 2 * part_bytes; // K, V
  static constexpr int bytes = warps * stages * stage_bytes;
  static constexpr int value_stride = head_dim + 8;
  static constexpr int values = warps * tile_heads * value_stride;
  static_assert((values + 2 * warps * tile_heads) * 4 <= bytes, "what is joined fits");
};

/* What a block works on. */
struct Split {
  const int32_t *pages;
  int32_t index, sequence, context, kv_head, first_head, n_heads;
  SplitRange range;
  bool is_only;
};

__device__ __forceinline__ Split find_split(const Decode &args) {
  Split split;
  split.index = blockIdx.x;
  split.sequence = args.split_sequences[split.index];
  split.context = args.contexts[split.sequence];
  int32_t first = args.splits.starts[split.sequence];
  split.is_only = args.splits.starts[split.sequence + 1] - first == 1;
  split.range = split_kv_range(split.index - first, split.context, args.splits.plan.tokens);
  split.pages = args.shape.page_table + static_cast<int64_t>(split.sequence) * args.shape.max_pages;
  split.kv_head = blockIdx.y;
  int32_t before = blockIdx.z * tile_heads;
  split.first_head = split.kv_head * args.group + before;
  split.n_heads = min(args.group - before, tile_heads);
  return split;
}

/* The granules of one warp: the i-th starts at token first + i · warps · 16. */
template <class Type, int head_dim> struct Stream {
  typedef Layout<head_dim> Memory;
  const Decode &args;
  const Split &split;
  uint32_t ring;
  int first, n_granules;
  int loaded;               // granules whose load has been started
  int free;                 // slot of the ring
  int32_t rows, rows_after; // kv_row of granules, one per lane, and of the 32 after

  __device__ __forceinline__ int token(int granule) const {
    return first + granule * warps * KV_GRANULE_TOKENS;
  }

  __device__ __forceinline__ int32_t fetch_row(int granule) const {
    return granule < n_granules ? kv_row(split.pages, token(granule), args.page_shift,
                                         args.shape.kv_heads, split.kv_head)
                                : 0;
  }

  __device__ __forceinline__ void init(uint32_t warp_ring) {
    int warp = threadIdx.x / 32;
    ring = warp_ring;
    first = split.range.begin + warp * KV_GRANULE_TOKENS;
    n_granules = split_kv_count(max(split.range.end - first, 0), warps * KV_GRANULE_TOKENS);
    loaded = free = 0;
    rows_after = fetch_row(threadIdx.x % 32);
    rows = 0;
    for (int i = 0; i < Memory::stages - 1; i++) {
      load();
    }
  }

  /* Starts the load of the next granule, if there is one, as one group of copies. */
  __device__ __forceinline__ void load() {
    constexpr int chunks = Tile<head_dim>::chunks, rows_at_once = 32 / chunks;
    if (loaded < n_granules) {
      int lane = threadIdx.x % 32, column = lane % chunks;
      if (loaded % 32 == 0) {
        rows = rows_after;
        rows_after = fetch_row(loaded + 32 + lane);
      }
      int64_t first_row = __shfl_sync(0xffffffffu, rows, loaded % 32);
      int32_t value_rows = kv_value_rows(args.page_shift, args.shape.kv_heads);
      const auto *kv = static_cast<const typename Type::Element *>(args.shape.kv_pages);
      uint32_t slot = ring + static_cast<uint32_t>(free * Memory::stage_bytes);
#pragma unroll
      for (int i = 0; i < 2 * KV_GRANULE_TOKENS / rows_at_once; i++) {
        int part = i / (KV_GRANULE_TOKENS / rows_at_once);
        int row = lane / chunks + i % (KV_GRANULE_TOKENS / rows_at_once) * rows_at_once;
        const auto *from = kv + (first_row + row + part * value_rows) * head_dim + column * 8;
        cp_async16_or_zero(slot + part * Memory::part_bytes + Tile<head_dim>::offset(row, column),
                           from, token(loaded) + row < split.range.end);
      }
      loaded++;
      free = free + 1 == Memory::stages ? 0 : free + 1;
    }
    cp_async_commit();
  }

  /* Waits for granule i, and with all lanes done with the one before, loads into its slot. */
  __device__ __forceinline__ void next() {
    cp_async_wait<Memory::stages - 2>();
    __syncwarp();
    load();
  }
};

/* The rows of q as A fragments; rows past n_heads are zero. */
template <int head_dim>
__device__ __forceinline__ void load_q(uint32_t (&q)[head_dim / 16][4], const void *from,
                                       int n_heads) {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const auto *pairs = static_cast<const uint32_t *>(from);
#pragma unroll
  for (int i = 0; i < head_dim / 4; i++) {
    int row = g + i % 2 * 8, pair = i / 4 * 8 + i / 2 % 2 * 4 + t;
    q[i / 4][i % 4] = row < n_heads ? __ldg(pairs + row * (head_dim / 2) + pair) : 0u;
  }
}

/* Joins the warps' rows, which lie in shared memory, and writes them out or to the workspace. */
template <class Type, int head_dim>
__device__ __forceinline__ void join_warps(const Decode &args, const Split &split,
                                           const float *values, const PartialSoftmax *states) {
  for (int i = threadIdx.x; i < split.n_heads * (head_dim / 4); i += threads) {
    int row = i / (head_dim / 4), column = i % (head_dim / 4) * 4;
    PartialSoftmax all = states[row];
#pragma unroll
    for (int warp = 1; warp < warps; warp++) {
      all = partial_softmax_join(all, states[warp * tile_heads + row]);
    }
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int warp = 0; warp < warps; warp++) {
      int at = warp * tile_heads + row;
      float weight = partial_softmax_weight(states[at], all.max);
      const auto *own =
          reinterpret_cast<const float4 *>(values + at * Layout<head_dim>::value_stride + column);
      sum.x += own->x * weight;
      sum.y += own->y * weight;
      sum.z += own->z * weight;
      sum.w += own->w * weight;
    }
    int head = split.first_head + row;
    if (split.is_only) {
      int64_t at = static_cast<int64_t>(split.sequence) * args.shape.query_heads + head;
      float inverse = 1.0f / all.sum;
      auto *out = static_cast<typename Type::Element *>(args.out) + at * head_dim + column;
      *reinterpret_cast<uint2 *>(out) = make_uint2(Type::pack(sum.x * inverse, sum.y * inverse),
                                                   Type::pack(sum.z * inverse, sum.w * inverse));
    } else {
      PartialRows partial = partial_rows(args.splits, args.shape.query_heads, head_dim);
      int64_t at = static_cast<int64_t>(split.index) * args.shape.query_heads + head;
      *reinterpret_cast<float4 *>(partial.values + at * head_dim + column) = sum;
      if (column == 0) {
        partial.states[at] = all;
      }
    }
  }
}

/* What a warp keeps over its granules. */
template <class Type, int head_dim, bool has_alibi> struct Worker {
  const Decode &args;
  const Split &split;
  uint32_t q[head_dim / 16][4];
  float acc[1][head_dim / 8][4];
  RowState state;
  float slope[2]; // ALiBi's, over the scale

  __device__ __forceinline__ void init() {
    int row = threadIdx.x % 32 / 4;
    const auto *first = static_cast<const typename Type::Element *>(args.q) +
                        split.sequence * args.q_stride + split.first_head * head_dim;
    load_q<head_dim>(q, first, split.n_heads);
    state = {{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
    for (int n = 0; n < head_dim / 8; n++) {
      acc[0][n][0] = acc[0][n][1] = acc[0][n][2] = acc[0][n][3] = 0;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      bool valid = has_alibi && row + half * 8 < split.n_heads;
      int head = split.first_head + row + half * 8;
      slope[half] = valid ? args.shape.alibi_slopes[head] / args.shape.scale : 0.0f;
    }
  }

  /* A granule that starts at token `first` and lies in shared memory, V after K. */
  __device__ __forceinline__ void take(int first, uint32_t granule) {
    int lane = threadIdx.x % 32;
    float s[1][2][4];
    int token = first + lane % 4 * 2;
    start_row<has_alibi>(s[0], 0, token - (split.context - 1), slope[0]);
    start_row<has_alibi>(s[0], 1, token - (split.context - 1), slope[1]);
    multiply_keys<Type, head_dim>(s, granule + Tile<head_dim>::lane_offset_of_columns(lane),
                                  [&](int, int step, uint32_t(&fragment)[4]) {
                                    fragment[0] = q[step][0];
                                    fragment[1] = q[step][1];
                                    fragment[2] = q[step][2];
                                    fragment[3] = q[step][3];
                                  });
    hide_row(s[0], 0, token - (split.range.end - 1));
    hide_row(s[0], 1, token - (split.range.end - 1));
    uint32_t p[1][1][4];
    take_logits<Type>(state, p[0], s[0], acc[0], args.shape.scale * log2_of_e);
    multiply_values<Type, head_dim, 1, 2>(
        acc, p, granule + Layout<head_dim>::part_bytes + Tile<head_dim>::lane_offset(lane));
  }

  /* Leaves the warp's rows in shared memory for join_warps. */
  __device__ __forceinline__ void leave(float *values, PartialSoftmax *states) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float scale_log2 = args.shape.scale * log2_of_e;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = lane / 4 + half * 8, at = warp * tile_heads + row;
      PartialSoftmax own = {state.shift[half] * scale_log2, row_sum(state.sum[half])};
      if (row >= split.n_heads) {
        continue;
      }
      if (lane % 4 == 0) {
        states[at] = own;
      }
#pragma unroll
      for (int n = 0; n < head_dim / 8; n++) {
        float *to = values + at * Layout<head_dim>::value_stride + n * 8 + lane % 4 * 2;
        *reinterpret_cast<float2 *>(to) = make_float2(acc[0][n][2 * half], acc[0][n][2 * half + 1]);
      }
    }
  }
};

template <class Type, int head_dim, bool has_alibi>
__global__ void __launch_bounds__(threads, 2) attention_decode(const Decode args) {
  typedef Layout<head_dim> Memory;
  KERNEL_SHARED_DYNAMIC(shared);
  let_kernel_behind_start();
  Split split = find_split(args);
  uint32_t ring = shared_address(shared) +
                  static_cast<uint32_t>(threadIdx.x / 32 * (Memory::stages * Memory::stage_bytes));
  Stream<Type, head_dim> stream = {args, split, 0, 0, 0, 0, 0, 0, 0};
  stream.init(ring);
  Worker<Type, head_dim, has_alibi> worker = {args, split, {}, {}, {}, {}};
  worker.init();
  for (int i = 0, slot = 0; i < stream.n_granules; i++) {
    stream.next();
    worker.take(stream.token(i), ring + static_cast<uint32_t>(slot * Memory::stage_bytes));
    slot = slot + 1 == Memory::stages ? 0 : slot + 1;
  }
  __syncthreads(); // the rings become the room for joining
  auto *values = reinterpret_cast<float *>(shared);
  auto *states = reinterpret_cast<PartialSoftmax *>(values + Memory::values);
  worker.leave(values, states);
  __syncthreads();
  join_warps<Type, head_dim>(args, split, values, states);
}

template <class Type, int head_dim> auto *kernel_of(bool has_alibi) {
  return has_alibi ? attention_decode<Type, head_dim, true>
                   : attention_decode<Type, head_dim, false>;
}

template <class Type, int head_dim> int launch(KernelStream stream, const Decode &args) {
  int head_tiles = (args.group + tile_heads - 1) / tile_heads;
  dim3 grid(args.splits.plan.rows, args.shape.kv_heads, head_tiles);
  auto *kernel = kernel_of<Type, head_dim>(args.shape.alibi_slopes != nullptr);
  return kernel_launch(kernel, grid, dim3(threads), Layout<head_dim>::bytes, stream, args);
}

template <class Type> int launch_head(KernelStream stream, const Decode &args) {
  return args.shape.head_dim == 64 ? launch<Type, 64>(stream, args)
                                   : launch<Type, 128>(stream, args);
}

template <class Type> int load_head(const KernelAttention &shape, KernelLoaded *ret_loaded) {
  bool has_alibi = shape.alibi_slopes != nullptr;
  return shape.head_dim == 64
             ? kernel_load(kernel_of<Type, 64>(has_alibi), threads, Layout<64>::bytes, ret_loaded)
             : kernel_load(kernel_of<Type, 128>(has_alibi), threads, Layout<128>::bytes,
                           ret_loaded);
}

} // namespace

int kernel_attention_load(const KernelAttention *shape, KernelResidency *ret_residency) {
  KernelLoaded loaded;
  attention_require(*shape);
  int error = shape->dtype == CALIB_BF16 ? load_head<Bf16>(*shape, &loaded)
                                         : load_head<Fp16>(*shape, &loaded);
  if (error != 0) {
    return error;
  }
  ret_residency->decode = loaded.blocks;
  error = kernel_attention_prefill_load(shape, ret_residency->prefill);
  return error != 0 ? error : attention_join_load(shape->dtype);
}

int kernel_attention_decode(KernelStream stream, const KernelAttention *shape, void *out,
                            const void *q, int64_t q_stride, const int32_t *contexts,
                            const int32_t *split_sequences, int32_t sequences,
                            const KernelSplits *splits) {
  attention_require(*shape);
  if (sequences == 0) {
    return 0;
  }
  Decode args = {*shape,
                 *splits,
                 out,
                 q,
                 q_stride,
                 contexts,
                 split_sequences,
                 shape->query_heads / shape->kv_heads,
                 __builtin_ctz(shape->block_size)};
  int error = shape->dtype == CALIB_BF16 ? launch_head<Bf16>(stream, args)
                                         : launch_head<Fp16>(stream, args);
  if (error != 0 || splits->plan.most == 1) {
    return error;
  }
  AttentionJoin join = {
      out,        *splits,         nullptr, contexts, sequences, sequences, shape->query_heads,
      args.group, shape->head_dim, 1};
  return attention_join_launch(stream, shape->dtype, join);
}
