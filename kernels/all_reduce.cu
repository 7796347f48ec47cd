/* Sums over the GPUs of a group, which read one another's memory: of small tensors much faster than
 * a ring, and what engines run for these.
 *
 * One shot: every rank reads all of every other's input. Two shots: every rank sums its part of it,
 * then reads the sums of the others, so that n − 1 of n parts cross the links twice instead of
 * n − 1 whole tensors once.
 *
 * A block meets those of its number on the other GPUs and no others, since at every step it touches
 * only what these have written. They meet twice in a run: before an input is read, and before sums
 * of parts are or an input may be written again. A sum that is read is written again in the next
 * run only behind its first meeting, to which the readers come when they have read. Sums are in
 * fp32 in the order of ranks, so all ranks have the same bits. */
#include "kernels/all_reduce.h"
#include "kernels/vector.cuh"

namespace {

constexpr int THREADS = 512, POLLS = 1024;

/* Whether the peer has come to this run's meeting; runs are numbers that may wrap. */
__device__ __forceinline__ bool has_come(const uint32_t *arrived, uint32_t run) {
  return static_cast<int32_t>(load_acquire_system(arrived) - run) >= 0;
}

/* A peer whose process has ended never comes. */
__device__ __forceinline__ void wait_for(const uint32_t *arrived, uint32_t run, uint64_t timeout_ns,
                                         uint32_t *late) {
  const uint64_t begin = global_timer_ns();
  while (!has_come(arrived, run)) {
    for (int i = 0; i < POLLS && !has_come(arrived, run); i++)
      ;
    if (global_timer_ns() - begin < timeout_ns) continue;
    *late = 1;
    return;
  }
}

/* What a block has read and written before is done when its peers have come, and they see it. */
template <int n_ranks>
__device__ __forceinline__ void meet(const KernelGroup &g, int meeting, uint32_t run) {
  const int peer = static_cast<int>(threadIdx.x);
  KernelSignals *const own = g.signals[g.rank];
  __syncthreads();
  if (peer < n_ranks)
    store_release_system(&g.signals[peer]->arrived[meeting][blockIdx.x][g.rank], run);
  __syncthreads(); // no thread waits before all have told
  if (peer < n_ranks)
    wait_for(&own->arrived[meeting][blockIdx.x][peer], run, g.timeout_ns, &own->late);
  __syncthreads();
}

template <class T, int n_ranks>
__device__ __forceinline__ uint4 sum_at(const KernelGroup &g, int64_t vector) {
  uint4 bits[n_ranks];
#pragma unroll
  for (int rank = 0; rank < n_ranks; rank++)
    bits[rank] = static_cast<const uint4 *>(g.in[rank])[vector];
  Floats sum = vector_unpack<T>(bits[0]);
#pragma unroll
  for (int rank = 1; rank < n_ranks; rank++) {
    const Floats x = vector_unpack<T>(bits[rank]);
#pragma unroll
    for (int j = 0; j < VECTOR_ELEMENTS; j++)
      sum.at[j] += x.at[j];
  }
  return vector_pack<T>(sum);
}

template <class T, int n_ranks>
__global__ void __launch_bounds__(THREADS)
    one_shot_kernel(const KernelGroup g, uint4 *out, int64_t vectors) {
  KernelSignals *const own = g.signals[g.rank];
  const uint32_t run = own->runs[blockIdx.x] + 1;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  meet<n_ranks>(g, 0, run);
  for (int64_t i = first; i < vectors; i += static_cast<int64_t>(gridDim.x) * THREADS)
    out[i] = sum_at<T, n_ranks>(g, i);
  meet<n_ranks>(g, 1, run);
  if (threadIdx.x == 0) own->runs[blockIdx.x] = run;
}

template <class T, int n_ranks>
__global__ void __launch_bounds__(THREADS)
    two_shot_kernel(const KernelGroup g, uint4 *out, int64_t vectors) {
  KernelSignals *const own = g.signals[g.rank];
  const uint32_t run = own->runs[blockIdx.x] + 1;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  const int64_t part = (vectors + n_ranks - 1) / n_ranks;
  uint4 *const sums = static_cast<uint4 *>(g.parts[g.rank]);
  meet<n_ranks>(g, 0, run);
  for (int64_t i = first; i < part && g.rank * part + i < vectors; i += stride)
    sums[i] = sum_at<T, n_ranks>(g, g.rank * part + i);
  meet<n_ranks>(g, 1, run);
  for (int k = 0; k < n_ranks; k++) {
    const int rank = (g.rank + k) % n_ranks; // not all from the same at once
    const uint4 *const from = static_cast<const uint4 *>(g.parts[rank]);
    for (int64_t i = first; i < part && rank * part + i < vectors; i += stride)
      out[rank * part + i] = from[i];
  }
  if (threadIdx.x == 0) own->runs[blockIdx.x] = run;
}

typedef void (*Kernel)(KernelGroup, uint4 *, int64_t);

template <class T> Kernel kernel_of_ranks(KernelReduce way, int32_t n_ranks) {
  const bool one_shot = way == KERNEL_ONE_SHOT;
  switch (n_ranks) {
  case 2:
    return one_shot ? one_shot_kernel<T, 2> : two_shot_kernel<T, 2>;
  case 4:
    return one_shot ? one_shot_kernel<T, 4> : two_shot_kernel<T, 4>;
  case 8:
    return one_shot ? one_shot_kernel<T, 8> : two_shot_kernel<T, 8>;
  default:
    return nullptr;
  }
}

Kernel kernel_of(CalibDtype dtype, KernelReduce way, int32_t n_ranks) {
  return dtype == CALIB_BF16 ? kernel_of_ranks<Bf16>(way, n_ranks)
                             : kernel_of_ranks<Fp16>(way, n_ranks);
}

} // namespace

int kernel_all_reduce_load(CalibDtype dtype, KernelReduce way, int32_t n_ranks) {
  const Kernel kernel = kernel_of(dtype, way, n_ranks);
  KernelLoaded loaded;
  return kernel == nullptr ? KERNEL_INVALID : kernel_load(kernel, THREADS, 0, &loaded);
}

int kernel_all_reduce(KernelStream stream, CalibDtype dtype, KernelReduce way,
                      const KernelGroup *group, void *out, int64_t n) {
  const Kernel kernel = kernel_of(dtype, way, group->n_ranks);
  if (kernel == nullptr || n < 1 || n % VECTOR_ELEMENTS != 0) return KERNEL_INVALID;
  const int64_t vectors = n / VECTOR_ELEMENTS, parts = way == KERNEL_ONE_SHOT ? 1 : group->n_ranks;
  const int blocks = divide_up(divide_up(vectors, parts), THREADS);
  const dim3 grid(
      static_cast<unsigned>(blocks < KERNEL_REDUCE_BLOCKS ? blocks : KERNEL_REDUCE_BLOCKS));
  return kernel_launch(kernel, grid, dim3(THREADS), 0, stream, *group, static_cast<uint4 *>(out),
                       vectors);
}
