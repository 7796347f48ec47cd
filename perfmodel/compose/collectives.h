/* Tables of what GPUs send to one another. Each: 0, or −1 with entries for what is lacking. */
#ifndef PERFMODEL_COMPOSE_COLLECTIVES_H
#define PERFMODEL_COMPOSE_COLLECTIVES_H
#include "perfmodel/compose/layers.h"

/* All-reduces of the engine's kernels, and of NCCL. */
int layers_read_all_reduce(Layers *self, Diag *diag);
/* An operation of NCCL on so many GPUs, or scaled from fewer. */
int layers_read_nccl(Layers *self, KernelFound *found, const char *op, int64_t gpus, Diag *diag);
/* Tokens to the GPUs of their experts and back. */
int layers_read_exchange(Layers *self, Diag *diag);

/* One all-reduce of so many bytes of 16-bit numbers, ascending. */
typedef struct AllReduceTimes {
  const char *table; // "vllm-0.31.0"
  int n;
  int64_t *bytes;
  double *seconds;
} AllReduceTimes;

/* What compositions of Tandem's own kernels take for `gpus` GPUs of a kind: the table of the first
 * engine that has one, else of NCCL. False where there is none. */
bool all_reduce_times(AllReduceTimes *ret, const char *gpu, int64_t gpus, const char *data_dir,
                      Arena *arena);
#endif
