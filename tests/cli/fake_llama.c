/* A libllama that only keeps the books: which tokens each sequence has in its cache, and that a
 * batch goes on where they end. A call takes 200 us and 2 us a token. FAKE_LLAMA: `layout` has
 * other parameters of a context; `fails` refuses the hundredth batch; `gpu` is built for one. */
#include "calib/llama_api.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEQUENCES = 64, VOCABULARY = 1 << 16 };

static int32_t lengths[SEQUENCES], streams, tokens_of_stream, n_calls;
static LlamaBatch last;
static bool asked[1 << 16]; // rows of the last batch that have logits

static bool wants(const char *word) {
  const char *words = getenv("FAKE_LLAMA");
  return words && strcmp(words, word) == 0;
}

void llama_backend_init(void);
void llama_backend_init(void) {}

const char *llama_print_system_info(void);
const char *llama_print_system_info(void) {
  return "fake";
}

void llama_log_set(void (*log)(int, const char *, void *), void *context);
void llama_log_set(void (*log)(int, const char *, void *), void *context) {
  (void)log, (void)context;
}

size_t ggml_backend_dev_count(void);
size_t ggml_backend_dev_count(void) {
  return wants("gpu") ? 2 : 1;
}

/* The processor is the last. */
LlamaDevice *ggml_backend_dev_get(size_t ix);
LlamaDevice *ggml_backend_dev_get(size_t ix) {
  static char devices[2];
  return (LlamaDevice *)&devices[ix + 2 - ggml_backend_dev_count()];
}

static bool is_processor(LlamaDevice *device) {
  return device == ggml_backend_dev_get(ggml_backend_dev_count() - 1);
}

int ggml_backend_dev_type(LlamaDevice *device);
int ggml_backend_dev_type(LlamaDevice *device) {
  return !is_processor(device);
}

const char *ggml_backend_dev_description(LlamaDevice *device);
const char *ggml_backend_dev_description(LlamaDevice *device) {
  return is_processor(device) ? "Some processor" : "NVIDIA H100 80GB HBM3";
}

void ggml_backend_dev_memory(LlamaDevice *device, size_t *ret_free, size_t *ret_all);
void ggml_backend_dev_memory(LlamaDevice *device, size_t *ret_free, size_t *ret_all) {
  *ret_all = is_processor(device) ? (size_t)16 << 30 : (size_t)79 << 30;
  *ret_free = *ret_all / 2;
}

LlamaModelParams llama_model_default_params(void);
LlamaModelParams llama_model_default_params(void) {
  return (LlamaModelParams){{NULL}};
}

LlamaContextParams llama_context_default_params(void);
LlamaContextParams llama_context_default_params(void) {
  return (LlamaContextParams){.n_ctx = 512,
                              .n_batch = 2048,
                              .n_ubatch = wants("layout") ? 2048 : 512,
                              .n_seq_max = 1,
                              .n_outputs_max_per_seq = 1,
                              .n_threads = 4,
                              .n_threads_batch = 4,
                              .rope_scaling_type = -1,
                              .pooling_type = -1,
                              .attention_type = -1,
                              .flash_attn_type = -1,
                              .yarn_ext_factor = -1,
                              .yarn_attn_factor = -1,
                              .yarn_beta_fast = -1,
                              .yarn_beta_slow = -1,
                              .defrag_thold = -1,
                              .type_k = 1,
                              .type_v = 1,
                              .offload_kqv = true,
                              .no_perf = true,
                              .op_offload = true,
                              .swa_full = true};
}

static int model, context;

LlamaModel *llama_model_load_from_file(const char *path, LlamaModelParams params);
LlamaModel *llama_model_load_from_file(const char *path, LlamaModelParams params) {
  (void)params;
  return path ? (LlamaModel *)(void *)&model : NULL;
}

void llama_model_free(LlamaModel *self);
void llama_model_free(LlamaModel *self) {
  (void)self;
}

int32_t llama_model_n_layer(const LlamaModel *self);
int32_t llama_model_n_layer(const LlamaModel *self) {
  (void)self;
  return 2;
}

int32_t llama_model_n_embd(const LlamaModel *self);
int32_t llama_model_n_embd(const LlamaModel *self) {
  (void)self;
  return 128;
}

uint64_t llama_model_size(const LlamaModel *self);
uint64_t llama_model_size(const LlamaModel *self) {
  (void)self;
  return 1;
}

bool llama_model_is_recurrent(const LlamaModel *self);
bool llama_model_is_recurrent(const LlamaModel *self) {
  (void)self;
  return false;
}

bool llama_model_has_encoder(const LlamaModel *self);
bool llama_model_has_encoder(const LlamaModel *self) {
  (void)self;
  return false;
}

LlamaContext *llama_init_from_model(LlamaModel *self, LlamaContextParams params);
LlamaContext *llama_init_from_model(LlamaModel *self, LlamaContextParams params) {
  (void)self;
  if (params.n_seq_max > SEQUENCES || params.n_ubatch != params.n_batch || params.kv_unified)
    return NULL;
  memset(lengths, 0, sizeof lengths);
  streams = (int32_t)params.n_seq_max;
  tokens_of_stream = (int32_t)(params.n_ctx / params.n_seq_max);
  return (LlamaContext *)(void *)&context;
}

void llama_free(LlamaContext *self);
void llama_free(LlamaContext *self) {
  (void)self;
}

uint32_t llama_n_ctx(const LlamaContext *self);
uint32_t llama_n_ctx(const LlamaContext *self) {
  (void)self;
  return (uint32_t)(streams * tokens_of_stream);
}

LlamaMemory *llama_get_memory(const LlamaContext *self);
LlamaMemory *llama_get_memory(const LlamaContext *self) {
  (void)self;
  return (LlamaMemory *)(void *)lengths;
}

bool llama_memory_seq_rm(LlamaMemory *self, int32_t sequence, int32_t from, int32_t to);
bool llama_memory_seq_rm(LlamaMemory *self, int32_t sequence, int32_t from, int32_t to) {
  (void)self;
  if (sequence < 0 || sequence >= streams || to != -1) abort();
  if (from < lengths[sequence]) lengths[sequence] = from;
  return true;
}

void llama_memory_seq_cp(LlamaMemory *self, int32_t from, int32_t to, int32_t begin, int32_t end);
void llama_memory_seq_cp(LlamaMemory *self, int32_t from, int32_t to, int32_t begin, int32_t end) {
  (void)self;
  if (to < 0 || to >= streams || begin != -1 || end != -1) abort();
  lengths[to] = lengths[from];
}

static void wait_seconds(double seconds) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do
    clock_gettime(CLOCK_MONOTONIC, &now);
  while ((double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) <
         seconds);
}

int32_t llama_decode(LlamaContext *self, LlamaBatch batch);
int32_t llama_decode(LlamaContext *self, LlamaBatch batch) {
  (void)self;
  memset(asked, 0, sizeof asked);
  for (int32_t i = 0; i < batch.n_tokens; i++) {
    const int32_t sequence = batch.seq_id[i][0];
    if (sequence < 0 || sequence >= streams || batch.n_seq_id[i] != 1) return -10;
    if (batch.pos[i] != lengths[sequence]++) return -11; // a hole, or a place taken
    if (lengths[sequence] > tokens_of_stream) return 1;
    asked[i] = batch.logits[i] != 0;
  }
  last = batch;
  wait_seconds(200e-6 + 2e-6 * batch.n_tokens);
  return wants("fails") && ++n_calls == 100 ? -3 : 0;
}

void llama_synchronize(LlamaContext *self);
void llama_synchronize(LlamaContext *self) {
  (void)self;
}

void *llama_get_logits_ith(LlamaContext *self, int32_t row);
void *llama_get_logits_ith(LlamaContext *self, int32_t row) {
  static char logits[4 * VOCABULARY] __attribute__((aligned(16))); // zeros in fp32
  (void)self;
  return row >= 0 && row < last.n_tokens && asked[row] ? logits : NULL;
}

size_t llama_max_parallel_sequences(void);
size_t llama_max_parallel_sequences(void) {
  return SEQUENCES;
}
