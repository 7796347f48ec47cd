/* The backend `llama`: llama.cpp as the engine. Only whole iterations of a GGUF model, by libllama,
 * on whatever device that was built for. */
#include "calib/backend.h"
#include "calib/cpu_machine.h"
#include "calib/cpu_threads.h"
#include "calib/gpu_name.h"
#include "calib/llama_session.h"
#include <assert.h>
#include <stdio.h>

typedef struct State {
  Arena arena; // of this
  LlamaApi api;
  LlamaSession session;
  LlamaDevice *gpu; // NULL: the processor
  int gpus;
  bool has_model;
  int32_t threads;
} State;

/* Its many lines would stand between ours; what it cannot do its functions say. */
static void ignore_log(int level, const char *text, void *context) {
  (void)level, (void)text, (void)context;
}

static CalibStatus backend_open(const CalibOptions *options, void **ret_state, char *error) {
  LlamaApi api;
  int32_t threads = 0;
  CalibStatus status = cpu_threads_wanted(options, &threads, error);
  if (!status) status = llama_api_open(&api, error);
  if (status) return status;
  Arena arena;
  arena_init(&arena);
  State *self = ARENA_NEW(&arena, State);
  self->api = api;
  self->arena = arena;
  self->threads = threads;
  self->api.log_set(ignore_log, NULL);
  self->api.backend_init();
  self->gpu = llama_api_gpu(&self->api, &self->gpus);
  *ret_state = self;
  return CALIB_OK;
}

static void drop_model(State *self) {
  if (self->has_model) llama_session_close(&self->session);
  self->has_model = false;
}

static void backend_close(void *state) {
  State *self = state;
  drop_model(self);
  Arena arena = self->arena; // which holds the state itself
  arena_done(&arena);
}

/* Its compute capability is that of the machine type with this GPU. */
static CalibDevice describe_gpu(const State *self) {
  size_t free_bytes = 0, all_bytes = 0;
  CalibDevice device = {.n_devices = self->gpus};
  self->api.device_memory(self->gpu, &free_bytes, &all_bytes);
  device.memory_bytes = (int64_t)all_bytes;
  device.free_bytes = (int64_t)free_bytes;
  snprintf(device.name, sizeof device.name, "%s", self->api.device_name(self->gpu));
  gpu_key(device.name, device.memory_bytes, device.gpu, sizeof device.gpu);
  if (self->gpus > 1)
    snprintf(device.note, sizeof device.note,
             "llama.cpp divides the layers over %d GPUs; CUDA_VISIBLE_DEVICES names fewer",
             self->gpus);
  return device;
}

static void backend_describe(void *state, CalibDevice *ret_device) {
  State *self = state;
  *ret_device = self->gpu ? describe_gpu(self) : cpu_machine_describe(self->threads);
  snprintf(ret_device->library, sizeof ret_device->library, "llama.cpp, ggml %.40s",
           self->api.version ? self->api.version() : "unknown version");
}

static CalibStatus backend_load(void *state, const CalibModel *model, char *error) {
  State *self = state;
  drop_model(self);
  const char *why = NULL;
  if (!model->file)
    why = "llama.cpp runs models of GGUF files: '--model NAME.gguf'";
  else if (model->tensor_parallel_size != 1)
    why = "llama.cpp runs whole models: tensor_parallel_size 1";
  else if (model->attention != CALIB_ATTENTION_OWN)
    why = "llama.cpp has only its own attention";
  if (why) return calib_failed(CALIB_REJECTED, error, "model '%.100s': %s", model->name, why);
  const CalibStatus status =
      llama_session_open(&self->session, &self->api, model, self->threads, error);
  self->has_model = status == CALIB_OK;
  return status;
}

static CalibStatus backend_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                     char *error) {
  State *self = state;
  size_t free_bytes = 0, all_bytes;
  assert(self->has_model);
  if (self->gpu) self->api.device_memory(self->gpu, &free_bytes, &all_bytes);
  const CalibStatus status =
      llama_session_prepare(&self->session, batch,
                            self->gpu ? (int64_t)free_bytes : cpu_machine_available_bytes(), error);
  return status ? status : llama_session_run(&self->session, batch, ret_seconds, error);
}

/* ggml says nothing of a GPU's clocks. */
static void backend_telemetry(void *state, CalibTelemetry *ret_telemetry) {
  const State *self = state;
  if (self->gpu)
    *ret_telemetry = calib_telemetry_unknown;
  else
    cpu_machine_telemetry(state, ret_telemetry);
}

const Backend backend_llama = {
    .name = "llama",
    .help = "GGUF model in llama.cpp, whole iterations only",
    .whole = true,
    .open = backend_open,
    .describe = backend_describe,
    .load = backend_load,
    .run_batch = backend_run_batch,
    .telemetry = backend_telemetry,
    .close = backend_close,
};
