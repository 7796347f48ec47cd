/* The names that CUDA gives to device code, for the emulator: part of emulator.h. */
#ifndef KERNELS_EMULATOR_INTRINSICS_H
#define KERNELS_EMULATOR_INTRINSICS_H

#define threadIdx (emulator::thread->index)
#define blockIdx  (emulator::block_index)
#define blockDim  (emulator::block)
#define gridDim   (emulator::grid)
#define warpSize  32

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
template <class T> T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = 32) {
  int lane = emulator::lane(), source = lane + static_cast<int>(delta);
  return emulator::shuffle(mask, value, source / width == lane / width ? source : lane);
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
inline int __all_sync(uint32_t mask, int predicate) {
  return __ballot_sync(mask, predicate == 0) == 0;
}
template <class T> T __reduce_add_sync(uint32_t mask, T value) {
  return emulator::reduce<T, T>(mask, value, [](const T *values, uint32_t present) {
    return emulator::fold(values, present, [](T a, T b) { return T(a + b); });
  });
}
template <class T> T __reduce_max_sync(uint32_t mask, T value) {
  return emulator::reduce<T, T>(mask, value, [](const T *values, uint32_t present) {
    return emulator::fold(values, present, [](T a, T b) { return a > b ? a : b; });
  });
}
template <class T> T __reduce_min_sync(uint32_t mask, T value) {
  return emulator::reduce<T, T>(mask, value, [](const T *values, uint32_t present) {
    return emulator::fold(values, present, [](T a, T b) { return a < b ? a : b; });
  });
}

template <class T> T atomicAdd(T *at, T value) {
  T old = *at;
  *at = old + value;
  return old;
}
template <class T> T atomicMax(T *at, T value) {
  T old = *at;
  *at = old > value ? old : value;
  return old;
}
template <class T> T atomicMin(T *at, T value) {
  T old = *at;
  *at = old < value ? old : value;
  return old;
}
template <class T> T atomicExch(T *at, T value) {
  T old = *at;
  *at = value;
  return old;
}
template <class T> T atomicCAS(T *at, T expected, T value) {
  T old = *at;
  *at = old == expected ? value : old;
  return old;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}

template <class T> T __ldg(const T *at) {
  return *at;
}
template <class T> T __ldcs(const T *at) {
  return *at;
}
template <class T> void __stcs(T *at, T value) {
  *at = value;
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
inline float __int_as_float(int bits) {
  return emulated_bits<float>(bits);
}
inline uint32_t __float_as_uint(float value) {
  return emulated_bits<uint32_t>(value);
}
inline int __float_as_int(float value) {
  return emulated_bits<int>(value);
}

inline float __expf(float x) {
  return expf(x);
}
inline float __logf(float x) {
  return logf(x);
}
inline float __log2f(float x) {
  return log2f(x);
}
inline float __powf(float x, float y) {
  return powf(x, y);
}
inline float __sinf(float x) {
  return sinf(x);
}
inline float __cosf(float x) {
  return cosf(x);
}
inline void __sincosf(float x, float *sine, float *cosine) {
  sincosf(x, sine, cosine);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
inline float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
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
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline int __popc(uint32_t bits) {
  return __builtin_popcount(bits);
}
inline int __clz(int bits) {
  return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}

using std::max;
using std::min;
#endif
