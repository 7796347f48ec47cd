/* The whole KV cache after prefill. */
#include "sim/transfer/transfer_policy.h"

static TransferChoice pick(const void *state, const Request *request, const PoolSpec *from,
                           const PoolSpec *to, int64_t bandwidth) {
  (void)state, (void)request, (void)from, (void)to, (void)bandwidth;
  return (TransferChoice){.mode = TRANSFER_SERIALIZED};
}

const TransferPolicy transfer_serialized = {
    .policy = {.name = "serialized", .help = "the whole KV after prefill"},
    .pick = pick,
};
