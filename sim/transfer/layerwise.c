/* Each layer's KV as soon as it is computed (Splitwise §IV-C), except for prompts below a length
 * where that does not pay. */
#include "sim/transfer/transfer_policy.h"

typedef struct State {
  int64_t serialized_below; // prompt tokens
} State;

static TransferChoice pick(const void *state, const Request *request, const PoolSpec *from,
                           const PoolSpec *to, int64_t bandwidth) {
  (void)from, (void)to, (void)bandwidth;
  const State *self = state;
  const bool serialized = request->prompt_tokens < self->serialized_below;
  return (TransferChoice){.mode = serialized ? TRANSFER_SERIALIZED : TRANSFER_LAYERWISE};
}

static const OptionSpec options[] = {
    {"serialized_below", OPTION_INT, offsetof(State, serialized_below), "0", .min = 0, .max = 1e9,
     .help = "prompts shorter than this go whole after prefill"},
    {0},
};

const TransferPolicy transfer_layerwise = {
    .policy = {.name = "layerwise",
               .help = "the KV of each layer as soon as it is computed",
               .state_size = sizeof(State),
               .options = options},
    .pick = pick,
};
