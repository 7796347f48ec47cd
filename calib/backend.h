/* What runs a model's operators and says how long they took: a C table that a backend fills.
 *
 * A backend is a program of its own, so that its libraries, its crashes and its licence stay on its
 * side of a pipe (PROTOCOL.md). One in C fills this table, and `serve` (serve.h) makes the program
 * of it; on Tandem's side the same table stands for any program (backend_process.h), so that
 * neither knows which lies between. Strings handed out live until `close`. A call that fails
 * returns a CalibStatus below zero and writes one line, without a full stop, to `error`.
 *
 * A backend holds one tensor-parallel shard of one model: all shapes are those of one GPU of
 * `tensor_parallel_size`. It keeps as many distinct layers in memory as it takes to stream past the
 * last-level cache and runs the model's layers over them in turn, so that a model larger than the
 * memory is timed with all its layers. Weights and activations are random: the values decide
 * power, and so clocks, but not the work.
 *
 * The life of a point: `prepare` makes operands and page tables; the first `measure` warms up, and
 * captures a graph; each `measure` takes one sample, the mean of `repeats` back-to-back runs, as
 * often as it is called; the next `prepare` ends it. */
#ifndef CALIB_BACKEND_H
#define CALIB_BACKEND_H
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CALIB_ERROR_SIZE = 512 };

typedef enum CalibStatus {
  CALIB_OK = 0,
  CALIB_REJECTED = -1,      // the input cannot be run; what would is in `error`
  CALIB_ENVIRONMENT = -2,   // no driver, no device, a failing call
  CALIB_OUT_OF_MEMORY = -3, // this point does not fit; smaller ones may
  CALIB_WRONG = -4,         // the result is not what the reference says
} CalibStatus;

/* Writes the line to `error` (CALIB_ERROR_SIZE) and returns `status`. */
CalibStatus calib_failed(CalibStatus status, char *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Seconds of a clock that only goes forward. */
double calib_seconds(void);
/* Fills a struct of pointers to functions with those of a library that dlopen has opened. `names`
 * are theirs in the struct's order, ended by NULL. A function that the library lacks becomes NULL;
 * returns the name of the first such, NULL when there is none. */
const char *calib_find_functions(void *library, const char *const *names, void *ret_functions);

typedef enum CalibDtype { CALIB_BF16, CALIB_FP16, CALIB_FP32 } CalibDtype;
/* Of a layer's products: as the model's type, or e4m3 with inputs that are quantized before each; a
 * scale for a tensor, or for 128 × 128 of the weights and 128 of a token's numbers. */
typedef enum CalibWeights { CALIB_WEIGHTS_PLAIN, CALIB_FP8, CALIB_FP8_BLOCK } CalibWeights;
/* Whose kernels attention is: the backend's own, cuDNN's, or the own with those of Hopper. */
typedef enum CalibAttention {
  CALIB_ATTENTION_OWN,
  CALIB_ATTENTION_CUDNN,
  CALIB_ATTENTION_WGMMA
} CalibAttention;
typedef enum CalibNorm { CALIB_RMS_NORM, CALIB_LAYER_NORM } CalibNorm;
typedef enum CalibActivation { CALIB_SWIGLU, CALIB_GELU, CALIB_RELU } CalibActivation;
typedef enum CalibPositions { CALIB_ROPE, CALIB_ALIBI, CALIB_LEARNED } CalibPositions;
typedef enum CalibRouter { CALIB_SOFTMAX, CALIB_SIGMOID } CalibRouter; // shares of experts

/* A model and the shard of it that one device holds. */
typedef struct CalibModel {
  const char *name;
  const char *file; // of its weights, GGUF; NULL: none, they are random
  int32_t num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads, head_dim;
  int32_t intermediate_size, vocab_size, max_position_embeddings;
  CalibNorm norm;
  CalibActivation activation; // CALIB_SWIGLU: gate and up in one product
  CalibPositions positions;
  bool bias; // of the four products
  CalibDtype dtype;
  int32_t tensor_parallel_size;
  int32_t block_size; // tokens in a page of KV
  /* Experts in place of the MLP of all layers, if num_experts is not 0; each device has a part of
   * every one's columns. */
  int32_t num_experts, num_experts_per_tok, moe_intermediate_size;
  CalibRouter router;
  CalibWeights weights; // the head's are of the model's type in any case
  CalibAttention attention;
  bool qk_norm; // each head of q and k is normed (RMS) before it is rotated
} CalibModel;

/* Of inputs of CALIB_FP8: a static one, as calibrated checkpoints have, for numbers up to 28. */
#define CALIB_FP8_INPUT_SCALE 0.0625

/* Heads and columns of one shard; key and value heads are replicated beyond one per device. */
static inline int32_t calib_query_heads(const CalibModel *m) {
  return m->num_attention_heads / m->tensor_parallel_size;
}
static inline int32_t calib_kv_heads(const CalibModel *m) {
  return m->num_key_value_heads > m->tensor_parallel_size
             ? m->num_key_value_heads / m->tensor_parallel_size
             : 1;
}
/* Of the MLP, or of one expert. */
static inline int32_t calib_ffn(const CalibModel *m) {
  return (m->num_experts > 0 ? m->moe_intermediate_size : m->intermediate_size) /
         m->tensor_parallel_size;
}
static inline int32_t calib_vocab(const CalibModel *m) {
  return (m->vocab_size + m->tensor_parallel_size - 1) / m->tensor_parallel_size;
}

/* Press et al. 2022: 2^(−8i/n) for a power of two of heads, else those of the next smaller one and
 * every second of the next greater one. The shard is the first. */
static inline double calib_alibi_slope(const CalibModel *m, int32_t head) {
  int32_t below = 1;
  while (2 * below <= m->num_attention_heads)
    below *= 2;
  return head < below ? pow(2, -8.0 * (head + 1) / below)
                      : pow(2, -4.0 * (2 * (head - below) + 1) / below);
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

/* What can be measured. */
typedef enum CalibOp {
#define X(id, name, size) CALIB_##id,
#include "perfmodel/operators.def"
#undef X
  CALIB_N_OPS,
} CalibOp;

/* Parts of an iteration, each a term. */
enum {
  CALIB_PART_LINEAR = 1, // embedding and all that is none of the others
  CALIB_PART_PREFILL = 2,
  CALIB_PART_DECODE = 4,
  CALIB_PART_HEAD = 8,
  CALIB_PARTS = 15,
};
/* Those that an operator has; 0: it is finer than a term. */
static inline unsigned calib_parts(CalibOp op) {
  if (op == CALIB_ITERATION) return CALIB_PARTS;
  return op <= CALIB_HEAD ? 1u << (op - CALIB_LINEAR) : 0;
}

/* Whether its bytes go to the host, or to other GPUs. */
static inline bool calib_is_to_host(CalibOp op) {
  return (op >= CALIB_COPY_H2D && op <= CALIB_COPY_BOTH) || op == CALIB_COPY_PAGEABLE ||
         op == CALIB_KV_OUT || op == CALIB_WEIGHT_RELOAD;
}
static inline bool calib_is_to_gpu(CalibOp op) {
  return op == CALIB_ALL_REDUCE || op == CALIB_ALL_REDUCE_PEER || op == CALIB_COPY_PEER;
}

/* Whether a run of it can be part of a graph; else it is queued behind a gate. Copies by the
 * device's engines are not captured. */
static inline bool calib_is_captured(CalibOp op) {
  return (op < CALIB_COPY_H2D || op > CALIB_COPY_PAGEABLE) && op != CALIB_WEIGHT_RELOAD;
}

/* Whether layers of this model have it: experts take the place of one MLP's products. */
static inline bool calib_has_op(const CalibModel *model, CalibOp op) {
  if (op == CALIB_GEMM_UP || op == CALIB_GEMM_DOWN) return model->num_experts == 0;
  return op < CALIB_MOE_ROUTING || model->num_experts > 0;
}

typedef enum CalibSize {
  CALIB_SIZE_batch,
  CALIB_SIZE_tokens,
  CALIB_SIZE_bytes,
  CALIB_SIZE_pages
} CalibSize;
CalibSize calib_op_size(CalibOp op);

typedef enum CalibMode {
  CALIB_GRAPH, // captured once and replayed, or queued: no launch gaps. A CPU has only this one
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

/* What operators read and write, for verification (verify.h): rows of `columns` numbers.
 *
 *   activations   of a batch's tokens, up to `expert_out`; of its logits, up to `best`
 *   batch         of its tokens; of its logits the row that each is of
 *   weights       [columns out][columns in]; norms and biases are one row; of a layer or of all
 *   keys, values  tokens of a sequence, or those that the batch has put there
 *   from, to      of a copy: bytes; or pages, in the order of the operator's list; of an all-reduce
 *                 rows of eight elements of a GPU's tensor
 *
 * With experts a token has num_experts_per_tok rows of `up`, `active` and `expert_out`, one for
 * each pair (token, choice), in the order of their experts: expert_pairs says which pair, numbered
 * token · num_experts_per_tok + choice, a row is, expert_rows which row a pair. Weights of up and
 * down are those of all experts, one after the other. */
#define CALIB_TENSORS(X)                                                                           \
  X(RESIDUAL, "residual")                                                                          \
  X(NORMED, "normed")                                                                              \
  X(ADDED, "added") /* what the next norm adds to the residual */                                  \
  X(QKV, "qkv")                                                                                    \
  X(ATTENTION, "attention")                                                                        \
  X(UP, "up")                                                                                      \
  X(ACTIVE, "active")                                                                              \
  X(ROUTER_LOGITS, "router_logits")                                                                \
  X(EXPERT_OUT, "expert_out") /* of down's product, before a token's sum */                        \
  X(HEAD_NORMED, "head_normed")                                                                    \
  X(LOGITS, "logits")                                                                              \
  X(BEST, "best") /* index of the greatest, as are the next three */                               \
  X(IDS, "ids")                                                                                    \
  X(POSITIONS, "positions")                                                                        \
  X(LOGIT_ROWS, "logit_rows")                                                                      \
  X(EMBEDDING, "embedding")                                                                        \
  X(POSITION_TABLE, "position_table")                                                              \
  X(FINAL_NORM, "final_norm")                                                                      \
  X(FINAL_NORM_BIAS, "final_norm_bias")                                                            \
  X(HEAD_WEIGHTS, "head_weights")                                                                  \
  X(NORM, "norm")                                                                                  \
  X(NORM_BIAS, "norm_bias")                                                                        \
  X(QKV_WEIGHTS, "qkv_weights")                                                                    \
  X(QKV_BIAS, "qkv_bias")                                                                          \
  X(O_WEIGHTS, "o_weights")                                                                        \
  X(O_BIAS, "o_bias")                                                                              \
  X(FFN_NORM, "ffn_norm")                                                                          \
  X(FFN_NORM_BIAS, "ffn_norm_bias")                                                                \
  X(UP_WEIGHTS, "up_weights")                                                                      \
  X(UP_BIAS, "up_bias")                                                                            \
  X(DOWN_WEIGHTS, "down_weights")                                                                  \
  X(DOWN_BIAS, "down_bias")                                                                        \
  X(KEYS, "keys")                                                                                  \
  X(VALUES, "values")                                                                              \
  X(FROM, "from")                                                                                  \
  X(TO, "to")                                                                                      \
  X(ROUTER_WEIGHTS, "router_weights")                                                              \
  X(EXPERTS, "experts") /* indices, as are the pairs and rows */                                   \
  X(EXPERT_SHARES, "expert_shares")                                                                \
  X(EXPERT_PAIRS, "expert_pairs")                                                                  \
  X(EXPERT_ROWS, "expert_rows")                                                                    \
  X(Q_NORM, "q_norm") /* of a head, as the next */                                                 \
  X(K_NORM, "k_norm")

typedef enum CalibTensor {
#define X(id, name) TENSOR_##id,
  CALIB_TENSORS(X)
#undef X
      CALIB_N_TENSORS,
} CalibTensor;

/* Numbers in a row of a tensor of this model's shard; 0 where the model has no such tensor, and for
 * `from` and `to`, whose rows are what the operator copies. A backend may have more logits, up to
 * the next multiple of 8. */
int64_t calib_tensor_columns(const CalibModel *model, CalibTensor tensor);

/* What products take and make: out [rows][n] = in [rows][k] · weights [n][k]ᵀ (+ bias). */
typedef struct CalibProduct {
  CalibTensor in, weights, bias, out;
} CalibProduct;
static inline CalibProduct calib_product(CalibOp op) {
  static const CalibProduct products[] = {
      {TENSOR_NORMED, TENSOR_QKV_WEIGHTS, TENSOR_QKV_BIAS, TENSOR_QKV},
      {TENSOR_ATTENTION, TENSOR_O_WEIGHTS, TENSOR_O_BIAS, TENSOR_ADDED},
      {TENSOR_NORMED, TENSOR_UP_WEIGHTS, TENSOR_UP_BIAS, TENSOR_UP},
      {TENSOR_ACTIVE, TENSOR_DOWN_WEIGHTS, TENSOR_DOWN_BIAS, TENSOR_ADDED},
      {TENSOR_HEAD_NORMED, TENSOR_HEAD_WEIGHTS, CALIB_N_TENSORS, TENSOR_LOGITS}};
  return products[op - CALIB_GEMM_QKV];
}

/* Rows of an activation for each token. */
static inline int32_t calib_rows_of_token(const CalibModel *m, CalibTensor tensor) {
  const bool of_expert =
      tensor == TENSOR_UP || tensor == TENSOR_ACTIVE || tensor == TENSOR_EXPERT_OUT;
  return of_expert && m->num_experts > 0 ? m->num_experts_per_tok : 1;
}

enum { CALIB_OF_ROWS = -1 }; // a slice's sequence: tokens of the batch

/* Rows row … row + n_rows. Numbers of every type and indices cross as doubles. */
typedef struct CalibSlice {
  CalibTensor tensor;
  int32_t layer;    // of a run's, 0 the first: of its weights, keys and values; of a copy in both
                    // directions 1 is the way back; of an all-reduce the GPU, 0 the measured one
  int32_t sequence; // of keys and values
  int64_t row, n_rows;
} CalibSlice;

typedef enum CalibSwitch { CALIB_UNKNOWN, CALIB_OFF, CALIB_ON } CalibSwitch;

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
  int32_t n_processes;                           // that compute on it, this one among them
  CalibSwitch ecc, mig;                          // error correction; partitions
  int64_t ecc_errors;            // that could not be corrected since the driver was loaded
  int32_t pcie_width, pcie_most; // lanes of its link: now, and what both ends could do
  double sm_clock_most_mhz;      // that the clock may reach
  char near_cpus[128];           // of the host, nearest to it, that what uses it keeps to: "0-31"
  char note[160];                // to the user, a line; "" nothing
} CalibDevice;

/* Readings of the moment; NAN when the machine does not say. And what a library chose for the
 * product that the prepared point is: "algo 66 tile 20 …"; whose attention it has: "tandem", "cudnn
 * 9.28.1 engine 3"; "" when it is or has none, or unknown. */
typedef struct CalibTelemetry {
  double sm_clock_mhz, mem_clock_mhz, temperature_c;
  double power_w, power_limit_w;
  double power_window_s; // that power_w is a mean over; NAN: it is of the moment
  double energy_j;       // since the driver was loaded
  uint64_t throttle;     // reasons, NVML's bits; 0: none or unknown
  char algorithm[160], attn_kernel[64];
} CalibTelemetry;
extern const CalibTelemetry calib_telemetry_unknown;

typedef struct CalibOptions {
  int32_t device;      // index
  int32_t threads;     // of a CPU backend; 0: all it may run on
  uint64_t seed;       // of weights, activations, page tables; of the fake backend's noise
  bool verify;         // the user wants it, and the harness does it (harness.h)
  const char *choices; // folder for what libraries chose, from run to run; NULL: none
  const volatile sig_atomic_t *interrupted; // NULL, or not 0 when the user wants it to stop: what
                                            // is asked of a program is then not waited for long
} CalibOptions;

typedef struct Backend {
  const char *name, *help;
  bool whole; // it runs iterations and nothing of them: an engine, planned for as such

  /* Takes the device. CALIB_ENVIRONMENT says in `error` what is missing. */
  CalibStatus (*open)(const CalibOptions *options, void **ret_state, char *error);
  /* `open` and `describe` are NULL where it is open already (backend_load.h). */
  void (*describe)(void *state, CalibDevice *ret_device);
  /* Makes the weights and the KV pool of a model, instead of any before. CALIB_REJECTED when it is
   * too large: `error` says which tensor_parallel_size, or how many layers, would fit. */
  CalibStatus (*load)(void *state, const CalibModel *model, char *error);
  /* The next three are NULL in an engine whose points are measured by run_batch.
   *
   * NULL, or why this point cannot be measured here ("one GPU"): it is passed over. */
  const char *(*supports)(void *state, const CalibPoint *point);
  /* `point` and what it points to must live until the next prepare. */
  CalibStatus (*prepare)(void *state, const CalibPoint *point, char *error);
  /* One sample of the prepared point: seconds of one of `repeats` >= 1 back-to-back runs. */
  CalibStatus (*measure)(void *state, int32_t repeats, double *ret_seconds, char *error);
  /* Runs one iteration with all layers once, and says how long the device was busy with it. */
  CalibStatus (*run_batch)(void *state, const CalibBatch *batch, double *ret_seconds, char *error);

  /* For verification, all NULL if there is none. `run` runs the prepared point once, on its first
   * operands, and waits; what it reads and writes is then read and written by rows. `columns` is 0
   * where the model or this backend has no such tensor. */
  CalibStatus (*run)(void *state, char *error);
  int64_t (*columns)(void *state, CalibTensor tensor);
  /* Rows of a tensor to `values`, or, `writes`, from there. */
  CalibStatus (*move)(void *state, const CalibSlice *slice, double *values, bool writes,
                      char *error);
  /* NULL, or a verification of the backend's own: as verify_operator of verify.h. */
  CalibStatus (*verify)(void *state, CalibOp op, double *ret_error, char *error);

  void (*telemetry)(void *state, CalibTelemetry *ret_telemetry);
  void (*close)(void *state);
} Backend;
#endif
