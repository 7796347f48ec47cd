/* Verification finds what is wrong, whoever is verified: the cpu backend with a hand in its results
 * stands for any backend that is known by its calls. Pinned: an operator that does nothing,
 * the last row of every output slightly off, at the sizes of the table and at large ones of which
 * some rows are compared; tolerances. That right operators pass is test_backend_cpu.c's. */
#include "calib/harness.h"
#include "calib/operators.h"
#include "calib/spread.h"
#include "calib/verify.h"
#include "tests/unit/testing.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

extern const Backend backend_cpu;

/* What is done to one output after each run. */
typedef struct Fault {
  bool runs_nothing;
  CalibTensor tensor; // CALIB_N_TENSORS: none
  double factor;
  int64_t row;
} Fault;

static Fault fault;
static Backend tampered;
static void *state;
static char error[CALIB_ERROR_SIZE];

static const CalibModel llama = {"llama",
                                 NULL,
                                 2,
                                 72,
                                 6,
                                 2,
                                 16,
                                 100,
                                 331,
                                 4096,
                                 CALIB_RMS_NORM,
                                 CALIB_SWIGLU,
                                 CALIB_ROPE,
                                 true,
                                 CALIB_FP32,
                                 1,
                                 16,
                                 .num_experts = 0};

static CalibStatus run_with_fault(void *self, char *text) {
  double values[512];
  const CalibSlice slice = {
      .tensor = fault.tensor, .sequence = CALIB_OF_ROWS, .row = fault.row, .n_rows = 1};
  if (fault.runs_nothing) return CALIB_OK;
  CalibStatus status = backend_cpu.run(self, text);
  if (status || fault.tensor == CALIB_N_TENSORS) return status;
  const int64_t n = backend_cpu.columns(self, fault.tensor);
  cr_assert_leq(n, 512);
  status = backend_cpu.move(self, &slice, values, false, text);
  for (int64_t i = 0; i < n; i++)
    values[i] =
        fault.factor * values[i] + (fault.tensor == TENSOR_BEST || fault.tensor == TENSOR_TO);
  return status ? status : backend_cpu.move(self, &slice, values, true, text);
}

static void open_cpu(void) {
  const CalibOptions options = {.seed = 3};
  cr_assert_eq(backend_cpu.open(&options, &state, error), CALIB_OK, "%s", error);
  cr_assert_eq(backend_cpu.load(state, &llama, error), CALIB_OK, "%s", error);
  tampered = backend_cpu;
  tampered.run = run_with_fault;
  fault = (Fault){.tensor = CALIB_N_TENSORS};
}

static void close_cpu(void) {
  backend_cpu.close(state);
}

TestSuite(verify, .init = open_cpu, .fini = close_cpu);

Test(verify, finds_an_operator_that_does_nothing) {
  const VerifyTarget target = {&tampered, state, &llama};
  fault.runs_nothing = true;
  for (int op = 0; op < CALIB_N_OPS; op++) {
    const CalibPoint point = {.op = (CalibOp)op, .size = 1};
    if (backend_cpu.supports(state, &point)) continue;
    double off = 0;
    cr_expect_eq(verify_operator(&target, (CalibOp)op, &off, error), CALIB_WRONG, "%s",
                 calib_op_name((CalibOp)op));
    cr_expect(isinf(off) || off > 0.1, "%s: %g", calib_op_name((CalibOp)op), off);
  }
}

static int64_t lie;
static CalibTensor lie_of;
static int64_t columns_with_lie(void *self, CalibTensor tensor) {
  return tensor == lie_of || lie_of == CALIB_N_TENSORS ? lie : backend_cpu.columns(self, tensor);
}

/* Buffers have the model's widths: a backend that says another loses the operator. */
Test(verify, goes_by_the_widths_of_the_model) {
  static const int64_t lies[] = {71, 1 << 20, 0, 1, 73};
  const VerifyTarget target = {&tampered, state, &llama};
  tampered.columns = columns_with_lie;
  for (int op = 0; op < CALIB_N_OPS; op++) {
    const CalibPoint point = {.op = (CalibOp)op, .size = 1};
    const CalibProduct product = calib_product(CALIB_GEMM_O);
    int n_wrong = 0;
    if (backend_cpu.supports(state, &point) || op >= CALIB_COPY_H2D) continue;
    const size_t n_lies = op == CALIB_GEMM_O ? sizeof lies / sizeof *lies : 2;
    for (size_t i = 0; i < n_lies; i++) {
      for (lie_of = 0; lie_of <= CALIB_N_TENSORS; lie_of++) {
        double off = 0;
        lie = lies[i];
        const CalibStatus status = verify_operator(&target, (CalibOp)op, &off, error);
        n_wrong += status == CALIB_WRONG;
        if (op == CALIB_GEMM_O && (lie_of == product.in || lie_of == product.out))
          cr_expect_eq(status, CALIB_WRONG, "%s of %lld", calib_tensor_name(lie_of),
                       (long long)lie);
      }
    }
    cr_expect_gt(n_wrong, 2, "%s: %d", calib_op_name((CalibOp)op), n_wrong);
  }
}

/* Sequences of a batch that is larger than what is compared. */
enum { N_LARGE = 60 };
static CalibBatch large_batch(CalibSequence *sequences) {
  for (int i = 0; i < N_LARGE; i++)
    sequences[i] = i < 2 ? (CalibSequence){300, 40 * i} : (CalibSequence){1, 7 * i};
  return (CalibBatch){
      .sequences = sequences, .n_prefills = 2, .n_decodes = N_LARGE - 2, .n_logits = N_LARGE};
}

static void expect_found(CalibPoint point, CalibTensor tensor, double factor, int64_t row) {
  const VerifyTarget target = {&tampered, state, &llama};
  double right = NAN, wrong = 0;
  const char *name = calib_op_name(point.op);
  fault = (Fault){.tensor = CALIB_N_TENSORS};
  cr_expect_eq(verify_point(&target, &point, &right, error), CALIB_OK, "%s: %s", name, error);
  cr_expect(right <= 1e-5, "%s: %g", name, right);
  fault = (Fault){.tensor = tensor, .factor = factor, .row = row};
  cr_expect_eq(verify_point(&target, &point, &wrong, error), CALIB_WRONG, "%s with '%s' off", name,
               calib_tensor_name(tensor));
  cr_expect(wrong > 1e-3, "%s: %g", name, wrong);
  cr_expect_not_null(strstr(error, calib_tensor_name(tensor)), "%s", error);
}

Test(verify, finds_the_last_row_of_every_output) {
  static const struct {
    CalibOp op;
    CalibTensor tensor;
    double factor;
  } cases[] = {
      {CALIB_LINEAR, TENSOR_RESIDUAL, 1.01},   {CALIB_LINEAR, TENSOR_ADDED, 1.01},
      {CALIB_HEAD, TENSOR_LOGITS, 1.01},       {CALIB_HEAD, TENSOR_BEST, 1},
      {CALIB_GEMM_QKV, TENSOR_QKV, 0.99},      {CALIB_GEMM_O, TENSOR_ADDED, 1.01},
      {CALIB_GEMM_UP, TENSOR_UP, 1.01},        {CALIB_GEMM_DOWN, TENSOR_ADDED, -1},
      {CALIB_GEMM_HEAD, TENSOR_LOGITS, 1.01},  {CALIB_NORM, TENSOR_NORMED, 1.01},
      {CALIB_NORM, TENSOR_RESIDUAL, 1.01},     {CALIB_ROPE_APPEND, TENSOR_QKV, -1},
      {CALIB_ROPE_APPEND, TENSOR_KEYS, -1},    {CALIB_ROPE_APPEND, TENSOR_VALUES, 1.01},
      {CALIB_ACTIVATION, TENSOR_ACTIVE, 1.01}, {CALIB_EMBEDDING, TENSOR_RESIDUAL, 1.01},
      {CALIB_ARGMAX, TENSOR_BEST, 1},          {CALIB_COPY_D2D, TENSOR_TO, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int64_t size = 5; size <= 700; size += 695)
      expect_found((CalibPoint){.op = cases[i].op, .size = size}, cases[i].tensor, cases[i].factor,
                   size - 1);
}

/* The last row of the longest prompt, and the last decode's. */
Test(verify, finds_the_last_rows_of_large_batches) {
  CalibSequence sequences[N_LARGE];
  const CalibBatch batch = large_batch(sequences);
  const CalibPoint iteration = {.op = CALIB_ITERATION, .batch = batch};
  const CalibPoint prefill = {.op = CALIB_PREFILL_ATTENTION, .batch = batch};
  const CalibPoint decode = {.op = CALIB_DECODE_ATTENTION, .batch = batch};
  expect_found(prefill, TENSOR_ATTENTION, 1.01, 599);
  expect_found(decode, TENSOR_ATTENTION, 1.01, 600 + N_LARGE - 3);
  expect_found(iteration, TENSOR_RESIDUAL, 1.01, 599);
  expect_found(iteration, TENSOR_ADDED, 1.01, 600 + N_LARGE - 3);
  expect_found(iteration, TENSOR_LOGITS, 1.01, N_LARGE - 1);
  expect_found(iteration, TENSOR_BEST, 1, 1);
}

/* Roundings of 16-bit types are larger than those of fp32; of the longer mantissa they are less. */
static void count_items(const void *work, int64_t begin, int64_t end) {
  int *const counts = *(int *const *)work;
  for (int64_t i = begin; i < end; i++)
    counts[i]++;
}

/* Whether by the caller alone or by threads. */
Test(verify, a_loop_over_threads_does_each_item_once) {
  static const int64_t sizes[] = {0, 1, 2, 63, 1000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int large = 0; large < 2; large++) {
      int counts[1001] = {0}, *to = counts;
      spread(count_items, &to, sizes[i], large ? 1e9 : 1);
      for (int64_t k = 0; k <= 1000; k++)
        cr_assert_eq(counts[k], k < sizes[i], "item %lld of %lld", (long long)k,
                     (long long)sizes[i]);
    }
}

Test(verify, tolerances) {
  CalibModel model = llama;
  for (int op = 0; op < CALIB_N_OPS; op++) {
    model.dtype = CALIB_FP32;
    cr_expect(verify_tolerance(&model, (CalibOp)op) < 1.1e-4);
    model.dtype = CALIB_BF16;
    const double bf16 = verify_tolerance(&model, (CalibOp)op);
    cr_expect(bf16 < 0.02);
    model.dtype = CALIB_FP16;
    cr_expect_leq(verify_tolerance(&model, (CalibOp)op), bf16);
  }
  cr_expect_float_eq(verify_tolerance(&model, CALIB_GEMM_O), 0x1p-11 + 1e-4, 1e-12);
}

/* Without these calls nothing is compared, and a backend may compare for itself. */
static CalibStatus own_verify(void *self, CalibOp op, double *ret_error, char *text) {
  (void)self, (void)op, (void)text;
  *ret_error = 0.25;
  return CALIB_WRONG;
}

Test(verify, backends_that_cannot_be_asked) {
  Backend closed = backend_cpu;
  const VerifyTarget target = {&closed, state, &llama};
  double off = 0;
  closed.run = NULL;
  cr_expect_eq(verify_operator(&target, CALIB_NORM, &off, error), CALIB_OK);
  cr_expect(isnan(off));
  closed.verify = own_verify;
  cr_expect_eq(verify_operator(&target, CALIB_NORM, &off, error), CALIB_WRONG);
  cr_expect_eq(off, 0.25);
}

/* Wrong beyond the contexts of the table only, as a kernel that large batches take would be. */
static CalibStatus prepare_large(void *self, const CalibPoint *point, char *text) {
  const CalibSequence *first = point->batch.sequences;
  fault.tensor = first && first->past_tokens > 700 ? TENSOR_ATTENTION : CALIB_N_TENSORS;
  return backend_cpu.prepare(self, point, text);
}

static double stands_still(void *context) {
  (void)context;
  return 0;
}

Test(verify, the_harness_finds_what_is_wrong_at_the_sizes_that_it_times) {
  const CalibSequence small = {32, 8}, large = {32, 900};
  PlanPoint points[] = {{.point = {.op = CALIB_PREFILL_ATTENTION, .batch = {&small, 1, 0, 0}}},
                        {.point = {.op = CALIB_PREFILL_ATTENTION, .batch = {&large, 1, 0, 0}}}};
  Plan plan = {.points = points, .n = 2};
  Arena own;
  Diag said;
  Recorder recorder;
  Profile profile;
  CalibDevice device;
  HarnessReport report = {.left = 0};
  HarnessOptions options = harness_options_default();
  const VerifyTarget target = {&tampered, state, &llama};
  double off = 0;
  arena_init(&own);
  diag_init(&said);
  tampered.prepare = prepare_large;
  fault.factor = 3;
  cr_expect_eq(verify_operator(&target, CALIB_PREFILL_ATTENTION, &off, error), CALIB_OK);
  backend_cpu.describe(state, &device);
  profile_init(&profile, "made", &own);
  const char *path = temp_file("", 0, &own);
  cr_assert_eq(recorder_open(&recorder, path, &profile, &said), 0);
  const HarnessJob job = {.backend = &tampered,
                          .state = state,
                          .model = &llama,
                          .device = &device,
                          .plan = &plan,
                          .recorder = &recorder,
                          .arena = &own};
  options.seconds = 3600;
  options.clock = stands_still;
  cr_expect_eq(harness_run(&job, &options, &report, &said), 0);
  cr_expect_not_null(report.wrong[CALIB_PREFILL_ATTENTION]);
  cr_expect_eq(report.verified, 1);
  cr_expect_eq(recorder.profile.n_rows, 0);
  cr_expect_eq(recorder_close(&recorder, &said), 0);
  unlink(path);
  diag_done(&said);
  arena_done(&own);
}
