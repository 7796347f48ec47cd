/* The CUDA backend without a GPU: its host code over a fake runtime (cuda_runtime_fake.h), with the
 * kernels as the emulator runs them.
 *
 * Whole iterations of tiny models, prefills and decodes together, are compared with the decoder in
 * kernels/reference, from the same weights and the same KV: right operators with wrong operands, in
 * a wrong order or with the wrong page tables do not pass. Every operator is prepared, verified and
 * measured. Not shown: what only hardware can do wrong, and any time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda_state.h"
#include "kernels/reference/decoder.h"
#include "kernels/reference/half.h"
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/kernel_testing.h"

const Backend *tandem_backend(void);

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

static double *decode_all(const CudaState *state, const void *elements, int64_t n) {
  double *numbers = malloc((size_t)n * sizeof *numbers);
  for (int64_t i = 0; i < n; i++)
    numbers[i] = half_load(state->model.dtype, elements, i);
  return numbers;
}

static const double *weights(const CudaState *state, const void *elements, int64_t n) {
  return elements ? decode_all(state, elements, n) : NULL;
}

static DecoderLayer decoder_layer(const CudaState *state, int32_t ix) {
  const LayerShape *s = &state->shape;
  const CudaLayer from = model_layer(state, ix);
  const BatchLayout *layout = &state->main.layout;
  const int64_t h = s->hidden;
  return (DecoderLayer){.norm_weights = {weights(state, from.norm_weights[0], h),
                                         weights(state, from.norm_weights[1], h)},
                        .norm_biases = {weights(state, from.norm_biases[0], h),
                                        weights(state, from.norm_biases[1], h)},
                        .qkv = weights(state, from.qkv, h * s->qkv),
                        .o = weights(state, from.o, h * s->attention),
                        .up = weights(state, from.up, h * s->up),
                        .down = weights(state, from.down, h * s->ffn),
                        .qkv_bias = weights(state, from.qkv_bias, s->qkv),
                        .o_bias = weights(state, from.o_bias, h),
                        .up_bias = weights(state, from.up_bias, s->up),
                        .down_bias = weights(state, from.down_bias, h),
                        .kv = decode_all(state, model_kv(state, layout, ix),
                                         layout->part_pages * state->memory.page_bytes / 2)};
}

/* The logits of the prepared batch's run `repetition`, from the same weights. */
static double *expected_logits(const CudaState *state, int64_t repetition) {
  enum { LAYERS = 3 };
  const BatchLayout *layout = &state->main.layout;
  const LayerShape *s = &state->shape;
  DecoderLayer layers[LAYERS];
  for (int32_t i = 0; i < LAYERS; i++)
    layers[i] = decoder_layer(state, i);
  const int64_t h = s->hidden, table = h * s->vocab;
  const Decoder decoder = {
      .norm = state->model.norm,
      .activation = state->model.activation,
      .layers = LAYERS,
      .hidden = s->hidden,
      .query_heads = s->query_heads,
      .kv_heads = s->kv_heads,
      .head_dim = s->head_dim,
      .ffn = s->ffn,
      .vocab = s->vocab,
      .block_size = state->model.block_size,
      .has_rope = state->model.positions == CALIB_ROPE,
      .alibi_slopes = state->slopes.data,
      .embedding = weights(state, state->embedding.data, table),
      .positions = weights(state, state->positions.data, h * state->model.max_position_embeddings),
      .norm_weight = layers[0].norm_weights[0],
      .norm_bias = layers[0].norm_biases[0],
      .head = weights(state, model_head(state, repetition), table),
      .at = layers};
  DecoderToken *tokens = malloc((size_t)layout->tokens * sizeof *tokens);
  const int32_t *ids =
      (const int32_t *)state->ids.data + repetition * layout->tokens % (CUDA_IDS - layout->tokens);
  int32_t sequence = 0;
  for (int32_t t = 0; t < layout->tokens; t++) {
    if (t < layout->prefill_tokens)
      while (t >= layout->at.row_starts[sequence + 1])
        sequence++;
    else
      sequence = layout->n_prefills + t - layout->prefill_tokens;
    tokens[t] = (DecoderToken){.id = ids[t],
                               .position = layout->at.positions[t],
                               .pages = layout->at.page_table + sequence * layout->max_pages};
  }
  double *logits = malloc((size_t)layout->n_logits * (size_t)s->vocab * sizeof *logits);
  reference_decoder(&decoder, tokens, layout->tokens, layout->at.logit_rows, layout->n_logits,
                    logits);
  return logits; // the rest is the test's to the end
}

static void check_iteration(const Backend *backend, const CalibModel *model) {
  const CalibSequence sequences[] = {{19, 0}, {6, 37}, {1, 40}, {1, 16}, {1, 0}};
  CudaState *state = open_backend(backend);
  load(backend, state, model);
  const CalibBatch batch = {sequences, 2, 3, 4};
  char error[CALIB_ERROR_SIZE] = "";
  double seconds = 0;
  CalibStatus status = backend->run_batch(state, &batch, &seconds, error);
  expect_true(status == CALIB_OK, "%s: run_batch: %s", model->name, error);
  expect_true(seconds > 0.019 && seconds < 0.03, "%s: %g s", model->name, seconds);
  expect_true(fake_graph_launches() == 1, "one graph is launched once");
  /* The pool holds what the run has written, which the decoder writes once more. */
  double *expected = expected_logits(state, 0);
  const int64_t n = (int64_t)batch.n_logits * state->shape.vocab;
  const uint16_t *logits = state->main.tensors[TENSOR_LOGITS].data;
  const double off = relative_error(state->model.dtype, logits, expected, n);
  expect_error_below(off, model->dtype == CALIB_FP16 ? 2e-3 : 1e-2, "%s: logits", model->name);
  const int32_t *ids = state->main.tensors[TENSOR_IDS].data;
  for (int32_t row = 0; row < batch.n_logits; row++) {
    const uint16_t *of_row = logits + (int64_t)row * state->shape.vocab;
    for (int32_t i = 0; i < state->shape.vocab; i++)
      expect_true(half_load(state->model.dtype, of_row, i) <=
                      half_load(state->model.dtype, of_row, ids[row]),
                  "%s: argmax of row %d", model->name, (int)row);
  }
  free(expected);
  backend->close(state);
  expect_true(fake_bytes_in_use() == 0, "%s: all memory is given back", model->name);
}

// --- points ------------------------------------------------------------------------------------

static void check_point(const Backend *backend, CudaState *state, const CalibPoint *point,
                        const char *name) {
  char error[CALIB_ERROR_SIZE] = "";
  double off = 0, seconds = 0;
  const char *why = backend->supports(state, point);
  expect_true(!why, "%s is supported, not: %s", name, why ? why : "");
  CalibStatus status = backend->prepare(state, point, &off, error);
  expect_true(status == CALIB_OK, "%s: prepare: %s", name, error);
  if (status != CALIB_OK) return;
  expect_true(isnan(off) || off <= 1e-2, "%s: off by %g", name, off);
  status = backend->measure(state, 2, &seconds, error);
  expect_true(status == CALIB_OK, "%s: measure: %s", name, error);
  expect_true(seconds > 0 && seconds < 1, "%s: %g s", name, seconds);
}

static void test_points(const Backend *backend) {
  static const CalibSequence sequences[] = {{9, 5}, {1, 33}, {1, 3}};
  static const struct {
    const char *name;
    CalibSize size;
  } ops[] = {
#define X(id, name, size) {name, CALIB_SIZE_##size},
      CALIB_OPS(X)
#undef X
  };
  CudaState *state = open_backend(backend);
  load(backend, state, &llama);
  fake_gpu_set(h200);
  for (int op = 0; op < CALIB_N_OPS; op++) {
    if (op == CALIB_ALL_REDUCE || op == CALIB_COPY_PEER) continue;
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

// --- what goes wrong ---------------------------------------------------------------------------

static void test_refusals(const Backend *backend) {
  static const struct {
    FakeGpu gpu;
    int device;
    const char *says;
  } cases[] = {
      {{.n_devices = 1}, 0, "no NVIDIA driver"},
      {{.n_devices = 0, .has_driver = true}, 0, "sees no GPU"},
      {{.n_devices = 1, .has_driver = true, .major = 7, .name = "Tesla V100"}, 0, "need 8.0"},
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

/* A batch that does not fit leaves the state as usable as it was. */
static void test_memory(const Backend *backend) {
  CudaState *state = open_backend(backend);
  char error[CALIB_ERROR_SIZE] = "";
  double off = 0, seconds = 0;
  const CalibPoint before = {.op = CALIB_NORM, .size = 3};
  expect_true(backend->prepare(state, &before, &off, error) == CALIB_REJECTED, "no model yet");
  expect_true(backend->measure(state, 1, &seconds, error) == CALIB_REJECTED, "no point yet");
  load(backend, state, &llama);
  const CalibSequence sequence = {.new_tokens = 1, .past_tokens = 1 << 20};
  const CalibPoint large = {.op = CALIB_ITERATION, .batch = {&sequence, 0, 1, 1}};
  expect_true(backend->prepare(state, &large, &off, error) == CALIB_OUT_OF_MEMORY, "pages");
  const CalibPoint copy = {.op = CALIB_COPY_D2D, .size = INT64_C(1) << 30};
  expect_true(backend->prepare(state, &copy, &off, error) == CALIB_OUT_OF_MEMORY, "bytes");
  expect_true(backend->measure(state, 1, &seconds, error) == CALIB_REJECTED, "none is prepared");
  check_point(backend, state, &before, "after running out of memory");
  CalibModel huge = llama;
  huge.vocab_size = 1 << 20;
  expect_true(backend->load(state, &huge, error) == CALIB_REJECTED, "a model too large");
  expect_true(backend->prepare(state, &before, &off, error) == CALIB_REJECTED, "none is loaded");
  load(backend, state, &llama);
  check_point(backend, state, &before, "after a model that was too large");
  backend->close(state);
}

int main(void) {
  kernel_testing_begin("backend_cuda");
  const Backend *backend = tandem_backend();
  expect_true(backend->api_version == CALIB_API_VERSION, "version");
  check_iteration(backend, &llama);
  const CalibModel bloom = with_biases(CALIB_GELU, CALIB_ALIBI, CALIB_BF16);
  check_iteration(backend, &bloom);
  const CalibModel opt = with_biases(CALIB_RELU, CALIB_LEARNED, CALIB_FP16);
  check_iteration(backend, &opt);
  test_points(backend);
  test_modes(backend);
  test_refusals(backend);
  test_memory(backend);
  return kernel_testing_end();
}
