/* libllama, opened at run time: the few functions of llama.cpp's C interface that a batch needs,
 * with prototypes of our own.
 *
 * llama.cpp keeps no ABI: the parameters of a context grow and move from release to release. The
 * layout below is the one of llama-cpp-python 0.3.36. What
 * llama_context_default_params writes is compared with the defaults known at each offset, so that
 * another layout is refused and never guessed at; fields that a later release appends are carried
 * through as it set them, in `appended`. The parameters of a model are passed on unread. */
#ifndef CALIB_LLAMA_API_H
#define CALIB_LLAMA_API_H
#include "calib/backend.h"

typedef struct LlamaModel LlamaModel;
typedef struct LlamaContext LlamaContext;
typedef struct LlamaMemory LlamaMemory;
typedef struct LlamaDevice LlamaDevice;

enum { LLAMA_APPENDED = 256 }; // bytes that later releases may add

typedef struct LlamaContextParams {
  uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
  int32_t n_threads, n_threads_batch;
  int32_t ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale;
  float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  uint32_t yarn_orig_ctx;
  float defrag_thold;
  void (*cb_eval)(void);
  void *cb_eval_user_data;
  int32_t type_k, type_v;
  void (*abort_callback)(void);
  void *abort_callback_data;
  bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
  void *samplers;
  size_t n_samplers;
  LlamaContext *ctx_other;
  unsigned char appended[LLAMA_APPENDED];
} LlamaContextParams;

typedef struct LlamaModelParams {
  void *unread[64];
} LlamaModelParams;

typedef struct LlamaBatch {
  int32_t n_tokens;
  int32_t *token;
  float *embd;
  int32_t *pos, *n_seq_id, **seq_id;
  int8_t *logits;
} LlamaBatch;

typedef struct LlamaApi {
  void *library;
  void (*backend_init)(void);
  const char *(*system_info)(void);
  void (*log_set)(void (*log)(int level, const char *text, void *context), void *context);
  LlamaModelParams (*model_defaults)(void);
  LlamaContextParams (*context_defaults)(void);
  LlamaModel *(*model_load)(const char *path, LlamaModelParams params);
  void (*model_free)(LlamaModel *model);
  int32_t (*model_n_layer)(const LlamaModel *model);
  int32_t (*model_n_embd)(const LlamaModel *model);
  uint64_t (*model_size)(const LlamaModel *model);
  bool (*model_is_recurrent)(const LlamaModel *model);
  bool (*model_has_encoder)(const LlamaModel *model);
  LlamaContext *(*context_open)(LlamaModel *model, LlamaContextParams params);
  void (*context_free)(LlamaContext *context);
  uint32_t (*context_n_ctx)(const LlamaContext *context);
  LlamaMemory *(*memory)(const LlamaContext *context);
  bool (*seq_rm)(LlamaMemory *memory, int32_t sequence, int32_t from, int32_t to);
  void (*seq_cp)(LlamaMemory *memory, int32_t from, int32_t to, int32_t begin, int32_t end);
  int32_t (*decode)(LlamaContext *context, LlamaBatch batch);
  void (*synchronize)(LlamaContext *context);
  float *(*logits)(LlamaContext *context, int32_t row);
  size_t (*max_sequences)(void);
  const char *(*version)(void); // of ggml; NULL where the library does not say
  /* Devices of ggml, all NULL where the library does not tell of them. */
  size_t (*device_count)(void);
  LlamaDevice *(*device)(size_t ix);
  int (*device_type)(LlamaDevice *device);
  const char *(*device_name)(LlamaDevice *device); // "NVIDIA H100 80GB HBM3"
  void (*device_memory)(LlamaDevice *device, size_t *ret_free, size_t *ret_all);
} LlamaApi;

/* The GPU that models are put on; NULL: the processor. */
LlamaDevice *llama_api_gpu(const LlamaApi *self, int *ret_gpus);

/* Opens TANDEM_LLAMA, else libllama.so of the loader's paths. It stays open as long as the program:
 * its threads and devices do not survive closing. */
CalibStatus llama_api_open(LlamaApi *self, char *error);
#endif
