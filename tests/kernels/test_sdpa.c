/* Attention by cuDNN against its formula in double, over pages that lie anywhere: prefills with and
 * without a past, decodes, groups of heads, all sizes of heads and that of MLA, 192 and 128. cuDNN
 * is the fake of cudnn_fake.c, device memory the host's: what cuDNN is told is shown to be right,
 * not what it does with it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/sdpa.h"
#include "tests/kernels/kernel_testing.h"

enum { SEQUENCES = 4, BLOCK = 16, MAX_PAGES = 6, N_PAGES = 40 };

typedef struct Lengths {
  int32_t fresh[SEQUENCES], past[SEQUENCES];
} Lengths;

static const Lengths prefills = {{33, 1, 17, 16}, {0, 20, 45, 80}};
static const Lengths decodes = {{1, 1, 1, 1}, {0, 15, 16, 90}};

/* A batch of a shape, with memory of its own. */
typedef struct Case {
  SdpaShape shape;
  const Lengths *lengths;
  int32_t rows;
  uint16_t *q, *out, *pool;
  int32_t table[SEQUENCES * MAX_PAGES], q_lengths[SEQUENCES], kv_lengths[SEQUENCES];
  int64_t q_offsets[SEQUENCES + 1], out_offsets[SEQUENCES + 1];
} Case;

static double uniform(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (double)(*state >> 8) / (1 << 23) - 1;
}

static uint16_t *random_halves(CalibDtype dtype, int64_t n, uint32_t seed) {
  uint16_t *halves = aligned_alloc(64, ((size_t)n * 2 + 63) / 64 * 64);
  for (int64_t i = 0; i < n; i++)
    halves[i] = half_encode(dtype, 2 * uniform(&seed));
  return halves;
}

/* Rows of q have other columns behind their heads, as those of qkv have. */
static Case make_case(CalibDtype dtype, int heads, int kv_heads, int qk_dim, int v_dim,
                      const Lengths *lengths) {
  Case c = {.lengths = lengths};
  int64_t max_new = 1;
  for (int i = 0; i < SEQUENCES; i++)
    if (lengths->fresh[i] > max_new) max_new = lengths->fresh[i];
  c.shape = (SdpaShape){.dtype = dtype,
                        .query_heads = heads,
                        .kv_heads = kv_heads,
                        .qk_dim = qk_dim,
                        .v_dim = v_dim,
                        .block_size = BLOCK,
                        .n_pages = N_PAGES,
                        .sequences = SEQUENCES,
                        .max_new = max_new,
                        .max_pages = MAX_PAGES,
                        .q_stride = heads * qk_dim + 64,
                        .out_stride = heads * v_dim};
  for (int i = 0; i < SEQUENCES; i++) {
    c.q_offsets[i] = c.rows * c.shape.q_stride;
    c.out_offsets[i] = c.rows * c.shape.out_stride;
    c.rows += lengths->fresh[i];
    c.q_lengths[i] = lengths->fresh[i];
    c.kv_lengths[i] = lengths->fresh[i] + lengths->past[i];
  }
  c.q_offsets[SEQUENCES] = c.rows * c.shape.q_stride;
  c.out_offsets[SEQUENCES] = c.rows * c.shape.out_stride;
  for (int i = 0; i < SEQUENCES * MAX_PAGES; i++)
    c.table[i] = (i * 7 + 3) % N_PAGES;
  c.q = random_halves(dtype, c.q_offsets[SEQUENCES], 1);
  c.out = random_halves(dtype, c.out_offsets[SEQUENCES], 2);
  memset(c.out, 0xff, (size_t)c.out_offsets[SEQUENCES] * 2); // NaN where nothing is written
  c.pool = random_halves(dtype, (int64_t)N_PAGES * BLOCK * kv_heads * (qk_dim + v_dim), 3);
  return c;
}

static void free_case(Case *c) {
  free(c->q);
  free(c->out);
  free(c->pool);
}

/* Element 0 of a token's K or V in the pool. */
static int64_t in_pool(const Case *c, int sequence, int64_t kv_head, int64_t token, bool is_v) {
  const SdpaShape *s = &c->shape;
  const int64_t page = c->table[sequence * MAX_PAGES + token / BLOCK];
  const int64_t begin = page * s->kv_heads * BLOCK * (s->qk_dim + s->v_dim);
  const int64_t of_k = s->kv_heads * BLOCK * s->qk_dim, dim = is_v ? s->v_dim : s->qk_dim;
  return begin + (is_v ? of_k : 0) + (kv_head * BLOCK + token % BLOCK) * dim;
}

static double off_of_row(const Case *c, int sequence, int64_t head, int32_t fresh, int64_t row,
                         double scale) {
  const SdpaShape *s = &c->shape;
  const CalibDtype dtype = (CalibDtype)s->dtype;
  const int64_t kv_head = head / (s->query_heads / s->kv_heads);
  const int64_t keys = c->lengths->past[sequence] + fresh + 1;
  const int64_t q = row * s->q_stride + head * s->qk_dim;
  double sum = 0, off = 0, wanted[256] = {0};
  for (int64_t key = 0; key < keys; key++) {
    double dot = 0;
    const int64_t k = in_pool(c, sequence, kv_head, key, false);
    const int64_t v = in_pool(c, sequence, kv_head, key, true);
    for (int64_t i = 0; i < s->qk_dim; i++)
      dot += half_load(dtype, c->q, q + i) * half_load(dtype, c->pool, k + i);
    const double share = exp(scale * dot);
    sum += share;
    for (int64_t i = 0; i < s->v_dim; i++)
      wanted[i] += share * half_load(dtype, c->pool, v + i);
  }
  for (int64_t i = 0; i < s->v_dim; i++) {
    const double is = half_load(dtype, c->out, row * s->out_stride + head * s->v_dim + i);
    off = fmax(off, isnan(is) ? INFINITY : fabs(is - wanted[i] / sum));
  }
  return off;
}

static CalibStatus run(Sdpa *sdpa, Case *c, float scale, char *error) {
  const SdpaPlan *plan = NULL, *again = NULL;
  const CalibStatus status = sdpa_plan(sdpa, &c->shape, &plan, error);
  if (status != CALIB_OK) return status;
  expect_true(sdpa_plan(sdpa, &c->shape, &again, error) == CALIB_OK && again == plan,
              "a plan is kept");
  void *workspace = malloc((size_t)sdpa_plan_workspace(plan));
  char stream = 0;
  const SdpaOperands operands = {.out = c->out,
                                 .q = c->q,
                                 .kv_pages = c->pool,
                                 .page_table = c->table,
                                 .q_lengths = c->q_lengths,
                                 .kv_lengths = c->kv_lengths,
                                 .q_offsets = c->q_offsets,
                                 .out_offsets = c->out_offsets,
                                 .scale = scale};
  const CalibStatus ran = sdpa_run(sdpa, plan, (KernelStream)&stream, &operands, workspace, error);
  free(workspace);
  return ran;
}

static void check(Sdpa *sdpa, CalibDtype dtype, int heads, int kv_heads, int qk_dim, int v_dim,
                  const Lengths *lengths) {
  char error[CALIB_ERROR_SIZE] = "", name[80];
  Case c = make_case(dtype, heads, kv_heads, qk_dim, v_dim, lengths);
  const float scale = 1 / sqrtf((float)qk_dim);
  snprintf(name, sizeof name, "%s of %d/%d heads of %d/%d",
           lengths == &prefills ? "prefills" : "decodes", heads, kv_heads, qk_dim, v_dim);
  expect_true(run(sdpa, &c, scale, error) == CALIB_OK, "%s: %s", name, error);
  double off = 0;
  int64_t row = 0;
  for (int i = 0; i < SEQUENCES; i++)
    for (int32_t fresh = 0; fresh < lengths->fresh[i]; fresh++, row++)
      for (int head = 0; head < heads; head++)
        off = fmax(off, off_of_row(&c, i, head, fresh, row, scale));
  expect_error_below(off, dtype == CALIB_FP16 ? 1.5e-3 : 1e-2, "%s", name);
  free_case(&c);
}

static void test_shapes(Sdpa *sdpa) {
  static const struct {
    int heads, kv_heads, qk_dim, v_dim;
  } shapes[] = {{4, 4, 64, 64}, {8, 2, 128, 128}, {4, 1, 256, 256}, {6, 6, 192, 128}, {2, 2, 8, 8}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (int dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
      check(sdpa, (CalibDtype)dtype, shapes[i].heads, shapes[i].kv_heads, shapes[i].qk_dim,
            shapes[i].v_dim, &prefills);
      check(sdpa, (CalibDtype)dtype, shapes[i].heads, shapes[i].kv_heads, shapes[i].qk_dim,
            shapes[i].v_dim, &decodes);
    }
}

static void expect_refusal(Sdpa *sdpa, SdpaShape shape, const char *says) {
  char error[CALIB_ERROR_SIZE] = "";
  const SdpaPlan *plan = NULL;
  expect_true(sdpa_plan(sdpa, &shape, &plan, error) == CALIB_REJECTED && strstr(error, says),
              "'%s' says '%s'", error, says);
}

static void test_refused_shapes(Sdpa *sdpa) {
  const SdpaShape good = {CALIB_BF16, 4, 2, 64, 64, BLOCK, N_PAGES, 2, 5, MAX_PAGES, 512, 256};
  SdpaShape bad = good;
  bad.qk_dim = 264;
  expect_refusal(sdpa, bad, "multiple of 8 up to 256");
  bad = good;
  bad.v_dim = 60;
  expect_refusal(sdpa, bad, "multiple of 8 up to 256");
  bad = good;
  bad.kv_heads = 3;
  expect_refusal(sdpa, bad, "no multiple of key heads");
  bad = good;
  bad.dtype = CALIB_FP32;
  expect_refusal(sdpa, bad, "not bf16 or fp16");
  setenv("FAKE_CUDNN", "none", 1);
  expect_refusal(sdpa, good, "cuDNN 9.28.1 has no engine for attention of 4 query and 2 key heads");
  setenv("FAKE_CUDNN", "late", 1);
  char error[CALIB_ERROR_SIZE] = "";
  const SdpaPlan *plan = NULL;
  expect_true(sdpa_plan(sdpa, &good, &plan, error) == CALIB_OK && sdpa_plan_engine(plan) == 2,
              "the next engine is taken: %s", error);
  unsetenv("FAKE_CUDNN");
}

/* More shapes than are kept. */
static void test_many_plans(Sdpa *sdpa) {
  for (int round = 0; round < 2; round++)
    for (int n = 1; n <= 70; n++) {
      char error[CALIB_ERROR_SIZE] = "";
      const SdpaPlan *plan = NULL;
      const SdpaShape shape = {CALIB_FP16, 4, 2, 64, 64, BLOCK, N_PAGES, n, 5, MAX_PAGES, 512, 256};
      expect_true(sdpa_plan(sdpa, &shape, &plan, error) == CALIB_OK, "plan %d: %s", n, error);
    }
}

/* A page beyond the pool is an error of the fake, and so shows that its errors are passed on. */
static void test_failures(Sdpa *sdpa) {
  char error[CALIB_ERROR_SIZE] = "";
  Case c = make_case(CALIB_BF16, 4, 2, 64, 64, &decodes);
  c.table[MAX_PAGES] = N_PAGES;
  expect_true(run(sdpa, &c, 1, error) == CALIB_ENVIRONMENT &&
                  strstr(error, "cuDNN 9.28.1, running the plan: CUDNN_STATUS_OF_THE_FAKE: a page"),
              "a page too far: '%s'", error);
  free_case(&c);
}

static void expect_no_library(const char *says) {
  char error[CALIB_ERROR_SIZE] = "";
  Sdpa *sdpa = NULL;
  expect_true(sdpa_open(&sdpa, error) == CALIB_ENVIRONMENT && !sdpa && strstr(error, says) &&
                  strstr(error, "nvidia-cudnn-cu13>=9.21"),
              "'%s' says '%s'", error, says);
}

static void test_library(void) {
  char path[1024];
  snprintf(path, sizeof path, "%s", getenv("TANDEM_CUDNN"));
  setenv("TANDEM_CUDNN", "/no/such/libcudnn.so.9", 1);
  expect_no_library("/no/such/libcudnn.so.9 was not found");
  setenv("TANDEM_CUDNN", "libm.so.6", 1);
  expect_no_library("libm.so.6 is not cuDNN 9");
  setenv("TANDEM_CUDNN", path, 1);
  setenv("FAKE_CUDNN", "old", 1);
  expect_no_library("needs version 9.21 or later");
  unsetenv("FAKE_CUDNN");
}

int main(void) {
  kernel_testing_begin("sdpa");
  char error[CALIB_ERROR_SIZE] = "";
  Sdpa *sdpa = NULL;
  test_library();
  if (sdpa_open(&sdpa, error) != CALIB_OK) {
    printf("open: %s\n", error);
    return 1;
  }
  expect_true(strcmp(sdpa_version(sdpa), "9.28.1") == 0, "version %s", sdpa_version(sdpa));
  test_shapes(sdpa);
  test_refused_shapes(sdpa);
  test_many_plans(sdpa);
  test_failures(sdpa);
  sdpa_close(sdpa);
  return kernel_testing_end();
}
