/* The device of kernel_testing.h where a GPU runs the kernels: the runtime's first device. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernels/kernel_testing.h"

static void require(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
  }
}

void device_begin(void) {
  int n_devices = 0;
  cudaError_t error = cudaGetDeviceCount(&n_devices);
  if (error != cudaSuccess || n_devices == 0) {
    /* Where the driver has made its file there is a GPU, and not to see it is no reason to skip. */
    bool has_gpu = access("/dev/nvidiactl", F_OK) == 0;
    printf("no device: %s\n", cudaGetErrorString(error));
    exit(has_gpu ? 1 : 77);
  }
}

bool device_is_emulated(void) {
  return false;
}

void *device_alloc(size_t bytes) {
  void *memory = NULL;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  require(cudaMemset(memory, 0xff, bytes), "cudaMemset");
  require(cudaDeviceSynchronize(), "cudaMemset");
  return memory;
}

void *device_alloc_shared(size_t bytes) {
  return device_alloc(bytes);
}

void device_run_ranks(int n, void (*call)(void *context, int rank, KernelStream stream),
                      void *context) {
  cudaStream_t streams[16];
  for (int rank = 0; rank < n; rank++)
    require(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking), "a stream");
  for (int rank = 0; rank < n; rank++)
    call(context, rank, streams[rank]);
  require(cudaDeviceSynchronize(), "the kernels of all ranks");
  for (int rank = 0; rank < n; rank++)
    require(cudaStreamDestroy(streams[rank]), "a stream");
}

void device_free(void *memory) {
  require(cudaFree(memory), "cudaFree");
}

void *device_alloc_pinned(size_t bytes) {
  void *memory = NULL;
  require(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  memset(memory, 0, bytes);
  return memory;
}

void device_free_pinned(void *memory) {
  require(cudaFreeHost(memory), "cudaFreeHost");
}

void device_upload(void *device, const void *host, size_t bytes) {
  require(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "upload");
}

void device_download(void *host, const void *device, size_t bytes) {
  require(cudaDeviceSynchronize(), "the kernels launched before");
  require(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "download");
}

void device_seed(uint64_t seed) {
  (void)seed;
}

void device_multiprocessors(int n) {
  (void)n;
}

DeviceCounts device_take_counts(void) {
  return (DeviceCounts){0, 0};
}
