/* kernel_all_reduce: sums of 2, 4 and 8 ranks, of less than a block, of more than all blocks and of
 * what no number of ranks divides, both ways in turn over the same signals. Each run's inputs are
 * written where those of the run before were, as soon as a rank has come so far. All ranks must
 * have the same bits. A rank that does not come is reported. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/all_reduce.h"
#include "kernels/half.h"
#include "tests/kernels/kernel_testing.h"

enum { RUNS = 4 };

/* What all ranks of one test share. */
typedef struct Test {
  CalibDtype dtype;
  KernelReduce way;     // of the first run
  int n_ranks, missing; // −1: none
  int64_t n;
  KernelGroup group;
  void *out[KERNEL_RANKS_MOST]; // [RUNS][n]
} Test;

static void make(Test *test) {
  const size_t bytes = 2 * (size_t)test->n;
  for (int rank = 0; rank < test->n_ranks; rank++) {
    KernelSignals *signals = malloc(sizeof *signals);
    memset(signals, 0xff, sizeof *signals); // the number of the last run; the next is 0
    signals->late = 0;
    test->group.signals[rank] = device_alloc_shared(sizeof *signals);
    device_upload(test->group.signals[rank], signals, sizeof *signals);
    free(signals);
    test->group.in[rank] = device_alloc_shared(bytes);
    test->group.parts[rank] = device_alloc_shared(bytes / (size_t)test->n_ranks + 16);
    test->out[rank] = device_alloc_shared(RUNS * bytes);
  }
  test->group.n_ranks = test->n_ranks;
  test->group.timeout_ns = test->missing < 0 ? UINT64_MAX : 1000000;
}

static void release(Test *test) {
  for (int rank = 0; rank < test->n_ranks; rank++) {
    device_free(test->group.signals[rank]);
    device_free((void *)test->group.in[rank]);
    device_free(test->group.parts[rank]);
    device_free(test->out[rank]);
  }
}

/* In the second half of the runs ranks differ so much that the order of a sum shows in its bits. */
static void fill(const Test *test, KernelStream stream, int run, int rank) {
  const float deviation = run < RUNS / 2 ? 1 : ldexpf(1, -3 * rank);
  const uint64_t seed = 100 * (uint64_t)run + (uint64_t)rank;
  void *in = (void *)test->group.in[rank];
  if (kernel_fill_normal(stream, test->dtype, in, test->n, deviation, seed)) abort();
}

static void run_rank(void *context, int rank, KernelStream stream) {
  const Test *test = context;
  KernelGroup group = test->group;
  group.rank = rank;
  if (rank == test->missing) return;
  for (int run = 0; run < (test->missing < 0 ? RUNS : 1); run++) {
    const KernelReduce way = (test->way + (unsigned)run) % 2;
    char *out = (char *)test->out[rank] + 2 * test->n * run;
    fill(test, stream, run, rank);
    if (kernel_all_reduce(stream, test->dtype, way, &group, out, test->n)) abort();
  }
}

/* [RUNS][n], by malloc. */
static double *expected_sums(const Test *test) {
  double *sums = calloc((size_t)(RUNS * test->n), sizeof *sums);
  for (int run = 0; run < RUNS; run++)
    for (int rank = 0; rank < test->n_ranks; rank++) {
      fill(test, NULL, run, rank);
      uint16_t *in = device_fetch(test->group.in[rank], 2 * (size_t)test->n);
      for (int64_t i = 0; i < test->n; i++)
        sums[run * test->n + i] += half_load(test->dtype, in, i);
      free(in);
    }
  return sums;
}

/* Before any rank waits for another: a device loads nothing while they do. */
static void load(CalibDtype dtype, int n_ranks) {
  for (KernelReduce way = KERNEL_ONE_SHOT; way <= KERNEL_TWO_SHOTS; way++)
    expect_true(kernel_all_reduce_load(dtype, way, n_ranks) == 0, "way %d of %d ranks loads",
                (int)way, n_ranks);
}

static void check(CalibDtype dtype, KernelReduce way, int n_ranks, int64_t n) {
  Test test = {.dtype = dtype, .way = way, .n_ranks = n_ranks, .missing = -1, .n = n};
  make(&test);
  load(dtype, n_ranks);
  double *sums = expected_sums(&test);
  uint16_t *first = NULL;
  device_run_ranks(n_ranks, run_rank, &test);
  for (int rank = 0; rank < n_ranks; rank++) {
    uint16_t *out = device_fetch(test.out[rank], 2 * (size_t)(RUNS * n));
    expect_error_below(greatest_error(dtype, out, sums, RUNS * n, 1), half_error(dtype),
                       "%d ranks, %lld elements, way %d first, rank %d", n_ranks, (long long)n,
                       (int)way, rank);
    if (first)
      expect_true(memcmp(first, out, 2 * (size_t)(RUNS * n)) == 0, "rank %d of %d has other bits",
                  rank, n_ranks);
    else
      first = out;
    if (out != first) free(out);
  }
  free(first);
  free(sums);
  release(&test);
}

/* The others give up and say so. */
static void check_missing(void) {
  Test test = {.way = KERNEL_TWO_SHOTS, .n_ranks = 2, .missing = 1, .n = 64};
  make(&test);
  load(test.dtype, test.n_ranks);
  device_run_ranks(2, run_rank, &test);
  KernelSignals *signals = device_fetch(test.group.signals[0], sizeof *signals);
  expect_true(signals->late != 0, "a rank that does not come is not reported");
  free(signals);
  release(&test);
}

static void check_refused(void) {
  const KernelGroup group = {.n_ranks = 3};
  expect_true(kernel_all_reduce(NULL, CALIB_BF16, KERNEL_ONE_SHOT, &group, NULL, 64) != 0,
              "three ranks");
  const KernelGroup two = {.n_ranks = 2};
  expect_true(kernel_all_reduce(NULL, CALIB_BF16, KERNEL_ONE_SHOT, &two, NULL, 12) != 0,
              "half a vector");
}

int main(int argc, char **argv) {
  kernel_testing_begin("all_reduce");
  const int64_t sizes[] = {8, 1000, 4096, 148480, 327760};
  const int most = is_small_run(argc, argv) ? 3 : 5;
  for (int s = 0; s < most; s++)
    for (int way = 0; way < 2; way++)
      for (int ranks = 2; ranks <= KERNEL_RANKS_MOST; ranks *= 2) {
        if (s == 4 && ranks == 8) continue; // long where processes are many
        check(s % 2 == 0 ? CALIB_BF16 : CALIB_FP16, way == 0 ? KERNEL_ONE_SHOT : KERNEL_TWO_SHOTS,
              ranks, sizes[s]);
      }
  check_refused();
  check_missing();
  return kernel_testing_end();
}
