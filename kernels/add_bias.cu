/* A bias onto every row, for products whose epilogue did not add it. */
#include "kernels/vector.cuh"

namespace {

template <class T>
__global__ void add_bias_kernel(uint4 *x, const uint4 *bias, int vectors, int parts) {
  const RowItem at = row_item(parts);
  if (at.item >= vectors) return;
  uint4 *const place = x + at.row * vectors + at.item;
  *place = vector_add<T>(*place, bias[at.item]);
}

} // namespace

int kernel_add_bias(KernelStream stream, CalibDtype dtype, void *x, const void *bias,
                    int32_t tokens, int32_t columns) {
  if (columns < VECTOR_ELEMENTS || columns % VECTOR_ELEMENTS != 0) return KERNEL_INVALID;
  if (tokens == 0) return 0;
  const int vectors = columns / VECTOR_ELEMENTS;
  const RowGrid rows = row_grid(tokens, vectors);
  auto *const kernel = dtype == CALIB_BF16 ? add_bias_kernel<Bf16> : add_bias_kernel<Fp16>;
  return kernel_launch(kernel, rows.grid, rows.block, 0, stream, static_cast<uint4 *>(x),
                       static_cast<const uint4 *>(bias), vectors, rows.parts);
}
