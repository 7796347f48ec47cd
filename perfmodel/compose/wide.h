/* Layers whose GPUs lie on several machines. */
#ifndef PERFMODEL_COMPOSE_WIDE_H
#define PERFMODEL_COMPOSE_WIDE_H
#include "perfmodel/compose/layers.h"

/* Whether the setup has whole experts over several machines. */
bool wide_is_used(const Layers *self);
/* Their tables. DeepEP's kernels were measured on 1, 2, 4 and 8 machines of
 * eight H100 or H200 with a NIC of 50 GB/s for each GPU, with tokens of DeepSeek-V3: 8 experts of
 * 256, hidden states of 7,168.
 *
 * Of n machines a token's experts lie on others by (n - 1) / n, so that between two of these, and
 * beyond the last, times are a line over 1 / n. Tokens of other models count by their bytes, times
 * of GPUs that have no such table are by the ratio of the NICs. 0, or -1 with entries. */
int wide_read(Layers *self, Diag *diag);
/* Whether these tables have the experts, too. */
bool wide_has_experts(const Layers *self);

/* Once all experts are read: up to how many tokens the kernels of decodes are the faster, in powers
 * of two. */
void wide_choose(Layers *self);

/* Once tables are those of the GPU: adds to collectives over GPUs of one machine what those of
 * several machines send. With m machines of g GPUs an all-reduce is a reduce-scatter in each
 * machine, an all-reduce of a g-th among m GPUs, each of another machine, and an all-gather in
 * each: beside what one machine takes, 2 (m - 1) steps and 2 (m - 1) / m of the bytes over all NICs
 * of a machine; an all-gather or a reduce-scatter has half of both. */
void wide_cross_nodes(Layers *self);
#endif
