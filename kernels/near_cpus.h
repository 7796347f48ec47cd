/* The processors of the host that are nearest to a GPU, and keeping the calling thread to them.
 *
 * Memory is where the thread that first touches it runs, so what the thread pins while it is kept
 * there lies on the GPU's side of the host, and its launches do not cross it either. No CUDA, and
 * no libnuma, needed. */
#ifndef KERNELS_NEAR_CPUS_H
#define KERNELS_NEAR_CPUS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct NearCpus {
  bool is_kept;
  unsigned char before[128]; // a cpu_set_t, where the thread might run
} NearCpus;

/* The list of the kernel, as "0-31,64-95", for a device at this PCI address, below the folder
 * `root`, "" but for tests; "" where there is none, or it is no such list. */
void near_cpus_read(const char *root, const char *pci_bus_id, char *ret_list, size_t size);
/* Keeps the thread to those of the list that it may run on; to where it was if there are none. The
 * list becomes that of nothing, "", when that is so. */
void near_cpus_keep(NearCpus *self, char *list);
/* Lets it run again where it might before. */
void near_cpus_let(NearCpus *self);
#endif
