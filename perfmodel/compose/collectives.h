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
#endif
