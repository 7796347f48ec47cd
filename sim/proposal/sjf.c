/* Shortest job first with ageing: vLLM RFC #29406 and pull request #29366 (2025-11, closed), with
 * the score as TensorRT-LLM #12428 (2026-03, closed) prints it:
 *
 *     length_weight · 1 / (1 + prompt / length_median) + time_weight · waited / time_median
 *
 * The greatest score goes first. */
#include "sim/proposal/proposal.h"

typedef struct Sjf {
  double length_weight, time_weight, length_median;
  Tick time_median;
} Sjf;

static const OptionSpec options[] = {
    OPTION_OF(Sjf, length_weight, OPTION_REAL, .fallback = "0.5", .max = 1e6,
              .help = "Weight of a short prompt in the score."),
    OPTION_OF(Sjf, time_weight, OPTION_REAL, .fallback = "0.5", .max = 1e6,
              .help = "Weight of the time that a request has waited in the score."),
    OPTION_OF(Sjf, length_median, OPTION_REAL, .fallback = "32768", .min = 1, .max = 1e9,
              .help = "Tokens of a prompt with half of the score of an empty one."),
    OPTION_OF(Sjf, time_median, OPTION_TICKS, .fallback = "5 s", .min = 1e-6, .max = 1e6,
              .help = "Waiting time that adds time_weight to the score."),
    {0},
};

static double rank(const void *options_, const InstanceView *view, RequestIx ix) {
  const Sjf *self = options_;
  const Request *request = &view->requests[ix];
  const double waited = (double)(view->now - request->arrived_at);
  return -(self->length_weight / (1 + (double)request->prompt_tokens / self->length_median) +
           self->time_weight * waited / (double)self->time_median);
}

const Proposal proposal_sjf = {
    .policy = {.name = "sjf",
               .help =
                   "Admits short prompts first, and long ones by the time that they have waited "
                   "(vLLM #29366).",
               .state_size = sizeof(Sjf),
               .options = options},
    .rank = rank,
};
