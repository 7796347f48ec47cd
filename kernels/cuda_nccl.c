/* Other GPUs: all-reduces by NCCL, one process with a communicator and a stream per device, and
 * memory on a peer. NCCL is opened with dlopen. */
#include "kernels/cuda_state.h"
#include "kernels/nccl.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 16 };

/* Rank 0 is the device that is measured; its stream is the main lane's. */
struct Nccl {
  void *library;
  NcclFunctions call;
  int n_ranks, devices[MAX_RANKS];
  NcclComm comms[MAX_RANKS];
  cudaStream_t streams[MAX_RANKS]; // 0: not of this
  CudaBuffer tensors[MAX_RANKS];
};

static void find(void *library, const char *name, void *ret_function) {
  void *symbol = dlsym(library, name);
  memcpy(ret_function, &symbol, sizeof symbol);
}

static bool find_functions(void *library, NcclFunctions *call) {
  find(library, "ncclCommInitAll", &call->init_all);
  find(library, "ncclCommDestroy", &call->destroy);
  find(library, "ncclGroupStart", &call->group_start);
  find(library, "ncclGroupEnd", &call->group_end);
  find(library, "ncclAllReduce", &call->all_reduce);
  find(library, "ncclGetErrorString", &call->error_string);
  return call->init_all && call->destroy && call->group_start && call->group_end &&
         call->all_reduce && call->error_string;
}

const char *nccl_missing(CudaState *self) {
  if (self->device.n_devices < 2) return "one GPU";
  if (self->model.tensor_parallel_size < 2) return "one GPU in a group needs no all-reduce";
  if (self->model.tensor_parallel_size > self->device.n_devices ||
      self->model.tensor_parallel_size > MAX_RANKS)
    return "fewer GPUs than tensor_parallel_size";
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return "libnccl.so.2 is not to be found";
  dlclose(library);
  return NULL;
}

static CalibStatus nccl_failed(const Nccl *self, int code, const char *call, char *error) {
  snprintf(error, CALIB_ERROR_SIZE, "%s: %s", call, self->call.error_string(code));
  return CALIB_ENVIRONMENT;
}

static CalibStatus open_ranks(Nccl *self, const CudaState *state, char *error) {
  for (int i = 0; i < self->n_ranks; i++)
    self->devices[i] = (state->options.device + i) % state->device.n_devices;
  const int code = self->call.init_all(self->comms, self->n_ranks, self->devices);
  if (code != NCCL_SUCCESS) {
    memset(self->comms, 0, sizeof self->comms);
    return nccl_failed(self, code, "ncclCommInitAll", error);
  }
  for (int i = 1; i < self->n_ranks; i++) {
    CUDA_TRY(cudaSetDevice(self->devices[i]));
    CUDA_TRY(cudaStreamCreateWithFlags(&self->streams[i], cudaStreamNonBlocking));
  }
  return CALIB_OK;
}

static CalibStatus nccl_open(CudaState *state, char *error) {
  const int n_ranks = state->model.tensor_parallel_size;
  if (state->nccl && state->nccl->n_ranks == n_ranks) return CALIB_OK;
  nccl_close(state->nccl);
  Nccl *self = state->nccl = calloc(1, sizeof *self);
  if (!self) abort();
  self->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!self->library || !find_functions(self->library, &self->call)) {
    snprintf(error, CALIB_ERROR_SIZE, "libnccl.so.2 is not to be found, or too old");
    return CALIB_ENVIRONMENT;
  }
  self->n_ranks = n_ranks;
  const CalibStatus status = open_ranks(self, state, error);
  CUDA_TRY(cudaSetDevice(state->options.device));
  return status;
}

void nccl_close(Nccl *self) {
  int device = 0;
  if (!self) return;
  cudaGetDevice(&device);
  for (int i = 0; i < self->n_ranks; i++) {
    if (self->comms[i]) self->call.destroy(self->comms[i]);
    cudaSetDevice(self->devices[i]);
    if (self->streams[i]) cudaStreamDestroy(self->streams[i]);
    buffer_release(&self->tensors[i]);
  }
  cudaSetDevice(device);
  if (self->library) dlclose(self->library);
  free(self);
}

/* Sums lie behind what they are of: in place they would grow from run to run. */
static int64_t out_offset(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

static CalibStatus reserve_ranks(CudaState *state, int64_t bytes, char *error) {
  Nccl *self = state->nccl;
  for (int i = 0; i < self->n_ranks; i++) {
    CUDA_TRY(cudaSetDevice(self->devices[i]));
    TRY(buffer_reserve(&self->tensors[i], 2 * out_offset(bytes), error));
    CUDA_TRY(kernel_fill_normal(self->streams[i], state->model.dtype, self->tensors[i].data,
                                bytes / 2, 1.0f, state->options.seed + (uint64_t)i));
    CUDA_TRY(cudaDeviceSynchronize());
  }
  return CALIB_OK;
}

CalibStatus nccl_reserve(CudaState *self, int64_t bytes, char *error) {
  const char *missing = nccl_missing(self);
  if (missing) {
    snprintf(error, CALIB_ERROR_SIZE, "no all-reduce: %s", missing);
    return CALIB_REJECTED;
  }
  TRY(nccl_open(self, error));
  const CalibStatus status = reserve_ranks(self, bytes, error);
  CUDA_TRY(cudaSetDevice(self->options.device));
  return status;
}

CalibStatus nccl_all_reduce(CudaState *self, int64_t bytes, char *error) {
  const Nccl *nccl = self->nccl;
  const int type = self->model.dtype == CALIB_BF16 ? NCCL_BFLOAT16 : NCCL_FLOAT16;
  int code = nccl->call.group_start();
  for (int i = 0; i < nccl->n_ranks && code == NCCL_SUCCESS; i++) {
    char *in = nccl->tensors[i].data;
    code = nccl->call.all_reduce(in, in + out_offset(bytes), (size_t)bytes / 2, type, NCCL_SUM,
                                 nccl->comms[i], i == 0 ? self->main.stream : nccl->streams[i]);
  }
  const int ended = nccl->call.group_end();
  if (code == NCCL_SUCCESS) code = ended;
  return code == NCCL_SUCCESS ? CALIB_OK : nccl_failed(nccl, code, "ncclAllReduce", error);
}

int peer_device(const CudaState *self) {
  return (self->options.device + 1) % self->device.n_devices;
}

static CalibStatus reserve_at_peer(CudaState *self, int64_t bytes, char *error) {
  CUDA_TRY(cudaSetDevice(peer_device(self)));
  return buffer_reserve(&self->peer, bytes, error);
}

/* Without access to each other copies go through the host, which is then what is measured. */
CalibStatus peer_reserve(CudaState *self, int64_t bytes, char *error) {
  int can_access = 0;
  CUDA_TRY(cudaDeviceCanAccessPeer(&can_access, self->options.device, peer_device(self)));
  if (can_access) {
    const cudaError_t code = cudaDeviceEnablePeerAccess(peer_device(self), 0);
    cudaGetLastError();
    if (code != cudaSuccess && code != cudaErrorPeerAccessAlreadyEnabled)
      return cuda_failed((int)code, "cudaDeviceEnablePeerAccess", error);
  }
  const CalibStatus status = reserve_at_peer(self, bytes, error);
  CUDA_TRY(cudaSetDevice(self->options.device));
  return status;
}

void peer_release(CudaState *self) {
  if (self->device.n_devices < 2) return;
  buffer_release(&self->peer); // cudaFree finds the device by the address
}
