/* Runs the CUDA kernels on the CPU: every .cu file also compiles with
 *   g++ -x c++ -std=c++17 -DKERNEL_EMULATOR -include tests/kernels/emulator/emulator.h
 * and the toolkit's include directory, whose host conversions of bf16 and fp16 it uses.
 *
 * Blocks run one after another. The threads of a block are fibers of one OS thread that run until
 * they meet a barrier or a warp operation; a warp operation happens when all lanes of its mask have
 * come to it. Emulated: thread and block indices, __syncthreads, __syncwarp, shuffles, votes and
 * those intrinsics that the kernels use, shared memory as launch.cuh declares it, and the PTX of
 * ptx.cuh (cp.async, ldmatrix, mma) and hopper.cuh (mbarrier, named barriers, the copy engine,
 * wgmma). Not emulated: streams (a launch is done when it returns), textures, cooperative groups,
 * clusters, rounding of approximate intrinsics, numbers of registers, time.
 *
 * A kernel is loaded when it is first launched, unless kernel_load has done so. A device loads none
 * while its kernels run, and one that waits for the host or for another rank may wait for what
 * comes after the load: to load behind one that the host has not waited for ends the program.
 *
 * What ends the program with a message and status 1: a thread missing at a barrier, or at another
 * one; lanes of a mask that do not come to the same operation; a shuffle from a lane outside the
 * mask; reads and writes outside a shared array or an allocation of device memory (they end at
 * pages without access, so past the start only by more than the padding to a page); misaligned
 * cp.async and ldmatrix; an ldmatrix of what cp.async brought, without a barrier after the wait; a
 * thread of a launch behind another that ends without a wait for that one.
 * Shared memory starts as NaN in every block. The target of a cp.async is NaN from its issue until
 * the wait for its group, whether hardware would be early or late.
 *
 * Of what hopper.cuh has: a copy of the engine comes when no thread can go on and one waits for
 * it, or with an even seed at any time before; until then its target is NaN. A product reads
 * shared memory when it is waited for, or with a seed perhaps when it is started; its accumulators
 * are NaN from its start to the wait. Also ended are: a product of what a copy has not brought, or
 * of what a thread has written without a fence for the engine and a barrier; a copy to what a
 * thread has so written; a product without a fence since the wait before; accumulators and A
 * fragments that are written while a product has them; warps of a warpgroup that start different
 * products; operands without the swizzle of 128 bytes; copies and products that are under way when
 * a block ends.
 *
 * Races between warps, or between lanes without __syncwarp, show only if an order in which the
 * fibers run brings them out: emulator_seed picks it. 0 runs warp after warp as far as each goes,
 * an odd seed the same in a random order, an even one switches warps at random at every operation;
 * seeded lanes run in random order too. Run a test with several. $EMULATED_SMS is the number of
 * multiprocessors that kernels are told of, each with room for two blocks. */
#ifndef TESTS_KERNELS_EMULATOR_EMULATOR_H
#define TESTS_KERNELS_EMULATOR_EMULATOR_H
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#include "tests/kernels/emulator/memory.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#define __CUDA_EMULATED__ 1

namespace emulator {

struct Thread;

/* One warp operation for the lanes of a mask: lanes[i] is NULL for a lane outside of it. */
typedef void (*Operation)(Thread *const *lanes);

enum class State : uint8_t {
  ready,
  at_warp_operation,
  at_barrier,
  at_mbarrier,
  at_named_barrier,
  done
};

struct AsyncCopy {
  void *to;
  unsigned char data[16];
  int group; // counts commits of its thread
};

struct Thread {
  uint3 index;
  State state;
  Operation operation;
  uint32_t mask;
  void *arguments; // of the operation, results included
  const char *file;
  int line;
  int groups;                 // of cp.async committed so far
  bool has_waited;            // for the kernel before
  uint32_t waits_for, parity; // a barrier in shared memory and a phase, or a named barrier
  std::vector<AsyncCopy> copies;
};

/* Counts since the last reset, over all launches. */
struct Counts {
  int64_t mma, ldmatrix;
  int64_t bank_conflicts; // extra passes of ldmatrix over the banks of shared memory
};

extern Thread *thread; // the one that runs
extern dim3 grid, block;
extern uint3 block_index;
extern Counts counts;
extern bool must_wait; // each thread of the launch, for the kernel before
void wait_for_kernel_before();

[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs call(context) once per thread of the grid. */
void run(dim3 grid, dim3 block, size_t shared_bytes, void (*call)(void *), void *context);

/* The block's array declared at file:line, filled with NaN when its first thread comes by. */
void *shared_array(const char *file, int line, size_t bytes);
void *shared_dynamic();
uint64_t timer_ns();

/* Words that other processes read and write. Who loads one lets these go on. */
void store_release_system(uint32_t *to, uint32_t value);
uint32_t load_acquire_system(const uint32_t *from);
/* A flag of the host's memory. */
int32_t load_flag(const volatile int32_t *flag);
/* As many as $EMULATED_SMS says; 4 without it, so that small problems are many to them. */
int multiprocessors();
/* A kernel is loaded by kernel_load, or at its first launch. */
void note_load(const void *kernel, size_t shared_bytes);
extern int load_error; // of every kernel that is loaded; 0: none
/* Shared memory as 32-bit addresses, which is what ptx.cuh takes. */
uint32_t shared_address(const void *pointer);
void *shared_pointer(uint32_t address, size_t bytes);

/* What ldmatrix reads must have been copied before the warp's last __syncwarp or the block's last
 * barrier; these note a copy of 16 bytes by this thread, and look at one. */
void note_copy(const void *to);
void require_copied(const void *from, const Thread *reader);

/* For the scheduler: a launch with so much dynamic memory, a block, its barriers, a warp's. */
void shared_begin_launch(size_t dynamic_bytes);
void shared_begin_block();
void note_block_sync();
void note_warp_sync(int warp);
int warp_of(const Thread *own);
/* Ends the program if there is no memory. */
unsigned char *map_pages(size_t bytes, int protection);

/* Waits until all lanes of `mask` are here, for the operation to be done. */
void warp_operation(Operation operation, uint32_t mask, void *arguments);
void sync_warp(uint32_t mask);
void barrier(const char *file, int line);

void cp_async16(uint32_t to, const void *from, bool zero);
void cp_async_commit();
void cp_async_wait(int groups_in_flight);
void ldmatrix_x4(uint32_t (&out)[4], uint32_t address, bool transposed);
void mma_16816(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool is_bf16);

/* A number of 16 bits. */
float element_value(uint32_t bits, bool is_bf16);

/* --- compute capability 9.0, as hopper.cuh has it */
struct TensorMap {
  const void *rows;
  int columns, box_rows;
};
void mbarrier_init(uint32_t address, uint32_t count);
void mbarrier_arrive(uint32_t address, uint32_t bytes);
void mbarrier_wait(uint32_t address, uint32_t parity);
void named_barrier(int number, int threads, bool waits);
void fence_async();
void store_zero16(uint32_t to);
void copy_box(uint32_t to, const TensorMap *map, int32_t column, int32_t row, uint32_t barrier);
void wgmma(float *d, int n_tiles, const uint32_t *a, uint64_t a_operand, uint64_t b_operand,
           bool is_added, bool is_bf16);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int groups_in_flight);

/* For the scheduler: a block begins and ends; what a thread waits for is over; a copy comes, if one
 * is under way, one of `barrier` unless that is 0. For the others: this thread has written 16
 * bytes; it waits; threads at a named barrier go on; whether what may happen early does. */
void begin_engines(int n_threads);
void end_engines();
bool mbarrier_is_over(const Thread *own);
bool land_copy(uint64_t random, uint32_t barrier);
void note_written(const void *to);
void block_until(State state);
void release_named(int number);
bool is_early();

template <class T> struct Shuffle {
  T value, result;
  int source; // lane, already checked to be in its segment
};

template <class T> T shuffle(uint32_t mask, T value, int source) {
  Shuffle<T> shuffle = {value, value, source};
  warp_operation(
      [](Thread *const *lanes) {
        for (int i = 0; i < 32; i++) {
          if (lanes[i] == nullptr) {
            continue;
          }
          auto *own = static_cast<Shuffle<T> *>(lanes[i]->arguments);
          if (lanes[own->source] == nullptr) {
            fail("lane %d shuffles from lane %d, which the mask leaves out", i, own->source);
          }
          own->result = static_cast<Shuffle<T> *>(lanes[own->source]->arguments)->value;
        }
      },
      mask, &shuffle);
  return shuffle.result;
}

inline int lane() {
  return static_cast<int>(
      (thread->index.x + block.x * (thread->index.y + block.y * thread->index.z)) % 32);
}

/* `pick` maps the values of all lanes, absent ones left out, to the result of every lane. */
template <class T, class R> R reduce(uint32_t mask, T value, R (*pick)(const T *, uint32_t)) {
  struct Arguments {
    T value;
    R result;
    R (*pick)(const T *, uint32_t);
  } arguments = {value, R(), pick};
  warp_operation(
      [](Thread *const *lanes) {
        T values[32] = {};
        uint32_t present = 0;
        for (int i = 0; i < 32; i++) {
          if (lanes[i] != nullptr) {
            values[i] = static_cast<Arguments *>(lanes[i]->arguments)->value;
            present |= 1u << i;
          }
        }
        for (int i = 0; i < 32; i++) {
          if (lanes[i] != nullptr) {
            auto *own = static_cast<Arguments *>(lanes[i]->arguments);
            own->result = own->pick(values, present);
          }
        }
      },
      mask, &arguments);
  return arguments.result;
}

} // namespace emulator

#include "tests/kernels/emulator/intrinsics.h"
#endif
