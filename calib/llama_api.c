/* Finding libllama, and whether it is one that is known. */
#include "calib/llama_api.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char LIBRARY[] = "libllama.so", LIBRARY_PATH[] = "TANDEM_LLAMA";

/* As LlamaApi has them. */
static const char *const NAMES[] = {"llama_backend_init",
                                    "llama_print_system_info",
                                    "llama_log_set",
                                    "llama_model_default_params",
                                    "llama_context_default_params",
                                    "llama_model_load_from_file",
                                    "llama_model_free",
                                    "llama_model_n_layer",
                                    "llama_model_n_embd",
                                    "llama_model_size",
                                    "llama_model_is_recurrent",
                                    "llama_model_has_encoder",
                                    "llama_init_from_model",
                                    "llama_free",
                                    "llama_n_ctx",
                                    "llama_get_memory",
                                    "llama_memory_seq_rm",
                                    "llama_memory_seq_cp",
                                    "llama_decode",
                                    "llama_synchronize",
                                    "llama_get_logits_ith",
                                    "llama_max_parallel_sequences",
                                    NULL};
/* Of a library that it needs. */
static const char *const VERSION[] = {"ggml_version", NULL};
static const char *const DEVICES[] = {"ggml_backend_dev_count",  "ggml_backend_dev_get",
                                      "ggml_backend_dev_type",   "ggml_backend_dev_description",
                                      "ggml_backend_dev_memory", NULL};
enum { DEVICE_IS_GPU = 1 }; // of device_type

/* The name of the first field that has not the default known for it; NULL: all have. */
static const char *strange_field(const LlamaContextParams *p) {
  if (p->n_ctx != 512) return "n_ctx";
  if (p->n_batch != 2048) return "n_batch";
  if (p->n_ubatch != 512) return "n_ubatch";
  if (p->n_seq_max != 1) return "n_seq_max";
  if (p->n_rs_seq != 0 || p->n_outputs_max != 0) return "n_outputs_max";
  if (p->n_outputs_max_per_seq != 1) return "n_outputs_max_per_seq";
  if (p->n_threads != 4 || p->n_threads_batch != 4) return "n_threads";
  if (p->ctx_type != 0) return "ctx_type";
  if (p->rope_scaling_type != -1 || p->pooling_type != -1 || p->attention_type != -1)
    return "attention_type";
  if (p->flash_attn_type != -1) return "flash_attn_type";
  if (p->yarn_ext_factor != -1 || p->yarn_attn_factor != -1 || p->yarn_beta_fast != -1 ||
      p->yarn_beta_slow != -1 || p->yarn_orig_ctx != 0)
    return "yarn_orig_ctx";
  if (p->defrag_thold != -1) return "defrag_thold";
  if (p->cb_eval || p->cb_eval_user_data) return "cb_eval";
  if (p->type_k != 1 || p->type_v != 1) return "type_k"; // fp16
  if (p->abort_callback || p->abort_callback_data) return "abort_callback";
  return NULL;
}

/* Bytes, because any but 0 and 1 are no bool at all. */
static const char *strange_flags(const LlamaContextParams *p) {
  static const unsigned char known[] = {0, 1, 1, 1, 1, 0};
  const unsigned char *flags = (const unsigned char *)p + offsetof(LlamaContextParams, embeddings);
  return memcmp(flags, known, sizeof known) == 0 ? NULL : "kv_unified";
}

static CalibStatus check(const LlamaApi *self, const char *path, char *error) {
  const LlamaContextParams params = self->context_defaults();
  const char *strange = strange_flags(&params);
  if (!strange) strange = strange_field(&params);
  if (!strange) return CALIB_OK;
  return calib_failed(
      CALIB_ENVIRONMENT, error,
      "'%.200s' has another interface than that of llama-cpp-python 0.3.36, the one "
      "supported: '%s' of the parameters of a context does not have its default",
      path, strange);
}

CalibStatus llama_api_open(LlamaApi *self, char *error) {
  const char *path = getenv(LIBRARY_PATH);
  if (!path || *path == '\0') path = LIBRARY;
  *self = (LlamaApi){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (!self->library)
    return calib_failed(CALIB_ENVIRONMENT, error, "cannot open libllama: %.300s; %s sets its path",
                        dlerror(), LIBRARY_PATH);
  const char *missing = calib_find_functions(self->library, NAMES, &self->backend_init);
  if (missing) {
    dlclose(self->library);
    return calib_failed(CALIB_ENVIRONMENT, error,
                        "'%.200s' is not a supported libllama: it has no '%s'", path, missing);
  }
  calib_find_functions(self->library, VERSION, &self->version);
  if (calib_find_functions(self->library, DEVICES, &self->device_count)) self->device_count = NULL;
  return check(self, path, error);
}

LlamaDevice *llama_api_gpu(const LlamaApi *self, int *ret_gpus) {
  LlamaDevice *first = NULL;
  *ret_gpus = 0;
  for (size_t i = 0; self->device_count && i < self->device_count(); i++) {
    LlamaDevice *device = self->device(i);
    if (self->device_type(device) != DEVICE_IS_GPU) continue;
    if (!first) first = device;
    ++*ret_gpus;
  }
  return first;
}
