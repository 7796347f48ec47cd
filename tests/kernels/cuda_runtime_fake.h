/* A GPU that is not there: as much of the CUDA runtime as the backend calls, for tests that run it
 * on any machine with the emulated kernels and the products of calib/reference.h.
 *
 * All work is done when it is queued. A capture runs its work once, and launching the graph runs
 * nothing again. Time is counted, not taken: a launch of a graph or an asynchronous copy is 20 ms,
 * a product or an event 2 ms; an event has not passed when first asked for, which stays as the last
 * error. What a capture does not allow (allocating, waiting, the first product of a shape) fails as
 * on a GPU, and so does loading a kernel at its first launch behind one that waits for the host or
 * for another rank (emulator.h). */
#ifndef TESTS_KERNELS_CUDA_RUNTIME_FAKE_H
#define TESTS_KERNELS_CUDA_RUNTIME_FAKE_H
#include <stdbool.h>
#include <stdint.h>

typedef struct FakeGpu {
  int n_devices, major;
  bool has_driver;
  int cuda; // of the driver, 12040; 0: the runtime's
  int64_t memory_bytes;
  const char *name;
  int load_error; // of every kernel; 0: none
} FakeGpu;

/* Also forgets counts. */
void fake_gpu_set(FakeGpu gpu);
bool fake_is_capturing(void);
void fake_advance(double ms);
/* Since fake_gpu_set. */
int64_t fake_graph_launches(void);
int64_t fake_bytes_in_use(void);
/* Since the last call: loads of kernels, questions to the device, allocations and waits between the
 * events of anything that was timed, the end of a capture apart. */
int64_t fake_take_asides(void);
#endif
