/* The first greatest logit of each row, in two passes: parts of rows by a block each, then the
 * parts of a row by a warp. NaN is never greatest; a row of nothing else gives 0. */
#include "kernels/vector.cuh"

#include <math.h>

namespace {

constexpr int PART_ELEMENTS = 8192, PART_THREADS = 256;

__device__ __forceinline__ Best nothing() {
  return {-INFINITY, 0};
}

/* Of elements begin … end of a row: single ones up to a multiple of 16 bytes, vectors, single ones
 * again, so that rows of any length can be read. */
template <class T>
__device__ __forceinline__ Best scan(const typename T::Element *row, int begin, int end) {
  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row + begin) % VECTOR_BYTES) / 2;
  const int first = min(end, begin + (past != 0 ? VECTOR_ELEMENTS - past : 0));
  const int vectors = (end - first) / VECTOR_ELEMENTS;
  const int last = first + vectors * VECTOR_ELEMENTS;
  const int thread = static_cast<int>(threadIdx.x);

  Best best = nothing();
  if (begin + thread < first) best = better(best, {T::load(row[begin + thread]), begin + thread});
  const uint4 *const body = reinterpret_cast<const uint4 *>(row + first);
#pragma unroll 4
  for (int v = thread; v < vectors; v += PART_THREADS) {
    const Floats x = vector_unpack<T>(body[v]);
#pragma unroll
    for (int i = 0; i < VECTOR_ELEMENTS; i++)
      best = better(best, {x.at[i], first + v * VECTOR_ELEMENTS + i});
  }
  if (last + thread < end) best = better(best, {T::load(row[last + thread]), last + thread});
  return best;
}

template <class T>
__global__ void __launch_bounds__(PART_THREADS)
    argmax_parts_kernel(Best *parts, const typename T::Element *logits, int vocab) {
  const int64_t row = blockIdx.x;
  const int begin = static_cast<int>(blockIdx.y) * PART_ELEMENTS;
  const Best best =
      warp_best(scan<T>(logits + row * vocab, begin, min(vocab, begin + PART_ELEMENTS)));
  KERNEL_SHARED(Best, warps, PART_THREADS / WARP_LANES);
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  if (lane == 0) warps[threadIdx.x / WARP_LANES] = best;
  __syncthreads();
  if (threadIdx.x >= WARP_LANES) return;
  const Best all = warp_best(lane < PART_THREADS / WARP_LANES ? warps[lane] : nothing());
  if (lane == 0) parts[row * gridDim.y + blockIdx.y] = all;
}

__global__ void argmax_rows_kernel(int32_t *ids, const Best *parts, int n_parts) {
  const int64_t row = blockIdx.x;
  Best best = nothing();
  for (int i = static_cast<int>(threadIdx.x); i < n_parts; i += WARP_LANES)
    best = better(best, parts[row * n_parts + i]);
  best = warp_best(best);
  if (threadIdx.x == 0) ids[row] = best.index;
}

template <class T>
int launch(KernelStream stream, Best *parts, const void *logits, int rows, int vocab) {
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(divide_up(vocab, PART_ELEMENTS)));
  return kernel_launch(argmax_parts_kernel<T>, grid, dim3(PART_THREADS), 0, stream, parts,
                       static_cast<const typename T::Element *>(logits), vocab);
}

} // namespace

size_t kernel_argmax_workspace(int32_t rows, int32_t vocab) {
  return static_cast<size_t>(rows) * static_cast<size_t>(divide_up(vocab, PART_ELEMENTS)) *
         sizeof(Best);
}

int kernel_argmax(KernelStream stream, CalibDtype dtype, int32_t *ids, const void *logits,
                  int32_t rows, int32_t vocab, void *partial) {
  if (vocab < 1) return KERNEL_INVALID;
  if (rows == 0) return 0;
  Best *const parts = static_cast<Best *>(partial);
  const int error = dtype == CALIB_BF16 ? launch<Bf16>(stream, parts, logits, rows, vocab)
                                        : launch<Fp16>(stream, parts, logits, rows, vocab);
  if (error != 0) return error;
  return kernel_launch(argmax_rows_kernel, dim3(static_cast<unsigned>(rows)), dim3(WARP_LANES), 0,
                       stream, ids, static_cast<const Best *>(parts),
                       divide_up(vocab, PART_ELEMENTS));
}
