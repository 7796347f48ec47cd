/* Shortest remaining prefill first: vLLM pull request #51375 (2026-08, open). What counts of a
 * prompt are the whole KV blocks that its instance's prefix cache lacks. A prompt that has waited
 * for `max_wait` goes before all that have not, in order of arrival. The default is that of the
 * same author's xLLM #2164. */
#include "sim/proposal/proposal.h"

typedef struct ResidualSjf {
  Tick max_wait;
} ResidualSjf;

static const OptionSpec options[] = {
    OPTION_OF(ResidualSjf, max_wait, OPTION_TICKS, .fallback = "10 s", .max = 1e6,
              .help = "Waiting time after which prompts are admitted in order of arrival, before "
                      "those that have waited less. With 0 all are."),
    {0},
};

static double rank(const void *options_, const InstanceView *view, RequestIx ix) {
  const ResidualSjf *self = options_;
  const Request *request = &view->requests[ix];
  if (view->now - request->arrived_at >= self->max_wait) return -1;
  const int64_t block_size = view->instance->pool->block_size;
  int64_t unheld;
  const int64_t blocks = request_prefill_tokens(request) / block_size;
  return (double)(blocks - view_hit_blocks(view, ix, &unheld));
}

const Proposal proposal_residual_sjf = {
    .policy = {.name = "residual_sjf",
               .help = "Admits the prompt first of which the prefix cache lacks the least "
                       "(vLLM #51375).",
               .state_size = sizeof(ResidualSjf),
               .options = options},
    .rank = rank,
};
