/* The names that CUDA gives to device code, for the emulator: part of emulator.h. */
#ifndef TESTS_KERNELS_EMULATOR_INTRINSICS_H
#define TESTS_KERNELS_EMULATOR_INTRINSICS_H

#define threadIdx (emulator::thread->index)
#define blockIdx  (emulator::block_index)
#define blockDim  (emulator::block)
#define gridDim   (emulator::grid)

#define __syncthreads() emulator::barrier(__FILE__, __LINE__)

inline void __syncwarp(uint32_t mask = 0xffffffffu) {
  emulator::sync_warp(mask);
}

template <class T> T __shfl_sync(uint32_t mask, T value, int source, int width = 32) {
  int segment = emulator::lane() / width * width;
  return emulator::shuffle(mask, value, segment + (source & (width - 1)));
}
template <class T> T __shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32) {
  int lane = emulator::lane(), source = lane ^ bits;
  return emulator::shuffle(mask, value, source / width <= lane / width ? source : lane);
}
template <class T> T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = 32) {
  int lane = emulator::lane();
  bool inside = lane % width >= static_cast<int>(delta);
  return emulator::shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane);
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
  return emulator::reduce<int, uint32_t>(mask, predicate, [](const int *values, uint32_t present) {
    uint32_t votes = 0;
    for (int i = 0; i < 32; i++) {
      votes |= (present >> i & 1) != 0 && values[i] != 0 ? 1u << i : 0u;
    }
    return votes;
  });
}
inline int __any_sync(uint32_t mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}

inline void __nanosleep(unsigned) {}

template <class T> T __ldg(const T *at) {
  return *at;
}

template <class To, class From> To emulated_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To to;
  memcpy(static_cast<void *>(&to), &from, sizeof to);
  return to;
}
inline float __uint_as_float(uint32_t bits) {
  return emulated_bits<float>(bits);
}

inline float __expf(float x) {
  return expf(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
inline float cospif(float x) {
  return static_cast<float>(cos(M_PI * x));
}
inline float sinpif(float x) {
  return static_cast<float>(sin(M_PI * x));
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}

using std::max;
using std::min;
#endif
