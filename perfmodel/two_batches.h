/* A step whose batch is cut in two, so that one half computes while GPUs exchange tokens of the
 * other (SGLang's two-batch overlap, --enable-two-batch-overlap; vLLM's dual batch overlap,
 * --enable-dbo; DeepSeek-V3, 2412.19437, §3.4).
 *
 * Layer after layer both halves compute for W / L and exchange for X / L each, of L layers, W and X
 * being what the model says of half the batch of each rank: half its prompt tokens and the area
 * under their mask, half its decodes with half the context. One half's exchange begins when it has
 * computed, and the next computing of a half when its exchange has ended. What the GPU does, and
 * what the links do, is then without a gap but for the first or the last layer, whichever is the
 * longer of the two:
 *
 *   T = overhead + head + 2·max(W, X) + min(W, X) / L
 *
 * The overhead and the head are those of the whole batch. In steps with prompts W is 132/112 of
 * what the model says: DeepEP's kernels for prompts take 20 of an H100's 132 multiprocessors (its
 * default), which SGLang leaves to them throughout such a step (operations_strategy.py). Those for
 * decodes are taken to need none while tokens are on their way. */
#ifndef PERFMODEL_TWO_BATCHES_H
#define PERFMODEL_TWO_BATCHES_H
#include "perfmodel/perfmodel.h"

typedef struct TwoBatches {
  RanksTime half;         // of ranks with half of their batches, `longest` without what follows
  FineTick once;          // the most of a rank's overhead and head, and of what follows them
  bool whole;             // a rank has too little to be cut
  const PerfModel *model; // of the newest
} TwoBatches;

/* Half a batch, rounded up. */
BatchShape two_batches_half(const BatchShape *batch);
/* As perfmodel_add_rank; `self` begins as zeroes. */
void two_batches_add(TwoBatches *self, const PerfModel *model, const BatchShape *batch,
                     int64_t drafts, Tick more);
/* Of all ranks that were added, to the nearest tick; `beside` is added to W. Where the model does
 * not know its communication, X is 0. */
Tick two_batches_ticks(const TwoBatches *self, int64_t n_layers, FineTick beside);
#endif
