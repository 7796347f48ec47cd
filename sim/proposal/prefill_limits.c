/* Limits on the prefill of a step: the tokens of all prompts together, as in the discussion of vLLM
 * RFC #52906 (`max_prefill_tokens_per_step`, 2026-08, open), and how many prompts may have some
 * (`max_concurrent_prefills`, #55256, 2026-09, closed and asked for again in #57413). */
#include "sim/proposal/proposal.h"

typedef struct PrefillLimits {
  int64_t max_prefill_tokens_per_step, max_concurrent_prefills;
} PrefillLimits;

static const OptionSpec options[] = {
    OPTION_OF(PrefillLimits, max_prefill_tokens_per_step, OPTION_INT, .fallback = "0", .max = 1e9,
              .help = "Maximum number of tokens of all prompts together in a step. 0 means no "
                      "limit."),
    OPTION_OF(PrefillLimits, max_concurrent_prefills, OPTION_INT, .fallback = "0", .max = 65536,
              .help = "Maximum number of prompts with tokens in a step. 0 means no limit."),
    {0},
};

static int64_t either(int64_t limit) {
  return limit > 0 ? limit : INT64_MAX;
}

static int64_t prefill_tokens(const void *options_, const InstanceView *view) {
  (void)view;
  return either(((const PrefillLimits *)options_)->max_prefill_tokens_per_step);
}

static int64_t prefill_seqs(const void *options_, const InstanceView *view) {
  (void)view;
  return either(((const PrefillLimits *)options_)->max_concurrent_prefills);
}

const Proposal proposal_prefill_limits = {
    .policy = {.name = "prefill_limits",
               .help = "Limits the tokens and the number of prompts in a step (vLLM #52906, "
                       "#55256).",
               .state_size = sizeof(PrefillLimits),
               .options = options},
    .prefill_tokens = prefill_tokens,
    .prefill_seqs = prefill_seqs,
};
