/* What a test asks of the emulator, callable from C. */
#ifndef TESTS_KERNELS_EMULATOR_MEMORY_H
#define TESTS_KERNELS_EMULATOR_MEMORY_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The order in which fibers run from the next launch on (emulator.h). */
void emulator_seed(uint64_t seed);

/* What every load of a kernel returns from now on; 0: it succeeds. */
void emulator_fail_loads(int error);

/* Kernels loaded so far, at their first launch or before. */
int64_t emulator_loads(void);

/* What is to be launched, as kernels say themselves; a library that is a fake says it here. */
void emulator_launch(const void *kernel);

/* The host has waited for all launches: none waits any more. */
void emulator_idle(void);

/* Dynamic shared memory of the kernels loaded since the last call: the first `most` into ret_bytes,
 * in order; returns how many there were. */
int emulator_take_loaded_bytes(size_t *ret_bytes, int most);

/* Memory that ends at a page without access, filled with NaN. Free it with emulator_free. */
void *emulator_alloc(size_t bytes);
void emulator_free(void *memory);

/* Whether memory from now on is shared with processes that are forked, or that map it: a process is
 * then one GPU. emulator_file says of an allocation the file, its bytes and where in it the
 * allocation begins; emulator_map maps another process's, and emulator_unmap lets it go. */
void emulator_share(int is_shared);
typedef struct EmulatorFile {
  int process, file;
  size_t bytes, offset;
} EmulatorFile;
EmulatorFile emulator_file(const void *memory);
void *emulator_map(const EmulatorFile *file); // NULL: it is not there
void emulator_unmap(void *memory, const EmulatorFile *file);

/* Since the last call: passes over the banks of shared memory that ldmatrix made beyond the first
 * of each 8×8 matrix; mma operations of a warp. */
int64_t emulator_take_bank_conflicts(void);
int64_t emulator_take_mma(void);

#ifdef __cplusplus
}
#endif
#endif
