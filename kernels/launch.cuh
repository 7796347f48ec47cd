/* What a .cu file says where nvcc and the emulator (tests/kernels/emulator) differ: how a kernel is
 * launched, and how shared memory is declared. */
#ifndef KERNELS_LAUNCH_CUH
#define KERNELS_LAUNCH_CUH
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* What a device makes of a kernel: how many of its blocks run at once, bytes that a thread keeps in
 * memory for want of registers, and the compute capability that its image is of, 90 for 9.0. */
typedef struct KernelLoaded {
  int32_t blocks, local_bytes, image_sm;
} KernelLoaded;

/* kernel_load makes a kernel ready to be launched with blocks of `threads` and `shared_bytes` of
 * dynamic shared memory, which has to be said before where it is more than 48 KB, and asks the
 * current device what it makes of it. kernel_launch launches kernel(arguments…) on the stream.
 * kernel_launch_behind does so for a kernel of which each thread calls wait_for_kernel_before
 * (ptx.cuh) before it reads what the launch before writes: from compute capability 9.0 on its
 * blocks may start before that one has ended. All return a cudaError_t. */
#ifdef KERNEL_EMULATOR

/* An array of the block; `name` is a reference to type[n]. */
#define KERNEL_SHARED(type, name, n)                                                               \
  type(&name)[n] =                                                                                 \
      *static_cast<type(*)[n]>(emulator::shared_array(__FILE__, __LINE__, sizeof(type) * (n)))
/* The launch's `shared_bytes`, at a multiple of 256 bytes, as unsigned char *name. */
#define KERNEL_SHARED_DYNAMIC(name)                                                                \
  unsigned char *const name = static_cast<unsigned char *>(emulator::shared_dynamic())

template <class... Parameters, class... Arguments>
int kernel_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                  KernelStream stream, Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;
  } call = {kernel, {static_cast<Parameters>(arguments)...}};
  (void)stream;
  emulator_launch(reinterpret_cast<const void *>(kernel));
  emulator::run(
      grid, block, shared_bytes,
      [](void *context) {
        auto *call = static_cast<Call *>(context);
        std::apply(call->kernel, call->parameters);
      },
      &call);
  return 0;
}

template <class... Parameters, class... Arguments>
int kernel_launch_behind(void (*kernel)(Parameters...), dim3 grid, dim3 block, KernelStream stream,
                         Arguments... arguments) {
  emulator::must_wait = true;
  int error = kernel_launch(kernel, grid, block, 0, stream, arguments...);
  emulator::must_wait = false;
  return error;
}

template <class... Parameters>
int kernel_load(void (*kernel)(Parameters...), int threads, size_t shared_bytes,
                KernelLoaded *ret_loaded) {
  (void)threads;
  emulator::note_load(reinterpret_cast<const void *>(kernel), shared_bytes);
  *ret_loaded = {2 * emulator::multiprocessors(), 0, 0};
  return emulator::load_error;
}

#else
#include <cuda_runtime.h>

#define KERNEL_SHARED(type, name, n) __shared__ type name[n]
#define KERNEL_SHARED_DYNAMIC(name)  extern __shared__ __align__(1024) unsigned char name[]

template <class... Parameters, class... Arguments>
int kernel_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                  KernelStream stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return static_cast<int>(
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

template <class... Parameters, class... Arguments>
int kernel_launch_behind(void (*kernel)(Parameters...), dim3 grid, dim3 block, KernelStream stream,
                         Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
#if CUDART_VERSION >= 12030 // from which on captures keep it
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error != cudaSuccess) return static_cast<int>(error);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = major >= 9 ? 1 : 0;
#endif
  return static_cast<int>(
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

template <class... Parameters>
int kernel_load(void (*kernel)(Parameters...), int threads, size_t shared_bytes,
                KernelLoaded *ret_loaded) {
  const void *function = reinterpret_cast<const void *>(kernel);
  int device = 0, per_sm = 0, multiprocessors = 0;
  cudaFuncAttributes attributes = {};
  cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(shared_bytes));
  if (error == cudaSuccess) { // as many blocks as shared memory has room for
    error = cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared);
  }
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, function);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, function, threads, shared_bytes);
  }
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess && per_sm == 0) error = cudaErrorLaunchOutOfResources;
  *ret_loaded = {per_sm * multiprocessors, static_cast<int32_t>(attributes.localSizeBytes),
                 attributes.ptxVersion};
  return static_cast<int>(error);
}

#endif
#endif
