/* The groups of the CUDA backend without a GPU: every rank is a process of this program over a fake
 * runtime (cuda_runtime_fake.h) with memory that processes map from one another, the kernels as the
 * emulator runs them, and a fake NCCL. Sums of all ranks are held to their inputs (verify.h), alone
 * and as graphs; a rank that dies is an error and the next point has a new group. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calib/verify.h"
#include "kernels/cuda_rank.h"
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/kernel_testing.h"

extern const Backend backend_cuda;
static const Backend *const backend = &backend_cuda;

static const FakeGpu gpus = {.n_devices = 8,
                             .major = 9,
                             .has_driver = true,
                             .memory_bytes = INT64_C(256) << 20,
                             .name = "NVIDIA H200"};

static const CalibModel model = {.name = "tiny-llama",
                                 .num_hidden_layers = 2,
                                 .hidden_size = 512,
                                 .num_attention_heads = 8,
                                 .num_key_value_heads = 8,
                                 .head_dim = 64,
                                 .intermediate_size = 192,
                                 .vocab_size = 256,
                                 .max_position_embeddings = 512,
                                 .block_size = 16};

static void *open_group(CalibModel *ret_model, int32_t n_ranks, CalibDtype dtype) {
  const CalibOptions options = {.device = 3, .seed = 7, .verify = true};
  char error[CALIB_ERROR_SIZE] = "";
  void *state = NULL;
  *ret_model = model;
  ret_model->tensor_parallel_size = n_ranks;
  ret_model->dtype = dtype;
  fake_gpu_set(gpus);
  if (backend->open(&options, &state, error) == CALIB_OK &&
      backend->load(state, ret_model, error) == CALIB_OK)
    return state;
  printf("open: %s\n", error);
  exit(1);
}

static const char *algorithm_of(void *state) {
  static CalibTelemetry telemetry;
  backend->telemetry(state, &telemetry);
  return telemetry.algorithm;
}

static void check_measured(void *state, CalibPoint point, const char *algorithm) {
  char error[CALIB_ERROR_SIZE] = "";
  double seconds = 0;
  expect_true(backend->prepare(state, &point, error) == CALIB_OK, "prepare: %s", error);
  for (int i = 0; i < 2; i++) {
    const int64_t launches = fake_graph_launches();
    expect_true(backend->measure(state, 5, &seconds, error) == CALIB_OK, "measure: %s", error);
    expect_true(seconds > 0 && seconds < 1, "%g s", seconds);
    const bool in_graph = fake_graph_launches() > launches;
    expect_true(in_graph == (point.mode == CALIB_GRAPH), "mode %d, in a graph: %d", point.mode,
                in_graph);
  }
  expect_true(strcmp(algorithm_of(state), algorithm) == 0, "by '%s', not '%s'", algorithm_of(state),
              algorithm);
}

static void check_sums(int32_t n_ranks, CalibDtype dtype) {
  static const CalibOp ops[] = {CALIB_ALL_REDUCE, CALIB_ALL_REDUCE_PEER, CALIB_ALL_REDUCE};
  CalibModel shard;
  void *state = open_group(&shard, n_ranks, dtype);
  const VerifyTarget target = {backend, state, &shard};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    char error[CALIB_ERROR_SIZE] = "";
    double off = NAN;
    const CalibStatus status = verify_operator(&target, ops[i], &off, error);
    expect_true(status == CALIB_OK && isfinite(off) && off > 0, "%d ranks: %g off: %s", n_ranks,
                off, error);
  }
  const bool two = n_ranks == 2;
  check_measured(state, (CalibPoint){.op = CALIB_ALL_REDUCE_PEER, .size = 8192}, "one shot");
  check_measured(state, (CalibPoint){.op = CALIB_ALL_REDUCE_PEER, .size = 1 << 19},
                 two ? "one shot" : "two shots");
  check_measured(state, (CalibPoint){.op = CALIB_ALL_REDUCE, .size = 8192}, "nccl 2.27.3");
  check_measured(state, (CalibPoint){.op = CALIB_ALL_REDUCE, .mode = CALIB_EAGER, .size = 8192},
                 "nccl 2.27.3");
  const CalibPoint odd = {.op = CALIB_ALL_REDUCE, .size = 20};
  expect_true(backend->supports(state, &odd) != NULL, "a tensor of 20 bytes");
  backend->close(state);
}

/* A wrong sum of one rank is seen: what another rank has in place of it. */
static void check_wrong(void) {
  CalibModel shard;
  char error[CALIB_ERROR_SIZE] = "";
  void *state = open_group(&shard, 4, CALIB_BF16);
  const CalibPoint point = {.op = CALIB_ALL_REDUCE_PEER, .size = 4096};
  double before[8], changed[8] = {1, 2, 3, 4, 5, 6, 7, 8}, after[8], sum[8];
  const CalibSlice in = {.tensor = TENSOR_FROM, .layer = 2, .row = 5, .n_rows = 1};
  const CalibSlice out = {.tensor = TENSOR_TO, .layer = 3, .row = 5, .n_rows = 1};
  expect_true(backend->prepare(state, &point, error) == CALIB_OK &&
                  backend->run(state, error) == CALIB_OK &&
                  backend->move(state, &in, before, false, error) == CALIB_OK &&
                  backend->move(state, &out, after, false, error) == CALIB_OK &&
                  backend->move(state, &in, changed, true, error) == CALIB_OK &&
                  backend->run(state, error) == CALIB_OK &&
                  backend->move(state, &out, sum, false, error) == CALIB_OK,
              "%s", error);
  for (int i = 0; i < 8; i++)
    expect_true(fabs(sum[i] - after[i] - (changed[i] - before[i])) < 0.1,
                "rank 2's input is in rank 3's sum");
  const CalibSlice none = {.tensor = TENSOR_TO, .layer = 4, .n_rows = 1};
  expect_true(backend->move(state, &none, sum, false, error) == CALIB_REJECTED,
              "a fifth rank of four");
  backend->close(state);
}

/* 0: none. */
static pid_t any_child(void) {
  char path[64];
  int child = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%d", &child) != 1) child = 0;
  if (file) fclose(file);
  return child;
}

static void check_death(void) {
  CalibModel shard;
  char error[CALIB_ERROR_SIZE] = "";
  double seconds = 0;
  void *state = open_group(&shard, 2, CALIB_BF16);
  const CalibPoint point = {.op = CALIB_ALL_REDUCE_PEER, .size = 4096};
  expect_true(backend->prepare(state, &point, error) == CALIB_OK, "%s", error);
  const pid_t child = any_child();
  expect_true(child > 0, "a rank is a process");
  siginfo_t ended;
  if (child > 0 && kill(child, SIGKILL) == 0) waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT);
  expect_true(backend->measure(state, 1, &seconds, error) == CALIB_ENVIRONMENT, "a rank is dead");
  expect_true(strstr(error, "has ended") || strstr(error, "in vain"), "%s", error);
  expect_true(backend->measure(state, 1, &seconds, error) == CALIB_ENVIRONMENT, "and so the group");
  expect_true(backend->prepare(state, &point, error) == CALIB_OK &&
                  backend->measure(state, 1, &seconds, error) == CALIB_OK,
              "a new group: %s", error);
  backend->close(state);
  expect_true(any_child() == 0, "processes are left");
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--rank") == 0) {
    fake_gpu_set(gpus);
    return rank_serve(RANK_SOCKET);
  }
  kernel_testing_begin("group");
  check_sums(2, CALIB_FP16);
  check_sums(4, CALIB_BF16);
  check_sums(8, CALIB_BF16);
  check_wrong();
  check_death();
  return kernel_testing_end();
}
