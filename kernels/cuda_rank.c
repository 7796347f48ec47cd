/* See cuda_rank.h. */
#include "kernels/cuda_rank.h"
#include <dlfcn.h>
#include <string.h>

// --- NCCL --------------------------------------------------------------------------------------

/* As NcclFunctions has them. */
static const char *const NAMES[] = {
    "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank",   "ncclCommDestroy",
    "ncclCommAbort",  "ncclAllReduce",   "ncclGetErrorString", NULL};
_Static_assert(sizeof NAMES == sizeof(NcclFunctions) + sizeof *NAMES, "a name for each function");

static CalibStatus nccl_failed(const Rank *self, int code, const char *call, char *error) {
  return calib_failed(CALIB_ENVIRONMENT, error, "%s: %s", call, self->call.error_string(code));
}

static CalibStatus need_library(const Rank *self, char *error) {
  if (self->library) return CALIB_OK;
  return calib_failed(CALIB_ENVIRONMENT, error, "libnccl.so.2 was not found or is too old");
}

CalibStatus rank_new_id(Rank *self, NcclId *ret_id, char *error) {
  TRY(need_library(self, error));
  const int code = self->call.get_id(ret_id);
  return code == NCCL_SUCCESS ? CALIB_OK : nccl_failed(self, code, "ncclGetUniqueId", error);
}

CalibStatus rank_join(Rank *self, const NcclId *id, char *error) {
  TRY(need_library(self, error));
  const int code = self->call.init_rank(&self->comm, self->n_ranks, *id, self->rank);
  if (code == NCCL_SUCCESS) return CALIB_OK;
  self->comm = NULL;
  return nccl_failed(self, code, "ncclCommInitRank", error);
}

// A peer whose process has ended never comes.
static const uint64_t RANK_TIMEOUT_NS = UINT64_C(30) * 1000 * 1000 * 1000;

// --- memory ------------------------------------------------------------------------------------

static int64_t round_up(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/* Of a task: signals, the input, sums of a part, all sums. */
typedef struct Layout {
  int64_t in, parts, out, end;
} Layout;

static Layout layout_of(const RankTask *task, int32_t n_ranks) {
  Layout at = {.in = round_up(sizeof(KernelSignals))};
  at.parts = at.in + round_up(task->bytes);
  at.out = at.parts + round_up(task->bytes / n_ranks + 16);
  at.end = at.out + round_up(task->bytes);
  return at;
}

void *rank_tensor(const Rank *self, bool is_sum) {
  const Layout at = layout_of(&self->task, self->n_ranks);
  return (char *)self->memory.data + (is_sum ? at.out : at.in);
}

void rank_disconnect(Rank *self) {
  cudaStreamSynchronize(self->stream);
  for (int i = 0; i < self->n_ranks; i++) {
    if (self->peers[i]) cudaIpcCloseMemHandle(self->peers[i]);
    self->peers[i] = NULL;
  }
}

CalibStatus rank_reserve(Rank *self, const RankTask *task, cudaIpcMemHandle_t *ret_handle,
                         char *error) {
  self->task = *task;
  TRY(buffer_reserve(&self->memory, layout_of(task, self->n_ranks).end, error));
  CUDA_TRY(cudaMemsetAsync(self->memory.data, 0, sizeof(KernelSignals), self->stream));
  CUDA_TRY(kernel_fill_normal(self->stream, task->dtype, rank_tensor(self, false), task->bytes / 2,
                              1, task->seed + (uint64_t)self->rank));
  CUDA_TRY(kernel_all_reduce_load(task->dtype, task->way, self->n_ranks));
  CUDA_TRY(cudaStreamSynchronize(self->stream));
  return CUDA_STATUS(cudaIpcGetMemHandle(ret_handle, self->memory.data));
}

CalibStatus rank_connect(Rank *self, const cudaIpcMemHandle_t *handles, char *error) {
  const Layout at = layout_of(&self->task, self->n_ranks);
  self->group =
      (KernelGroup){.rank = self->rank, .n_ranks = self->n_ranks, .timeout_ns = RANK_TIMEOUT_NS};
  for (int i = 0; i < self->n_ranks; i++) {
    if (i != self->rank)
      CUDA_TRY(cudaIpcOpenMemHandle(&self->peers[i], handles[i], cudaIpcMemLazyEnablePeerAccess));
    char *memory = i == self->rank ? self->memory.data : self->peers[i];
    self->group.signals[i] = (KernelSignals *)memory;
    self->group.in[i] = memory + at.in;
    self->group.parts[i] = memory + at.parts;
  }
  return CALIB_OK;
}

// --- running -----------------------------------------------------------------------------------

CalibStatus rank_run(Rank *self, char *error) {
  const RankTask *task = &self->task;
  const void *in = rank_tensor(self, false);
  void *out = rank_tensor(self, true);
  if (task->op == CALIB_ALL_REDUCE_PEER) {
    return CUDA_STATUS(kernel_all_reduce(self->stream, task->dtype, task->way, &self->group, out,
                                         task->bytes / 2));
  }
  const int type = task->dtype == CALIB_BF16 ? NCCL_BFLOAT16 : NCCL_FLOAT16;
  const int code = self->call.all_reduce(in, out, (size_t)task->bytes / 2, type, NCCL_SUM,
                                         self->comm, self->stream);
  return code == NCCL_SUCCESS ? CALIB_OK : nccl_failed(self, code, "ncclAllReduce", error);
}

CalibStatus rank_check(const Rank *self, char *error) {
  KernelSignals *signals = self->memory.data;
  uint32_t late = 0;
  CUDA_TRY(cudaStreamSynchronize(self->stream));
  CUDA_TRY(cudaMemcpy(&late, &signals->late, sizeof late, cudaMemcpyDeviceToHost));
  if (late == 0) return CALIB_OK;
  return calib_failed(CALIB_ENVIRONMENT, error,
                      "GPU %d waited in vain for another GPU of its group", (int)self->device);
}

CalibStatus rank_open(Rank *self, char *error) {
  CUDA_TRY(cudaSetDevice(self->device));
  self->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (self->library && calib_find_functions(self->library, NAMES, &self->call)) {
    dlclose(self->library);
    self->library = NULL;
  }
  return CALIB_OK;
}

void rank_close(Rank *self, bool has_failed) {
  if (self->comm && has_failed) self->call.abort(self->comm); // before its kernels are waited for
  rank_disconnect(self);
  if (self->comm && !has_failed) self->call.destroy(self->comm);
  buffer_release(&self->memory);
  if (self->library) dlclose(self->library);
}
