/* PTX instructions of compute capability 9.0 and 9.0a, beside those of ptx.cuh: barriers in shared
 * memory, the bulk copy engine, products of a warpgroup. The emulator has its own.
 *
 * A warpgroup is four warps, the first of which has a number that four divides. Its product is of
 * 64 rows, 16 a warp; accumulators and A fragments of a warp are laid out as ptx.cuh says of C and
 * A. Products are asynchronous: from the instruction to the wait for its group nobody may touch its
 * registers, nor write what it reads in shared memory.
 *
 * Operands in shared memory are columns of 64 elements, 128 bytes: [column block][row][64], each
 * block at a multiple of 1024 bytes, chunk c of 16 bytes of row r at c ^ (r % 8), as the copy
 * engine writes them with its swizzle of 128 bytes. */
#ifndef KERNELS_HOPPER_CUH
#define KERNELS_HOPPER_CUH
#include "kernels/dtype.cuh"
#include "kernels/tensor_map.cuh"
#include <type_traits>

constexpr int swizzled_row_bytes = 128, swizzled_elements = 64;

/* Where chunk `chunk` of a row lies, in blocks of `rows` rows. */
__device__ __forceinline__ uint32_t swizzled_offset(int row, int chunk, int rows) {
  return static_cast<uint32_t>((chunk / 8 * rows + row) * swizzled_row_bytes +
                               ((chunk % 8 ^ (row & 7)) << 4));
}

// --- barriers ----------------------------------------------------------------------------------

/* A barrier of 8 bytes in shared memory: a phase ends when `count` threads have arrived and all
 * bytes that are expected have come. Others may use it after mbarrier_init_fence by the thread that
 * made it, and a barrier of the block. */
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t count) {
  KERNEL_PTX(emulator::mbarrier_init(barrier, count),
             asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count)
                          : "memory"));
}
__device__ __forceinline__ void mbarrier_init_fence() {
  KERNEL_PTX(static_cast<void>(0), asm volatile("fence.mbarrier_init.release.cluster;" ::
                                                    : "memory"));
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  KERNEL_PTX(emulator::mbarrier_arrive(barrier, 0),
             asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier)
                          : "memory"));
}

/* Arrives, and says that `bytes` of copies belong to the phase. */
__device__ __forceinline__ void mbarrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  KERNEL_PTX(
      emulator::mbarrier_arrive(barrier, bytes),
      asm volatile(
          "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
          "r"(bytes)
          : "memory"));
}

/* Waits for the end of the phase of this parity; the first phase has 0. */
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
#ifdef KERNEL_EMULATOR
  emulator::mbarrier_wait(barrier, parity);
#else
  uint32_t is_done;
  do {
    asm volatile("{\n.reg .pred is_done;\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 is_done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, is_done;\n}"
                 : "=r"(is_done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (is_done == 0);
#endif
}

/* One of the barriers 1 to 15 of the block, for `threads` threads: those that wait and those that
 * only arrive. */
__device__ __forceinline__ void named_barrier_wait(int barrier, int threads) {
  KERNEL_PTX(emulator::named_barrier(barrier, threads, true),
             asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads)
                          : "memory"));
}
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  KERNEL_PTX(emulator::named_barrier(barrier, threads, false),
             asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads)
                          : "memory"));
}

// --- shared memory -----------------------------------------------------------------------------

/* What this thread has written to shared memory, by instructions other than those of this file, is
 * there for copies and products that come after a barrier. */
__device__ __forceinline__ void fence_async() {
  KERNEL_PTX(emulator::fence_async(), asm volatile("fence.proxy.async.shared::cta;" ::: "memory"));
}

__device__ __forceinline__ void store_zero16(uint32_t to) {
  KERNEL_PTX(emulator::store_zero16(to),
             asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0)
                          : "memory"));
}

/* Copies a box of the tensor map (launch.cuh), from `column` and `row` on, to `to`, a multiple of
 * 1024 bytes; its bytes go to `barrier`. */
__device__ __forceinline__ void load_box(uint32_t to, const KernelTensorMap *map, int32_t column,
                                         int32_t row, uint32_t barrier) {
  KERNEL_PTX(emulator::copy_box(to, map, column, row, barrier),
             asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
                          "bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                          "l"(map), "r"(column), "r"(row), "r"(barrier)
                          : "memory"));
}

/* The registers of each thread of this warpgroup from now on: what one gives others take. */
template <int registers> __device__ __forceinline__ void give_registers() {
  KERNEL_PTX(static_cast<void>(0),
             asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers)));
}
template <int registers> __device__ __forceinline__ void take_registers() {
  KERNEL_PTX(static_cast<void>(0),
             asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers)));
}

// --- products of a warpgroup -------------------------------------------------------------------

/* What all threads do before products whose registers they have written. */
__device__ __forceinline__ void wgmma_fence() {
  KERNEL_PTX(emulator::wgmma_fence(), asm volatile("wgmma.fence.sync.aligned;" ::: "memory"));
}
/* Ends a group of products. */
__device__ __forceinline__ void wgmma_commit() {
  KERNEL_PTX(emulator::wgmma_commit(), asm volatile("wgmma.commit_group.sync.aligned;" ::
                                                        : "memory"));
}
/* Waits for all but the last `in_flight` groups. The accumulators that they have written go through
 * wgmma_done before they are read, which the compiler would else do before the wait. Waits in two
 * branches have two numbers: of equal ones the compiler would make one, before the branches. */
template <int in_flight, int branch = 0> __device__ __forceinline__ void wgmma_wait() {
  KERNEL_PTX(
      emulator::wgmma_wait(in_flight),
      asm volatile("wgmma.wait_group.sync.aligned %0; // in branch %1" ::"n"(in_flight), "n"(branch)
                   : "memory"));
}
template <int n_tiles> __device__ __forceinline__ void wgmma_done(float (&d)[n_tiles][4]) {
#pragma unroll
  for (int i = 0; i < 4 * n_tiles; i++) {
    KERNEL_PTX(static_cast<void>(d), asm volatile("" : "+f"(d[i / 4][i % 4])::"memory"));
  }
}

/* An operand at `address`. Along k its columns lie in a row; then `blocks` is not used. Transposed,
 * its rows go along k, and its columns along n in blocks that are so many bytes apart. */
__device__ __forceinline__ uint64_t wgmma_operand(uint32_t address, uint32_t blocks) {
  constexpr uint64_t eight_rows = 8 * swizzled_row_bytes >> 4, swizzle_128 = 1;
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<uint64_t>(blocks >> 4) << 16 | eight_rows << 32 | swizzle_128 << 62;
}

#define WGMMA_4(d, i)  "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define WGMMA_16(d, i) WGMMA_4(d, i), WGMMA_4(d, i + 1), WGMMA_4(d, i + 2), WGMMA_4(d, i + 3)
#define WGMMA_SUMS_32  WGMMA_16(d, 0), WGMMA_16(d, 4)
#define WGMMA_SUMS_64  WGMMA_SUMS_32, WGMMA_16(d, 8), WGMMA_16(d, 12)
#define WGMMA_LIST_32                                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "    \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_LIST_64                                                                              \
  WGMMA_LIST_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "    \
                "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, " \
                "%63"
#define WGMMA_NAME(n, type) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " "

/* d = a·bᵀ + (adds ? d : 0), both along k; n columns of d are r registers. */
#define WGMMA_ALONG_K(n, r, a, b, adds, type)                                                      \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #adds ", 0;\n" WGMMA_NAME(n, type)       \
                   WGMMA_LIST_##r "}, %" #a ", %" #b ", adds, 1, 1, 0, 0;\n}"                      \
               : WGMMA_SUMS_##r                                                                    \
               : "l"(a_operand), "l"(b_operand), "r"(static_cast<int>(is_added)))

/* d += a·b, a in registers, b transposed. */
#define WGMMA_TRANSPOSED(n, r, a0, a1, a2, a3, b, type)                                            \
  asm volatile(WGMMA_NAME(n, type) WGMMA_LIST_##r "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3        \
                                                  "}, %" #b ", 1, 1, 1, 1;\n"                      \
               : WGMMA_SUMS_##r                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_operand))

#define WGMMA_OF_TYPE(Type, product, ...)                                                          \
  if constexpr (std::is_same<Type, Bf16>::value) {                                                 \
    product(__VA_ARGS__, "bf16");                                                                  \
  } else {                                                                                         \
    product(__VA_ARGS__, "f16");                                                                   \
  }

/* d = a·bᵀ (+ d) for 8·n_tiles rows of b and 16 columns of each. */
template <class Type, int n_tiles>
__device__ __forceinline__ void wgmma_along_k(float (&d)[n_tiles][4], uint64_t a_operand,
                                              uint64_t b_operand, bool is_added) {
  static_assert(n_tiles == 8 || n_tiles == 16, "64 or 128 rows");
#ifdef KERNEL_EMULATOR
  emulator::wgmma(d[0], n_tiles, nullptr, a_operand, b_operand, is_added,
                  std::is_same<Type, Bf16>::value);
#else
  if constexpr (n_tiles == 8) {
    WGMMA_OF_TYPE(Type, WGMMA_ALONG_K, 64, 32, 32, 33, 34);
  } else {
    WGMMA_OF_TYPE(Type, WGMMA_ALONG_K, 128, 64, 64, 65, 66);
  }
#endif
}

/* d += a·b for an A fragment, 16 rows of b and 8·n_tiles columns. */
template <class Type, int n_tiles>
__device__ __forceinline__ void wgmma_transposed(float (&d)[n_tiles][4], const uint32_t (&a)[4],
                                                 uint64_t b_operand) {
  static_assert(n_tiles == 8 || n_tiles == 16, "64 or 128 columns");
#ifdef KERNEL_EMULATOR
  emulator::wgmma(d[0], n_tiles, a, 0, b_operand, true, std::is_same<Type, Bf16>::value);
#else
  if constexpr (n_tiles == 8) {
    WGMMA_OF_TYPE(Type, WGMMA_TRANSPOSED, 64, 32, 32, 33, 34, 35, 36);
  } else {
    WGMMA_OF_TYPE(Type, WGMMA_TRANSPOSED, 128, 64, 64, 65, 66, 67, 68);
  }
#endif
}
#endif
