/* What the host does for kernels of compute capability 9.0a, where nvcc and the emulator differ.
 *
 * A tensor map says to the copy engine (load_box of hopper.cuh) where rows of `columns` elements of
 * 2 bytes lie, and that it copies boxes of 64 columns and `box_rows` rows. kernel_load_90a is
 * kernel_load of a kernel of which only an image for 9.0a exists; of other devices it says that no
 * block runs. */
#ifndef KERNELS_TENSOR_MAP_CUH
#define KERNELS_TENSOR_MAP_CUH
#include "kernels/launch.cuh"

#ifdef KERNEL_EMULATOR

typedef emulator::TensorMap KernelTensorMap;

inline int kernel_tensor_map(KernelTensorMap *ret_map, const void *rows, int columns,
                             int box_rows) {
  *ret_map = {rows, columns, box_rows};
  return 0;
}

template <class... Parameters>
int kernel_load_90a(void (*kernel)(Parameters...), int threads, size_t shared_bytes,
                    int32_t *ret_blocks) {
  KernelLoaded loaded;
  int error = kernel_load(kernel, threads, shared_bytes, &loaded);
  *ret_blocks = loaded.blocks / 2;
  return error;
}

#else
#include <cuda.h>
#include <cuda_runtime.h>

typedef CUtensorMap KernelTensorMap;
typedef decltype(&cuTensorMapEncodeTiled) TensorMapEncode;

/* The driver is not linked with; NULL: it has none. */
static inline TensorMapEncode find_tensor_map_encode() {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                       cudaEnableDefault, &result);
#else
  cudaError_t error =
      cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
  bool is_found = error == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return is_found ? reinterpret_cast<TensorMapEncode>(found) : nullptr;
}

static inline int kernel_tensor_map(KernelTensorMap *ret_map, const void *rows, int columns,
                                    int box_rows) {
  static const TensorMapEncode encode = find_tensor_map_encode();
  if (encode == nullptr) return static_cast<int>(cudaErrorNotSupported);
  cuuint64_t size[2] = {static_cast<cuuint64_t>(columns), INT32_MAX};
  cuuint64_t row_bytes = size[0] * 2;
  cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  CUresult result =
      encode(ret_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<void *>(rows), size, &row_bytes,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return static_cast<int>(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue);
}

template <class... Parameters>
int kernel_load_90a(void (*kernel)(Parameters...), int threads, size_t shared_bytes,
                    int32_t *ret_blocks) {
  int device = 0, major = 0, minor = 0;
  *ret_blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  if (error != cudaSuccess || major != 9 || minor != 0) return static_cast<int>(error);
  KernelLoaded loaded;
  int status = kernel_load(kernel, threads, shared_bytes, &loaded);
  *ret_blocks = status == 0 ? loaded.blocks : 0;
  return status;
}

#endif
#endif
