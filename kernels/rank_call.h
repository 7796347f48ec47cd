/* What rank 0 asks of the processes of its group, over a socket each, and what they answer: all of
 * them are the same program. */
#ifndef KERNELS_RANK_CALL_H
#define KERNELS_RANK_CALL_H
#include "kernels/cuda_rank.h"

typedef enum RankCallKind {
  RANK_OPEN,       // rank, n_ranks, device
  RANK_JOIN,       // id
  RANK_DISCONNECT, //
  RANK_RESERVE,    // task; answers its handle
  RANK_CONNECT,    // handles
  RANK_RUN,        // n: runs, launched one by one
  RANK_CAPTURE,    // n: runs in a graph
  RANK_SAMPLE, // n: launches, of the graph where there is one, behind one run that is not timed;
               // answers when they are in the queue, and once more when they have ended
  RANK_DROP_GRAPH, //
  RANK_READ,       // offset and n: bytes of its memory, which follow the answer
  RANK_WRITE,      // the same, which follow the call
} RankCallKind;

typedef struct RankCall {
  RankCallKind kind;
  int32_t rank, n_ranks, device, n;
  int64_t offset;
  RankTask task;
  NcclId id;
  cudaIpcMemHandle_t handles[KERNEL_RANKS_MOST];
} RankCall;

typedef struct RankAnswer {
  CalibStatus status;
  char error[CALIB_ERROR_SIZE];
  cudaIpcMemHandle_t handle;
} RankAnswer;

/* All of it, or false: the other end is gone. */
bool rank_send(int socket, const void *data, size_t bytes);
bool rank_receive(int socket, void *data, size_t bytes);
#endif
