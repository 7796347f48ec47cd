/* For the tests in tests/kernels: device memory, random tensors, errors against a reference.
 *
 * The same test program is linked twice, with the kernels as the emulator runs them
 * (kernel_testing_emulator.c, suite 'kernels') and with the real ones (kernel_testing_cuda.c, suite
 * 'gpu'). main calls kernel_testing_begin first and returns kernel_testing_end(). */
#ifndef TESTS_KERNELS_KERNEL_TESTING_H
#define TESTS_KERNELS_KERNEL_TESTING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* --- the device, one implementation of each per kind of test --------------------------------- */

/* Exits with status 77 where there is no device. */
void device_begin(void);
bool device_is_emulated(void);
/* Memory of the device, every byte 0xff: NaN in all types. Ends the program if there is none. */
void *device_alloc(size_t bytes);
void device_free(void *memory);
/* Zeroed host memory that kernels can use. */
void *device_alloc_pinned(size_t bytes);
void device_free_pinned(void *memory);
void device_upload(void *device, const void *host, size_t bytes);
/* Waits for all launches first, and fails the test if one ended in an error. */
void device_download(void *host, const void *device, size_t bytes);
/* Another order of running for the emulator (emulator.h); nothing on a GPU. */
void device_seed(uint64_t seed);
/* So many multiprocessors, for what is loaded from now on; 0: as many as the emulator has unasked.
 * Nothing on a GPU. */
void device_multiprocessors(int n);
/* What the kernels did since the last call, as the emulator counts it (emulator/memory.h); 0 on a
 * GPU. */
typedef struct DeviceCounts {
  int64_t mma, bank_conflicts;
} DeviceCounts;
DeviceCounts device_take_counts(void);

/* Runs call(context, rank, stream) for ranks 0 … n − 1, so that their kernels run at once: in
 * processes, on streams of the one GPU. Memory that several ranks write is device_alloc_shared's.
 * Waits for all of them. */
void device_run_ranks(int n, void (*call)(void *context, int rank, KernelStream stream),
                      void *context);
void *device_alloc_shared(size_t bytes); // free it with device_free

/* --- tensors and errors ---------------------------------------------------------------------- */

/* A device copy of host memory. */
void *device_copy(const void *host, size_t bytes);
/* A host copy, by malloc, of device memory. */
void *device_fetch(const void *device, size_t bytes);

void kernel_testing_begin(const char *name);
/* The exit status of the program; prints a line. */
int kernel_testing_end(void);

/* Normal numbers, rounded to the type; by malloc. The stream `seed` is the same on every host. */
uint16_t *random_elements(CalibDtype dtype, int64_t n, double deviation, uint64_t seed);
/* Uniform in 0 … limit − 1. */
uint32_t random_below(uint64_t *state, uint32_t limit);
/* 0 … n − 1 in random order, by malloc. */
int32_t *random_order(int32_t n, uint64_t seed);

/* ‖out − reference‖ / ‖reference‖; infinite if an element of `out` is no number. */
double relative_error(CalibDtype dtype, const uint16_t *out, const double *reference, int64_t n);

/* The greatest |out − reference| / max(|reference|, floor) of single elements; infinite if one is
 * no number. half_error is that of one rounding, and a quarter for what fp32 loses before it. */
double greatest_error(CalibDtype dtype, const uint16_t *out, const double *reference, int64_t n,
                      double floor);
double half_error(CalibDtype dtype);

/* Whether an argument is --small: only small cases, for compute-sanitizer. */
bool is_small_run(int argc, char **argv);

/* Records and prints a failure unless error ≤ limit. `format` names the case. */
void expect_error_below(double error, double limit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same unless `is_true`. */
void expect_true(bool is_true, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
