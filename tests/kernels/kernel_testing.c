/* What tests of kernels share, on any device. The counts of failures are the program's. */
#include "tests/kernels/kernel_testing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"

static struct {
  const char *name;
  int n_checks, n_failures;
  double greatest_error;
} testing;

void *device_copy(const void *host, size_t bytes) {
  void *device = device_alloc(bytes);
  device_upload(device, host, bytes);
  return device;
}

void *device_fetch(const void *device, size_t bytes) {
  void *host = malloc(bytes);
  device_download(host, device, bytes);
  return host;
}

void kernel_testing_begin(const char *name) {
  testing.name = name;
  device_begin();
}

int kernel_testing_end(void) {
  printf("%s, %s: %d checks, %d failed, greatest error %.2e\n", testing.name,
         device_is_emulated() ? "emulated" : "device", testing.n_checks, testing.n_failures,
         testing.greatest_error);
  return testing.n_failures > 0 || testing.n_checks == 0 ? 1 : 0;
}

// splitmix64
static uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t random_below(uint64_t *state, uint32_t limit) {
  return (uint32_t)((random_next(state) >> 32) * limit >> 32);
}

uint16_t *random_elements(CalibDtype dtype, int64_t n, double deviation, uint64_t seed) {
  uint16_t *elements = malloc((size_t)n * sizeof *elements);
  uint64_t state = seed;
  for (int64_t i = 0; i < n; i++) {
    // The sum of four uniform numbers, which is near enough to normal here.
    double sum = 0;
    for (int part = 0; part < 4; part++) {
      sum += (double)random_below(&state, 1u << 24) / (1u << 24) - 0.5;
    }
    elements[i] = half_encode(dtype, sum * sqrt(3) * deviation);
  }
  return elements;
}

int32_t *random_order(int32_t n, uint64_t seed) {
  int32_t *order = malloc((size_t)n * sizeof *order);
  for (int32_t i = 0; i < n; i++) {
    int32_t at = (int32_t)random_below(&seed, (uint32_t)i + 1);
    order[i] = order[at];
    order[at] = i;
  }
  return order;
}

double relative_error(CalibDtype dtype, const uint16_t *out, const double *reference, int64_t n) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    double value = half_decode(dtype, out[i]);
    if (!isfinite(value)) {
      return (double)INFINITY;
    }
    difference += (value - reference[i]) * (value - reference[i]);
    size += reference[i] * reference[i];
  }
  return sqrt(difference / (size > 0 ? size : 1));
}

double greatest_error(CalibDtype dtype, const uint16_t *out, const double *reference, int64_t n,
                      double floor) {
  double greatest = 0;
  for (int64_t i = 0; i < n; i++) {
    double difference = fabs(half_decode(dtype, out[i]) - reference[i]);
    if (!isfinite(difference)) {
      return (double)INFINITY;
    }
    greatest = fmax(greatest, difference / fmax(fabs(reference[i]), floor));
  }
  return greatest;
}

double half_error(CalibDtype dtype) {
  return dtype == CALIB_BF16 ? 0x1.4p-8 : 0x1.4p-11;
}

bool is_small_run(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--small") == 0) {
      return true;
    }
  }
  return false;
}

static void report(const char *format, va_list arguments) {
  testing.n_failures++;
  printf("%s: ", testing.name);
  vprintf(format, arguments);
}

void expect_error_below(double error, double limit, const char *format, ...) {
  testing.n_checks++;
  testing.greatest_error = fmax(testing.greatest_error, error);
  if (!(error <= limit)) {
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments);
    va_end(arguments);
    printf(": error %.3e, at most %.1e\n", error, limit);
  }
}

void expect_true(bool is_true, const char *format, ...) {
  testing.n_checks++;
  if (!is_true) {
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments);
    va_end(arguments);
    printf("\n");
  }
}
