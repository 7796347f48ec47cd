/* Residual addition and RMSNorm or LayerNorm: a row stays in registers from its one reading to its
 * one writing, so the variance is taken around the mean and not as a difference of squares.
 *
 * Wide rows have a block each, rows of up to 1024 elements a warp each. */
#include "kernels/vector.cuh"

namespace {

constexpr int MAX_THREADS = 512, WARP_ROW_VECTORS = 4 * WARP_LANES, WARP_ROWS = 4;

struct NormArguments {
  uint4 *out, *residual;
  const uint4 *x, *weight, *bias;
  float epsilon;
  int tokens, vectors; // of a row
};

/* `count` vectors of this thread, blockDim.x apart, of a row; 0 past its end. */
template <int count>
__device__ __forceinline__ void load_row(uint4 (&to)[count], const uint4 *row, int vectors) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x);
    to[i] = row != nullptr && column < vectors ? row[column] : make_uint4(0, 0, 0, 0);
  }
}

/* What every row is scaled by: on its way to the L2 cache while the sums wait for the row. */
template <int count> __device__ __forceinline__ void prefetch_row(const uint4 *row, int vectors) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (row != nullptr && column < vectors) prefetch_l2(row + column);
  }
}

/* Sum of (x − shift)^power over the row. */
template <class T, int power, int count>
__device__ __forceinline__ float power_sum(const uint4 (&row)[count], float shift, int vectors) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < count; i++) {
    if (static_cast<int>(threadIdx.x + i * blockDim.x) >= vectors) continue;
    const Floats x = vector_unpack<T>(row[i]);
#pragma unroll
    for (int j = 0; j < VECTOR_ELEMENTS; j++) {
      const float distance = x.at[j] - shift;
      sum += power == 2 ? distance * distance : distance;
    }
  }
  return threads_sum(sum);
}

template <class T>
__device__ __forceinline__ uint4 scale(uint4 bits, float mean, float factor, uint4 weight_bits,
                                       uint4 bias_bits) {
  const Floats x = vector_unpack<T>(bits), weight = vector_unpack<T>(weight_bits);
  const Floats bias = vector_unpack<T>(bias_bits);
  Floats out;
#pragma unroll
  for (int j = 0; j < VECTOR_ELEMENTS; j++)
    out.at[j] = (x.at[j] - mean) * factor * weight.at[j] + bias.at[j];
  return vector_pack<T>(out);
}

/* Two blocks of wide rows share a multiprocessor, so that one reads while the other sums. */
template <class T, CalibNorm norm, int count>
__global__ void __launch_bounds__(MAX_THREADS, count <= 4 ? 2 : 1)
    norm_kernel(const NormArguments a) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (token >= a.tokens) return; // a whole warp, which waits for no other
  const int64_t begin = token * a.vectors;

  uint4 row[count], added[count];
  load_row(row, a.residual + begin, a.vectors);
  load_row(added, a.x != nullptr ? a.x + begin : nullptr, a.vectors);
  prefetch_row<count>(a.weight, a.vectors);
  if (norm == CALIB_LAYER_NORM) prefetch_row<count>(a.bias, a.vectors);
  if (a.x != nullptr) {
#pragma unroll
    for (int i = 0; i < count; i++) {
      const int column = static_cast<int>(threadIdx.x + i * blockDim.x);
      row[i] = vector_add<T>(row[i], added[i]);
      if (column < a.vectors) a.residual[begin + column] = row[i];
    }
  }

  const float hidden = static_cast<float>(a.vectors * VECTOR_ELEMENTS);
  const float mean =
      norm == CALIB_LAYER_NORM ? power_sum<T, 1>(row, 0.0f, a.vectors) / hidden : 0.0f;
  const float variance = power_sum<T, 2>(row, mean, a.vectors) / hidden;
  const float factor = rsqrtf(variance + a.epsilon);
  uint4 weight[count], bias[count];
  load_row(weight, a.weight, a.vectors);
  load_row(bias, norm == CALIB_LAYER_NORM ? a.bias : nullptr, a.vectors);
#pragma unroll
  for (int i = 0; i < count; i++) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (column < a.vectors)
      a.out[begin + column] = scale<T>(row[i], mean, factor, weight[i], bias[i]);
  }
}

template <class T, CalibNorm norm> int launch(KernelStream stream, const NormArguments &a) {
  const bool warp_rows = a.vectors <= WARP_ROW_VECTORS;
  int count = 1;
  while (count * (warp_rows ? WARP_LANES : MAX_THREADS) < a.vectors)
    count *= 2;
  const int lanes = warp_rows ? WARP_LANES : whole_warps(divide_up(a.vectors, count));
  const int rows = warp_rows ? WARP_ROWS : 1;
  const dim3 grid(static_cast<unsigned>(divide_up(a.tokens, rows)));
  const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(rows));
  switch (count) {
  case 1:
    return kernel_launch(norm_kernel<T, norm, 1>, grid, block, 0, stream, a);
  case 2:
    return kernel_launch(norm_kernel<T, norm, 2>, grid, block, 0, stream, a);
  case 4:
    return kernel_launch(norm_kernel<T, norm, 4>, grid, block, 0, stream, a);
  case 8:
    return kernel_launch(norm_kernel<T, norm, 8>, grid, block, 0, stream, a);
  default:
    return KERNEL_INVALID;
  }
}

template <class T> int launch_norm(KernelStream stream, CalibNorm norm, const NormArguments &a) {
  return norm == CALIB_RMS_NORM ? launch<T, CALIB_RMS_NORM>(stream, a)
                                : launch<T, CALIB_LAYER_NORM>(stream, a);
}

} // namespace

int kernel_norm(KernelStream stream, CalibDtype dtype, CalibNorm norm, void *out, void *residual,
                const void *x, const void *weight, const void *bias, float epsilon, int32_t tokens,
                int32_t hidden) {
  if (hidden < VECTOR_ELEMENTS || hidden % VECTOR_ELEMENTS != 0) return KERNEL_INVALID;
  if (tokens == 0) return 0;
  const NormArguments a = {static_cast<uint4 *>(out),
                           static_cast<uint4 *>(residual),
                           static_cast<const uint4 *>(x),
                           static_cast<const uint4 *>(weight),
                           static_cast<const uint4 *>(bias),
                           epsilon,
                           tokens,
                           hidden / VECTOR_ELEMENTS};
  return dtype == CALIB_BF16 ? launch_norm<Bf16>(stream, norm, a)
                             : launch_norm<Fp16>(stream, norm, a);
}
