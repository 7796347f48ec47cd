/* Each chunk's KV while the next is prefilled: what TetriInfer leaves to future work (§3.3.4). A
 * prompt in one chunk goes whole after prefill. */
#include "sim/transfer/transfer_policy.h"

static TransferChoice pick(const void *state, const Request *request, const PoolSpec *from,
                           const PoolSpec *to, int64_t bandwidth) {
  (void)state, (void)request, (void)from, (void)to, (void)bandwidth;
  return (TransferChoice){.mode = TRANSFER_CHUNKED};
}

const TransferPolicy transfer_chunked = {
    .policy = {.name = "chunked", .help = "the KV of each chunk while the next one is prefilled"},
    .pick = pick,
};
