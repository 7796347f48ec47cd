/* What runs a model's operators and says how long they took: a C table that a backend fills.
 *
 * `cpu` and `fake` are part of the program; `cuda` is a module opened with dlopen, which exports
 * one function, tandem_backend. Only plain C types cross this boundary, so that the same header
 * serves any compiler. Strings handed out live until `close`. A call that fails returns a
 * CalibStatus below zero and writes one line, without a full stop, to `error`.
 *
 * A backend holds one tensor-parallel shard of one model: all shapes are those of one GPU of
 * `tensor_parallel_size`. It keeps as many distinct layers in memory as it takes to stream past the
 * last-level cache and runs the model's layers over them in turn, so that a model larger than the
 * memory is timed with all its layers. Weights and activations are random: the values decide
 * power, and so clocks, but not the work.
 *
 * The life of a point: `prepare` makes operands and page tables, verifies the operator against a
 * reference on first sight, warms up, and captures a graph; `measure` then takes one sample, the
 * mean of `repeats` back-to-back runs, as often as it is called; the next `prepare` ends it. */
#ifndef CALIB_BACKEND_H
#define CALIB_BACKEND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CALIB_API_VERSION = 1, CALIB_ERROR_SIZE = 512 };

typedef enum CalibStatus {
  CALIB_OK = 0,
  CALIB_REJECTED = -1,      // the input cannot be run; what would is in `error`
  CALIB_ENVIRONMENT = -2,   // no driver, no device, a failing call
  CALIB_OUT_OF_MEMORY = -3, // this point does not fit; smaller ones may
  CALIB_WRONG = -4,         // the result is not what the reference says
} CalibStatus;

typedef enum CalibDtype { CALIB_BF16, CALIB_FP16, CALIB_FP32 } CalibDtype;
typedef enum CalibNorm { CALIB_RMS_NORM, CALIB_LAYER_NORM } CalibNorm;
typedef enum CalibActivation { CALIB_SWIGLU, CALIB_GELU, CALIB_RELU } CalibActivation;
typedef enum CalibPositions { CALIB_ROPE, CALIB_ALIBI, CALIB_LEARNED } CalibPositions;

/* A model and the shard of it that one device holds. */
typedef struct CalibModel {
  const char *name;
  int32_t num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads, head_dim;
  int32_t intermediate_size, vocab_size, max_position_embeddings;
  CalibNorm norm;
  CalibActivation activation; // CALIB_SWIGLU: gate and up in one product
  CalibPositions positions;
  bool bias; // of the four products
  CalibDtype dtype;
  int32_t tensor_parallel_size;
  int32_t block_size; // tokens in a page of KV
} CalibModel;

/* Heads and columns of one shard; key and value heads are replicated beyond one per device. */
static inline int32_t calib_query_heads(const CalibModel *m) {
  return m->num_attention_heads / m->tensor_parallel_size;
}
static inline int32_t calib_kv_heads(const CalibModel *m) {
  return m->num_key_value_heads > m->tensor_parallel_size
             ? m->num_key_value_heads / m->tensor_parallel_size
             : 1;
}
static inline int32_t calib_ffn(const CalibModel *m) {
  return m->intermediate_size / m->tensor_parallel_size;
}
static inline int32_t calib_vocab(const CalibModel *m) {
  return (m->vocab_size + m->tensor_parallel_size - 1) / m->tensor_parallel_size;
}

/* One sequence's part of an iteration: `new_tokens` of a prompt after `past_tokens` that are in the
 * KV cache already; a decode has one new token. */
typedef struct CalibSequence {
  int32_t new_tokens, past_tokens;
} CalibSequence;

/* The work of one iteration: chunks of prefill first, then decodes. */
typedef struct CalibBatch {
  const CalibSequence *sequences; // [n_prefills + n_decodes]
  int32_t n_prefills, n_decodes;
  int32_t n_logits; // sequences that need logits: decodes and prompts that end here
} CalibBatch;

/* What can be measured: name in profiles, which size describes it. Terms (DESIGN §4) are of all
 * layers of the shard; operators of one layer or call.
 *
 *   batch    its sequences        tokens   rows of the product or vectors
 *   bytes    of one call          pages    of KV of one layer */
#define CALIB_OPS(X)                                                                               \
  X(ITERATION, "iteration", batch)                 /* all of one */                                \
  X(LINEAR, "linear", tokens)                      /* embedding and all but attention and head */  \
  X(PREFILL_ATTENTION, "prefill_attention", batch) /* over pages */                                \
  X(DECODE_ATTENTION, "decode_attention", batch)   /* over pages */                                \
  X(HEAD, "head", tokens)                          /* last norm, product, argmax, of s rows */     \
  X(GEMM_QKV, "gemm_qkv", tokens)                                                                  \
  X(GEMM_O, "gemm_o", tokens)                                                                      \
  X(GEMM_UP, "gemm_up", tokens) /* and gate */                                                     \
  X(GEMM_DOWN, "gemm_down", tokens)                                                                \
  X(GEMM_HEAD, "gemm_head", tokens)                                                                \
  X(NORM, "norm", tokens)               /* with the residual added */                              \
  X(ROPE_APPEND, "rope_append", tokens) /* rotation, if any, and K and V into pages */             \
  X(ACTIVATION, "activation", tokens)                                                              \
  X(EMBEDDING, "embedding", tokens)                                                                \
  X(ARGMAX, "argmax", tokens)                                                                      \
  X(ALL_REDUCE, "all_reduce", bytes)                                                               \
  X(COPY_H2D, "copy_h2d", bytes)           /* pinned */                                            \
  X(COPY_D2H, "copy_d2h", bytes)           /* pinned */                                            \
  X(COPY_BOTH, "copy_both", bytes)         /* both at once, bytes in each direction */             \
  X(COPY_D2D, "copy_d2d", bytes)           /* read once and written once */                        \
  X(COPY_PEER, "copy_peer", bytes)         /* to another GPU */                                    \
  X(COPY_PAGEABLE, "copy_pageable", bytes) /* host to device, not pinned */                        \
  X(KV_GATHER, "kv_gather", pages)         /* pages of a layer to one buffer on the device */      \
  X(KV_SCATTER, "kv_scatter", pages)                                                               \
  X(KV_OUT, "kv_out", pages)               /* pages of a layer to pinned memory, as a transfer */  \
  X(WEIGHT_RELOAD, "weight_reload", bytes) /* pinned memory to weights, layer by layer */

typedef enum CalibOp {
#define X(id, name, size) CALIB_##id,
  CALIB_OPS(X)
#undef X
      CALIB_N_OPS,
} CalibOp;

typedef enum CalibSize {
  CALIB_SIZE_batch,
  CALIB_SIZE_tokens,
  CALIB_SIZE_bytes,
  CALIB_SIZE_pages
} CalibSize;

typedef enum CalibMode {
  CALIB_GRAPH, // captured once and replayed: no launch gaps. A CPU has only this one
  CALIB_EAGER, // launched one by one, as an engine without graphs does
} CalibMode;

typedef struct CalibPoint {
  CalibOp op;
  CalibMode mode;
  bool hot;       // operands stay in the cache; else they rotate past it
  bool busy;      // while a graph of decodes runs beside it on another stream
  int32_t layers; // of a term; 0: all of the model
  CalibBatch batch;
  int64_t size; // tokens, bytes or pages; unused for a batch
} CalibPoint;

/* What was found on opening. Unknown numbers are 0, unknown strings "". */
typedef struct CalibDevice {
  char name[128];                            // "NVIDIA H200", or the processor
  char gpu[64];                              // key of profiles: h200-141gb
  char uuid[64];                             // as the driver gives it; profiles keep a hash of it
  char driver[64], runtime[64], library[64]; // versions: driver; CUDA; cuBLASLt or BLAS
  int32_t sm;                                // compute capability, 90 is 9.0
  int32_t n_units;   // multiprocessors, or threads that a CPU backend was pinned to
  int32_t n_devices; // that a collective could use
  int64_t memory_bytes, free_bytes, cache_bytes; // the last is of the last-level cache
} CalibDevice;

/* Readings of the moment; NAN when the machine does not say. */
typedef struct CalibTelemetry {
  double sm_clock_mhz, mem_clock_mhz, temperature_c;
  double power_w, power_limit_w;
  double energy_j;   // since the driver was loaded
  uint64_t throttle; // reasons, NVML's bits; 0: none or unknown
} CalibTelemetry;

typedef struct CalibOptions {
  int32_t device;  // index
  int32_t threads; // of a CPU backend; 0: all it may run on
  uint64_t seed;   // of weights, activations, page tables; of the fake backend's noise
  bool verify;     // each operator against its reference before it is timed
} CalibOptions;

typedef struct Backend {
  uint32_t api_version; // CALIB_API_VERSION
  const char *name, *help;

  /* Takes the device. CALIB_ENVIRONMENT says in `error` what is missing. */
  CalibStatus (*open)(const CalibOptions *options, void **ret_state, char *error);
  void (*describe)(void *state, CalibDevice *ret_device);
  /* Makes the weights and the KV pool of a model, instead of any before. CALIB_REJECTED when it is
   * too large: `error` says which tensor_parallel_size, or how many layers, would fit. */
  CalibStatus (*load)(void *state, const CalibModel *model, char *error);
  /* NULL, or why this point cannot be measured here ("one GPU"): it is passed over. */
  const char *(*supports)(void *state, const CalibPoint *point);
  /* `point` and what it points to must live until the next prepare. `ret_error` is the relative
   * error ‖out − reference‖ / ‖reference‖ when the operator was verified, else NAN. */
  CalibStatus (*prepare)(void *state, const CalibPoint *point, double *ret_error, char *error);
  /* One sample of the prepared point: seconds of one of `repeats` >= 1 back-to-back runs. */
  CalibStatus (*measure)(void *state, int32_t repeats, double *ret_seconds, char *error);
  /* Runs one iteration with all layers once, and says how long the device was busy with it. */
  CalibStatus (*run_batch)(void *state, const CalibBatch *batch, double *ret_seconds, char *error);
  void (*telemetry)(void *state, CalibTelemetry *ret_telemetry);
  void (*close)(void *state);
} Backend;

/* The one symbol of a module. */
#define CALIB_ENTRY "tandem_backend"
typedef const Backend *(*BackendEntry)(void);
#endif
