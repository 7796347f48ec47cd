/* Splitwise's choice (Splitwise §IV-C, §VI-A): serialized while that is quicker than what stays
 * visible of a layer-wise transfer. With KV bytes b per token, rate B and overhead c the break-even
 * is c·B/b tokens: 498 for BLOOM-176B on H100 (5 ms at 400 GB/s); the paper says 512. */
#include "sim/transfer/transfer_policy.h"

static TransferChoice pick(const void *state, const Request *request, const PoolSpec *from,
                           const PoolSpec *to, int64_t bandwidth) {
  (void)state, (void)to;
  const double bytes = (double)pool_kv_bytes(from, request->prompt_tokens);
  const bool serialized = bytes / (double)bandwidth < tick_seconds(from->kv_transfer_overhead);
  return (TransferChoice){.mode = serialized ? TRANSFER_SERIALIZED : TRANSFER_LAYERWISE};
}

const TransferPolicy transfer_splitwise = {
    .policy =
        {.name = "splitwise",
         .help =
             "Takes serialized or layerwise, whichever delays the second token less (Splitwise)."},
    .pick = pick,
};
