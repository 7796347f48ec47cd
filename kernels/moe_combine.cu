/* A token's result from those of its experts. One vector of the result per thread. */
#include "kernels/moe.h"
#include "kernels/vector.cuh"

namespace {

template <class T>
__global__ void moe_combine_kernel(const KernelMoe moe, uint4 *out, const uint4 *in, int vectors,
                                   int parts) {
  const RowItem at = row_item(parts);
  if (at.item >= vectors) return;
  const int64_t first = at.row * moe.per_token;
  Floats sum = {};
  for (int32_t choice = 0; choice < moe.per_token; choice++) {
    const float share = moe.shares[first + choice];
    const int64_t row = moe.rows[first + choice];
    const Floats x = vector_unpack<T>(in[row * vectors + at.item]);
#pragma unroll
    for (int i = 0; i < VECTOR_ELEMENTS; i++)
      sum.at[i] += share * x.at[i];
  }
  out[at.row * vectors + at.item] = vector_pack<T>(sum);
}

} // namespace

int kernel_moe_combine(KernelStream stream, const KernelMoe *moe, void *out, const void *in,
                       int32_t hidden) {
  if (hidden < VECTOR_ELEMENTS || hidden % VECTOR_ELEMENTS != 0) return KERNEL_INVALID;
  if (moe->tokens == 0) return 0;
  const int vectors = hidden / VECTOR_ELEMENTS;
  const RowGrid rows = row_grid(moe->tokens, vectors);
  auto *const kernel =
      moe->dtype == CALIB_BF16 ? moe_combine_kernel<Bf16> : moe_combine_kernel<Fp16>;
  return kernel_launch(kernel, rows.grid, rows.block, 0, stream, *moe, static_cast<uint4 *>(out),
                       static_cast<const uint4 *>(in), vectors, rows.parts);
}
