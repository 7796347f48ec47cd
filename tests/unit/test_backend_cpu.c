/* The cpu backend. Pinned: every operator is what its formula says, for odd shapes of both families
 * and for one thread and several; the formulas by hand; what is refused and how. Not pinned: times.
 * What compares them is the table of verify.c; that it finds what is wrong is test_verify.c's. */
#include "calib/cpu_model.h"
#include "calib/cpu_run.h"
#include "calib/operators.h"
#include "calib/reference.h"
#include "calib/verify.h"
#include "tests/unit/testing.h"
#include <math.h>

extern const Backend backend_cpu;

static void *state;
static int32_t allowed; // CPUs, before the backend pins this thread to one
static char error[CALIB_ERROR_SIZE];
static double seconds, difference;

static void open_with(int threads) {
  const CalibOptions options = {.threads = threads, .seed = 5, .verify = true};
  error[0] = '\0';
  allowed = cpu_threads_allowed();
  cr_assert_eq(backend_cpu.open(&options, &state, error), CALIB_OK, "%s", error);
}

static void begin(void) {
  setup();
  open_with(0);
}

static void end(void) {
  backend_cpu.close(state);
  teardown();
}

TestSuite(backend_cpu, .init = begin, .fini = end);

/* Families and odd numbers of heads; sizes are no multiples of anything where they need not be. */
static const CalibModel models[] = {
    {"llama", NULL, 3, 72, 7, 1, 32, 100, 331, 4096, CALIB_RMS_NORM, CALIB_SWIGLU, CALIB_ROPE,
     false, CALIB_FP32, 1, 16, .num_experts = 0},
    {"llama-9", NULL, 2, 144, 9, 3, 16, 56, 97, 4096, CALIB_RMS_NORM, CALIB_SWIGLU, CALIB_ROPE,
     true, CALIB_FP32, 1, 32, .num_experts = 0},
    {"qwen", NULL, 2, 80, 6, 2, 32, 60, 113, 4096, CALIB_RMS_NORM, CALIB_SWIGLU, CALIB_ROPE, false,
     CALIB_FP32, 1, 16, .num_experts = 0, .qk_norm = true},
    {"bloom", NULL, 3, 96, 14, 14, 16, 130, 515, 2048, CALIB_LAYER_NORM, CALIB_GELU, CALIB_ALIBI,
     true, CALIB_FP32, 1, 16, .num_experts = 0},
    {"opt", NULL, 2, 64, 4, 4, 64, 90, 200, 300, CALIB_LAYER_NORM, CALIB_RELU, CALIB_LEARNED, true,
     CALIB_FP32, 1, 16, .num_experts = 0},
    {"half of a llama", NULL, 2, 64, 14, 2, 32, 70, 201, 2048, CALIB_RMS_NORM, CALIB_SWIGLU,
     CALIB_ROPE, false, CALIB_FP32, 2, 16, .num_experts = 0},
};
enum { N_MODELS = sizeof models / sizeof *models };

static const CalibSequence sequences[] = {{33, 20}, {1, 0}, {1, 47}, {1, 16}};
static const CalibBatch mixed = {
    .sequences = sequences, .n_prefills = 2, .n_decodes = 2, .n_logits = 3};

static CalibPoint point_of(CalibOp op) {
  const bool is_copy = calib_op_size(op) == CALIB_SIZE_bytes;
  return (CalibPoint){.op = op, .batch = mixed, .size = is_copy ? 10001 : 5};
}

/* At the sizes of the table, and at one that is no size of it. */
static void expect_verified(const CalibModel *model, CalibOp op) {
  const CalibPoint point = point_of(op);
  const VerifyTarget target = {&backend_cpu, state, model};
  double of_point = NAN;
  cr_assert_eq(verify_operator(&target, op, &difference, error), CALIB_OK, "%s of %s: %s",
               calib_op_name(op), model->name, error);
  cr_assert_eq(verify_point(&target, &point, &of_point, error), CALIB_OK, "%s of %s: %s",
               calib_op_name(op), model->name, error);
  cr_expect(difference >= 0 && difference <= 1e-5, "%s of %s is off by %g", calib_op_name(op),
            model->name, difference);
  cr_expect(of_point >= 0 && of_point <= 1e-5, "%s of %s is off by %g", calib_op_name(op),
            model->name, of_point);
  seconds = 0;
  cr_assert_eq(backend_cpu.prepare(state, &point, error), CALIB_OK, "%s", error);
  cr_expect_eq(backend_cpu.measure(state, 3, &seconds, error), CALIB_OK, "%s", error);
  cr_expect(seconds > 0, "%s of %s", calib_op_name(op), model->name);
}

static void expect_all_verified(void) {
  for (int m = 0; m < N_MODELS; m++) {
    cr_assert_eq(backend_cpu.load(state, &models[m], error), CALIB_OK, "%s", error);
    for (int op = 0; op < CALIB_N_OPS; op++) {
      const CalibPoint point = point_of((CalibOp)op);
      if (!backend_cpu.supports(state, &point)) expect_verified(&models[m], (CalibOp)op);
    }
  }
}

Test(backend_cpu, operators_are_what_the_formulas_say) {
  expect_all_verified();
}

Test(backend_cpu_alone, on_one_thread_too) {
  open_with(1);
  expect_all_verified();
  teardown();
}

Test(backend_cpu, points_of_every_kind_run) {
  cr_assert_eq(backend_cpu.load(state, &models[0], error), CALIB_OK, "%s", error);
  const CalibPoint points[] = {
      {.op = CALIB_ITERATION, .batch = mixed, .layers = 7},
      {.op = CALIB_ITERATION, .batch = mixed, .hot = true},
      {.op = CALIB_DECODE_ATTENTION, .batch = {sequences + 2, 0, 2, 0}, .hot = true},
      {.op = CALIB_GEMM_UP, .size = 300, .hot = true},
      {.op = CALIB_HEAD, .size = 40, .hot = true},
      {.op = CALIB_COPY_D2D, .size = 1},
      {.op = CALIB_COPY_D2D, .size = 3 << 20, .hot = true},
      {.op = CALIB_KV_SCATTER, .size = 400},
  };
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    cr_assert_eq(backend_cpu.prepare(state, &points[i], error), CALIB_OK, "%zu: %s", i, error);
    seconds = 0;
    cr_expect_eq(backend_cpu.measure(state, 40, &seconds, error), CALIB_OK, "%zu: %s", i, error);
    cr_expect_gt(seconds, 0, "%zu", i);
  }
}

Test(backend_cpu, a_batch_runs_between_points) {
  cr_assert_eq(backend_cpu.load(state, &models[2], error), CALIB_OK, "%s", error);
  const CalibPoint point = {.op = CALIB_LINEAR, .size = 9};
  cr_assert_eq(backend_cpu.prepare(state, &point, error), CALIB_OK, "%s", error);
  seconds = 0;
  cr_expect_eq(backend_cpu.run_batch(state, &mixed, &seconds, error), CALIB_OK, "%s", error);
  cr_expect_gt(seconds, 0);
  seconds = 0;
  cr_expect_eq(backend_cpu.measure(state, 2, &seconds, error), CALIB_OK, "%s", error);
  cr_expect_gt(seconds, 0);
}

Test(backend_cpu, refuses_what_is_no_batch) {
  cr_assert_eq(backend_cpu.load(state, &models[0], error), CALIB_OK, "%s", error);
  const CalibSequence empty = {0, 4}, two = {2, 4};
  const CalibBatch batches[] = {
      {.sequences = &empty, .n_prefills = 1},
      {.sequences = &two, .n_decodes = 1},
      {.sequences = &two, .n_prefills = 1, .n_logits = 2},
      {.sequences = &two},
  };
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
    error[0] = '\0';
    cr_expect_eq(backend_cpu.run_batch(state, &batches[i], &seconds, error), CALIB_REJECTED, "%zu",
                 i);
    cr_expect_neq(error[0], '\0');
  }
  const CalibPoint none = {.op = CALIB_NORM, .size = 0};
  cr_expect_eq(backend_cpu.prepare(state, &none, error), CALIB_REJECTED);
}

Test(backend_cpu, a_point_that_does_not_fit_leaves_the_others) {
  cr_assert_eq(backend_cpu.load(state, &models[0], error), CALIB_OK, "%s", error);
  const CalibSequence many[] = {{1, 2000000000}, {1, 2000000000}, {1, 2000000000}, {1, 2000000000}};
  const CalibPoint large = {.op = CALIB_DECODE_ATTENTION, .batch = {many, 0, 4, 0}};
  cr_expect_eq(backend_cpu.prepare(state, &large, error), CALIB_OUT_OF_MEMORY);
  cr_expect_not_null(strstr(error, "GiB"), "%s", error);
  const CalibPoint small = {.op = CALIB_ITERATION, .batch = mixed};
  cr_expect_eq(backend_cpu.prepare(state, &small, error), CALIB_OK, "%s", error);
}

Test(backend_cpu, refuses_models_it_cannot_hold) {
  CalibModel model = models[0];
  const struct {
    CalibModel model;
    const char *message;
  } cases[] = {
      {{"b", NULL, 3, 72, 7, 1, 32, 100, 331, 9, 0, 0, 0, false, CALIB_BF16, 1, 16,
        .num_experts = 0},
       "fp32"},
      {{"d", NULL, 3, 72, 7, 1, 24, 100, 331, 9, 0, 0, 0, false, CALIB_FP32, 1, 16,
        .num_experts = 0},
       "head_dim"},
      {{"p", NULL, 3, 72, 7, 1, 32, 100, 331, 9, 0, 0, 0, false, CALIB_FP32, 1, 8,
        .num_experts = 0},
       "block_size"},
      {{"e", NULL, 3, 64, 4, 1, 32, 96, 331, 9, 0, 0, 0, false, CALIB_FP32, 1, 16,
        .num_experts = 4},
       "support experts"},
      {{"w", NULL, 3, 64, 4, 1, 32, 96, 331, 9, 0, 0, 0, false, CALIB_FP32, 1, 16,
        .weights = CALIB_FP8},
       "8 bits"},
      {{"g", NULL, 3, 72, 7, 2, 32, 100, 331, 9, 0, 0, 0, false, CALIB_FP32, 1, 16,
        .num_experts = 0},
       "heads"},
      {{"l", NULL, 3, 65536, 512, 8, 128, 1 << 22, 1 << 24, 9, 0, 0, 0, false, CALIB_FP32, 1, 16,
        .num_experts = 0},
       "GiB"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cr_expect_eq(backend_cpu.load(state, &cases[i].model, error), CALIB_REJECTED, "%zu", i);
    cr_expect_not_null(strstr(error, cases[i].message), "%zu: %s", i, error);
  }
  cr_expect_eq(backend_cpu.load(state, &model, error), CALIB_OK, "%s", error);
}

Test(backend_cpu, says_what_it_has_no_operator_for) {
  static const CalibOp without[] = {CALIB_ALL_REDUCE,    CALIB_ALL_REDUCE_PEER, CALIB_COPY_H2D,
                                    CALIB_COPY_D2H,      CALIB_COPY_BOTH,       CALIB_COPY_PEER,
                                    CALIB_COPY_PAGEABLE, CALIB_KV_OUT,          CALIB_WEIGHT_RELOAD,
                                    CALIB_MOE_ROUTING,   CALIB_MOE_GEMM_UP,     CALIB_MOE_GEMM_DOWN,
                                    CALIB_MOE_COMBINE};
  for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
    const CalibPoint point = {.op = without[i], .size = 4096};
    cr_expect_not_null(backend_cpu.supports(state, &point), "%s", calib_op_name(without[i]));
  }
  CalibPoint point = {.op = CALIB_LINEAR, .size = 1};
  cr_expect_null(backend_cpu.supports(state, &point));
  point.busy = true;
  cr_expect_not_null(backend_cpu.supports(state, &point));
  point = (CalibPoint){.op = CALIB_LINEAR, .mode = CALIB_EAGER, .size = 1};
  cr_expect_not_null(backend_cpu.supports(state, &point));
}

Test(backend_cpu, describes_the_machine) {
  CalibDevice device;
  CalibTelemetry telemetry;
  backend_cpu.describe(state, &device);
  backend_cpu.telemetry(state, &telemetry);
  cr_expect_str_eq(device.gpu, "cpu");
  cr_expect_str_neq(device.name, "");
  cr_expect_eq(device.n_units, allowed);
  cr_expect_eq(device.sm, 0);
  cr_expect_gt(device.free_bytes, 0);
  cr_expect_leq(device.free_bytes, device.memory_bytes);
  cr_expect(isnan(telemetry.power_w));
}

Test(backend_cpu_alone, refuses_threads_and_devices_that_are_not_there) {
  CalibOptions options = {.threads = cpu_threads_allowed() + 1};
  cr_expect_eq(backend_cpu.open(&options, &state, error), CALIB_REJECTED);
  options = (CalibOptions){.device = 1};
  cr_expect_eq(backend_cpu.open(&options, &state, error), CALIB_REJECTED);
}

/* Where the cache is small, few layers stand for many. */
Test(backend_cpu_alone, keeps_as_many_layers_as_exceed_the_cache) {
  Arena arena;
  arena_init(&arena);
  CpuThreads *threads = cpu_threads_open(1, &arena);
  cr_assert_not_null(threads);
  CalibModel shape = models[0];
  shape.num_hidden_layers = 40;
  CpuModel model;
  CpuBlas blas;
  cr_assert_eq(cpu_blas_open(&blas, error), CALIB_OK, "%s", error);
  cr_assert_eq(cpu_model_open(&model, &shape, threads, &blas, 200000, INT64_C(1) << 30, 1, error),
               CALIB_OK, "%s", error);
  /* 72·(7 + 2)·32 + 7·32·72 + 3·72·100 and two norms of 72: 58,608 numbers, 234,432 bytes. */
  cr_expect_eq(model.n_layers, 2, "%d", (int)model.n_layers);
  CpuBatch batch;
  cr_assert_eq(cpu_batch_init(&batch, &model, &mixed, true, INT64_C(1) << 30, &arena, error),
               CALIB_OK, "%s", error);
  cr_expect_gt(batch.n_sets, 1);
  const CpuRun run = {.parts = CALIB_PARTS, .layers = 40};
  for (int64_t round = 0; round < 3 * batch.n_sets; round++)
    cpu_run(&model, &batch, &run, round);
  cpu_model_close(&model);
  cpu_threads_close(threads);
  arena_done(&arena);
}

Test(backend_cpu_alone, every_item_is_in_one_share) {
  for (int64_t n = 0; n < 70; n++) {
    for (int32_t parts = 1; parts < 6; parts++) {
      int64_t next = 0, begin = 0, end = 0;
      for (int32_t part = 0; part < parts; part++) {
        cpu_share(n, 16, part, parts, &begin, &end);
        cr_assert_eq(begin, next);
        cr_assert(begin == n || begin % 16 == 0);
        next = end;
      }
      cr_assert_eq(next, n);
    }
  }
}

static void expect_near(double value, double expected, const char *what) {
  cr_expect(fabs(value - expected) <= 1e-12, "%s: %.17g, not %.17g", what, value, expected);
}

/* Formulas at points where their values can be written down. */
Test(backend_cpu_alone, formulas_by_hand) {
  const double scale = 1 / sqrt(2);
  double out[2];
  const double query[] = {2, 0}, equal[] = {1, 5, 1, 7}, values[] = {1, 10, 3, 30};
  reference_attend(out, query, equal, values, 2, 2, 2, scale, 0);
  expect_near(out[0], 2, "equal keys give the mean");
  expect_near(out[1], 20, "equal keys give the mean");
  /* q·k/√2 of √2·ln 3 / 2 more for the second key: it weighs three times as much. */
  const double keys[] = {0, 0, sqrt(2) * log(3) / 2, 0};
  reference_attend(out, query, keys, values, 2, 2, 2, scale, 0);
  expect_near(out[0], 2.5, "weights 1/4 and 3/4");
  /* ALiBi alone: the first key is one further away. */
  const double zero[] = {0, 0};
  reference_attend(out, zero, keys, values, 2, 2, 2, scale, log(3));
  expect_near(out[0], 2.5, "slope ln 3");

  double head[] = {3, 4};
  reference_rotate(head, 1, 2, 2, REFERENCE_THETA);
  expect_near(head[0], 3 * cos(2) - 4 * sin(2), "first of a pair, turned by 2");
  expect_near(head[1], 4 * cos(2) + 3 * sin(2), "second of a pair");

  const double gate_up[] = {log(3), 2}, minus[] = {-2, 1};
  reference_activation(CALIB_SWIGLU, out, gate_up, 1, 1);
  expect_near(out[0], log(3) * 0.75 * 2, "silu(ln 3) = 3/4 ln 3");
  reference_activation(CALIB_RELU, out, minus, 1, 2);
  expect_near(out[0], 0, "relu(-2)");
  expect_near(out[1], 1, "relu(1)");
  reference_activation(CALIB_GELU, out, minus, 1, 2);
  cr_expect(fabs(out[0] + 0.0455) < 1e-3 && fabs(out[1] - 0.8413) < 1e-3,
            "x Φ(x), which GELU's tanh comes within 1e-3 of: %g %g", out[0], out[1]);

  /* 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9; (1 1 1 1)·(1 2 3 6) + 1/2. */
  const double in[] = {1, 2, 3, 6}, ones[] = {1, 1, 1, 1};
  const double weight[] = {1, 2, 3, 6}, bias[] = {0.5, 0, 0, 0};
  double normed[4];
  reference_norm(CALIB_LAYER_NORM, normed, in, weight, bias, 1, 4);
  expect_near(normed[0], -2 / sqrt(3.5 + REFERENCE_EPSILON) + 0.5, "a LayerNorm");
  reference_norm(CALIB_RMS_NORM, normed, in, weight, NULL, 1, 4);
  expect_near(normed[3], 36 / sqrt(12.5 + REFERENCE_EPSILON), "an RMSNorm");
  reference_product(out, ones, weight, bias, 1, 1, 4);
  expect_near(out[0], 12.5, "a product");
}

/* Press et al. 2022: of 8 heads 1/2, 1/4 …; of 12, every second of those of 16 follow. */
Test(backend_cpu_alone, slopes_of_alibi) {
  const CalibModel eight = {.num_attention_heads = 8}, twelve = {.num_attention_heads = 12};
  expect_near(calib_alibi_slope(&eight, 0), 0.5, "the first of 8");
  expect_near(calib_alibi_slope(&eight, 7), 1 / 256.0, "the last of 8");
  expect_near(calib_alibi_slope(&twelve, 8), sqrt(0.5), "the ninth of 12");
  expect_near(calib_alibi_slope(&twelve, 9), sqrt(1 / 8.0), "the tenth of 12");
}
