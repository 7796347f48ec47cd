/* The backend `cpu`: the operators of a decoder layer in fp32 on this machine's processor, products
 * by OpenBLAS. It measures what it says, a small model on this CPU, so that the whole way from
 * measurement to validation can be gone on any machine. */
#include "calib/backend.h"
#include "calib/cpu_blas.h"
#include "calib/cpu_machine.h"
#include "calib/cpu_point.h"
#include <assert.h>
#include <stdio.h>

enum { WARM_UP_RUNS = 2 };

typedef struct State {
  Arena arena;       // of this and the threads
  Arena point_arena; // of what was prepared last
  Arena batch_arena; // of run_batch
  CalibOptions options;
  CpuThreads *threads;
  CpuBlas blas;
  CpuModel model;
  bool has_model, has_point;
  CpuPoint point;
} State;

static CalibStatus backend_open(const CalibOptions *options, void **ret_state, char *error) {
  int32_t threads = 0;
  CpuBlas blas;
  CalibStatus status = cpu_threads_wanted(options, &threads, error);
  if (!status) status = cpu_blas_open(&blas, error);
  if (status) return status;
  Arena arena;
  arena_init(&arena);
  State *self = ARENA_NEW(&arena, State);
  self->options = *options;
  self->blas = blas;
  self->threads = cpu_threads_open(threads, &arena);
  self->arena = arena;
  if (!self->threads) {
    arena_done(&arena);
    return calib_failed(CALIB_ENVIRONMENT, error, "cannot start and pin %d threads", (int)threads);
  }
  arena_init(&self->point_arena);
  arena_init(&self->batch_arena);
  *ret_state = self;
  return CALIB_OK;
}

static void backend_close(void *state) {
  State *self = state;
  if (self->has_model) cpu_model_close(&self->model);
  arena_done(&self->batch_arena);
  arena_done(&self->point_arena);
  cpu_threads_close(self->threads);
  Arena arena = self->arena; // which holds the state itself
  arena_done(&arena);
}

static void backend_describe(void *state, CalibDevice *ret_device) {
  State *self = state;
  *ret_device = cpu_machine_describe(cpu_threads_count(self->threads));
  snprintf(ret_device->library, sizeof ret_device->library, "%.63s", self->blas.config());
}

static CalibStatus backend_load(void *state, const CalibModel *model, char *error) {
  State *self = state;
  if (self->has_model) cpu_model_close(&self->model);
  self->has_model = self->has_point = false;
  arena_done(&self->point_arena);
  CalibStatus status =
      cpu_model_open(&self->model, model, self->threads, &self->blas, cpu_machine_cache_bytes(),
                     cpu_machine_available_bytes(), self->options.seed, error);
  self->has_model = status == CALIB_OK;
  self->point = (CpuPoint){.model = &self->model};
  return status;
}

static const char *backend_supports(void *state, const CalibPoint *point) {
  (void)state;
  return cpu_point_supports(point);
}

static CalibStatus backend_prepare(void *state, const CalibPoint *point, char *error) {
  State *self = state;
  assert(self->has_model);
  arena_done(&self->point_arena);
  CalibStatus status = cpu_point_init(&self->point, &self->model, point,
                                      cpu_machine_available_bytes(), &self->point_arena, error);
  self->has_point = status == CALIB_OK;
  return status;
}

static CalibStatus backend_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  State *self = state;
  (void)error;
  assert(self->has_point && repeats >= 1);
  while (self->point.round < WARM_UP_RUNS)
    cpu_point_run(&self->point);
  cpu_threads_wake(self->threads);
  const double begin = calib_seconds();
  for (int32_t i = 0; i < repeats; i++)
    cpu_point_run(&self->point);
  *ret_seconds = (calib_seconds() - begin) / repeats;
  return CALIB_OK;
}

static CalibStatus backend_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                     char *error) {
  State *self = state;
  assert(self->has_model);
  arena_done(&self->batch_arena);
  CpuBatch rows;
  CalibStatus status = cpu_batch_init(&rows, &self->model, batch, false,
                                      cpu_machine_available_bytes(), &self->batch_arena, error);
  if (status) return status;
  const CpuRun run = {.parts = CALIB_PARTS, .layers = self->model.shape.num_hidden_layers};
  cpu_threads_wake(self->threads);
  const double begin = calib_seconds();
  cpu_run(&self->model, &rows, &run, 0);
  *ret_seconds = calib_seconds() - begin;
  return CALIB_OK;
}

/* The first round again, whatever has been measured. */
static CalibStatus backend_run(void *state, char *error) {
  State *self = state;
  (void)error;
  assert(self->has_point);
  self->point.round = 0;
  cpu_point_run(&self->point);
  return CALIB_OK;
}

static int64_t backend_columns(void *state, CalibTensor tensor) {
  return cpu_point_columns(&((State *)state)->point, tensor);
}

static CalibStatus backend_move(void *state, const CalibSlice *slice, double *values, bool writes,
                                char *error) {
  (void)error;
  cpu_point_move(&((State *)state)->point, slice, values, writes);
  return CALIB_OK;
}

const Backend backend_cpu = {
    .name = "cpu",
    .help = "fp32 model on the CPU of this machine",
    .open = backend_open,
    .describe = backend_describe,
    .load = backend_load,
    .supports = backend_supports,
    .prepare = backend_prepare,
    .measure = backend_measure,
    .run_batch = backend_run_batch,
    .run = backend_run,
    .columns = backend_columns,
    .move = backend_move,
    .telemetry = cpu_machine_telemetry,
    .close = backend_close,
};
