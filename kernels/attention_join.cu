/* Joins the partial results of attention over splits, of decodes and of prefills alike.
 *
 * Of few rows, a block has one head of one row of queries and 32 of its columns, so that even one
 * row has many blocks. Groups of 8 lanes take splits in turn, a column vector a lane, each with a
 * softmax of its own over what it has seen; a warp reads 16 splits at once. Then lanes, and then
 * warps, are put on one scale. The launch has as many warps as the most splits of a row keep busy.
 *
 * Of many rows with few splits, which prompts have, such blocks would be tens of thousands, and
 * their starts would take longer than their work. There a thread has a column vector of one head
 * of a row and takes all splits by itself. */
#include "kernels/attention.cuh"

namespace {

constexpr int column_lanes = 8, columns = column_lanes * 4;
constexpr int splits_of_warp = 32 / column_lanes, loads = 4;
constexpr int max_warps = 8;
/* Where a thread takes all splits of a row: there are threads enough for the multiprocessors of a
 * large GPU, and the splits are fetched in a few turns. */
constexpr int64_t many_vectors = 1 << 15;
constexpr int few_splits = 4 * loads;

/* What a thread has summed, on the scale of `softmax`. */
struct Sum {
  PartialSoftmax softmax;
  float4 values;

  __device__ __forceinline__ void scale(float weight) {
    softmax.sum *= weight;
    values.x *= weight;
    values.y *= weight;
    values.z *= weight;
    values.w *= weight;
  }
  /* To the scale of `max`, which is not less than its own; of nothing, it stays nothing. */
  __device__ __forceinline__ void rescale(float max) {
    scale(softmax.sum > 0 ? partial_softmax_weight(softmax, max) : 0.0f);
    softmax.max = max;
  }
  /* Adds what is on the same scale. */
  __device__ __forceinline__ void add(float sum, float4 more) {
    softmax.sum += sum;
    values.x += more.x;
    values.y += more.y;
    values.z += more.z;
    values.w += more.w;
  }
};

/* Where the partial results of a row lie, one every `stride`. */
struct Row {
  int64_t first, stride;
  int32_t n_splits;
};

/* The last sequence that starts at the row or before. */
__device__ __forceinline__ int32_t sequence_of(const int32_t *row_starts, int32_t sequences,
                                               int32_t row) {
  int32_t first = 0, end = sequences;
  while (end - first > 1) {
    int32_t middle = (first + end) / 2;
    bool is_before = row_starts[middle] <= row;
    first = is_before ? middle : first;
    end = is_before ? end : middle;
  }
  return first;
}

__device__ __forceinline__ Row find_row(const AttentionJoin &args, int32_t row, int32_t head) {
  int32_t sequence = row, first_row = row, end_row = row + 1, sees = 0;
  if (args.row_starts == nullptr) {
    sees = args.contexts[row];
  } else {
    sequence = sequence_of(args.row_starts, args.sequences, row);
    first_row = args.row_starts[sequence];
    end_row = args.row_starts[sequence + 1];
    int32_t packed = (row - first_row) * args.group + head % args.group;
    sees = split_kv_tile_sees(args.contexts[sequence], packed / args.tile_rows, args.tile_rows,
                              args.group);
  }
  Row found;
  found.n_splits = split_kv_count(sees, args.splits.plan.tokens);
  found.first =
      (static_cast<int64_t>(args.splits.starts[sequence]) + row - first_row) * args.query_heads +
      head;
  found.stride = static_cast<int64_t>(end_row - first_row) * args.query_heads;
  return found;
}

/* What every `step`-th split of the row from `first` on sums up to, in the columns of a vector. */
__device__ __forceinline__ Sum sum_splits(const AttentionJoin &args, const Row &row, int column,
                                          int first, int step) {
  PartialRows partial = partial_rows(args.splits, args.query_heads, args.head_dim);
  Sum sum = {{-INFINITY, 0}, make_float4(0, 0, 0, 0)};
  for (int split = first; split < row.n_splits; split += loads * step) {
    PartialSoftmax states[loads];
    float4 values[loads];
    float max = sum.softmax.max;
#pragma unroll
    for (int i = 0; i < loads; i++) {
      bool is_there = split + i * step < row.n_splits;
      int64_t at = row.first + (is_there ? split + i * step : split) * row.stride;
      states[i] = partial.states[at];
      values[i] = *reinterpret_cast<const float4 *>(partial.values + at * args.head_dim + column);
      states[i].max = is_there ? states[i].max : -INFINITY;
      max = fmaxf(max, states[i].max);
    }
    sum.rescale(max);
#pragma unroll
    for (int i = 0; i < loads; i++) {
      Sum own = {states[i], values[i]};
      own.scale(partial_softmax_weight(states[i], max));
      sum.add(own.softmax.sum, own.values);
    }
  }
  return sum;
}

/* Puts the lanes of a warp that have the same columns on one scale, and adds them up. */
__device__ __forceinline__ void join_lanes(Sum &sum) {
#pragma unroll
  for (int bits = column_lanes; bits < 32; bits *= 2) {
    float other = __shfl_xor_sync(0xffffffffu, sum.softmax.max, bits);
    sum.rescale(fmaxf(sum.softmax.max, other));
    float4 values = make_float4(__shfl_xor_sync(0xffffffffu, sum.values.x, bits),
                                __shfl_xor_sync(0xffffffffu, sum.values.y, bits),
                                __shfl_xor_sync(0xffffffffu, sum.values.z, bits),
                                __shfl_xor_sync(0xffffffffu, sum.values.w, bits));
    sum.add(__shfl_xor_sync(0xffffffffu, sum.softmax.sum, bits), values);
  }
}

/* Divides by the sum and writes a column vector of a head. */
template <class Type>
__device__ __forceinline__ void store(const AttentionJoin &args, const Sum &sum, int64_t row,
                                      int head, int column) {
  float inverse = 1.0f / sum.softmax.sum;
  int64_t at = row * args.query_heads + head;
  auto *out = static_cast<typename Type::Element *>(args.out) + at * args.head_dim + column;
  *reinterpret_cast<uint2 *>(out) =
      make_uint2(Type::pack(sum.values.x * inverse, sum.values.y * inverse),
                 Type::pack(sum.values.z * inverse, sum.values.w * inverse));
}

template <class Type>
__global__ void __launch_bounds__(max_warps * 32) attention_join_many(const AttentionJoin args) {
  int vectors = args.head_dim / 4;
  int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  int column = static_cast<int>(index % vectors) * 4;
  int head = static_cast<int>(index / vectors % args.query_heads);
  int64_t at = index / vectors / args.query_heads;
  bool is_there = at < args.rows;
  Row row = find_row(args, is_there ? static_cast<int32_t>(at) : 0, head);
  wait_for_kernel_before();
  if (is_there && row.n_splits > 1) { // one was written by the kernel before
    store<Type>(args, sum_splits(args, row, column, 0, 1), at, head, column);
  }
}

template <class Type>
__global__ void __launch_bounds__(max_warps * 32) attention_join(const AttentionJoin args) {
  KERNEL_SHARED(Sum, sums, max_warps * column_lanes);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y;
  int column = blockIdx.z * columns + lane % column_lanes * 4;
  Row row = find_row(args, blockIdx.x, head);
  wait_for_kernel_before();
  if (row.n_splits == 1) {
    return; // written by the kernel before
  }
  Sum sum = sum_splits(args, row, column, threadIdx.x / column_lanes,
                       static_cast<int>(blockDim.x) / column_lanes);
  join_lanes(sum);
  if (lane < column_lanes) {
    sums[warp * column_lanes + lane] = sum;
  }
  __syncthreads();
  if (threadIdx.x < column_lanes) {
    int n_warps = static_cast<int>(blockDim.x) / 32;
    for (int i = 1; i < n_warps; i++) {
      Sum other = sums[i * column_lanes + lane];
      float max = fmaxf(sum.softmax.max, other.softmax.max);
      sum.rescale(max);
      other.rescale(max);
      sum.add(other.softmax.sum, other.values);
    }
    store<Type>(args, sum, blockIdx.x, head, column);
  }
}

auto *kernel_of(CalibDtype dtype) {
  return dtype == CALIB_BF16 ? attention_join<Bf16> : attention_join<Fp16>;
}
auto *kernel_of_many(CalibDtype dtype) {
  return dtype == CALIB_BF16 ? attention_join_many<Bf16> : attention_join_many<Fp16>;
}

} // namespace

int attention_join_load(CalibDtype dtype) {
  KernelLoaded loaded;
  int error = kernel_load(kernel_of(dtype), max_warps * 32, 0, &loaded);
  return error != 0 ? error : kernel_load(kernel_of_many(dtype), max_warps * 32, 0, &loaded);
}

int attention_join_launch(KernelStream stream, CalibDtype dtype, const AttentionJoin &args) {
  constexpr int splits_at_once = splits_of_warp * loads, threads = max_warps * 32;
  int64_t vectors = static_cast<int64_t>(args.rows) * args.query_heads * args.head_dim / 4;
  if (vectors >= many_vectors && args.splits.plan.most <= few_splits) {
    return kernel_launch_behind(kernel_of_many(dtype), dim3((vectors + threads - 1) / threads),
                                dim3(threads), stream, args);
  }
  int warps = (args.splits.plan.most + splits_at_once - 1) / splits_at_once;
  dim3 grid(args.rows, args.query_heads, args.head_dim / columns);
  return kernel_launch_behind(kernel_of(dtype), grid, dim3(32 * min(warps, max_warps)), stream,
                              args);
}

size_t kernel_attention_workspace(const KernelAttention *shape, int32_t rows) {
  size_t n = static_cast<size_t>(rows) * static_cast<size_t>(shape->query_heads);
  return n * (static_cast<size_t>(shape->head_dim) * sizeof(float) + sizeof(PartialSoftmax));
}
