/* Pages of one layer to a buffer and back by the multiprocessors: one launch for pages that lie
 * anywhere, where the copy engine would need a call for each. */
#include "kernels/vector.cuh"

namespace {

constexpr int COPY_THREADS = 256, COPY_VECTORS = 4, COPY_PART = COPY_THREADS * COPY_VECTORS;

/* Page i of the buffer is pages[i] of the pool. All of a thread's reads are under way before its
 * first write, because host memory is microseconds away. */
template <bool to_buffer>
__global__ void __launch_bounds__(COPY_THREADS)
    kv_copy_kernel(uint4 *to, const uint4 *from, const int32_t *pages, int64_t page_vectors) {
  const int64_t in_buffer = blockIdx.x * page_vectors;
  const int64_t in_pool = pages[blockIdx.x] * page_vectors;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * COPY_PART + threadIdx.x;
  from += (to_buffer ? in_pool : in_buffer) + first;
  to += (to_buffer ? in_buffer : in_pool) + first;
  const int64_t left = page_vectors - first;
  uint4 value[COPY_VECTORS];
#pragma unroll
  for (int i = 0; i < COPY_VECTORS; i++)
    if (i * COPY_THREADS < left) value[i] = from[i * COPY_THREADS];
#pragma unroll
  for (int i = 0; i < COPY_VECTORS; i++)
    if (i * COPY_THREADS < left) to[i * COPY_THREADS] = value[i];
}

template <bool to_buffer>
int launch(KernelStream stream, void *to, const void *from, const int32_t *pages, int n_pages,
           int64_t page_bytes) {
  if (page_bytes < VECTOR_BYTES || page_bytes % VECTOR_BYTES != 0) return KERNEL_INVALID;
  if (n_pages == 0) return 0;
  const int64_t vectors = page_bytes / VECTOR_BYTES;
  const dim3 grid(static_cast<unsigned>(n_pages),
                  static_cast<unsigned>(divide_up(vectors, COPY_PART)));
  return kernel_launch(kv_copy_kernel<to_buffer>, grid, dim3(COPY_THREADS), 0, stream,
                       static_cast<uint4 *>(to), static_cast<const uint4 *>(from), pages, vectors);
}

} // namespace

int kernel_kv_gather(KernelStream stream, void *buffer, const void *kv_pages, const int32_t *pages,
                     int32_t n_pages, int64_t page_bytes) {
  return launch<true>(stream, buffer, kv_pages, pages, n_pages, page_bytes);
}

int kernel_kv_scatter(KernelStream stream, void *kv_pages, const void *buffer, const int32_t *pages,
                      int32_t n_pages, int64_t page_bytes) {
  return launch<false>(stream, kv_pages, buffer, pages, n_pages, page_bytes);
}
