/* What stands between the two products of a feed-forward layer. One vector of the result per
 * thread. */
#include "kernels/vector.cuh"

namespace {

/* By exp and division at the hardware's precision, a few units of fp32: the 16-bit result keeps
 * none of the difference, and the exact forms would be bound by arithmetic and not by memory. */
__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

/* ½x·(1 + tanh u) = x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³). */
__device__ __forceinline__ float gelu(float x) {
  const float twice_u = 1.5957691216f * (x + 0.044715f * x * x * x);
  return x * sigmoid(twice_u);
}

template <class T, CalibActivation activation>
__global__ void activation_kernel(uint4 *out, const uint4 *in, int vectors, int parts) {
  const RowItem at = row_item(parts);
  const int64_t token = at.row;
  const int column = at.item;
  if (column >= vectors) return;
  Floats y;
  if (activation == CALIB_SWIGLU) {
    const uint4 *const row = in + token * 2 * vectors;
    const uint4 gate_bits = row[column], up_bits = row[vectors + column];
    const Floats gate = vector_unpack<T>(gate_bits), up = vector_unpack<T>(up_bits);
#pragma unroll
    for (int i = 0; i < VECTOR_ELEMENTS; i++)
      y.at[i] = gate.at[i] * sigmoid(gate.at[i]) * up.at[i];
  } else {
    y = vector_unpack<T>(in[token * vectors + column]);
#pragma unroll
    for (int i = 0; i < VECTOR_ELEMENTS; i++)
      y.at[i] = activation == CALIB_GELU ? gelu(y.at[i]) : fmaxf(y.at[i], 0.0f);
  }
  out[token * vectors + column] = vector_pack<T>(y);
}

template <class T>
int launch(KernelStream stream, CalibActivation activation, void *out, const void *in, int tokens,
           int vectors) {
  auto *const kernel = activation == CALIB_SWIGLU ? activation_kernel<T, CALIB_SWIGLU>
                       : activation == CALIB_GELU ? activation_kernel<T, CALIB_GELU>
                                                  : activation_kernel<T, CALIB_RELU>;
  const RowGrid rows = row_grid(tokens, vectors);
  return kernel_launch(kernel, rows.grid, rows.block, 0, stream, static_cast<uint4 *>(out),
                       static_cast<const uint4 *>(in), vectors, rows.parts);
}

} // namespace

int kernel_activation(KernelStream stream, CalibDtype dtype, CalibActivation activation, void *out,
                      const void *in, int32_t tokens, int32_t ffn) {
  if (ffn < VECTOR_ELEMENTS || ffn % VECTOR_ELEMENTS != 0) return KERNEL_INVALID;
  if (tokens == 0) return 0;
  const int vectors = ffn / VECTOR_ELEMENTS;
  return dtype == CALIB_BF16 ? launch<Bf16>(stream, activation, out, in, tokens, vectors)
                             : launch<Fp16>(stream, activation, out, in, tokens, vectors);
}
