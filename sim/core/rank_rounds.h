/* The loop of attention ranks whose rounds are one, as in SGLang and TensorRT-LLM (RULES.md, "Ranks
 * in one round").
 *
 * All ranks decide at the same time. If any of them has tokens, their steps are one forward, which
 * lasts as long as the performance model says of the batches of all; a rank without tokens comes
 * with a dummy batch. They take the output of a forward together, so they are never apart. */
#ifndef SIM_CORE_RANK_ROUNDS_H
#define SIM_CORE_RANK_ROUNDS_H
#include "sim/core/lockstep.h"

/* As Loop has them. */
void rank_rounds_begin(Simulation *self, Instance *instance);
bool rank_rounds_go_on(Simulation *self, Instance *instance);
#endif
