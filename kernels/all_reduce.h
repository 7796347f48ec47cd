/* Sums over the GPUs of a group by kernels that read one another's memory (all_reduce.cu). */
#ifndef KERNELS_ALL_REDUCE_H
#define KERNELS_ALL_REDUCE_H
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { KERNEL_RANKS_MOST = 8, KERNEL_REDUCE_BLOCKS = 36 };

/* Of one rank, written by all; zeroed before any of them launches. */
typedef struct KernelSignals {
  /* By meeting, block and rank: the run that it has come to. */
  uint32_t arrived[2][KERNEL_REDUCE_BLOCKS][KERNEL_RANKS_MOST];
  uint32_t runs[KERNEL_REDUCE_BLOCKS]; // that the block has ended
  uint32_t late;                       // not 0: a peer did not come in time; sums are worthless
} KernelSignals;

/* Memory of all ranks, as this one reaches it. */
typedef struct KernelGroup {
  int32_t rank, n_ranks; // 2, 4 or 8
  uint64_t timeout_ns;   // for which a rank waits for another
  KernelSignals *signals[KERNEL_RANKS_MOST];
  const void *in[KERNEL_RANKS_MOST]; // [n]
  void *parts[KERNEL_RANKS_MOST];    // of two shots: ⌈n/8/n_ranks⌉ vectors of 16 bytes
} KernelGroup;

typedef enum KernelReduce { KERNEL_ONE_SHOT, KERNEL_TWO_SHOTS } KernelReduce;

/* Before the first launch, which must not wait for it: other ranks' kernels stand still then. */
int kernel_all_reduce_load(CalibDtype dtype, KernelReduce way, int32_t n_ranks);
/* out [n] = Σ in over the ranks, n a multiple of 8. Every rank launches the same; `out` is none of
 * the inputs. All blocks, 36 at most, must be able to run at once. */
int kernel_all_reduce(KernelStream stream, CalibDtype dtype, KernelReduce way,
                      const KernelGroup *group, void *out, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
