/* The CUDA backend without a GPU: its host code over a fake runtime (cuda_runtime_fake.h), with the
 * kernels as the emulator runs them.
 *
 * Whole iterations of tiny models, prefills and decodes together, are held to the decoder by its
 * formulas (calib/verify.h), from the same weights and the same KV: right operators with wrong
 * operands, in a wrong order or with the wrong page tables do not pass. Every operator is verified
 * at all sizes of the table, prepared and measured. Not shown: what only hardware can do wrong, and
 * any time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/operators.h"
#include "calib/verify.h"
#include "kernels/cuda_state.h"
#include "kernels/half.h"
#include "tests/kernels/cublaslt_fake.h"
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/kernel_testing.h"

extern const Backend backend_cuda;

static const FakeGpu h200 = {.n_devices = 1,
                             .major = 9,
                             .has_driver = true,
                             .memory_bytes = (INT64_C(2) * 64 + 26) << 20,
                             .name = "NVIDIA H200"};
static const CalibOptions options = {.seed = 7, .verify = true};

static const CalibModel llama = {.name = "tiny-llama",
                                 .num_hidden_layers = 3,
                                 .hidden_size = 128,
                                 .num_attention_heads = 4,
                                 .num_key_value_heads = 2,
                                 .head_dim = 64,
                                 .intermediate_size = 192,
                                 .vocab_size = 250,
                                 .max_position_embeddings = 4096,
                                 .tensor_parallel_size = 1,
                                 .block_size = 16};

/* Every feature that a Llama does not have. */
static CalibModel with_biases(CalibActivation activation, CalibPositions positions,
                              CalibDtype dtype) {
  CalibModel model = llama;
  model.name = "tiny-other";
  model.norm = CALIB_LAYER_NORM;
  model.activation = activation;
  model.positions = positions;
  model.bias = true;
  model.dtype = dtype;
  model.num_key_value_heads = 4;
  model.max_position_embeddings = 512;
  return model;
}

/* Attention by cuDNN, of heads that the own kernels may not have. */
static CalibModel with_cudnn(CalibDtype dtype, int32_t head_dim, int32_t heads, int32_t kv_heads) {
  CalibModel model = llama;
  model.name = head_dim == 64    ? "tiny-cudnn-64"
               : head_dim == 128 ? "tiny-cudnn-128"
               : head_dim == 256 ? "tiny-cudnn-256"
                                 : "tiny-cudnn";
  model.attention = CALIB_ATTENTION_CUDNN;
  model.dtype = dtype;
  model.head_dim = head_dim;
  model.num_attention_heads = heads;
  model.num_key_value_heads = kv_heads;
  return model;
}

static CalibModel with_wgmma(void) {
  CalibModel model = llama;
  model.name = "tiny-wgmma";
  model.attention = CALIB_ATTENTION_WGMMA;
  return model;
}

/* Experts of which most have few rows, or none. */
static CalibModel with_experts(CalibRouter router, CalibDtype dtype) {
  CalibModel model = llama;
  model.name = "tiny-moe";
  model.dtype = dtype;
  model.router = router;
  model.num_experts = 12;
  model.num_experts_per_tok = 3;
  model.moe_intermediate_size = 72;
  return model;
}

/* Depths of whole blocks, and more than one of them. */
static CalibModel with_weights(CalibWeights weights) {
  CalibModel model = llama;
  model.name = "tiny-fp8";
  model.weights = weights;
  model.hidden_size = model.intermediate_size = 256;
  return model;
}

// --- a state -----------------------------------------------------------------------------------

/* The workspace of the second lane is no memory that a model is planned into. */
static CudaState *open_backend(const Backend *backend) {
  char error[CALIB_ERROR_SIZE] = "";
  void *state = NULL;
  FakeGpu gpu = h200;
  gpu.memory_bytes -= 64 << 20;
  fake_gpu_set(gpu);
  if (backend->open(&options, &state, error) == CALIB_OK) return state;
  printf("open: %s\n", error);
  exit(1);
}

static void load(const Backend *backend, CudaState *state, const CalibModel *model) {
  char error[CALIB_ERROR_SIZE] = "";
  const CalibStatus status = backend->load(state, model, error);
  expect_true(status == CALIB_OK, "load %s: %s", model->name, error);
  if (status != CALIB_OK) exit(1);
}

// --- against the decoder -----------------------------------------------------------------------

static double verified(const Backend *backend, CudaState *state, const CalibModel *model,
                       const CalibPoint *point) {
  const VerifyTarget target = {backend, state, model};
  char error[CALIB_ERROR_SIZE] = "";
  double off = 0;
  const CalibStatus status = verify_point(&target, point, &off, error);
  expect_true(status == CALIB_OK, "%s: %s", model->name, error);
  return off;
}

/* All three layers, or of experts one (verify_check.h), and then all as one graph. */
static void check_iteration(const Backend *backend, const CalibModel *model) {
  const CalibSequence sequences[] = {{19, 0}, {6, 37}, {1, 40}, {1, 16}, {1, 0}};
  CudaState *state = open_backend(backend);
  load(backend, state, model);
  const CalibPoint point = {.op = CALIB_ITERATION, .batch = {sequences, 2, 3, 4}};
  const double off = verified(backend, state, model, &point);
  expect_error_below(off,
                     model->weights != CALIB_WEIGHTS_PLAIN
                         ? verify_tolerance(model, CALIB_ITERATION)
                     : model->dtype == CALIB_FP16 ? 2e-3
                                                  : 1e-2,
                     "%s: iteration", model->name);

  const CalibSlice logits = {
      .tensor = TENSOR_LOGITS, .sequence = CALIB_OF_ROWS, .n_rows = point.batch.n_logits};
  const size_t n = (size_t)logits.n_rows * (size_t)backend->columns(state, TENSOR_LOGITS);
  double *alone = malloc(n * sizeof *alone), *in_graph = malloc(n * sizeof *in_graph);
  char error[CALIB_ERROR_SIZE] = "";
  double seconds = 0;
  expect_true(backend->prepare(state, &point, error) == CALIB_OK &&
                  backend->run(state, error) == CALIB_OK &&
                  backend->move(state, &logits, alone, false, error) == CALIB_OK,
              "%s: all layers: %s", model->name, error);
  const int launches = fake_graph_launches();
  fake_take_asides();
  CalibStatus status = backend->run_batch(state, &point.batch, &seconds, error);
  expect_true(status == CALIB_OK, "%s: run_batch: %s", model->name, error);
  expect_true(seconds > 0.019 && seconds < 0.03, "%s: %g s", model->name, seconds);
  expect_true(fake_take_asides() == 0, "%s: nothing but launches is timed", model->name);
  expect_true(fake_graph_launches() == launches + 1, "one graph is launched once");
  expect_true(backend->move(state, &logits, in_graph, false, error) == CALIB_OK, "read: %s", error);
  expect_true(memcmp(alone, in_graph, n * sizeof *alone) == 0, "%s: a batch as a graph",
              model->name);
  free(alone);
  free(in_graph);
  backend->close(state);
  expect_true(fake_bytes_in_use() == 0, "%s: all memory is given back", model->name);
}

/* What test_group.c has. */
static bool is_of_many(int op) {
  return op == CALIB_ALL_REDUCE || op == CALIB_ALL_REDUCE_PEER || op == CALIB_COPY_PEER;
}

/* Every operator of every family, where the backend has it. */
static void check_operators(const Backend *backend, const CalibModel *model) {
  CudaState *state = open_backend(backend);
  load(backend, state, model);
  fake_gpu_set(h200);
  for (int op = 0; op < CALIB_N_OPS; op++) {
    const VerifyTarget target = {backend, state, model};
    char error[CALIB_ERROR_SIZE] = "";
    double off = 0;
    const CalibStatus status = verify_operator(&target, (CalibOp)op, &off, error);
    expect_true(status == CALIB_OK, "%s: %s", model->name, error);
    const bool has_none = is_of_many(op) || !calib_has_op(model, (CalibOp)op);
    expect_true(isnan(off) == has_none, "%s: operator %d is compared", model->name, op);
  }
  backend->close(state);
}

// --- points ------------------------------------------------------------------------------------

static void check_point(const Backend *backend, CudaState *state, const CalibPoint *point,
                        const char *name) {
  char error[CALIB_ERROR_SIZE] = "";
  double seconds = 0;
  const char *why = backend->supports(state, point);
  expect_true(!why, "%s is supported, not: %s", name, why ? why : "");
  CalibStatus status = backend->prepare(state, point, error);
  expect_true(status == CALIB_OK, "%s: prepare: %s", name, error);
  if (status != CALIB_OK) return;
  status = backend->measure(state, 2, &seconds, error);
  expect_true(status == CALIB_OK, "%s: measure: %s", name, error);
  expect_true(seconds > 0 && seconds < 1, "%s: %g s", name, seconds);
  fake_take_asides(); // the first may load, tune and capture
  status = backend->measure(state, 2, &seconds, error);
  expect_true(status == CALIB_OK, "%s: measure again: %s", name, error);
  const int64_t asides = fake_take_asides();
  expect_true(asides == 0, "%s: %d loads, questions or waits within what is timed", name,
              (int)asides);
}

static void test_points(const Backend *backend, const CalibModel *model) {
  static const CalibSequence sequences[] = {{9, 5}, {1, 33}, {1, 3}};
  static const struct {
    const char *name;
    CalibSize size;
  } ops[] = {
#define X(id, name, size) {name, CALIB_SIZE_##size},
#include "perfmodel/operators.def"
#undef X
  };
  CudaState *state = open_backend(backend);
  load(backend, state, model);
  fake_gpu_set(h200);
  for (int op = 0; op < CALIB_N_OPS; op++) {
    if (is_of_many(op)) continue;
    if (!calib_has_op(model, (CalibOp)op)) {
      const CalibPoint none = {.op = (CalibOp)op, .size = 5};
      expect_true(backend->supports(state, &none) != NULL, "%s has no %s", model->name,
                  ops[op].name);
      continue;
    }
    CalibPoint point = {.op = (CalibOp)op, .batch = {sequences, 1, 2, 3}, .size = 5};
    if (op == CALIB_PREFILL_ATTENTION) point.batch = (CalibBatch){sequences, 1, 0, 0};
    if (op == CALIB_DECODE_ATTENTION) point.batch = (CalibBatch){sequences + 1, 0, 2, 0};
    if (ops[op].size == CALIB_SIZE_bytes) point.size = 5000;
    check_point(backend, state, &point, ops[op].name);
  }
  const CalibPoint peer = {.op = CALIB_COPY_PEER, .size = 16};
  expect_true(strcmp(backend->supports(state, &peer), "one GPU") == 0, "no peer");
  backend->close(state);
}

static void test_modes(const Backend *backend) {
  static const CalibSequence decodes[] = {{1, 33}, {1, 3}};
  const CalibBatch batch = {decodes, 0, 2, 2};
  CudaState *state = open_backend(backend);
  load(backend, state, &llama);
  const CalibPoint eager = {.op = CALIB_ITERATION, .mode = CALIB_EAGER, .batch = batch};
  check_point(backend, state, &eager, "eager");
  expect_true(state->main.graph == NULL, "an eager point has no graph");
  const CalibPoint hot = {.op = CALIB_GEMM_O, .hot = true, .size = 3};
  check_point(backend, state, &hot, "hot");
  expect_true(state->work.copies == 1, "hot operands do not rotate");
  const CalibPoint cold = {.op = CALIB_NORM, .size = 3};
  check_point(backend, state, &cold, "cold");
  expect_true(state->work.copies * state->work.operand_bytes >= 5 * (64 << 10) / 2,
              "cold operands pass the cache");
  expect_true(state->main.unroll > 0 && state->main.unroll % state->work.copies == 0,
              "a graph holds each set of operands as often: %d runs, %d sets", state->main.unroll,
              state->work.copies);
  /* Little KV, over all layers less than the cache: the runs of a graph pass it nevertheless. */
  const CalibPoint few = {.op = CALIB_DECODE_ATTENTION, .batch = {decodes + 1, 0, 1, 0}};
  check_point(backend, state, &few, "attention of little KV");
  expect_true(state->main.layout.kv_layers * state->main.layout.pages * state->memory.page_bytes >=
                  5 * (64 << 10) / 2,
              "%d layers of %d pages pass the cache", (int)state->main.layout.kv_layers,
              (int)state->main.layout.pages);
  expect_true(state->main.unroll * llama.num_hidden_layers >= state->main.layout.kv_layers,
              "a graph goes over all of them: %d runs", (int)state->main.unroll);
  const CalibPoint page = {.op = CALIB_KV_GATHER, .size = 1};
  check_point(backend, state, &page, "a page");
  expect_true(state->work.copies * state->memory.page_bytes >= 5 * (64 << 10) / 2,
              "%d pages pass the cache", (int)state->work.copies);
  CalibTelemetry telemetry;
  backend->telemetry(state, &telemetry);
  expect_true(telemetry.algorithm[0] == '\0', "a copy has no algorithm");
  check_point(backend, state, &hot, "hot");
  backend->telemetry(state, &telemetry);
  expect_true(strncmp(telemetry.algorithm, "algo 8 tile 21 ", 15) == 0, "'%s'",
              telemetry.algorithm);
  const CalibPoint layers = {.op = CALIB_LINEAR, .layers = 1, .size = 3};
  check_point(backend, state, &layers, "one layer");
  fake_gpu_set(h200);
  const CalibPoint busy = {.op = CALIB_COPY_D2H, .busy = true, .size = 4096};
  check_point(backend, state, &busy, "busy");
  const CalibPoint both = {.op = CALIB_COPY_BOTH, .busy = true, .size = 4096};
  check_point(backend, state, &both, "busy in both directions");
  expect_true(state->back != NULL && state->back != state->side.stream,
              "the way back does not wait for decodes");
  backend->close(state);
}

// --- whose attention ---------------------------------------------------------------------------

static void expect_kernel(const Backend *backend, CudaState *state, CalibOp op, CalibBatch batch,
                          const char *says) {
  const CalibPoint point = {.op = op, .batch = batch, .size = 3};
  CalibTelemetry telemetry;
  check_point(backend, state, &point, says);
  backend->telemetry(state, &telemetry);
  expect_true(strcmp(telemetry.attn_kernel, says) == 0, "operator %d: '%s', not '%s'", (int)op,
              telemetry.attn_kernel, says);
}

static void test_attention_kernels(const Backend *backend) {
  static const CalibSequence sequences[] = {{9, 5}, {1, 33}, {1, 3}};
  const CalibBatch both = {sequences, 1, 2, 3}, prefills = {sequences, 1, 0, 0},
                   decodes = {sequences + 1, 0, 2, 0};
  const CalibModel models[] = {llama, with_cudnn(CALIB_BF16, 64, 4, 2), with_wgmma()};
  const char *const says[] = {"tandem", "cudnn 9.28.1 engine 1", "wgmma"};
  for (int i = 0; i < 3; i++) {
    CudaState *state = open_backend(backend);
    load(backend, state, &models[i]);
    fake_gpu_set(h200);
    expect_kernel(backend, state, CALIB_ITERATION, both, says[i]);
    expect_kernel(backend, state, CALIB_PREFILL_ATTENTION, prefills, says[i]);
    expect_kernel(backend, state, CALIB_DECODE_ATTENTION, decodes,
                  i == 2 ? "wgmma (mma.sync)" : says[i]);
    expect_kernel(backend, state, CALIB_LINEAR, decodes, "");
    expect_kernel(backend, state, CALIB_GEMM_O, decodes, "");
    const CalibPoint busy = {.op = CALIB_COPY_D2H, .busy = true, .size = 4096};
    check_point(backend, state, &busy, "busy");
    backend->close(state);
    expect_true(fake_bytes_in_use() == 0, "%s: all memory is given back", models[i].name);
  }
}

static void expect_rejected(const Backend *backend, CudaState *state, const CalibModel *model,
                            CalibStatus status, const char *says) {
  char error[CALIB_ERROR_SIZE] = "";
  expect_true(backend->load(state, model, error) == status && strstr(error, says), "'%s' says '%s'",
              error, says);
}

static void test_refused_attention(const Backend *backend) {
  char path[1024], error[CALIB_ERROR_SIZE] = "";
  CudaState *state = open_backend(backend);
  CalibModel model = with_cudnn(CALIB_BF16, 64, 4, 4);
  model.positions = CALIB_ALIBI;
  expect_rejected(backend, state, &model, CALIB_REJECTED, "ALiBi with attention by cuDNN");
  model = with_cudnn(CALIB_BF16, 72, 4, 4);
  expect_rejected(backend, state, &model, CALIB_REJECTED, "multiples of 16 up to 256");
  model = with_cudnn(CALIB_BF16, 272, 2, 2);
  expect_rejected(backend, state, &model, CALIB_REJECTED, "multiples of 16 up to 256");
  model.attention = CALIB_ATTENTION_OWN;
  model.head_dim = 256;
  expect_rejected(backend, state, &model, CALIB_REJECTED, "64 and 128 are");
  snprintf(path, sizeof path, "%s", getenv("TANDEM_CUDNN"));
  setenv("TANDEM_CUDNN", "/no/such/libcudnn.so.9", 1);
  model = with_cudnn(CALIB_BF16, 64, 4, 2);
  expect_rejected(backend, state, &model, CALIB_ENVIRONMENT, "'nvidia-cudnn-cu13>=9.21'");
  setenv("TANDEM_CUDNN", path, 1);
  setenv("FAKE_CUDNN", "none", 1);
  load(backend, state, &model);
  const CalibSequence sequence = {1, 33};
  const CalibPoint point = {.op = CALIB_DECODE_ATTENTION, .batch = {&sequence, 0, 1, 0}};
  double seconds = 0;
  expect_true(backend->prepare(state, &point, error) == CALIB_OK &&
                  backend->measure(state, 1, &seconds, error) == CALIB_REJECTED &&
                  strstr(error, "no engine"),
              "no engine: '%s'", error);
  unsetenv("FAKE_CUDNN");
  check_point(backend, state, &point, "with an engine");
  model = with_wgmma();
  model.positions = CALIB_ALIBI;
  expect_rejected(backend, state, &model, CALIB_REJECTED, "ALiBi with attention by wgmma");
  backend->close(state);
  FakeGpu a100 = h200;
  a100.major = 8;
  fake_gpu_set(a100);
  void *opened = NULL;
  expect_true(backend->open(&options, &opened, error) == CALIB_OK, "open: %s", error);
  model = with_wgmma();
  expect_rejected(backend, opened, &model, CALIB_REJECTED, "needs compute capability 9.0");
  load(backend, opened, &llama);
  backend->close(opened);
}

// --- what goes wrong ---------------------------------------------------------------------------

static void test_refusals(const Backend *backend) {
  static const struct {
    FakeGpu gpu;
    int device;
    const char *says;
  } cases[] = {
      {{.n_devices = 1}, 0, "no NVIDIA driver is installed"},
      {{.n_devices = 1, .has_driver = true, .cuda = 11080},
       0,
       "the nvcc of CUDA 11, or, on a data center GPU"},
      {{.n_devices = 0, .has_driver = true}, 0, "sees no GPU"},
      {{.n_devices = 1, .has_driver = true, .major = 7, .name = "Tesla V100"},
       0,
       "'Tesla V100' has compute capability 7.0, but the kernels are built for 8.0, 9.0"},
      {{.n_devices = 1,
        .has_driver = true,
        .major = 12,
        .name = "NVIDIA RTX 5090",
        .load_error = cudaErrorUnsupportedPtxVersion},
       0,
       "as PTX, from 9.0 on: an error of the fake"},
      {{.n_devices = 1,
        .has_driver = true,
        .major = 12,
        .name = "NVIDIA RTX 5090",
        .load_error = cudaErrorNoKernelImageForDevice},
       0,
       "'NVIDIA RTX 5090' has compute capability 12.0"},
      {{.n_devices = 2, .has_driver = true, .major = 8, .name = "NVIDIA A10"}, 2, "no GPU 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    CalibOptions chosen = options;
    chosen.device = cases[i].device;
    char error[CALIB_ERROR_SIZE] = "";
    void *state = NULL;
    fake_gpu_set(cases[i].gpu);
    expect_true(backend->open(&chosen, &state, error) == CALIB_ENVIRONMENT, "case %zu opens", i);
    expect_true(strstr(error, cases[i].says) != NULL, "case %zu says '%s'", i, error);
  }
}

/* A product that cuBLASLt refuses is named, and what has none of it goes on. */
static void test_refused_products(const Backend *backend, const CalibModel *model,
                                  const char *says) {
  CudaState *state = open_backend(backend);
  load(backend, state, model);
  const CalibPoint up = {.op = CALIB_GEMM_UP, .size = 5}, all = {.op = CALIB_LINEAR, .size = 5},
                   down = {.op = CALIB_GEMM_DOWN, .size = 5};
  const CalibPoint *const refused[] = {&up, &all};
  fake_blas_refuse(layer_columns(model, TENSOR_UP));
  for (int i = 0; i < 2; i++) {
    char error[CALIB_ERROR_SIZE] = "";
    double seconds = 0;
    expect_true(backend->prepare(state, refused[i], error) == CALIB_OK &&
                    backend->measure(state, 1, &seconds, error) == CALIB_REJECTED &&
                    strstr(error, says) && strstr(error, "CUBLAS_STATUS_NOT_SUPPORTED") &&
                    strstr(error, "aligned to"),
                "a refused product says '%s'", error);
    check_point(backend, state, &down, "after a refused product");
  }
  fake_blas_refuse(0);
  check_point(backend, state, &up, "a product that is no longer refused");
  backend->close(state);
}

/* A batch that does not fit leaves the state as usable as it was. */
static void test_memory(const Backend *backend) {
  CudaState *state = open_backend(backend);
  char error[CALIB_ERROR_SIZE] = "";
  double seconds = 0;
  const CalibPoint before = {.op = CALIB_NORM, .size = 3};
  expect_true(backend->prepare(state, &before, error) == CALIB_REJECTED, "no model yet");
  expect_true(backend->measure(state, 1, &seconds, error) == CALIB_REJECTED, "no point yet");
  load(backend, state, &llama);
  const CalibSequence sequence = {.new_tokens = 1, .past_tokens = 1 << 20};
  const CalibPoint large = {.op = CALIB_ITERATION, .batch = {&sequence, 0, 1, 1}};
  expect_true(backend->prepare(state, &large, error) == CALIB_OUT_OF_MEMORY, "pages");
  const CalibPoint copy = {.op = CALIB_COPY_D2D, .size = INT64_C(1) << 30};
  expect_true(backend->prepare(state, &copy, error) == CALIB_OUT_OF_MEMORY, "bytes");
  expect_true(backend->measure(state, 1, &seconds, error) == CALIB_REJECTED, "none is prepared");
  check_point(backend, state, &before, "after running out of memory");
  CalibModel mixed = with_experts(CALIB_SOFTMAX, CALIB_BF16);
  mixed.weights = CALIB_FP8;
  expect_true(backend->load(state, &mixed, error) == CALIB_REJECTED, "experts of 8 bits");
  CalibModel odd = with_weights(CALIB_FP8_BLOCK);
  odd.intermediate_size = 192;
  expect_true(backend->load(state, &odd, error) == CALIB_REJECTED, "half a block");
  CalibModel huge = llama;
  huge.vocab_size = 1 << 20;
  expect_true(backend->load(state, &huge, error) == CALIB_REJECTED, "a model too large");
  expect_true(backend->prepare(state, &before, error) == CALIB_REJECTED, "none is loaded");
  load(backend, state, &llama);
  check_point(backend, state, &before, "after a model that was too large");
  backend->close(state);
}

int main(void) {
  kernel_testing_begin("backend_cuda");
  const Backend *backend = &backend_cuda;
  check_iteration(backend, &llama);
  const CalibModel bloom = with_biases(CALIB_GELU, CALIB_ALIBI, CALIB_BF16);
  check_iteration(backend, &bloom);
  const CalibModel opt = with_biases(CALIB_RELU, CALIB_LEARNED, CALIB_FP16);
  check_iteration(backend, &opt);
  check_operators(backend, &llama);
  check_operators(backend, &bloom);
  check_operators(backend, &opt);
  const CalibModel mixtral = with_experts(CALIB_SOFTMAX, CALIB_BF16);
  check_iteration(backend, &mixtral);
  check_operators(backend, &mixtral);
  const CalibModel minimax = with_experts(CALIB_SIGMOID, CALIB_FP16);
  check_iteration(backend, &minimax);
  check_operators(backend, &minimax);
  const CalibModel fp8 = with_weights(CALIB_FP8), blocks = with_weights(CALIB_FP8_BLOCK);
  check_iteration(backend, &fp8);
  check_operators(backend, &fp8);
  check_iteration(backend, &blocks);
  check_operators(backend, &blocks);
  test_points(backend, &llama);
  test_points(backend, &blocks);
  test_points(backend, &mixtral);
  const CalibModel by_cudnn[] = {
      with_cudnn(CALIB_BF16, 64, 4, 2), with_cudnn(CALIB_FP16, 128, 4, 1),
      with_cudnn(CALIB_FP16, 256, 2, 1), with_cudnn(CALIB_FP16, 80, 2, 2)};
  for (size_t i = 0; i < sizeof by_cudnn / sizeof by_cudnn[0]; i++) {
    check_iteration(backend, &by_cudnn[i]);
    check_operators(backend, &by_cudnn[i]);
  }
  test_points(backend, &by_cudnn[0]);
  const CalibModel by_wgmma = with_wgmma();
  check_iteration(backend, &by_wgmma);
  check_operators(backend, &by_wgmma);
  test_attention_kernels(backend);
  test_refused_attention(backend);
  test_modes(backend);
  test_refusals(backend);
  test_refused_products(backend, &llama, "product of [5][128] and [384][128]");
  test_refused_products(backend, &fp8, "product in fp8 of [5][256] and [512][256]");
  test_memory(backend);
  return kernel_testing_end();
}
