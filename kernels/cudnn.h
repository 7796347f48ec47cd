/* As much of cuDNN's backend interface as sdpa.c calls. cuDNN is opened with dlopen, and its
 * headers are no part of the CUDA toolkit, so the backend needs neither to be built. Numbers are
 * those of its documented interface, the same in all of version 9; tests/kernels/headers.sh
 * compares them with cudnn.h where there is one.
 *
 * Everything is a descriptor: made of a type, given attributes (a name, a type and so many values
 * of it), finalized. Booleans are C's bool, enumerations ints, links pointers to a descriptor. */
#ifndef KERNELS_CUDNN_H
#define KERNELS_CUDNN_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDNN_OK = 0 }; // results; anything else failed
enum { CUDNN_FLOAT = 0, CUDNN_HALF = 2, CUDNN_INT32 = 4, CUDNN_BF16 = 9, CUDNN_INT64 = 10 };
enum { CUDNN_CMP_GE = 303 };    // of pointwise comparisons
enum { CUDNN_HEURISTIC_A = 3 }; // a decision tree
// Since when an attention has a subgraph between its products, and masks one operation.
enum { CUDNN_LEAST_VERSION = 92100 };

/* Types of values. */
enum {
  CUDNN_OF_HANDLE = 0,
  CUDNN_OF_DATA_TYPE = 1,
  CUDNN_OF_BOOLEAN = 2,
  CUDNN_OF_INT64 = 3,
  CUDNN_OF_POINTER = 6,
  CUDNN_OF_HEURISTIC = 8,
  CUDNN_OF_POINTWISE = 14,
  CUDNN_OF_DESCRIPTOR = 15,
};

/* Types of descriptors. */
enum {
  CUDNN_ENGINE = 2,
  CUDNN_ENGINE_CONFIG = 3,
  CUDNN_HEURISTICS = 4,
  CUDNN_PLAN = 5,
  CUDNN_GRAPH = 15,
  CUDNN_VARIANT_PACK = 16,
  CUDNN_TENSOR = 17,
  CUDNN_SDPA = 41,
  CUDNN_BAND_MASK = 44,
};

/* Names of attributes. */
enum {
  CUDNN_HEURISTICS_MODE = 200,
  CUDNN_HEURISTICS_GRAPH = 201,
  CUDNN_HEURISTICS_RESULTS = 202,
  CUDNN_CONFIG_ENGINE = 300,
  CUDNN_PLAN_HANDLE = 400,
  CUDNN_PLAN_CONFIG = 401,
  CUDNN_PLAN_WORKSPACE = 402,
  CUDNN_GRAPH_HANDLE = 800,
  CUDNN_GRAPH_OPERATIONS = 801,
  CUDNN_TENSOR_ALIGNMENT = 900,
  CUDNN_TENSOR_DATA_TYPE = 901,
  CUDNN_TENSOR_DIMENSIONS = 902,
  CUDNN_TENSOR_STRIDES = 903,
  CUDNN_TENSOR_ID = 906,
  CUDNN_TENSOR_IS_VIRTUAL = 907,
  CUDNN_TENSOR_IS_BY_VALUE = 908,
  CUDNN_TENSOR_RAGGED_OFFSETS = 913,
  CUDNN_PACK_IDS = 1000,
  CUDNN_PACK_POINTERS = 1001,
  CUDNN_PACK_WORKSPACE = 1003,
  CUDNN_ENGINE_INDEX = 1301,
  CUDNN_SDPA_Q = 2800,
  CUDNN_SDPA_K = 2801,
  CUDNN_SDPA_V = 2802,
  CUDNN_SDPA_O = 2803,
  CUDNN_SDPA_SCALE = 2805,
  CUDNN_SDPA_PAGE_TABLE_K = 2807,
  CUDNN_SDPA_PAGE_TABLE_V = 2808,
  CUDNN_SDPA_Q_LENGTHS = 2809,
  CUDNN_SDPA_KV_LENGTHS = 2810,
  CUDNN_SDPA_SUBGRAPH = 2811,
  CUDNN_SDPA_SUBGRAPH_IN = 2812,
  CUDNN_SDPA_SUBGRAPH_OUT = 2813,
  CUDNN_MASK_X = 3000,
  CUDNN_MASK_KV_LENGTHS = 3001,
  CUDNN_MASK_Q_LENGTHS = 3002,
  CUDNN_MASK_FILL = 3005,
  CUDNN_MASK_Y = 3006,
  CUDNN_MASK_COMPARISON = 3007,
};

typedef struct cudnnContext *CudnnHandle;
typedef void *CudnnDescriptor;

/* Enumerations of C cross as int. All return a result but those of the version and of texts. */
typedef struct CudnnFunctions {
  size_t (*version)(void); // 9.21.0 is 92100
  int (*create)(CudnnHandle *ret_handle);
  int (*destroy)(CudnnHandle handle);
  int (*set_stream)(CudnnHandle handle, cudaStream_t stream);
  const char *(*error_string)(int code);
  void (*last_error)(char *ret_text, size_t size);
  int (*make)(int type, CudnnDescriptor *ret_descriptor);
  int (*unmake)(CudnnDescriptor descriptor);
  int (*finalize)(CudnnDescriptor descriptor);
  int (*set)(CudnnDescriptor descriptor, int name, int type, int64_t n, const void *values);
  int (*get)(CudnnDescriptor descriptor, int name, int type, int64_t room, int64_t *ret_n,
             void *ret_values);
  int (*execute)(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor variant_pack);
} CudnnFunctions;
#endif
