/* Takes a GPU: each thing that can be missing is found here, before any work, and named in a line.
 * Memory is plain device memory, never managed. Clocks and limits are read, never set. */
#include "calib/gpu_name.h"
#include "kernels/cuda_state.h"
#include "kernels/sdpa.h"
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SM = 80 };

CalibStatus cuda_status(int code, const char *call, char *error) {
  if (code == cudaSuccess) return CALIB_OK;
  cudaGetLastError(); // else the next call reports it again
  return calib_failed(code == cudaErrorMemoryAllocation ? CALIB_OUT_OF_MEMORY : CALIB_ENVIRONMENT,
                      error, "%.*s: %s", (int)strcspn(call, "("), call,
                      cudaGetErrorString((cudaError_t)code));
}

// --- memory ------------------------------------------------------------------------------------

/* What grows once will again: a fourth more then, or just enough if that is too much. */
CalibStatus buffer_reserve(CudaBuffer *self, int64_t bytes, char *error) {
  if (self->bytes >= (size_t)bytes && self->data) return CALIB_OK;
  const size_t needed = bytes > 0 ? ((size_t)bytes + 255) / 256 * 256 : 256;
  const bool is_again = self->data != NULL && needed < 1u << 30;
  const size_t wanted[] = {is_again ? needed + needed / 4 / 256 * 256 : needed, needed};
  buffer_release(self);
  for (int i = 0; i < 2; i++) {
    const cudaError_t code = cudaMalloc(&self->data, wanted[i]);
    if (code == cudaSuccess) {
      self->bytes = wanted[i];
      return CALIB_OK;
    }
    self->data = NULL;
    cudaGetLastError();
    if (code != cudaErrorMemoryAllocation) return cuda_status((int)code, "cudaMalloc", error);
  }
  return calib_failed(CALIB_OUT_OF_MEMORY, error,
                      "%.2f GiB more do not fit in the memory of the GPU",
                      (double)needed / (1024.0 * 1024 * 1024));
}

void buffer_release(CudaBuffer *self) {
  if (self->data) cudaFree(self->data);
  *self = (CudaBuffer){0};
}

CalibStatus pinned_reserve(CudaBuffer *self, int64_t bytes, char *error) {
  if (self->bytes >= (size_t)bytes && self->data) return CALIB_OK;
  if (self->data) cudaFreeHost(self->data);
  *self = (CudaBuffer){0};
  const cudaError_t code = cudaHostAlloc(&self->data, (size_t)bytes, cudaHostAllocDefault);
  if (code != cudaSuccess) {
    self->data = NULL;
    cudaGetLastError();
    return calib_failed(CALIB_OUT_OF_MEMORY, error, "%.2f GiB of host memory cannot be pinned: %s",
                        (double)bytes / (1024.0 * 1024 * 1024), cudaGetErrorString(code));
  }
  self->bytes = (size_t)bytes;
  memset(self->data, 0x3c, self->bytes); // numbers near 1 in either type
  return CALIB_OK;
}

// --- lanes -------------------------------------------------------------------------------------

CalibStatus lane_open(const CudaState *state, CudaLane *self, char *error) {
  char why[GEMM_ERROR_SIZE];
  if (self->stream) return CALIB_OK;
  CUDA_TRY(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking));
  CUDA_TRY(cudaEventCreate(&self->begin));
  CUDA_TRY(cudaEventCreate(&self->end));
  TRY(buffer_reserve(&self->gemm_workspace, GEMM_WORKSPACE_BYTES, error));
  const GemmMemory memory = {.workspace = self->gemm_workspace.data,
                             .workspace_bytes = GEMM_WORKSPACE_BYTES,
                             .flush = state->flush.data,
                             .flush_bytes = state->flush.bytes,
                             .choices = state->choices};
  if (gemm_open(&self->gemm, &memory, why) >= 0) return CALIB_OK;
  self->gemm = NULL;
  return calib_failed(CALIB_ENVIRONMENT, error, "%s", why);
}

CalibStatus lane_upload(CudaLane *self, void *device, const void *host, size_t bytes, char *error) {
  CUDA_TRY(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, self->stream));
  return CUDA_STATUS(cudaStreamSynchronize(self->stream));
}

CalibStatus lane_give(CudaLane *self, CudaBuffer *device, void *host, size_t bytes, char *error) {
  CalibStatus status = buffer_reserve(device, (int64_t)bytes, error);
  if (status == CALIB_OK) status = lane_upload(self, device->data, host, bytes, error);
  free(host);
  return status;
}

void lane_close(CudaLane *self) {
  if (self->stream) cudaStreamSynchronize(self->stream);
  if (self->graph) cudaGraphExecDestroy(self->graph);
  if (self->gemm) gemm_close(self->gemm);
  if (self->begin) cudaEventDestroy(self->begin);
  if (self->end) cudaEventDestroy(self->end);
  if (self->stream) cudaStreamDestroy(self->stream);
  for (int i = 0; i < CUDA_N_TENSORS; i++)
    buffer_release(&self->tensors[i]);
  buffer_release(&self->gemm_workspace);
  buffer_release(&self->words);
  buffer_release(&self->sdpa_arrays);
  buffer_release(&self->sdpa_workspace);
  batch_layout_done(&self->layout);
  *self = (CudaLane){0};
}

// --- the device --------------------------------------------------------------------------------

/* A driver runs what was built with its version of CUDA or an earlier one. */
static CalibStatus refuse_driver(char *error) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return calib_failed(CALIB_ENVIRONMENT, error, "no NVIDIA driver is installed");
  const int major = CUDART_VERSION / 1000, minor = CUDART_VERSION % 1000 / 10;
  return calib_failed(
      CALIB_ENVIRONMENT, error,
      "the NVIDIA driver supports CUDA %d.%d, this program needs %d.%d: install a newer "
      "driver, build with the nvcc of CUDA %d, or, on a data center GPU, put NVIDIA's package "
      "cuda-compat-%d-%d first in LD_LIBRARY_PATH",
      driver / 1000, driver % 1000 / 10, major, minor, driver / 1000, major, minor);
}

static CalibStatus find_device(const CudaState *self, int *ret_n_devices, char *error) {
  int n_devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&n_devices);
  if (code == cudaErrorInsufficientDriver) return refuse_driver(error);
  if (code == cudaErrorNoDevice || (code == cudaSuccess && n_devices == 0))
    return calib_failed(CALIB_ENVIRONMENT, error, "the NVIDIA driver sees no GPU");
  if (code != cudaSuccess) return cuda_status((int)code, "cudaGetDeviceCount", error);
  if (self->options.device < 0 || self->options.device >= n_devices)
    return calib_failed(CALIB_ENVIRONMENT, error, "there is no GPU %d, only GPUs 0 to %d",
                        (int)self->options.device, n_devices - 1);
  *ret_n_devices = n_devices;
  return CALIB_OK;
}

static void write_uuid(const cudaUUID_t *uuid, char *text, size_t size) {
  const unsigned char *b = (const unsigned char *)uuid->bytes;
  snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
           b[14], b[15]);
}

static CalibStatus describe(CudaState *self, int n_devices, char *error) {
  CalibDevice *device = &self->device;
  struct cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  CUDA_TRY(cudaGetDeviceProperties(&properties, self->options.device));
  CUDA_TRY(cudaDriverGetVersion(&driver));
  CUDA_TRY(cudaRuntimeGetVersion(&runtime));
  device->sm = 10 * properties.major + properties.minor;
  device->n_units = properties.multiProcessorCount;
  device->n_devices = n_devices;
  device->cache_bytes = properties.l2CacheSize;
  device->memory_bytes = (int64_t)properties.totalGlobalMem;
  snprintf(device->name, sizeof device->name, "%.100s", properties.name);
  gpu_key(device->name, device->memory_bytes, device->gpu, sizeof device->gpu);
  write_uuid(&properties.uuid, device->uuid, sizeof device->uuid);
  const size_t blas = cublasLtGetVersion();
  snprintf(device->driver, sizeof device->driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
  snprintf(device->runtime, sizeof device->runtime, "CUDA %d.%d", runtime / 1000,
           runtime % 1000 / 10);
  snprintf(device->library, sizeof device->library, "cuBLASLt %zu.%zu.%zu", blas / 10000,
           blas / 100 % 100, blas % 100);
  return CUDA_STATUS(
      cudaDeviceGetPCIBusId(self->pci_bus_id, sizeof self->pci_bus_id, self->options.device));
}

/* KERNEL_IMAGE says what the kernels were compiled for. */
static CalibStatus refuse(const CalibDevice *device, const char *why, char *error) {
  return calib_failed(CALIB_ENVIRONMENT, error,
                      "'%s' has compute capability %d.%d, but the kernels are built for %s: %s",
                      device->name, (int)device->sm / 10, (int)device->sm % 10, KERNEL_IMAGE, why);
}

/* A driver may not know the PTX, or not be allowed to compile it. */
static CalibStatus check_image(const CalibDevice *device, char *error) {
  const int code = kernel_image_load();
  cudaGetLastError();
  return code == 0 ? CALIB_OK : refuse(device, cudaGetErrorString((cudaError_t)code), error);
}

static CalibStatus make_flush(CudaState *self, char *error) {
  TRY(buffer_reserve(&self->flush, 5 * self->device.cache_bytes / 2, error));
  return CUDA_STATUS(cudaMemset(self->flush.data, 0, self->flush.bytes));
}

CalibStatus cuda_open(CudaState *self, char *error) {
  int n_devices = 0;
  TRY(find_device(self, &n_devices, error));
  TRY(describe(self, n_devices, error));
  if (self->device.sm < LEAST_SM) return refuse(&self->device, "it is too old", error);
  near_cpus_read("", self->pci_bus_id, self->device.near_cpus, sizeof self->device.near_cpus);
  near_cpus_keep(&self->near, self->device.near_cpus);
  CUDA_TRY(cudaSetDevice(self->options.device));
  CUDA_TRY(cudaFree(NULL)); // makes the context
  TRY(check_image(&self->device, error));
  self->nvml = nvml_open(self->pci_bus_id);
  if (self->nvml) {
    nvml_driver_version(self->nvml, self->device.driver, sizeof self->device.driver);
    nvml_describe(self->nvml, &self->device);
  }
  self->choices = gemm_choices_open(self->options.choices, &self->device, self->device.note,
                                    sizeof self->device.note);
  TRY(make_flush(self, error));
  TRY(lane_open(self, &self->main, error));
  void *gate = NULL;
  CUDA_TRY(cudaHostAlloc(&gate, sizeof *self->gate, cudaHostAllocMapped));
  self->gate = gate;
  *self->gate = 1;
  size_t free_bytes = 0, all_bytes = 0;
  CUDA_TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
  self->device.free_bytes = (int64_t)free_bytes;
  return CALIB_OK;
}

void cuda_close(CudaState *self) {
  work_end(self);
  lane_close(&self->main);
  lane_close(&self->side);
  if (self->back) cudaStreamDestroy(self->back);
  if (self->back_end) cudaEventDestroy(self->back_end);
  model_unload(self);
  buffer_release(&self->flush);
  buffer_release(&self->rotation);
  buffer_release(&self->copy);
  buffer_release(&self->pages);
  if (self->pinned.data) cudaFreeHost(self->pinned.data);
  if (self->gate) cudaFreeHost((void *)self->gate);
  free(self->pageable.data);
  sdpa_close(self->sdpa);
  group_close(self, false);
  peer_release(self);
  gemm_choices_close(self->choices);
  nvml_close(self->nvml);
  near_cpus_let(&self->near);
}
