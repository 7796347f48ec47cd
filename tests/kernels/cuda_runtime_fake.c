/* See cuda_runtime_fake.h. Streams and graphs are numbers, an event is the moment of its record. */
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/emulator/memory.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALLOCATIONS = 4096 };

typedef struct Moment {
  double ms;
  int64_t asides, loads; // until then
} Moment;

static const double LAUNCH_MS = 20, EVENT_MS = 2;

static struct {
  FakeGpu gpu;
  double now_ms;
  cudaStream_t capturing;
  int64_t launches, used;
  bool is_busy;                 // at every other question
  int64_t asides, timed_asides; // of all calls; within what was timed
  cudaError_t last_error;
  struct {
    void *memory;
    size_t bytes;
  } allocations[MAX_ALLOCATIONS];
  struct {
    void *memory;
    EmulatorFile file;
  } mapped[MAX_ALLOCATIONS]; // of other processes
} fake;

int64_t fake_take_asides(void) {
  const int64_t asides = fake.timed_asides;
  fake.timed_asides = 0;
  return asides;
}

void fake_gpu_set(FakeGpu gpu) {
  fake.gpu = gpu;
  emulator_fail_loads(gpu.load_error);
  emulator_share(gpu.n_devices > 1);
  fake.launches = 0;
}
bool fake_is_capturing(void) {
  return fake.capturing != NULL;
}
void fake_advance(double ms) {
  if (!fake.capturing) fake.now_ms += ms;
}
int64_t fake_graph_launches(void) {
  return fake.launches;
}
int64_t fake_bytes_in_use(void) {
  return fake.used;
}

/* What waits or allocates is not allowed in a capture. */
static cudaError_t outside_capture(void) {
  fake.asides++;
  return fake.capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

static cudaError_t wait_for_launches(void) {
  emulator_idle();
  return outside_capture();
}

// --- device ------------------------------------------------------------------------------------

/* 0: there is none. */
static int driver_version(void) {
  if (!fake.gpu.has_driver) return 0;
  return fake.gpu.cuda > 0 ? fake.gpu.cuda : CUDART_VERSION;
}

cudaError_t cudaGetDeviceCount(int *count) {
  fake.asides++;
  if (driver_version() / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  *count = fake.gpu.n_devices;
  return fake.gpu.n_devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  fake.asides++;
  (void)device;
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "%s", fake.gpu.name);
  properties->major = fake.gpu.major;
  properties->multiProcessorCount = 4;
  properties->l2CacheSize = 64 << 10;
  properties->totalGlobalMem = (size_t)fake.gpu.memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = driver_version();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device) {
  snprintf(id, (size_t)size, "0000:%02x:00.0", (unsigned)device & 0xff);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  fake.asides++;
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  fake.asides++;
  return device < fake.gpu.n_devices ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceSynchronize(void) {
  return wait_for_launches();
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  (void)peer;
  (void)flags;
  return cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
  const cudaError_t error = fake.last_error;
  fake.last_error = cudaSuccess;
  return error;
}
const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the fake";
}

// --- memory ------------------------------------------------------------------------------------

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
  fake.asides++;
  *free_bytes = (size_t)(fake.gpu.memory_bytes - fake.used);
  *all_bytes = (size_t)fake.gpu.memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
  if (outside_capture() != cudaSuccess) return outside_capture();
  if (fake.used + (int64_t)bytes > fake.gpu.memory_bytes) return cudaErrorMemoryAllocation;
  for (int i = 0; i < MAX_ALLOCATIONS; i++) {
    if (fake.allocations[i].memory) continue;
    *memory = fake.allocations[i].memory = emulator_alloc(bytes);
    fake.allocations[i].bytes = bytes;
    fake.used += (int64_t)bytes;
    return cudaSuccess;
  }
  return cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory) {
  fake.asides++;
  if (!memory) return cudaSuccess;
  for (int i = 0; i < MAX_ALLOCATIONS; i++) {
    if (fake.allocations[i].memory != memory) continue;
    fake.used -= (int64_t)fake.allocations[i].bytes;
    fake.allocations[i].memory = NULL;
    emulator_free(memory);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

/* The handle is a file of the allocating process. */
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory) {
  const EmulatorFile file = emulator_file(memory);
  fake.asides++;
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &file, sizeof file);
  return file.file < 0 ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags) {
  EmulatorFile file;
  fake.asides++;
  (void)flags;
  memcpy(&file, &handle, sizeof file);
  *memory = emulator_map(&file);
  for (int i = 0; i < MAX_ALLOCATIONS && *memory; i++) {
    if (fake.mapped[i].memory) continue;
    fake.mapped[i].memory = *memory;
    fake.mapped[i].file = file;
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}
cudaError_t cudaIpcCloseMemHandle(void *memory) {
  fake.asides++;
  for (int i = 0; i < MAX_ALLOCATIONS; i++) {
    if (fake.mapped[i].memory != memory) continue;
    emulator_unmap(memory, &fake.mapped[i].file);
    fake.mapped[i].memory = NULL;
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
  fake.asides++;
  (void)flags;
  *memory = emulator_alloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory) {
  emulator_free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  (void)kind;
  memcpy(to, from, bytes);
  return outside_capture();
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  (void)kind;
  (void)stream;
  memmove(to, from, bytes);
  fake_advance(LAUNCH_MS);
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  (void)to_device;
  (void)from_device;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
  memset(memory, value, bytes);
  return outside_capture();
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  (void)stream;
  memset(memory, value, bytes);
  return cudaSuccess;
}

// --- streams, events, graphs -------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  (void)flags;
  *stream = malloc(1);
  return *stream ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  (void)stream;
  return wait_for_launches();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)stream;
  (void)event;
  (void)flags;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  Moment *moment = calloc(1, sizeof *moment);
  memcpy(event, &moment, sizeof moment);
  return moment ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free((void *)event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)stream;
  const Moment moment = {fake.now_ms, fake.asides, emulator_loads()};
  memcpy((void *)event, &moment, sizeof moment);
  fake_advance(EVENT_MS);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  (void)event;
  fake.is_busy = !fake.is_busy;
  if (fake.is_busy) fake.last_error = cudaErrorNotReady;
  return fake.is_busy ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)event;
  return wait_for_launches();
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
  Moment from, to;
  memcpy(&from, (const void *)begin, sizeof from);
  memcpy(&to, (const void *)end, sizeof to);
  fake.timed_asides += to.asides - from.asides + to.loads - from.loads;
  *ms = (float)(to.ms - from.ms);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  *status = fake.capturing == stream && stream ? cudaStreamCaptureStatusActive
                                               : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  (void)mode;
  if (fake.capturing) return cudaErrorIllegalState;
  fake.capturing = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  if (fake.capturing != stream) return cudaErrorIllegalState;
  fake.capturing = NULL;
  emulator_idle(); // nothing of it runs yet
  *graph = malloc(1);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  (void)graph;
  (void)flags;
  *exec = malloc(1);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  free(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  free(exec);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  (void)exec;
  (void)stream;
  return outside_capture();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  (void)exec;
  (void)stream;
  fake.launches++;
  fake_advance(LAUNCH_MS);
  return cudaSuccess;
}
