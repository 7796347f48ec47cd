/* Clocks, power, energy, temperature, and what else is on the GPU: NVML by dlopen, because it comes
 * with the driver and not with the toolkit, whose headers therefore are not needed either. Only
 * readings: nothing here sets anything. Numbers of enumerations and layouts are those of NVML's
 * documented interface. */
#include "calib/gpu_name.h"
#include "kernels/cuda_state.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0, FIELD_POWER_INSTANT = 186 };
enum { VALUE_IS_UNSIGNED = 1 };
enum { ERRORS_UNCORRECTED = 1, ERRORS_SINCE_LOADED = 0 };
enum { INSUFFICIENT_SIZE = 7, MOST_PROCESSES = 64 };

typedef struct NvmlDevice *NvmlHandle;

/* Of the calls that end with _v2 and _v3. */
typedef struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
} ProcessInfo;

typedef struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  int value_type, status;
  union {
    double real;
    unsigned number;
    unsigned long long long_number;
  } value;
} FieldValue;

/* NULL where this version of NVML does not have one. */
typedef struct Functions {
  int (*init)(void);
  int (*shutdown)(void);
  int (*driver_version)(char *version, unsigned size);
  int (*handle)(const char *pci_bus_id, NvmlHandle *device);
  int (*clock)(NvmlHandle device, int type, unsigned *mhz);
  int (*power)(NvmlHandle device, unsigned *mw);
  int (*power_limit)(NvmlHandle device, unsigned *mw);
  int (*energy)(NvmlHandle device, unsigned long long *mj);
  int (*temperature)(NvmlHandle device, int sensor, unsigned *celsius);
  int (*throttle)(NvmlHandle device, unsigned long long *reasons);
  int (*fields)(NvmlHandle device, int n, FieldValue *values);
  int (*processes)(NvmlHandle device, unsigned *n, ProcessInfo *infos);
  int (*ecc_mode)(NvmlHandle device, unsigned *now, unsigned *pending);
  int (*ecc_errors)(NvmlHandle device, int type, int since, unsigned long long *n);
  int (*mig_mode)(NvmlHandle device, unsigned *now, unsigned *pending);
  int (*pcie_width)(NvmlHandle device, unsigned *lanes);
  int (*pcie_most)(NvmlHandle device, unsigned *lanes);
  int (*clock_most)(NvmlHandle device, int type, unsigned *mhz);
} Functions;

struct Nvml {
  void *library;
  NvmlHandle device;
  Functions call;
};

/* As Functions has them; two have other names in other versions. */
static const char *const NAMES[] = {"nvmlInit_v2",
                                    "nvmlShutdown",
                                    "nvmlSystemGetDriverVersion",
                                    "nvmlDeviceGetHandleByPciBusId_v2",
                                    "nvmlDeviceGetClockInfo",
                                    "nvmlDeviceGetPowerUsage",
                                    "nvmlDeviceGetEnforcedPowerLimit",
                                    "nvmlDeviceGetTotalEnergyConsumption",
                                    "nvmlDeviceGetTemperature",
                                    "nvmlDeviceGetCurrentClocksThrottleReasons",
                                    "nvmlDeviceGetFieldValues",
                                    "nvmlDeviceGetComputeRunningProcesses_v3",
                                    "nvmlDeviceGetEccMode",
                                    "nvmlDeviceGetTotalEccErrors",
                                    "nvmlDeviceGetMigMode",
                                    "nvmlDeviceGetCurrPcieLinkWidth",
                                    "nvmlDeviceGetMaxPcieLinkWidth",
                                    "nvmlDeviceGetMaxClockInfo",
                                    NULL};
_Static_assert(sizeof NAMES == sizeof(Functions) + sizeof *NAMES, "a name for each function");
static const char *const THROTTLE[] = {"nvmlDeviceGetCurrentClocksEventReasons", NULL};
static const char *const PROCESSES[] = {"nvmlDeviceGetComputeRunningProcesses_v2", NULL};

Nvml *nvml_open(const char *pci_bus_id) {
  Nvml self = {.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!self.library) return NULL;
  calib_find_functions(self.library, NAMES, &self.call);
  if (!self.call.throttle) calib_find_functions(self.library, THROTTLE, &self.call.throttle);
  if (!self.call.processes) calib_find_functions(self.library, PROCESSES, &self.call.processes);
  const bool is_on =
      self.call.init && self.call.shutdown && self.call.handle && self.call.init() == 0;
  if (is_on && self.call.handle(pci_bus_id, &self.device) == 0) {
    Nvml *nvml = must(malloc(sizeof *nvml));
    *nvml = self;
    return nvml;
  }
  if (is_on) self.call.shutdown();
  dlclose(self.library);
  return NULL;
}

void nvml_close(Nvml *self) {
  if (!self) return;
  self->call.shutdown();
  dlclose(self->library);
  free(self);
}

void nvml_driver_version(Nvml *self, char *ret_version, size_t size) {
  char version[80];
  if (self->call.driver_version && self->call.driver_version(version, sizeof version) == 0)
    snprintf(ret_version, size, "%.60s", version);
}

/* 0: unknown. One that does not fit into the list is counted nevertheless. */
static int count_processes(const Nvml *self) {
  ProcessInfo infos[MOST_PROCESSES];
  unsigned n = MOST_PROCESSES;
  if (!self->call.processes) return 0;
  const int status = self->call.processes(self->device, &n, infos);
  return (status == 0 || status == INSUFFICIENT_SIZE) && n <= INT16_MAX ? (int)n : 0;
}

static CalibSwitch read_switch(const Nvml *self, int (*mode)(NvmlHandle, unsigned *, unsigned *)) {
  unsigned now = 0, pending = 0;
  if (!mode || mode(self->device, &now, &pending) != 0) return CALIB_UNKNOWN;
  return now == 0 ? CALIB_OFF : CALIB_ON;
}

static int32_t read_lanes(const Nvml *self, int (*width)(NvmlHandle, unsigned *)) {
  unsigned lanes = 0;
  return width && width(self->device, &lanes) == 0 && lanes <= 64 ? (int32_t)lanes : 0;
}

void nvml_describe(const Nvml *self, CalibDevice *device) {
  const Functions *call = &self->call;
  unsigned mhz = 0;
  unsigned long long errors = 0;
  device->n_processes = count_processes(self);
  device->ecc = read_switch(self, call->ecc_mode);
  device->mig = read_switch(self, call->mig_mode);
  if (call->ecc_errors &&
      call->ecc_errors(self->device, ERRORS_UNCORRECTED, ERRORS_SINCE_LOADED, &errors) == 0)
    device->ecc_errors = errors > INT32_MAX ? INT32_MAX : (int64_t)errors;
  device->pcie_width = read_lanes(self, call->pcie_width);
  device->pcie_most = read_lanes(self, call->pcie_most);
  if (call->clock_most && call->clock_most(self->device, CLOCK_SM, &mhz) == 0)
    device->sm_clock_most_mhz = mhz;
}

/* The instant power of GPUs that have it changes every 100 ms; the older call is an average over a
 * second on most others. */
static void read_power(const Nvml *self, CalibTelemetry *ret_telemetry) {
  FieldValue field = {.field = FIELD_POWER_INSTANT};
  unsigned mw = 0;
  const bool is_instant = self->call.fields && self->call.fields(self->device, 1, &field) == 0 &&
                          field.status == 0 && field.value_type == VALUE_IS_UNSIGNED &&
                          field.value.number > 0;
  if (!is_instant && (!self->call.power || self->call.power(self->device, &mw) != 0)) return;
  ret_telemetry->power_w = (is_instant ? field.value.number : mw) / 1e3;
  ret_telemetry->power_window_s = is_instant ? 0.1 : 1;
}

void nvml_read(Nvml *self, CalibTelemetry *ret_telemetry) {
  *ret_telemetry = calib_telemetry_unknown;
  if (!self) return;
  const Functions *call = &self->call;
  unsigned value = 0;
  unsigned long long wide = 0;
  if (call->clock && call->clock(self->device, CLOCK_SM, &value) == 0)
    ret_telemetry->sm_clock_mhz = value;
  if (call->clock && call->clock(self->device, CLOCK_MEMORY, &value) == 0)
    ret_telemetry->mem_clock_mhz = value;
  if (call->temperature && call->temperature(self->device, SENSOR_GPU, &value) == 0)
    ret_telemetry->temperature_c = value;
  if (call->power_limit && call->power_limit(self->device, &value) == 0)
    ret_telemetry->power_limit_w = value / 1e3;
  if (call->energy && call->energy(self->device, &wide) == 0)
    ret_telemetry->energy_j = (double)wide / 1e3;
  if (call->throttle && call->throttle(self->device, &wide) == 0)
    ret_telemetry->throttle = throttle_reasons(wide);
  read_power(self, ret_telemetry);
}
