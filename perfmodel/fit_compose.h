/* Whole iterations held out, where only their operators were measured: batches whose every operator
 * is a measured row, and the sum of those rows beside the sum of what fits that never saw each of
 * them predict (FitPoint.held_out).
 *
 *   prefill   each row of prefill attention, with `linear` of its tokens and `head` of one sequence
 *   decode    each row of decode attention, with `linear` and `head` of its sequences
 *   mixed     each row that is one call of both, with `linear` of all tokens and `head` of the
 *             decodes; where there are none, each row of prefill attention with one of decode
 *             attention, drawn among those that make a measured number of tokens with it
 *
 * Rows without such partners are in no batch. */
#ifndef PERFMODEL_FIT_COMPOSE_H
#define PERFMODEL_FIT_COMPOSE_H
#include "perfmodel/fit_score.h"

/* Adds the errors of all batches to `errors`, as those of iterations. `mixed_factor`: what decode
 * attention takes beside prefill, of what it takes alone. */
void fit_compose_score(const FitPoint *points, int n_points, double mixed_factor, uint64_t seed,
                       FitErrors *errors);
#endif
