/* Activations to e4m3 before a product: a vector of 8 elements per thread, 16 threads to a group of
 * 128. Their greatest is found by shuffles, so a group is read once. */
#include "kernels/fp8.h"
#include "kernels/vector.cuh"

#include <cuda_fp8.h>

namespace {

constexpr int GROUP_LANES = FP8_BLOCK / VECTOR_ELEMENTS;
/* Below it a group is as good as zero, and its scale would not be a normal number. */
constexpr float LEAST = 1e-12f;

__device__ __forceinline__ uint32_t four(const float *x, float inverse) {
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float2 pair = make_float2(x[2 * i] * inverse, x[2 * i + 1] * inverse);
    bits |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3))
            << (16 * i);
  }
  return bits;
}

__device__ __forceinline__ float group_most(const Floats &x) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < VECTOR_ELEMENTS; i++)
    most = fmaxf(most, fabsf(x.at[i]));
#pragma unroll
  for (int distance = GROUP_LANES / 2; distance > 0; distance /= 2)
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, distance));
  return most;
}

template <class T, bool in_groups>
__global__ void quantize_kernel(uint2 *out, float *scales, const uint4 *in, int vectors, int parts,
                                int32_t scale_rows) {
  const RowItem at = row_item(parts);
  const bool exists = at.item < vectors;
  Floats x = {};
  if (exists) x = vector_unpack<T>(in[at.row * vectors + at.item]);
  float scale;
  if (in_groups) {
    scale = fmaxf(group_most(x), LEAST) / FP8_MOST;
    if (exists && at.item % GROUP_LANES == 0)
      scales[static_cast<int64_t>(at.item / GROUP_LANES) * scale_rows + at.row] = scale;
  } else {
    scale = *scales;
  }
  if (!exists) return;
  const float inverse = 1.0f / scale;
  out[at.row * vectors + at.item] = make_uint2(four(x.at, inverse), four(x.at + 4, inverse));
}

template <class T>
int launch(KernelStream stream, CalibWeights weights, uint8_t *out, float *scales, const void *in,
           int32_t tokens, int vectors) {
  auto *const kernel =
      weights == CALIB_FP8_BLOCK ? quantize_kernel<T, true> : quantize_kernel<T, false>;
  const RowGrid rows = row_grid(tokens, vectors);
  return kernel_launch(kernel, rows.grid, rows.block, 0, stream, reinterpret_cast<uint2 *>(out),
                       scales, static_cast<const uint4 *>(in), vectors, rows.parts,
                       fp8_rows(tokens));
}

} // namespace

int kernel_quantize(KernelStream stream, CalibDtype dtype, CalibWeights weights, uint8_t *out,
                    float *scales, const void *in, int32_t tokens, int32_t k) {
  if (weights == CALIB_WEIGHTS_PLAIN || k < VECTOR_ELEMENTS || k % VECTOR_ELEMENTS != 0)
    return KERNEL_INVALID;
  if (tokens == 0) return 0;
  const int vectors = k / VECTOR_ELEMENTS;
  return dtype == CALIB_BF16 ? launch<Bf16>(stream, weights, out, scales, in, tokens, vectors)
                             : launch<Fp16>(stream, weights, out, scales, in, tokens, vectors);
}
