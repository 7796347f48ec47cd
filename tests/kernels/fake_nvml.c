/* A driver's management library, as much of it as the backend calls: of a GPU that FAKE_NVML says
 * things of, words between spaces.
 *
 *   processes=N  that compute on it; the caller's list may be too short for them
 *   errors=N     of memory, not corrected
 *   mig=2        it knows no partitions */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct Info {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} Info;

static unsigned long long told(const char *key, unsigned long long fallback) {
  const char *words = getenv("FAKE_NVML"), *at = words ? strstr(words, key) : NULL;
  return at ? strtoull(at + strlen(key), NULL, 10) : fallback;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void) {
  return 0;
}
int nvmlShutdown(void);
int nvmlShutdown(void) {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  static int gpu;
  *device = &gpu;
  return strcmp(id, "0000:3B:00.0") == 0 ? 0 : NOT_FOUND;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *n, Info *infos);
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *n, Info *infos) {
  const unsigned all = (unsigned)told("processes=", 1), room = *n;
  (void)device;
  *n = all;
  if (all > room) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < all; i++)
    infos[i] = (Info){.pid = i + 1, .bytes = 1 << 20};
  return 0;
}
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *pending) {
  (void)device;
  *now = *pending = 1;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int type, int since, unsigned long long *n);
int nvmlDeviceGetTotalEccErrors(void *device, int type, int since, unsigned long long *n) {
  (void)device;
  *n = told("errors=", 0);
  return type == 1 && since == 0 ? 0 : NOT_SUPPORTED;
}
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) {
  (void)device;
  *now = *pending = 0;
  return told("mig=", 0) == 2 ? NOT_SUPPORTED : 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *lanes);
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *lanes) {
  (void)device;
  *lanes = 8;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *lanes);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *lanes) {
  (void)device;
  *lanes = 16;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz) {
  (void)device;
  *mhz = 1980;
  return type == 1 ? 0 : NOT_SUPPORTED;
}
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) {
  (void)device;
  *mhz = type == 1 ? 1755 : 2619;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) {
  (void)device;
  *mj = 12345678;
  return 0;
}
