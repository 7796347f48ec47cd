/* The device of kernel_testing.h where the emulator runs the kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernels/emulator/memory.h"
#include "tests/kernels/kernel_testing.h"

void device_begin(void) {}

bool device_is_emulated(void) {
  return true;
}

void *device_alloc(size_t bytes) {
  return emulator_alloc(bytes);
}

void device_free(void *memory) {
  emulator_free(memory);
}

void *device_alloc_pinned(size_t bytes) {
  void *const memory = emulator_alloc(bytes);
  memset(memory, 0, bytes);
  return memory;
}

void device_free_pinned(void *memory) {
  emulator_free(memory);
}

void device_upload(void *device, const void *host, size_t bytes) {
  memcpy(device, host, bytes);
}

void device_download(void *host, const void *device, size_t bytes) {
  emulator_idle();
  memcpy(host, device, bytes);
}

void device_seed(uint64_t seed) {
  emulator_seed(seed);
}

void device_multiprocessors(int n) {
  char text[16];
  snprintf(text, sizeof text, "%d", n);
  if (n > 0)
    setenv("EMULATED_SMS", text, 1);
  else
    unsetenv("EMULATED_SMS");
}

void *device_alloc_shared(size_t bytes) {
  emulator_share(1);
  void *const memory = emulator_alloc(bytes);
  emulator_share(0);
  return memory;
}

/* A kernel that fails ends its process, with a line. */
void device_run_ranks(int n, void (*call)(void *context, int rank, KernelStream stream),
                      void *context) {
  fflush(NULL);
  for (int rank = 0; rank < n; rank++) {
    const pid_t child = fork();
    if (child < 0) abort();
    if (child > 0) continue;
    call(context, rank, NULL);
    _exit(0);
  }
  for (int status = 0; n > 0; n--)
    expect_true(wait(&status) > 0 && status == 0, "a rank ends with %d", status);
}

DeviceCounts device_take_counts(void) {
  return (DeviceCounts){emulator_take_mma(), emulator_take_bank_conflicts()};
}
