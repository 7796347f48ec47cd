/* Clocks, power, energy, temperature: NVML by dlopen, because it comes with the driver and not with
 * the toolkit, whose headers therefore are not needed either. Only readings: nothing here sets
 * anything. Numbers of enumerations and layouts are those of NVML's documented interface. */
#include "kernels/cuda_state.h"
#include "kernels/gpu_name.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0, FIELD_POWER_INSTANT = 186 };
enum { VALUE_IS_UNSIGNED = 1 };

typedef struct NvmlDevice *NvmlHandle;

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
} Functions;

struct Nvml {
  void *library;
  NvmlHandle device;
  Functions call;
};

/* ISO C has no cast from an object's address to a function's; POSIX says that copying works. */
static void find(void *library, const char *name, void *ret_function) {
  void *symbol = dlsym(library, name);
  memcpy(ret_function, &symbol, sizeof symbol);
}

static void find_functions(void *library, Functions *call) {
  find(library, "nvmlInit_v2", &call->init);
  find(library, "nvmlShutdown", &call->shutdown);
  find(library, "nvmlSystemGetDriverVersion", &call->driver_version);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", &call->handle);
  find(library, "nvmlDeviceGetClockInfo", &call->clock);
  find(library, "nvmlDeviceGetPowerUsage", &call->power);
  find(library, "nvmlDeviceGetEnforcedPowerLimit", &call->power_limit);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", &call->energy);
  find(library, "nvmlDeviceGetTemperature", &call->temperature);
  find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &call->throttle);
  if (!call->throttle) find(library, "nvmlDeviceGetCurrentClocksEventReasons", &call->throttle);
  find(library, "nvmlDeviceGetFieldValues", &call->fields);
}

Nvml *nvml_open(const char *pci_bus_id) {
  Nvml self = {.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!self.library) return NULL;
  find_functions(self.library, &self.call);
  const bool is_on =
      self.call.init && self.call.shutdown && self.call.handle && self.call.init() == 0;
  if (is_on && self.call.handle(pci_bus_id, &self.device) == 0) {
    Nvml *nvml = malloc(sizeof *nvml);
    if (!nvml) abort();
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

static double power_now(const Nvml *self) {
  FieldValue field = {.field = FIELD_POWER_INSTANT};
  unsigned mw = 0;
  /* The older call is an average over a second on most GPUs. */
  if (self->call.fields && self->call.fields(self->device, 1, &field) == 0 && field.status == 0 &&
      field.value_type == VALUE_IS_UNSIGNED && field.value.number > 0)
    return field.value.number / 1e3;
  return self->call.power && self->call.power(self->device, &mw) == 0 ? mw / 1e3 : (double)NAN;
}

void nvml_read(Nvml *self, CalibTelemetry *ret_telemetry) {
  const double nan_value = (double)NAN;
  *ret_telemetry =
      (CalibTelemetry){nan_value, nan_value, nan_value, nan_value, nan_value, nan_value, 0};
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
  ret_telemetry->power_w = power_now(self);
}
