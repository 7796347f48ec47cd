/* What a .cu file says where nvcc and the emulator (emulator/emulator.h) differ: how a kernel is
 * launched, and how shared memory is declared. */
#ifndef KERNELS_LAUNCH_CUH
#define KERNELS_LAUNCH_CUH
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

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
  emulator::run(
      grid, block, shared_bytes,
      [](void *context) {
        auto *call = static_cast<Call *>(context);
        std::apply(call->kernel, call->parameters);
      },
      &call);
  return 0;
}

/* Few, so that small problems are many to it. */
inline int kernel_multiprocessors(int *ret_multiprocessors) {
  *ret_multiprocessors = 4;
  return 0;
}

#else
#include <cuda_runtime.h>

#define KERNEL_SHARED(type, name, n) __shared__ type name[n]
#define KERNEL_SHARED_DYNAMIC(name)  extern __shared__ __align__(256) unsigned char name[]

/* Launches kernel(arguments…) on the stream; returns a cudaError_t. */
template <class... Parameters, class... Arguments>
int kernel_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                  KernelStream stream, Arguments... arguments) {
  if (shared_bytes > 48 * 1024) {
    cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(shared_bytes));
    if (error == cudaSuccess) { // as many blocks as shared memory has room for
      error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                   cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared);
    }
    if (error != cudaSuccess) {
      return static_cast<int>(error);
    }
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return static_cast<int>(
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/* Of the current device; returns a cudaError_t. */
inline int kernel_multiprocessors(int *ret_multiprocessors) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(ret_multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  return static_cast<int>(error);
}

#endif
#endif
