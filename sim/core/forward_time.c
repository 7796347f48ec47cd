/* See forward_time.h. */
#include "sim/core/forward_time.h"
#include "sim/core/scheduling.h"

void forward_time_add(ForwardTime *self, const Instance *instance, const Step *step) {
  static const BatchShape dummy = {.decode_seqs = 1, .context_tokens = 1, .logit_seqs = 1};
  const BatchShape *shape = step ? &step->shape : &dummy;
  const int64_t drafts = step ? step->n_drafts : 0;
  const Tick beside = step ? scheduler_beside_ticks(instance, step) : 0;
  const Extrapolation flag = self->whole.extrapolation;
  perfmodel_add_rank(&self->whole, instance->perfmodel, shape, drafts, beside);
  if (!step) self->whole.extrapolation = flag; // nobody asks how well a dummy is known
  if (instance->pool->two_batches)
    two_batches_add(&self->two, instance->perfmodel, shape, drafts, beside);
}

Tick forward_time_ticks(const ForwardTime *self, const PoolSpec *pool, ExpertBalance *experts) {
  const bool two = pool->two_batches && !self->two.whole;
  const RanksTime *of = two ? &self->two.half : &self->whole;
  const int64_t tokens = perfmodel_ranks_tokens(of);
  FineTick more = 0;
  if (experts) {
    more = expert_balance_more(experts, of->model, tokens);
    expert_balance_count(experts, perfmodel_ranks_tokens(&self->whole));
  }
  const Tick ticks = two ? two_batches_ticks(&self->two, pool->num_hidden_layers, more)
                         : perfmodel_ranks(of) + tick_nearest(more);
  return ticks > 1 ? ticks : 1;
}
