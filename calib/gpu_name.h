/* What a GPU is called in profiles, and which of its throttle reasons count. */
#ifndef CALIB_GPU_NAME_H
#define CALIB_GPU_NAME_H
#include <stddef.h>
#include <stdint.h>

/* The key of a device, as `gpu:` of the machine files has it: "NVIDIA H200" is h200-141gb. Names
 * that several memory sizes share are told apart by `memory_bytes`; an unknown name becomes its
 * words in lower case joined by dashes. */
void gpu_key(const char *device_name, int64_t memory_bytes, char *ret_key, size_t size);

/* NVML's bits without those that slow nothing down: being idle, clocks that the owner has set, a
 * display. What remains is a cap of power or heat. */
uint64_t throttle_reasons(uint64_t nvml_reasons);
#endif
