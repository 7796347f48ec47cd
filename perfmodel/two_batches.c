/* See two_batches.h. */
#include "perfmodel/two_batches.h"

enum { ALL_SMS = 132, COMPUTING_SMS = 112 }; // two_batches.h

static int64_t half_of(int64_t n) {
  return (n + 1) / 2;
}

BatchShape two_batches_half(const BatchShape *batch) {
  return (BatchShape){.prefill_tokens = half_of(batch->prefill_tokens),
                      .prefill_area2 = half_of(batch->prefill_area2),
                      .decode_seqs = half_of(batch->decode_seqs),
                      .context_tokens = half_of(batch->context_tokens),
                      .logit_seqs = half_of(batch->logit_seqs)};
}

/* As an iteration of all ranks with as much has it. */
static FineTick head_of(const PerfModel *model, const BatchShape *batch, int64_t drafts) {
  const int64_t ranks = model->ranks > 1 ? model->ranks : 1;
  const int64_t logits = batch->prefill_tokens > 0 ? batch->logit_seqs : batch->decode_seqs;
  return pwl_fine(&model->head, ranks * (logits + drafts));
}

void two_batches_add(TwoBatches *self, const PerfModel *model, const BatchShape *batch,
                     int64_t drafts, Tick more) {
  const BatchShape half = two_batches_half(batch);
  const FineTick overhead = fine_from_ticks(model->overhead);
  const FineTick once = overhead + head_of(model, batch, drafts) + fine_from_ticks(more);
  const FineTick longest = self->half.longest;
  self->half.longest = 0;
  perfmodel_add_rank(&self->half, model, &half, half_of(drafts), 0);
  const FineTick layers = self->half.longest - overhead - head_of(model, &half, half_of(drafts));
  self->half.longest = layers > longest ? layers : longest;
  if (once > self->once) self->once = once;
  self->whole |= batch->prefill_tokens + batch->decode_seqs < 2;
  self->model = model;
}

Tick two_batches_ticks(const TwoBatches *self, int64_t n_layers, FineTick beside) {
  const PerfModel *model = self->model;
  const int64_t tokens = perfmodel_ranks_tokens(&self->half);
  const FineTick all = self->half.longest + pwl_fine(&model->spread, tokens);
  FineTick exchange = pwl_fine(&model->communication, tokens);
  if (exchange > all) exchange = all;
  const FineTick alone = all - exchange + beside;
  const FineTick work = self->half.prefills ? fine_divide(alone * ALL_SMS, COMPUTING_SMS) : alone;
  const FineTick more = work > exchange ? work : exchange, less = work + exchange - more;
  return tick_nearest(self->once + 2 * more + fine_divide(less, n_layers));
}
