/* One GPU of a group that sums a tensor, in a process of its own, as engines have them: by NCCL, or
 * by kernels that read the other GPUs' memory (all_reduce.h), which is mapped from process to
 * process.
 *
 * Rank 0 is the backend's own; the others do what it tells them (cuda_group.c), in the same order.
 * Functions queue work on the rank's stream unless they say that they wait. What sums, stands still
 * until all ranks do. */
#ifndef KERNELS_CUDA_RANK_H
#define KERNELS_CUDA_RANK_H
#include "kernels/all_reduce.h"
#include "kernels/cuda_state.h"
#include "kernels/nccl.h"

/* What a group does, as it crosses to the other processes. */
typedef struct RankTask {
  CalibOp op; // CALIB_ALL_REDUCE by NCCL, or CALIB_ALL_REDUCE_PEER
  CalibDtype dtype;
  KernelReduce way; // of the latter
  int64_t bytes;    // of the tensor, a multiple of 16
  uint64_t seed;    // of its contents
} RankTask;

/* Its memory: first what the others reach, then the sums. */
typedef struct Rank {
  int32_t rank, n_ranks, device;
  cudaStream_t stream;
  void *library; // NCCL; NULL: not to be found
  NcclFunctions call;
  NcclComm comm; // NULL: not connected
  RankTask task;
  CudaBuffer memory;
  void *peers[KERNEL_RANKS_MOST]; // their memory; NULL: not mapped, or this one's
  KernelGroup group;
} Rank;

/* Makes the device current, and finds NCCL. `rank`, `n_ranks`, `device` and `stream` are set. */
CalibStatus rank_open(Rank *self, char *error);
/* Of a communicator, for all ranks. */
CalibStatus rank_new_id(Rank *self, NcclId *ret_id, char *error);
/* Joins the communicator, to which all ranks must come at once. Waits for them. */
CalibStatus rank_join(Rank *self, const NcclId *id, char *error);
/* Lets go of other ranks' memory: all must have done so before one reserves. Waits. */
void rank_disconnect(Rank *self);
/* Memory for a task, filled: the input with normal numbers of seed + rank. Waits. */
CalibStatus rank_reserve(Rank *self, const RankTask *task, cudaIpcMemHandle_t *ret_handle,
                         char *error);
/* Maps the memory of all ranks. */
CalibStatus rank_connect(Rank *self, const cudaIpcMemHandle_t *handles, char *error);
/* Queues one sum. */
CalibStatus rank_run(Rank *self, char *error);
/* Whether a peer did not come to one that has ended. Waits. */
CalibStatus rank_check(const Rank *self, char *error);
/* The tensor as it is before or after, in this rank's memory. */
void *rank_tensor(const Rank *self, bool is_sum);
/* Where another may never come, `has_failed`: nobody is waited for. */
void rank_close(Rank *self, bool has_failed);

enum { RANK_SOCKET = 3 };
/* The process of another rank: does what comes through the socket until that closes, and returns
 * the exit code. */
int rank_serve(int socket);
#endif
