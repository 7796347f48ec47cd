/* What NVML says of a GPU, from a library that is not NVML (fake_nvml.c): found by its name, asked
 * by its numbers; what it does not say stays unknown. */
#include "kernels/cuda_state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int n_checks, n_failures;

#define EXPECT(condition) expect((condition), #condition, __LINE__)
static void expect(bool is_true, const char *what, int line) {
  n_checks++;
  if (is_true) return;
  n_failures++;
  printf("line %d: %s\n", line, what);
}

static CalibDevice describe(const char *words) {
  CalibDevice device = {.name = "it stays"};
  setenv("FAKE_NVML", words, 1);
  Nvml *nvml = nvml_open("0000:3B:00.0");
  EXPECT(nvml != NULL);
  if (nvml) nvml_describe(nvml, &device);
  nvml_close(nvml);
  return device;
}

static void test_descriptions(void) {
  const CalibDevice device = describe("errors=2");
  EXPECT(device.n_processes == 1);
  EXPECT(device.ecc == CALIB_ON && device.mig == CALIB_OFF);
  EXPECT(device.ecc_errors == 2);
  EXPECT(device.pcie_width == 8 && device.pcie_most == 16);
  EXPECT(device.sm_clock_most_mhz == 1980);
  EXPECT(device.name[0] == 'i');
  EXPECT(describe("processes=3").n_processes == 3);
  EXPECT(describe("processes=500").n_processes == 500); // more than a list holds
  EXPECT(describe("processes=4000000000").n_processes == 0);
  EXPECT(describe("mig=2").mig == CALIB_UNKNOWN);
  EXPECT(describe("errors=9999999999").ecc_errors > 1000);
}

static void test_readings(void) {
  CalibTelemetry telemetry;
  Nvml *nvml = nvml_open("0000:3B:00.0");
  nvml_read(nvml, &telemetry);
  EXPECT(telemetry.sm_clock_mhz == 1755 && telemetry.mem_clock_mhz == 2619);
  EXPECT(fabs(telemetry.energy_j - 12345.678) < 1e-9);
  EXPECT(isnan(telemetry.power_w) && telemetry.throttle == 0);
  nvml_close(nvml);
  EXPECT(nvml_open("0000:99:00.0") == NULL);
}

int main(void) {
  test_descriptions();
  test_readings();
  printf("nvml: %d checks, %d failed\n", n_checks, n_failures);
  return n_failures > 0;
}
