/* The state of the CUDA backend, and what its files ask of one another.
 *
 *   backend_cuda.c   the table                  cuda_layer.c    an iteration, its terms
 *   cuda_device.c    the GPU, memory            cuda_operator.c single operators, copies
 *   cuda_model.c     weights and the KV pool    cuda_tensors.c  what verification reads
 *   cuda_batch.c     a batch onto the device    cuda_measure.c  graphs, events, the gate
 *   cuda_nvml.c      clocks and power           cuda_group.c    other GPUs
 *   cuda_moe.c       layers of experts          cuda_fp8.c      weights of 8 bits
 *   cuda_sdpa.c      attention by cuDNN
 *
 * A lane is a stream with everything that what runs on it writes, so that two lanes may run at
 * once; weights and the KV pool are common. `main` is what is measured, `side` the decodes beside a
 * busy point. Functions queue work unless they say that they wait; they return CALIB_OK or write
 * one line to `error`. */
#ifndef KERNELS_CUDA_STATE_H
#define KERNELS_CUDA_STATE_H
#include "calib/backend.h"
#include "kernels/batch_layout.h"
#include "kernels/fp8.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "kernels/memory_plan.h"
#include "kernels/moe.h"
#include "kernels/near_cpus.h"
#include <cuda_runtime_api.h>

/* Device memory that grows and is never smaller than what was asked for last. */
typedef struct CudaBuffer {
  void *data;
  size_t bytes;
} CudaBuffer;

/* What an iteration writes: the activations that backend.h lists, and these. */
enum {
  CUDA_ROW_STATE = TENSOR_BEST + 1, // [logits][hidden], as the next
  CUDA_ROW_ADDED,
  CUDA_ARGMAX, // workspace, as the next
  CUDA_SPLITS,
  CUDA_QUANTIZED,    // inputs of products of 8 bits [tokens][the widest]
  CUDA_INPUT_SCALES, // theirs
  CUDA_EXPERTS,      // a layer's routes (moe.h), as the next
  CUDA_SHARES,
  CUDA_STARTS,
  CUDA_PAIRS,
  CUDA_ROWS,
  CUDA_N_TENSORS,
};

typedef struct CudaLane {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  Gemm *gemm;
  CudaBuffer gemm_workspace;
  CudaBuffer tensors[CUDA_N_TENSORS];
  BatchLayout layout;
  CudaBuffer words;                       // layout.words on the device
  BatchArrays batch;                      // in `words`
  CudaBuffer sdpa_arrays, sdpa_workspace; // of attention by cuDNN
  int64_t sdpa_engines[2];                // that ran prefills, decodes; -1: none
  cudaGraphExec_t graph;
  int32_t unroll; // runs in the graph
} CudaLane;

/* Weights of one layer: products in the order of their operators; norms before attention and before
 * the MLP. Biases are NULL where the model has none. */
typedef struct CudaLayer {
  const void *products[4], *product_biases[4];
  const void *norms[2], *norm_biases[2];
  const void *q_norm, *k_norm; // NULL: none
  const float *scales[4];      // of products of 8 bits
  const void *router;          // NULL: no experts; else the MLP's products are of all of them
} CudaLayer;

/* What one run of the prepared point is. */
typedef struct CudaWork {
  CalibOp op;
  bool is_eager, hot, busy;
  unsigned parts; // of an iteration; 0: a single operator
  int32_t layers;
  int64_t size;          // tokens, bytes or pages
  int64_t operand_bytes; // of one set of operands that rotate
  int32_t copies;        // sets
  const int32_t *pages;  // of a copy of KV, on the device
  int32_t stalls;        // samples that waited for the gate's end to be queued
  bool is_prepared, is_warm;
} CudaWork;

typedef struct Nvml Nvml;
typedef struct Group Group;
typedef struct Sdpa Sdpa;

typedef struct CudaState {
  CalibDevice device; // as found on opening
  CalibOptions options;
  char pci_bus_id[32];
  NearCpus near; // where the thread is kept while the GPU is open
  CudaLane main, side;
  cudaStream_t back; // the way back of copies in both directions
  cudaEvent_t back_end;
  volatile int32_t *gate; // pinned; the stream waits while 0
  Nvml *nvml;             // NULL: no NVML
  GemmChoices *choices;   // of all lanes
  CudaBuffer flush;       // memory to read, of 2.5 times the cache
  Group *group;           // opened by the first all-reduce
  Sdpa *sdpa;             // opened by the first model whose attention is cuDNN's

  bool is_loaded;
  CalibModel model;
  LayerShape shape;
  MemoryPlan memory;
  KernelResidency residency; // of the model's attention
  int32_t wgmma_blocks;      // of it by wgmma that run at once; 0: it is not by wgmma
  CudaBuffer matrices, vectors, embedding, positions, heads, kv, slopes, ids, scales;
  CudaBuffer input_scale; // one number, of CALIB_FP8

  CudaWork work;
  CudaBuffer rotation; // operands of single operators
  CudaBuffer copy;     // the device's side of copies
  CudaBuffer pages;    // page numbers of a copy of KV
  CudaBuffer pinned;   // host memory
  CudaBuffer pageable; // host memory, by malloc
  CudaBuffer peer;     // of another device
} CudaState;

#define CUDA_EPSILON 1e-5f   // of norms
#define CUDA_THETA   1e4f    // base of rotary positions
enum { CUDA_IDS = 1 << 17 }; // random token numbers, and so the most tokens of a batch

/* Writes "what: why" for a cudaError_t that is none of success; `call` is the text of the call. */
CalibStatus cuda_status(int code, const char *call, char *error);
#define CUDA_STATUS(call) cuda_status((int)(call), #call, error)
#define CUDA_TRY(call)    TRY(CUDA_STATUS(call))
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const CalibStatus status_ = (call);                                                            \
    if (status_ != CALIB_OK) return status_;                                                       \
  } while (0)

/* --- cuda_device.c */
CalibStatus cuda_open(CudaState *self, char *error);
/* Releases what cuda_open has taken, also after it failed half way. */
void cuda_close(CudaState *self);
/* At least `bytes`; the contents are lost when it grows, which waits for the device. */
CalibStatus buffer_reserve(CudaBuffer *self, int64_t bytes, char *error);
void buffer_release(CudaBuffer *self);
CalibStatus pinned_reserve(CudaBuffer *self, int64_t bytes, char *error);
CalibStatus lane_open(const CudaState *state, CudaLane *self, char *error);
/* Host memory onto the device, for what is queued on the lane after it. Waits: a plain cudaMemcpy
 * of pageable memory may return before the device has it, and other streams do not wait for it. */
CalibStatus lane_upload(CudaLane *self, void *device, const void *host, size_t bytes, char *error);
/* The same of memory from malloc, into a buffer that has room for it then; `host` is released. */
CalibStatus lane_give(CudaLane *self, CudaBuffer *device, void *host, size_t bytes, char *error);
void lane_close(CudaLane *self);

/* --- cuda_model.c */
/* Waits. Whatever was loaded before is gone, also on failure. */
CalibStatus model_load(void *state, const CalibModel *model, char *error);
void model_unload(CudaState *self);
/* Weights of a model's layer: it is one of the distinct ones. */
CudaLayer model_layer(const CudaState *self, int64_t layer);
const void *model_head(const CudaState *self, int64_t copy);
/* A layer's part of the pool as a batch divides it. */
void *model_kv(const CudaState *self, const BatchLayout *layout, int64_t layer);
KernelAttention model_attention(const CudaState *self, const CudaLane *lane, int64_t layer);

/* --- cuda_batch.c */
/* Plans a batch, uploads its arrays and makes room for what it writes, filled with normal numbers.
 * Waits. `layers` is how many a run goes over. */
CalibStatus lane_set_batch(CudaState *self, CudaLane *lane, const CalibBatch *batch, int32_t layers,
                           char *error);
/* The batch of a point that is described by tokens: one prompt, or `size` decodes for a head. */
CalibStatus lane_set_tokens(CudaState *self, CudaLane *lane, CalibOp op, int64_t tokens,
                            int32_t layers, char *error);

/* --- cuda_layer.c: operators on the lane's tensors and all of its rows */
/* The residual takes up what was added; `norm` is one of a layer's two. */
CalibStatus layer_norm(CudaState *self, CudaLane *lane, const CudaLayer *weights, int norm,
                       bool is_first, char *error);
/* One of CALIB_GEMM_…, of a layer or of a copy of the head. */
CalibStatus layer_product(CudaState *self, CudaLane *lane, CalibOp op, int64_t layer, char *error);
/* CALIB_REJECTED where cuBLASLt refuses a product, `why`, and the device goes on. Waits. */
CalibStatus product_failed(CudaLane *lane, const GemmShape *shape, const char *why, char *error);
/* What it runs by on the main lane; "" before it ran. */
const char *layer_algorithm(const CudaState *self, CalibOp op);
CalibStatus layer_rope_append(CudaState *self, CudaLane *lane, int64_t layer, char *error);
CalibStatus layer_activation(CudaState *self, CudaLane *lane, char *error);
/* Of the random ids from `first` on. */
CalibStatus layer_embed(CudaState *self, CudaLane *lane, int64_t first, char *error);
CalibStatus layer_argmax(CudaState *self, CudaLane *lane, char *error);
/* Whether the product of `up` takes the activation with it. */
bool layer_fuses_activation(const CudaState *self);
/* The parts, over `layers` layers; `hot`: over the first one each time. */
CalibStatus layers_run(CudaState *self, CudaLane *lane, unsigned parts, int32_t layers, bool hot,
                       int64_t repetition, char *error);

/* --- cuda_operator.c */
/* Sizes of the operands of self->work, and memory for them. Waits. */
CalibStatus operator_prepare(CudaState *self, char *error);
CalibStatus operator_run(CudaState *self, int64_t repetition, char *error);
/* Where the way back of a copy in both directions begins, on either side. */
int64_t operator_half_bytes(const CudaWork *work);
/* The main lane with the operands of one of the work's sets. */
CudaLane operator_lane(const CudaState *self, int64_t set);

/* --- cuda_moe.c: a layer's experts instead of its MLP */
/* Room for the routes of the lane's tokens. */
CalibStatus moe_reserve(CudaState *self, CudaLane *lane, char *error);
KernelMoe lane_moe(const CudaState *self, const CudaLane *lane);
/* One of CALIB_MOE_…, of a layer, with the routes of the run before. */
CalibStatus moe_run(CudaState *self, CudaLane *lane, CalibOp op, int64_t layer, char *error);
/* All of it, the router first. */
CalibStatus layer_experts(CudaState *self, CudaLane *lane, int64_t layer, char *error);

/* --- cuda_sdpa.c: attention by cuDNN */
bool attention_is_cudnn(const CudaState *self);
/* Opens cuDNN. */
CalibStatus sdpa_prepare_model(CudaState *self, char *error);
/* What cuDNN wants of the lane's batch; nothing where attention is not its. Waits. */
CalibStatus sdpa_prepare_batch(CudaState *self, CudaLane *lane, char *error);
/* A layer's prefills or decodes. The first of a shape makes its plan, which no capture can hold. */
CalibStatus sdpa_attend(CudaState *self, CudaLane *lane, int64_t layer, bool is_decode,
                        char *error);
/* Whose attention the prepared work has: "tandem", "cudnn 9.28.1 engine 3", "wgmma", or "wgmma
 * (mma.sync)" where the model asks for it and none of the work is by it; left as it is where the
 * work has none. */
void attention_name(const CudaState *self, char *ret_name, size_t size);

/* --- cuda_fp8.c: products of 8 bits */
/* Weights and their scales, random both. */
CalibStatus fp8_make_weights(CudaState *self, char *error);
/* Room for quantized inputs of the lane's tokens. */
CalibStatus fp8_reserve(CudaState *self, CudaLane *lane, char *error);
/* One of the four products, after its input is quantized. */
CalibStatus fp8_product(CudaState *self, CudaLane *lane, CalibOp op, int64_t layer, char *error);
/* Rows of one of the four products' weights as numbers. Waits. */
CalibStatus fp8_read_weights(CudaState *self, int product, int64_t layer, int64_t row,
                             int64_t n_rows, double *ret_values, char *error);

/* --- cuda_tensors.c: the prepared work's tensors, as backend.h has them. */
int64_t tensor_columns(void *state, CalibTensor tensor);
/* Waits. */
CalibStatus tensor_move(void *state, const CalibSlice *slice, double *values, bool writes,
                        char *error);

/* --- cuda_measure.c */
CalibStatus work_prepare(CudaState *self, const CalibPoint *point, char *error);
/* Once, on the first operands. Waits. */
CalibStatus work_run(void *state, char *error);
CalibStatus work_measure(void *state, int32_t repeats, double *ret_seconds, char *error);
CalibStatus work_run_batch(CudaState *self, const CalibBatch *batch, double *ret_seconds,
                           char *error);
/* Forgets the prepared point. */
void work_end(CudaState *self);

/* --- cuda_nvml.c */
/* NULL where NVML is not to be had. */
Nvml *nvml_open(const char *pci_bus_id);
void nvml_close(Nvml *self);
void nvml_driver_version(Nvml *self, char *ret_version, size_t size);
/* Processes, ECC, MIG, the link, the most that the clock may be; what it does not say stays as it
 * is in `device`. */
void nvml_describe(const Nvml *self, CalibDevice *device);
void nvml_read(Nvml *self, CalibTelemetry *ret_telemetry);

/* --- cuda_group.c: other GPUs, whose processes take part in an all-reduce. Where the prepared work
 * is none, group_begin, group_queued and group_end do nothing. */
/* NULL, or why the point, an all-reduce over the model's tensor_parallel_size, cannot be had. */
const char *group_missing(CudaState *self, const CalibPoint *point);
/* Whether the prepared work is one. */
bool group_has(const CudaState *self);
/* Processes, memory and connections for the work. Waits. */
CalibStatus group_prepare(CudaState *self, char *error);
/* Queues this GPU's part on the main lane. */
CalibStatus group_run(CudaState *self, char *error);
/* What the other GPUs are to do beside this one: n runs, a graph of n runs, or n launches that are
 * timed. Before these all meet in a run that is not, whose own part group_begin queues. */
typedef enum GroupWork { GROUP_RUN, GROUP_CAPTURE, GROUP_SAMPLE } GroupWork;
CalibStatus group_begin(CudaState *self, GroupWork work, int32_t n, char *error);
/* Waits until the launches of the others are in their queues. */
CalibStatus group_queued(CudaState *self, char *error);
/* Waits until the others are done. `own`: how this GPU's part went; returns the first failure,
 * after which the group is gone. */
CalibStatus group_end(CudaState *self, CalibStatus own, char *error);
/* What sums: "one shot", "two shots", "nccl 2.27.3"; left as it is where the work is no sum. */
void group_name(const CudaState *self, char *ret_name, size_t size);
/* The tensor before or after, on this device; NULL: none. */
const void *group_tensor(const CudaState *self, bool is_sum);
/* Bytes at what on this GPU would be `at`, of another rank. */
CalibStatus group_move(CudaState *self, int32_t rank, const void *at, void *data, int64_t bytes,
                       bool writes, char *error);
void group_close(CudaState *self, bool has_failed);
/* The device after this one, and memory there for copies. */
int peer_device(const CudaState *self);
CalibStatus peer_reserve(CudaState *self, int64_t bytes, char *error);
void peer_release(CudaState *self);
#endif
