/* Contents for tensors that are measured, and a hold for the stream they are measured on. */
#include "kernels/philox.h"
#include "kernels/vector.cuh"

namespace {

constexpr int FILL_THREADS = 256;
constexpr int64_t FILL_BLOCKS = 4096;

/* Box and Muller: two normal numbers of two words. */
__device__ __forceinline__ float2 normal_pair(uint32_t radius_word, uint32_t angle_word) {
  const float u = (static_cast<float>(radius_word) + 0.5f) * 0x1p-32f; // (0, 1]
  const float radius = sqrtf(-2.0f * logf(u));
  const float half_turns = static_cast<float>(angle_word) * 0x1p-31f;
  return make_float2(radius * cospif(half_turns), radius * sinpif(half_turns));
}

__device__ __forceinline__ Floats normal_vector(int64_t vector, uint64_t seed, float deviation) {
  Floats x;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const PhiloxWords words = philox_group(static_cast<uint64_t>(2 * vector + i), seed);
    const float2 a = normal_pair(words.at[0], words.at[1]);
    const float2 b = normal_pair(words.at[2], words.at[3]);
    x.at[4 * i] = a.x * deviation;
    x.at[4 * i + 1] = a.y * deviation;
    x.at[4 * i + 2] = b.x * deviation;
    x.at[4 * i + 3] = b.y * deviation;
  }
  return x;
}

template <class T>
__global__ void __launch_bounds__(FILL_THREADS)
    fill_normal_kernel(typename T::Element *out, int64_t n, float deviation, uint64_t seed) {
  const int64_t vectors = n / VECTOR_ELEMENTS;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * FILL_THREADS + threadIdx.x;
  uint4 *const body = reinterpret_cast<uint4 *>(out);
  for (int64_t v = thread; v < vectors; v += static_cast<int64_t>(gridDim.x) * FILL_THREADS)
    body[v] = vector_pack<T>(normal_vector(v, seed, deviation));
  const int tail = static_cast<int>(n % VECTOR_ELEMENTS);
  if (thread != 0 || tail == 0) return;
  const Floats x = normal_vector(vectors, seed, deviation);
#pragma unroll
  for (int i = 0; i < VECTOR_ELEMENTS; i++)
    if (i < tail) out[vectors * VECTOR_ELEMENTS + i] = T::round(x.at[i]);
}

template <class T>
int launch(KernelStream stream, void *out, int64_t n, float deviation, uint64_t seed) {
  const int64_t blocks = (n / VECTOR_ELEMENTS + FILL_THREADS) / FILL_THREADS;
  const dim3 grid(static_cast<unsigned>(blocks < FILL_BLOCKS ? blocks : FILL_BLOCKS));
  return kernel_launch(fill_normal_kernel<T>, grid, dim3(FILL_THREADS), 0, stream,
                       static_cast<typename T::Element *>(out), n, deviation, seed);
}

/* What is volatile is read though nobody looks at it. */
__global__ void __launch_bounds__(FILL_THREADS)
    read_kernel(const volatile uint32_t *data, int64_t n) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * FILL_THREADS + threadIdx.x;
  for (int64_t i = thread; i < n; i += static_cast<int64_t>(gridDim.x) * FILL_THREADS)
    static_cast<void>(data[i]);
}

__global__ void wait_flag_kernel(const volatile int32_t *flag, uint64_t timeout_ns) {
  const uint64_t begin = global_timer_ns();
  while (load_flag(flag) == 0 && global_timer_ns() - begin < timeout_ns)
    __nanosleep(100);
}

} // namespace

int kernel_image_load(void) {
  KernelLoaded loaded;
  return kernel_load(wait_flag_kernel, 1, 0, &loaded);
}

int kernel_fill_normal(KernelStream stream, CalibDtype dtype, void *out, int64_t n, float deviation,
                       uint64_t seed) {
  if (n == 0) return 0;
  return dtype == CALIB_BF16 ? launch<Bf16>(stream, out, n, deviation, seed)
                             : launch<Fp16>(stream, out, n, deviation, seed);
}

int kernel_read(KernelStream stream, const void *data, int64_t bytes) {
  const int64_t n = bytes / 4, blocks = (n + FILL_THREADS - 1) / FILL_THREADS;
  if (n == 0) return 0;
  const dim3 grid(static_cast<unsigned>(blocks < FILL_BLOCKS ? blocks : FILL_BLOCKS));
  return kernel_launch(read_kernel, grid, dim3(FILL_THREADS), 0, stream,
                       static_cast<const volatile uint32_t *>(data), n);
}

int kernel_wait_flag(KernelStream stream, const volatile int32_t *host_flag, int64_t timeout_ns) {
  return kernel_launch(wait_flag_kernel, dim3(1), dim3(1), 0, stream, host_flag,
                       static_cast<uint64_t>(timeout_ns));
}
