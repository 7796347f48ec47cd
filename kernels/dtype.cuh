/* The two element types of tensors, as types that kernels are templates over: pairs to and from
 * fp32, and the matrix product of their tiles. */
#ifndef KERNELS_DTYPE_CUH
#define KERNELS_DTYPE_CUH
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/launch.cuh"
#include "kernels/ptx.cuh"

struct Bf16 {
  typedef __nv_bfloat16 Element;

  /* Two values rounded to nearest, `low` in the low half. */
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
  }
  static __device__ __forceinline__ float2 unpack(uint32_t bits) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
  }
  static __device__ __forceinline__ float load(Element x) { return __bfloat162float(x); }
  static __device__ __forceinline__ Element round(float x) { return __float2bfloat16_rn(x); }

  /* c += a·b on a tile of 16×8×16. */
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
    KERNEL_PTX(emulator::mma_16816(c, a, b, true),
               asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])));
  }
};

struct Fp16 {
  typedef __half Element;

  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    __half2 pair = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
  }
  static __device__ __forceinline__ float2 unpack(uint32_t bits) {
    __half2 pair;
    memcpy(static_cast<void *>(&pair), &bits, sizeof pair);
    return __half22float2(pair);
  }
  static __device__ __forceinline__ float load(Element x) { return __half2float(x); }
  static __device__ __forceinline__ Element round(float x) { return __float2half_rn(x); }

  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
    KERNEL_PTX(emulator::mma_16816(c, a, b, false),
               asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])));
  }
};
#endif
