/* Speculative decoding, as vLLM's scheduler has it: a decode gets its token and drafts of the next
 * ones in a step, which verifies them (RULES.md, "Drafts").
 *
 * Requests of an instance that speculates are never in its batch: each is scheduled alone, by an
 * item in every step. While a decided step has not ended, `ahead` of a request is what that may
 * make of it, 1 + its drafts; the KV of so many tokens behind those that it is known to have is
 * there by then. When the step has ended, those that were rejected are no longer counted. */
#ifndef SIM_CORE_SPECULATION_H
#define SIM_CORE_SPECULATION_H
#include "base/diag.h"
#include "perfmodel/perfmodel.h"

enum { SPECULATIVE_TOKENS_MAX = 64 };

/* Of the requests of a component of a mix, or of a class. */
typedef struct Acceptance {
  const char *name;
  Place at;
  const double *rates; // [num_speculative_tokens] share of steps that accept so many drafts or more
} Acceptance;

typedef struct Speculation {
  int32_t num_speculative_tokens; // of a request in a step, at most; 0: it does not speculate
  int32_t lookahead;              // tokens behind those of a step that the drafter writes KV of
  int32_t draft_slots;            // tokens of a step's input for each request, for the drafter
  int32_t prefill_lookahead;      // tokens of a prompt that its drafter sees behind a chunk
  Tick drafter_time;              // of a step that makes tokens, beside `passes`
  DrafterPasses passes;           // in such a step; its time is from the performance model
  bool mtp;                       // by layers of the model's own
  double error; // relative, of the tokens that a step makes; it widens that of the times
  const Acceptance *acceptance; // [n_acceptance]; one without a name is of all requests
  int n_acceptance;             // 0: it does not speculate
} Speculation;

/* Of `left` tokens of a prefill, the first `tokens`: what is left of it is nothing, or enough for
 * its drafter; 0: none. Drafts are no matter of it. */
static inline int64_t speculation_chunk(const Speculation *self, int64_t left, int64_t tokens) {
  const int64_t rest = left - tokens;
  if (0 < rest && rest < self->prefill_lookahead) tokens -= self->prefill_lookahead - rest;
  return tokens > 0 ? tokens : 0;
}

/* Rates of the requests of a component, by its own name before that of its class (NULL: it has
 * none); NULL: neither has any. */
const double *speculation_rates(const Speculation *self, const char *component, const char *class);
/* Whether runs of two seeds may accept other drafts. */
bool speculation_draws(const Speculation *self);
/* Drafts accepted of `n` of a request, whose output has `made` tokens so far. They hang on nothing
 * but those and its rates, so that runs of one seed have the same. */
int32_t speculation_accepted(const double *rates, uint64_t seed, uint64_t request, int32_t made,
                             int32_t n);
#endif
