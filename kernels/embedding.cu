/* Rows picked by an index: of the table of tokens, with those of learned positions added, and of
 * the hidden states that need logits. */
#include "kernels/vector.cuh"

namespace {

template <class T>
__global__ void pick_rows_kernel(uint4 *out, const int32_t *ids, const uint4 *table,
                                 const int32_t *positions, const uint4 *positions_table,
                                 int vectors, int parts) {
  const RowItem at = row_item(parts);
  const int64_t token = at.row;
  const int column = at.item;
  if (column >= vectors) return;
  uint4 value = table[static_cast<int64_t>(ids[token]) * vectors + column];
  if (positions_table != nullptr) {
    const int64_t position = positions[token];
    value = vector_add<T>(value, positions_table[position * vectors + column]);
  }
  out[token * vectors + column] = value;
}

} // namespace

int kernel_embedding(KernelStream stream, CalibDtype dtype, void *out, const int32_t *ids,
                     const void *table, const int32_t *positions, const void *positions_table,
                     int32_t tokens, int32_t hidden) {
  if (hidden < VECTOR_ELEMENTS || hidden % VECTOR_ELEMENTS != 0) return KERNEL_INVALID;
  if (tokens == 0) return 0;
  const int vectors = hidden / VECTOR_ELEMENTS;
  const RowGrid rows = row_grid(tokens, vectors);
  auto *const kernel = dtype == CALIB_BF16 ? pick_rows_kernel<Bf16> : pick_rows_kernel<Fp16>;
  return kernel_launch(kernel, rows.grid, rows.block, 0, stream, static_cast<uint4 *>(out), ids,
                       static_cast<const uint4 *>(table), positions,
                       static_cast<const uint4 *>(positions_table), vectors, rows.parts);
}

int kernel_gather_rows(KernelStream stream, CalibDtype dtype, void *out, const void *in,
                       const int32_t *rows, int32_t n, int32_t hidden) {
  return kernel_embedding(stream, dtype, out, rows, in, nullptr, nullptr, n, hidden);
}
