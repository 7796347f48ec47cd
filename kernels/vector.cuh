/* Rows of tensors in vectors of 16 bytes: eight elements to and from fp32, sums over the threads
 * that share a row, and the grid of kernels whose threads have one vector each. */
#ifndef KERNELS_VECTOR_CUH
#define KERNELS_VECTOR_CUH
#include "kernels/dtype.cuh"

constexpr int VECTOR_ELEMENTS = 8, VECTOR_BYTES = 16, WARP_LANES = 32;
constexpr int KERNEL_INVALID = 1; // cudaErrorInvalidValue

struct Floats {
  float at[VECTOR_ELEMENTS];
};

template <class T> __device__ __forceinline__ Floats vector_unpack(uint4 bits) {
  const float2 a = T::unpack(bits.x), b = T::unpack(bits.y);
  const float2 c = T::unpack(bits.z), d = T::unpack(bits.w);
  return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}

template <class T> __device__ __forceinline__ uint4 vector_pack(const Floats &x) {
  return make_uint4(T::pack(x.at[0], x.at[1]), T::pack(x.at[2], x.at[3]), T::pack(x.at[4], x.at[5]),
                    T::pack(x.at[6], x.at[7]));
}

/* a + b, summed in fp32 and rounded. */
template <class T> __device__ __forceinline__ uint4 vector_add(uint4 a, uint4 b) {
  const Floats x = vector_unpack<T>(a), y = vector_unpack<T>(b);
  Floats sum;
#pragma unroll
  for (int i = 0; i < VECTOR_ELEMENTS; i++)
    sum.at[i] = x.at[i] + y.at[i];
  return vector_pack<T>(sum);
}

/* The greatest number and where it stands; of equals the one that stands first. */
struct Best {
  float value;
  int32_t index;
};

__device__ __forceinline__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ __forceinline__ Best warp_best(Best best) {
#pragma unroll
  for (int distance = WARP_LANES / 2; distance > 0; distance /= 2) {
    const float value = __shfl_xor_sync(0xffffffffu, best.value, distance);
    const int32_t index = __shfl_xor_sync(0xffffffffu, best.index, distance);
    best = better(best, {value, index});
  }
  return best;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = WARP_LANES / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/* The sum over the threads of one threadIdx.y, which must be a warp or the whole block. */
__device__ __forceinline__ float threads_sum(float value) {
  value = warp_sum(value);
  if (blockDim.x == WARP_LANES) return value;
  KERNEL_SHARED(float, partial, WARP_LANES);
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  const int warps = static_cast<int>(blockDim.x) / WARP_LANES;
  __syncthreads(); // an earlier sum may still be read
  if (lane == 0) partial[threadIdx.x / WARP_LANES] = value;
  __syncthreads();
  return warp_sum(lane < warps ? partial[lane] : 0.0f);
}

static inline int divide_up(int64_t n, int64_t by) {
  return static_cast<int>((n + by - 1) / by);
}

static inline int whole_warps(int threads) {
  return divide_up(threads, WARP_LANES) * WARP_LANES;
}

/* Blocks for rows of `items`, one per thread: the parts of a row follow one another, and are of
 * equal size, so that as few threads as can be have no item. */
struct RowGrid {
  dim3 grid, block;
  int parts;
};

static inline RowGrid row_grid(int rows, int64_t items) {
  const int parts = divide_up(items, 256);
  const int threads = whole_warps(divide_up(items, parts));
  const unsigned blocks = static_cast<unsigned>(rows) * static_cast<unsigned>(parts);
  return {dim3(blocks), dim3(static_cast<unsigned>(threads)), parts};
}

/* What this thread has; `item` may lie past the end of the row. */
struct RowItem {
  int64_t row;
  int item;
};

__device__ __forceinline__ RowItem row_item(int parts) {
  const unsigned row = blockIdx.x / static_cast<unsigned>(parts);
  const unsigned part = blockIdx.x % static_cast<unsigned>(parts);
  return {row, static_cast<int>(part * blockDim.x + threadIdx.x)};
}
#endif
