/* The backend `llama`: llama.cpp as the engine. Only whole iterations of a GGUF model, by libllama,
 * on whatever device that was built for. */
#include "calib/backend.h"
#include "calib/cpu_machine.h"
#include "calib/cpu_threads.h"
#include "calib/llama_session.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

typedef struct State {
  Arena arena; // of this
  LlamaApi api;
  LlamaSession session;
  bool has_model;
  int32_t threads;
  const CalibPoint *point; // prepared
  bool warm;
} State;

/* Its many lines would stand between ours; what it cannot do its functions say. */
static void ignore_log(int level, const char *text, void *context) {
  (void)level, (void)text, (void)context;
}

static CalibStatus backend_open(const CalibOptions *options, void **ret_state, char *error) {
  const int32_t allowed = cpu_threads_allowed();
  if (options->device != 0 || options->threads < 0 || options->threads > allowed)
    return calib_failed(
        CALIB_REJECTED, error,
        "device %d with %d threads is not available: this process may use device 0 with up to "
        "%d threads",
        (int)options->device, (int)options->threads, (int)allowed);
  LlamaApi api;
  const CalibStatus status = llama_api_open(&api, error);
  if (status) return status;
  Arena arena;
  arena_init(&arena);
  State *self = ARENA_NEW(&arena, State);
  self->api = api;
  self->arena = arena;
  self->threads = options->threads > 0 ? options->threads : allowed;
  self->api.log_set(ignore_log, NULL);
  self->api.backend_init();
  *ret_state = self;
  return CALIB_OK;
}

static void drop_model(State *self) {
  if (self->has_model) llama_session_close(&self->session);
  self->has_model = false;
  self->point = NULL;
}

static void backend_close(void *state) {
  State *self = state;
  drop_model(self);
  Arena arena = self->arena; // which holds the state itself
  arena_done(&arena);
}

static void backend_describe(void *state, CalibDevice *ret_device) {
  State *self = state;
  *ret_device = (CalibDevice){.gpu = "cpu",
                              .n_units = self->threads,
                              .n_devices = 1,
                              .memory_bytes = cpu_machine_memory_bytes(),
                              .free_bytes = cpu_machine_available_bytes(),
                              .cache_bytes = cpu_machine_cache_bytes()};
  cpu_machine_name(ret_device->name, sizeof ret_device->name);
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
    why = "llama.cpp has no attention by cuDNN";
  if (why) return calib_failed(CALIB_REJECTED, error, "model '%.100s': %s", model->name, why);
  const CalibStatus status =
      llama_session_open(&self->session, &self->api, model, self->threads, error);
  self->has_model = status == CALIB_OK;
  return status;
}

static const char *backend_supports(void *state, const CalibPoint *point) {
  (void)state;
  if (point->op != CALIB_ITERATION) return "llama.cpp runs whole iterations only";
  if (point->mode != CALIB_GRAPH) return "llama.cpp has no launch modes";
  if (point->busy || point->hot || point->layers > 0) return "llama.cpp runs plain batches only";
  return NULL;
}

static CalibStatus backend_prepare(void *state, const CalibPoint *point, char *error) {
  State *self = state;
  assert(self->has_model && backend_supports(state, point) == NULL);
  self->point = NULL;
  self->warm = false;
  const CalibStatus status =
      llama_session_prepare(&self->session, &point->batch, cpu_machine_available_bytes(), error);
  if (!status) self->point = point;
  return status;
}

/* Each run begins where the first did: what the one before left in the cache is cut meanwhile. */
static CalibStatus run_again(State *self, double *ret_seconds, char *error) {
  const CalibBatch *batch = &self->point->batch;
  const CalibStatus status =
      llama_session_prepare(&self->session, batch, cpu_machine_available_bytes(), error);
  return status ? status : llama_session_run(&self->session, batch, ret_seconds, error);
}

static CalibStatus backend_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  enum { WARM_UP_RUNS = 2 };
  State *self = state;
  assert(self->point && repeats >= 1);
  double sum = 0, seconds = 0;
  CalibStatus status = CALIB_OK;
  for (int32_t i = 0; !self->warm && !status && i < WARM_UP_RUNS; i++)
    status = run_again(self, &seconds, error);
  self->warm = true;
  for (int32_t i = 0; !status && i < repeats; i++) {
    status = run_again(self, &seconds, error);
    sum += seconds;
  }
  *ret_seconds = sum / repeats;
  return status;
}

static CalibStatus backend_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                     char *error) {
  State *self = state;
  assert(self->has_model);
  const CalibStatus status =
      llama_session_prepare(&self->session, batch, cpu_machine_available_bytes(), error);
  return status ? status : llama_session_run(&self->session, batch, ret_seconds, error);
}

const Backend backend_llama = {
    .name = "llama",
    .help = "GGUF model in llama.cpp, whole iterations only",
    .whole = true,
    .open = backend_open,
    .describe = backend_describe,
    .load = backend_load,
    .supports = backend_supports,
    .prepare = backend_prepare,
    .measure = backend_measure,
    .run_batch = backend_run_batch,
    .telemetry = cpu_machine_telemetry,
    .close = backend_close,
};
