/* The PTX instructions without a name in C++; the emulator (tests/kernels/emulator) has its own.
 *
 * Shared memory is given by 32-bit addresses (shared_address). Layouts of fragments, from the PTX
 * ISA, with g = lane / 4 and t = lane % 4:
 *   A (16×16)  a[0] row g, a[1] row g + 8, columns 2t, 2t + 1;  a[2], a[3] the same + 8 columns
 *   B (16×8)   b[0] rows 2t, 2t + 1 of column g;                b[1] the same + 8 rows
 *   C (16×8)   c[0], c[1] row g, columns 2t, 2t + 1;            c[2], c[3] row g + 8 */
#ifndef KERNELS_PTX_CUH
#define KERNELS_PTX_CUH
#include "kernels/launch.cuh"

#ifdef KERNEL_EMULATOR
#define KERNEL_PTX(emulated, ...) emulated
#else
#define KERNEL_PTX(emulated, ...) __VA_ARGS__
#endif

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return KERNEL_PTX(emulator::shared_address(pointer),
                    static_cast<uint32_t>(__cvta_generic_to_shared(pointer)));
}

/* The line of global memory that holds this address, into the L2 cache. */
__device__ __forceinline__ void prefetch_l2(const void *address) {
  KERNEL_PTX(static_cast<void>(address), asm volatile("prefetch.global.L2 [%0];" ::"l"(address)));
}

/* 16 bytes from global to shared memory, there after cp_async_wait. */
__device__ __forceinline__ void cp_async16(uint32_t to, const void *from) {
  KERNEL_PTX(emulator::cp_async16(to, from, false),
             asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                          : "memory"));
}

/* The same, or 16 zeros if not `valid`; then `from` is not read. */
__device__ __forceinline__ void cp_async16_or_zero(uint32_t to, const void *from, bool valid) {
  KERNEL_PTX(emulator::cp_async16(to, from, !valid),
             asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
                          "l"(from), "r"(valid ? 16 : 0)
                          : "memory"));
}

/* Ends a group of copies of this thread, which may be empty. */
__device__ __forceinline__ void cp_async_commit() {
  KERNEL_PTX(emulator::cp_async_commit(), asm volatile("cp.async.commit_group;" ::: "memory"));
}

/* Waits for all but the last `in_flight` groups of this thread; others see the data after a
 * barrier. */
template <int in_flight> __device__ __forceinline__ void cp_async_wait() {
  KERNEL_PTX(emulator::cp_async_wait(in_flight),
             asm volatile("cp.async.wait_group %0;" ::"n"(in_flight)
                          : "memory"));
}

/* Four 8×8 matrices; lane 8i + r gives the address of row r of matrix i (16 bytes). out[i] of a
 * lane is row g, columns 2t, 2t + 1 of matrix i. */
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&out)[4], uint32_t address) {
  KERNEL_PTX(emulator::ldmatrix_x4(out, address, false),
             asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                          : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                          : "r"(address)
                          : "memory"));
}

/* The same with each matrix transposed: out[i] is rows 2t, 2t + 1 of column g. */
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&out)[4], uint32_t address) {
  KERNEL_PTX(emulator::ldmatrix_x4(out, address, true),
             asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                          : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                          : "r"(address)
                          : "memory"));
}

/* Whether instructions of compute capability 9.0 are there. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KERNEL_PTX_90(...) __VA_ARGS__
#else
#define KERNEL_PTX_90(...) static_cast<void>(0)
#endif

/* Lets a kernel that was launched behind this one (kernel_launch_behind) have places as soon as all
 * blocks of this one have theirs. */
__device__ __forceinline__ void let_kernel_behind_start() {
  KERNEL_PTX_90(asm volatile("griddepcontrol.launch_dependents;"));
}

/* Until the launch before has ended, and what it has written is there to be read. */
__device__ __forceinline__ void wait_for_kernel_before() {
  KERNEL_PTX(emulator::wait_for_kernel_before(),
             KERNEL_PTX_90(asm volatile("griddepcontrol.wait;" ::
                                            : "memory")));
}

/* 2^x to 2 ulp, subnormal numbers as zero. */
__device__ __forceinline__ float exp2_approximate(float x) {
#ifdef KERNEL_EMULATOR
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/* A word that other GPUs read and write: who loads what was stored so sees all that the storing
 * thread, and those it met at a barrier, had written before. */
__device__ __forceinline__ void store_release_system(uint32_t *to, uint32_t value) {
  KERNEL_PTX(emulator::store_release_system(to, value),
             asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value)
                          : "memory"));
}

__device__ __forceinline__ uint32_t load_acquire_system(const uint32_t *from) {
#ifdef KERNEL_EMULATOR
  return emulator::load_acquire_system(from);
#else
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
#endif
}

/* A flag that the host sets. */
__device__ __forceinline__ int32_t load_flag(const volatile int32_t *flag) {
#ifdef KERNEL_EMULATOR
  return emulator::load_flag(flag);
#else
  return *flag;
#endif
}

/* Nanoseconds of the device's clock. */
__device__ __forceinline__ uint64_t global_timer_ns() {
#ifdef KERNEL_EMULATOR
  return emulator::timer_ns();
#else
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#endif
}
#endif
