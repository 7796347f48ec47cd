/* Attention, prefill and decode, against the formula: chunk lengths and contexts around the tiles
 * and granules of the kernels, groups of query heads, both types, ALiBi, several sequences at
 * once, pages in random order; both heights of a tile of prefill at every shape, the lower one
 * with splits and without, and the height that is chosen at the edge between them and the splits
 * that are planned with the multiprocessors of an A100, an H100 and a B200; by wgmma both heights,
 * on few blocks that take many tiles. What the kernels must not read is NaN: rows of q and slots
 * of pages past the end, and entries of the page table past the last page name no page. */
#include <math.h>
#include <stdlib.h>

#include "kernels/split_kv.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

enum { MAX_SEQUENCES = 4 };

typedef struct Case {
  int32_t query_heads, kv_heads, head_dim, block_size;
  CalibDtype dtype;
  int has_alibi;
  int32_t sequences, added[MAX_SEQUENCES], past[MAX_SEQUENCES];
  int32_t split_tokens; // 0: as planned for decode, 64 for prefill
  int32_t sharpness;    // the scale, times √head_dim; 0: 1
} Case;

/* A case with its tensors on the host and on the device. */
typedef struct Problem {
  KernelAttention shape, host; // pointers to the device, to the host
  KernelResidency residency;
  int32_t wgmma_blocks; // 0: the device has no such kernel
  int32_t row_starts[MAX_SEQUENCES + 1], contexts[MAX_SEQUENCES], max_new, rows;
  int64_t q_stride;
  uint16_t *q;
  void *device_q, *device_out, *device_starts, *device_past, *device_contexts;
  double *expected;
} Problem;

static int32_t pages_of(const Case *test, int32_t i) {
  return (test->past[i] + test->added[i] + test->block_size - 1) / test->block_size;
}

/* Scatters the pages of all sequences over the pool and wipes what lies past each context. */
static void make_pages(Problem *problem, const Case *test, uint64_t seed) {
  KernelAttention *host = &problem->host;
  int32_t n_pages = 2; // two that nobody has
  for (int32_t i = 0; i < test->sequences; i++) {
    n_pages += pages_of(test, i);
    host->max_pages = pages_of(test, i) > host->max_pages ? pages_of(test, i) : host->max_pages;
  }
  int64_t part = (int64_t)host->block_size * host->head_dim;
  int64_t n = n_pages * 2 * host->kv_heads * part;
  uint16_t *pool = random_elements(test->dtype, n, 1.0, seed);
  int32_t *order = random_order(n_pages, seed + 1);
  int32_t *table = malloc((size_t)(test->sequences * host->max_pages) * sizeof *table);
  int32_t next = 0;
  for (int32_t i = 0; i < test->sequences; i++) {
    for (int32_t page = 0; page < host->max_pages; page++) {
      table[i * host->max_pages + page] = page < pages_of(test, i) ? order[next++] : 1 << 28;
    }
    int32_t context = test->past[i] + test->added[i], left = context % host->block_size;
    for (int32_t k = 0; k < 2 * host->kv_heads && left > 0; k++) {
      int64_t at = ((int64_t)order[next - 1] * 2 * host->kv_heads + k) * part;
      for (int64_t j = left * host->head_dim; j < part; j++) {
        pool[at + j] = 0xffff;
      }
    }
  }
  host->kv_pages = pool;
  host->page_table = table;
  problem->shape.max_pages = host->max_pages;
  problem->shape.kv_pages = device_copy(pool, (size_t)n * sizeof *pool);
  problem->shape.page_table =
      device_copy(table, (size_t)(test->sequences * host->max_pages) * sizeof *table);
  free(order);
}

static void make_slopes(Problem *problem, const Case *test) {
  float *slopes = malloc((size_t)test->query_heads * sizeof *slopes);
  for (int32_t i = 0; i < test->query_heads; i++) {
    slopes[i] = (float)pow(2, -8.0 * (i + 1) / test->query_heads);
  }
  if (test->has_alibi) {
    problem->host.alibi_slopes = slopes;
    problem->shape.alibi_slopes = device_copy(slopes, (size_t)test->query_heads * sizeof *slopes);
  } else {
    free(slopes);
  }
}

static Problem problem_open(const Case *test, uint64_t seed) {
  Problem problem = {.host = {.dtype = test->dtype,
                              .query_heads = test->query_heads,
                              .kv_heads = test->kv_heads,
                              .head_dim = test->head_dim,
                              .block_size = test->block_size,
                              .scale = 1.0f / sqrtf((float)test->head_dim)}};
  if (test->sharpness > 0) problem.host.scale *= (float)test->sharpness;
  problem.shape = problem.host;
  for (int32_t i = 0; i < test->sequences; i++) {
    problem.row_starts[i + 1] = problem.row_starts[i] + test->added[i];
    problem.contexts[i] = test->past[i] + test->added[i];
    problem.max_new = test->added[i] > problem.max_new ? test->added[i] : problem.max_new;
  }
  problem.rows = problem.row_starts[test->sequences];
  problem.q_stride = (test->query_heads + 2 * test->kv_heads) * test->head_dim;
  make_pages(&problem, test, seed);
  make_slopes(&problem, test);
  int status = kernel_attention_load(&problem.shape, &problem.residency);
  expect_true(status == 0, "attention is loaded with %d", status);
  status = kernel_attention_wgmma_load(&problem.shape, &problem.wgmma_blocks);
  expect_true(status == 0, "attention by wgmma is loaded with %d", status);
  int64_t n = problem.rows * problem.q_stride;
  problem.q = random_elements(test->dtype, n, 2.0, seed + 2);
  problem.device_q = device_copy(problem.q, (size_t)n * sizeof *problem.q);
  problem.device_out =
      device_alloc((size_t)(problem.rows * test->query_heads * test->head_dim) * 2);
  size_t per_sequence = (size_t)test->sequences * sizeof(int32_t);
  problem.device_starts = device_copy(problem.row_starts, per_sequence + sizeof(int32_t));
  problem.device_past = device_copy(test->past, per_sequence);
  problem.device_contexts = device_copy(problem.contexts, per_sequence);
  problem.expected = malloc((size_t)(problem.rows * test->query_heads * test->head_dim) *
                            sizeof *problem.expected);
  expected_attention(&problem.host, problem.expected, problem.q, problem.q_stride,
                     problem.row_starts, test->past, test->sequences);
  return problem;
}

static void problem_close(Problem *problem) {
  free((void *)problem->host.kv_pages);
  free((void *)problem->host.page_table);
  free((void *)problem->host.alibi_slopes);
  free(problem->q);
  free(problem->expected);
  device_free((void *)problem->shape.kv_pages);
  device_free((void *)problem->shape.page_table);
  device_free((void *)problem->shape.alibi_slopes);
  device_free(problem->device_q);
  device_free(problem->device_out);
  device_free(problem->device_starts);
  device_free(problem->device_past);
  device_free(problem->device_contexts);
}

static void check(const Problem *problem, const Case *test, const char *kernel, int status,
                  uint64_t seed) {
  int64_t n = (int64_t)problem->rows * test->query_heads * test->head_dim;
  uint16_t *out = device_fetch(problem->device_out, (size_t)n * sizeof *out);
  double error = relative_error(test->dtype, out, problem->expected, n);
  // bf16 keeps 8 bits of p and of the result, fp16 11.
  double limit = test->dtype == CALIB_BF16 ? 5e-3 : 7e-4;
  expect_true(status == 0, "%s: launched with %d", kernel, status);
  expect_error_below(error, limit,
                     "%s, order %d: %s, %d:%d heads of %d, pages of %d, %d sequences, "
                     "first %d after %d%s",
                     kernel, (int)seed, test->dtype == CALIB_BF16 ? "bf16" : "fp16",
                     test->query_heads, test->kv_heads, test->head_dim, test->block_size,
                     test->sequences, test->added[0], test->past[0],
                     test->has_alibi ? ", ALiBi" : "");
  for (int64_t i = 0; i < n; i++) {
    out[i] = 0xffff;
  }
  device_upload(problem->device_out, out, (size_t)n * sizeof *out);
  free(out);
}

/* The splits on the device, with a workspace. */
static KernelSplits splits_open(const Problem *problem, const Case *test, SplitPlan plan,
                                const int32_t *starts) {
  KernelSplits splits = {.plan = plan};
  splits.starts = device_copy(starts, ((size_t)test->sequences + 1) * sizeof *starts);
  splits.partial = device_alloc(kernel_attention_workspace(&problem->shape, plan.rows));
  return splits;
}

static void splits_close(KernelSplits *splits) {
  device_free((void *)splits->starts);
  device_free(splits->partial);
}

static void run_prefill(const Problem *problem, const Case *test, int32_t tile_rows,
                        int32_t split_tokens, uint64_t seed) {
  int32_t starts[MAX_SEQUENCES + 1];
  int32_t group = test->query_heads / test->kv_heads;
  SplitPlan plan = split_kv_prefill_plan(problem->row_starts, test->past, test->sequences, group,
                                         tile_rows, split_tokens, starts);
  KernelSplits splits = splits_open(problem, test, plan, starts);
  device_seed(seed);
  int status = kernel_attention_prefill(NULL, &problem->shape, tile_rows, problem->device_out,
                                        problem->device_q, problem->q_stride,
                                        problem->device_starts, problem->device_past, problem->rows,
                                        test->sequences, problem->max_new, &splits);
  const char *kernel = plan.most > 1     ? "prefill, splits"
                       : tile_rows == 64 ? "prefill, 64 rows"
                                         : "prefill, 128 rows";
  check(problem, test, kernel, status, seed);
  splits_close(&splits);
}

static void run_wgmma(const Problem *problem, const Case *test, int32_t tile_rows, uint64_t seed) {
  device_seed(seed);
  int status = kernel_attention_wgmma(NULL, &problem->shape, tile_rows, problem->wgmma_blocks,
                                      problem->device_out, problem->device_q, problem->q_stride,
                                      problem->device_starts, problem->device_past, test->sequences,
                                      problem->max_new);
  check(problem, test, tile_rows == 128 ? "wgmma, 128 rows" : "wgmma, 192 rows", status, seed);
}

static void run_decode(const Problem *problem, const Case *test, uint64_t seed) {
  int32_t starts[MAX_SEQUENCES + 1];
  SplitPlan plan =
      split_kv_plan(problem->contexts, test->sequences, test->kv_heads, problem->residency.decode);
  if (test->split_tokens > 0) {
    plan = split_kv_plan_of(problem->contexts, test->sequences, test->split_tokens);
  }
  split_kv_starts(problem->contexts, test->sequences, plan.tokens, starts);
  int32_t *owners = malloc((size_t)plan.rows * sizeof *owners);
  split_kv_owners(starts, test->sequences, owners);
  KernelSplits splits = splits_open(problem, test, plan, starts);
  void *device_owners = device_copy(owners, (size_t)plan.rows * sizeof *owners);
  device_seed(seed);
  int status = kernel_attention_decode(
      NULL, &problem->shape, problem->device_out, problem->device_q, problem->q_stride,
      problem->device_contexts, device_owners, test->sequences, &splits);
  check(problem, test, "decode", status, seed);
  free(owners);
  splits_close(&splits);
  device_free(device_owners);
}

static void run_case(const Case *test, uint64_t n_seeds) {
  Problem problem = problem_open(test, 17 + (uint64_t)test->added[0] + (uint64_t)test->past[0]);
  bool is_decode = true;
  for (int32_t i = 0; i < test->sequences; i++) {
    is_decode = is_decode && test->added[i] == 1;
  }
  for (uint64_t seed = 0; seed < n_seeds; seed++) {
    run_prefill(&problem, test, 64, SPLIT_KV_WHOLE, seed);
    run_prefill(&problem, test, 64, test->split_tokens > 0 ? test->split_tokens : 64, seed);
    if (problem.residency.prefill[1] > 0) {
      run_prefill(&problem, test, 128, SPLIT_KV_WHOLE, seed);
    }
    if (problem.wgmma_blocks > 0) {
      run_wgmma(&problem, test, 128, seed);
      run_wgmma(&problem, test, 192, seed);
    }
    if (is_decode) {
      run_decode(&problem, test, seed);
    }
  }
  problem_close(&problem);
}

static void test_lengths(void) {
  static const int32_t added[] = {1, 17, 64, 65, 129}, past[] = {0, 5, 63, 64, 200};
  static const Case shapes[] = {
      {7, 7, 64, 16, CALIB_BF16, 0, 1, {0}, {0}, 0, 0},
      {8, 2, 128, 32, CALIB_FP16, 0, 1, {0}, {0}, 64, 0},
      {9, 9, 128, 64, CALIB_BF16, 1, 1, {0}, {0}, 64, 0},
      {16, 2, 64, 128, CALIB_FP16, 1, 1, {0}, {0}, 0, 0},
      {14, 14, 64, 16, CALIB_FP16, 0, 1, {0}, {0}, 128, 0},
      {8, 1, 128, 16, CALIB_BF16, 0, 1, {0}, {0}, 0, 0},
  };
  int32_t n = 0;
  for (int32_t i = 0; i < 5; i++) {
    for (int32_t j = 0; j < 5; j++) {
      Case test = shapes[n++ % 6];
      test.added[0] = added[i];
      test.past[0] = past[j];
      test.sharpness = j % 2 == 0 ? 1 : 16; // greatest logits grow from tile to tile
      run_case(&test, device_is_emulated() ? 3 : 1);
    }
  }
}

static void test_many_sequences(void) {
  static const Case cases[] = {
      // Chunks beside decodes, one of them of a single token without a past.
      {14, 7, 64, 16, CALIB_BF16, 0, 4, {33, 1, 1, 80}, {100, 0, 300, 17}, 0, 0},
      {8, 2, 128, 16, CALIB_BF16, 1, 3, {200, 7, 64}, {0, 121, 64}, 0, 0},
      // The first row of a warp sees all but the last token of a tile of wgmma: 1,022 of 1,024.
      {24, 3, 128, 32, CALIB_FP16, 0, 2, {16, 48}, {1010, 0}, 0, 0},
      // Heads of one token in two tiles, of which only the later one has splits.
      {6, 2, 64, 16, CALIB_BF16, 0, 1, {44}, {50}, 0, 0},
      // Decode: one split and many, a context that ends with a granule, more heads than an m-tile.
      {8, 8, 128, 16, CALIB_BF16, 0, 4, {1, 1, 1, 1}, {0, 15, 16, 255}, 64, 0},
      {32, 4, 128, 16, CALIB_BF16, 0, 4, {1, 1, 1, 1}, {2999, 3, 700, 64}, 0, 0},
      {40, 2, 64, 16, CALIB_BF16, 1, 3, {1, 1, 1}, {500, 129, 63}, 192, 0},
      {6, 2, 64, 256, CALIB_FP16, 0, 2, {1, 1}, {4000, 1}, 1024, 0},
      {2, 1, 128, 16, CALIB_FP16, 1, 1, {1}, {9000}, 4096, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run_case(&cases[i], device_is_emulated() ? 5 : 1);
  }
}

/* Warps skip tiles that none of their rows sees: of 256 rows against 256 tokens, 32 rows and 64
 * tokens at a time, 20 of 32 products are left, each of 2·8·4 mma with K and as many with V. */
static void test_skipping(void) {
  Case test = {4, 4, 64, 16, CALIB_BF16, 0, 1, {256}, {0}, 0, 0};
  Problem problem = problem_open(&test, 1);
  device_take_counts();
  run_prefill(&problem, &test, 128, SPLIT_KV_WHOLE, 0);
  if (device_is_emulated()) {
    int64_t n_mma = device_take_counts().mma;
    expect_true(n_mma == 4 * 20 * 128, "%lld mma operations", (long long)n_mma);
  }
  problem_close(&problem);
}

/* One tile fewer than there are places for, and as many: four sequences with tiles of one row. */
static void test_choice(int32_t head_dim, CalibDtype dtype) {
  Case test = {4, 4, head_dim, 16, dtype, 0, 4, {1, 1, 1, 1}, {0, 20, 3, 64}, 0, 0};
  Problem problem = problem_open(&test, 2);
  int32_t places = problem.residency.prefill[1];
  problem_close(&problem);
  expect_true(places >= 8 || !device_is_emulated(), "%d tiles of 128 rows at once", places);
  for (int32_t less = 1; less >= 0 && places > 4; less--) {
    test.query_heads = test.kv_heads = (places + 3) / 4 - less;
    problem = problem_open(&test, 3);
    int32_t rows = split_kv_tile_rows(1, test.kv_heads, test.sequences, problem.max_new, places);
    expect_true(rows == (less > 0 ? 64 : 128), "%d of %d tiles: %d rows", test.kv_heads * 4, places,
                rows);
    run_prefill(&problem, &test, rows, SPLIT_KV_WHOLE, 0);
    run_decode(&problem, &test, 0);
    problem_close(&problem);
  }
}

/* Few tiles behind long contexts: the splits that are planned, of each head_dim. */
static void test_planned(int32_t head_dim, CalibDtype dtype) {
  Case test = {8, 1, head_dim, 16, dtype, 0, 3, {40, 1, 9}, {2100, 4000, 0}, 0, 0};
  Problem problem = problem_open(&test, 4);
  int32_t slots = problem.residency.prefill[0];
  int32_t *sees = malloc((size_t)slots * sizeof *sees);
  int32_t tokens = split_kv_prefill_tokens(problem.row_starts, test.past, 3, 8, 1, 64, slots, sees);
  expect_true(tokens <= 512, "splits of %d tokens with %d places", tokens, slots);
  run_prefill(&problem, &test, 64, tokens, 2);
  free(sees);
  problem_close(&problem);
}

static void test_choices(void) {
  static const int multiprocessors[] = {108, 132, 148};
  for (size_t i = 0; i < 3; i++) {
    device_multiprocessors(multiprocessors[i]);
    test_choice(64, CALIB_BF16);
    test_choice(128, CALIB_FP16);
    test_planned(64, CALIB_FP16);
    test_planned(128, CALIB_BF16);
  }
  device_multiprocessors(0);
}

int main(int argc, char **argv) {
  kernel_testing_begin("attention");
  device_take_counts();
  test_lengths();
  if (!is_small_run(argc, argv)) {
    test_many_sequences();
    test_choices();
  }
  int64_t n_conflicts = device_take_counts().bank_conflicts;
  expect_true(n_conflicts == 0, "%lld bank conflicts", (long long)n_conflicts);
  test_skipping();
  return kernel_testing_end();
}
