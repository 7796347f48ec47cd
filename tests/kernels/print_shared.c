/* Prints the dynamic shared memory of each kernel of attention, by its launches in the emulator: a
 * line of its name in the table of kernels/README.md and bytes. */
#include "tests/kernels/emulator/memory.h"
#include "tests/kernels/kernel_testing.h"
#include <stdio.h>

int main(void) {
  static float slopes[1];
  for (int i = 0; i < 4; i++) {
    KernelAttention shape = {.dtype = CALIB_BF16,
                             .query_heads = 1,
                             .kv_heads = 1,
                             .head_dim = i % 2 == 0 ? 64 : 128,
                             .block_size = 16,
                             .scale = 1,
                             .alibi_slopes = i < 2 ? NULL : slopes};
    const char *kind = i < 2 ? "plain" : "alibi";
    KernelResidency residency;
    emulator_take_loaded_bytes(NULL, 0);
    if (kernel_attention_load(&shape, &residency) != 0) return 1;
    size_t bytes[5]; // those of joins last
    if (emulator_take_loaded_bytes(bytes, 5) != 5) return 1;
    printf("decode_%d_%s %zu\n", (int)shape.head_dim, kind, bytes[0]);
    printf("prefill_%d_64_%s %zu\n", (int)shape.head_dim, kind, bytes[1]);
    printf("prefill_%d_128_%s %zu\n", (int)shape.head_dim, kind, bytes[2]);
  }
  return 0;
}
