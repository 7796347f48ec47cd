/* The option `speculative` of batchers that schedule step by step. */
#ifndef SIM_BATCHER_SPECULATIVE_H
#define SIM_BATCHER_SPECULATIVE_H
#include "base/option.h"
#include "sim/core/speculation.h"

/* What a node says; NULL: no speculation. */
int speculative_bind(Speculation *self, const Node *map, Place owner, Arena *arena, Diag *diag);
#endif
