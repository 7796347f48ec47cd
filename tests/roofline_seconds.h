/* The closed form of a roofline, which what roofline_compile makes of it must come near. */
#ifndef TESTS_ROOFLINE_SECONDS_H
#define TESTS_ROOFLINE_SECONDS_H
#include "perfmodel/roofline.h"

/* Seconds of one iteration in a stage; only the last one has the head. With groups its prefill is
 * one prompt's. */
static inline double roofline_stage_seconds(const Roofline *self, const BatchShape *batch,
                                            bool last) {
  const bool alone = batch->prefill_tokens == 0 && batch->decode_seqs > 0;
  const BatchShape even = batch_evened(batch, self->ranks, NULL);
  const int64_t ranks = self->ranks > 1 ? self->ranks : 1;
  const int64_t padded = ranks * captured_size(&self->captured, even.decode_seqs / ranks);
  const int64_t tokens = alone ? padded : even.prefill_tokens + even.decode_seqs;
  const int64_t spread = alone ? padded : batch->prefill_tokens + batch->decode_seqs;
  const double area2 = (double)even.prefill_area2, context = (double)even.context_tokens;
  double seconds = self->overhead + roofline_term_seconds(&self->linear, (double)tokens) +
                   roofline_experts_seconds(&self->experts, (double)spread) +
                   roofline_term_seconds(&self->prefill_attention, area2) +
                   roofline_term_seconds(&self->decode_attention, context);
  for (int i = 0; i < ROOFLINE_WINDOWS; i++)
    seconds += roofline_window_prefill(&self->windows[i], area2) +
               roofline_window_decode(&self->windows[i], (double)even.decode_seqs, context);
  if (last && even.logit_seqs > 0)
    seconds += roofline_term_seconds(&self->head, (double)even.logit_seqs);
  return seconds;
}
#endif
