/* A whole iteration against the decoder by its formulas (calib/verify.h), prefills of both heights
 * of a tile and decodes together: streams, graphs, products and kernels as they are put together to
 * be timed. On a GPU with CUDA's own runtime and cuBLASLt; and, so that the test itself is known to
 * hold, over the fake runtime with emulated kernels and the reference's products. */
#include "calib/verify.h"
#include "kernels/cuda_state.h"
#include "tests/kernels/kernel_testing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef FAKE_GPU
#include "tests/kernels/cuda_runtime_fake.h"
#endif

extern const Backend backend_cuda;

static const CalibModel models[] = {
    {"tiny-llama", NULL, 3, 128, 4, 2, 64, 192, 250, 4096, CALIB_RMS_NORM, CALIB_SWIGLU, CALIB_ROPE,
     false, CALIB_BF16, 1, 16, .num_experts = 0},
    {"tiny-bloom", NULL, 2, 256, 2, 2, 128, 192, 250, 512, CALIB_LAYER_NORM, CALIB_GELU,
     CALIB_ALIBI, true, CALIB_BF16, 1, 16, .num_experts = 0},
    {"tiny-opt", NULL, 2, 128, 2, 2, 64, 192, 256, 512, CALIB_LAYER_NORM, CALIB_RELU, CALIB_LEARNED,
     true, CALIB_FP16, 1, 32, .num_experts = 0},
    {"tiny-qwen", NULL, 3, 128, 4, 2, 64, 192, 250, 4096, CALIB_RMS_NORM, CALIB_SWIGLU, CALIB_ROPE,
     false, CALIB_BF16, 1, 16, .num_experts = 0, .qk_norm = true},
    {"tiny-moe",
     NULL,
     2,
     128,
     4,
     2,
     64,
     192,
     250,
     4096,
     CALIB_RMS_NORM,
     CALIB_SWIGLU,
     CALIB_ROPE,
     false,
     CALIB_BF16,
     1,
     16,
     .num_experts = 12,
     .num_experts_per_tok = 3,
     .moe_intermediate_size = 72},
};

static void begin_device(void) {
#ifdef FAKE_GPU
  fake_gpu_set((FakeGpu){.n_devices = 1,
                         .major = 9,
                         .has_driver = true,
                         .memory_bytes = INT64_C(90) << 20,
                         .name = "NVIDIA H200"});
#endif
}

/* A batch replayed as a graph gives the logits that it gave alone. */
static void check_graph(const Backend *backend, CudaState *state, const CalibModel *model,
                        const CalibBatch *batch) {
  char error[CALIB_ERROR_SIZE] = "";
  const CalibSlice logits = {
      .tensor = TENSOR_LOGITS, .sequence = CALIB_OF_ROWS, .n_rows = batch->n_logits};
  const size_t n = (size_t)logits.n_rows * (size_t)backend->columns(state, TENSOR_LOGITS);
  double *alone = calloc(n, sizeof *alone), *in_graph = calloc(n, sizeof *in_graph), seconds = 0;
  const CalibPoint point = {.op = CALIB_ITERATION, .batch = *batch};
  expect_true(backend->prepare(state, &point, error) == CALIB_OK &&
                  backend->run(state, error) == CALIB_OK &&
                  backend->move(state, &logits, alone, false, error) == CALIB_OK,
              "%s: all layers: %s", model->name, error);
  const CalibStatus status = backend->run_batch(state, batch, &seconds, error);
  expect_true(status == CALIB_OK && seconds > 0, "%s: run_batch: %s", model->name, error);
  expect_true(backend->move(state, &logits, in_graph, false, error) == CALIB_OK, "read: %s", error);
  expect_true(memcmp(alone, in_graph, n * sizeof *alone) == 0, "%s: a batch as a graph",
              model->name);
  free(alone);
  free(in_graph);
}

/* `copies` of the first prompt: with enough of them tiles of prefill are the tall ones. */
static void check_iteration(const Backend *backend, CudaState *state, const CalibModel *model,
                            int32_t copies) {
  enum { N_OTHERS = 5 };
  static const CalibSequence others[N_OTHERS] = {{19, 0}, {70, 37}, {1, 40}, {1, 16}, {1, 0}};
  const VerifyTarget target = {backend, state, model};
  char error[CALIB_ERROR_SIZE] = "";
  double off = 0;
  CalibSequence *sequences = calloc((size_t)copies + N_OTHERS, sizeof *sequences);
  for (int32_t i = 0; i < copies; i++)
    sequences[i] = (CalibSequence){1, 3};
  memcpy(sequences + copies, others, sizeof others);
  const CalibPoint point = {.op = CALIB_ITERATION,
                            .batch = {sequences, copies + 2, 3, copies + N_OTHERS}};
  const CalibStatus status = verify_point(&target, &point, &off, error);
  expect_true(status == CALIB_OK, "%s, %d prompts: %s", model->name, (int)copies, error);
  expect_error_below(off, verify_tolerance(model, CALIB_ITERATION), "%s, %d prompts", model->name,
                     (int)copies);
  if (copies == 0) check_graph(backend, state, model, &point.batch);
  free(sequences);
}

int main(void) {
  char error[CALIB_ERROR_SIZE] = "";
  kernel_testing_begin("iteration");
  const Backend *backend = &backend_cuda;
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    const CalibOptions options = {.seed = 7, .verify = true};
    void *opened = NULL;
    begin_device();
    const CalibStatus status = backend->open(&options, &opened, error);
    expect_true(status == CALIB_OK, "open: %s", error);
    if (status != CALIB_OK) break;
    CudaState *state = opened;
    const bool is_loaded = backend->load(state, &models[i], error) == CALIB_OK;
    expect_true(is_loaded, "%s: %s", models[i].name, error);
    if (is_loaded) {
      const int32_t wide = state->residency.prefill[1] / state->shape.kv_heads;
      check_iteration(backend, state, &models[i], 0);
      check_iteration(backend, state, &models[i], wide > 0 ? wide : 1);
    }
    backend->close(state);
  }
  return kernel_testing_end();
}
