/* How a request's KV cache moves from the instance that prefilled it to the one that decodes it. */
#ifndef SIM_TRANSFER_TRANSFER_POLICY_H
#define SIM_TRANSFER_TRANSFER_POLICY_H
#include "sim/core/instance.h"
#include "sim/policy.h"

typedef enum TransferMode {
  TRANSFER_SERIALIZED, // all of it after prefill
  TRANSFER_LAYERWISE,  // layer by layer during prefill; the last layer and a constant are visible
  TRANSFER_CHUNKED,    // each chunk of the prefill during the next; the last is visible
} TransferMode;

typedef struct TransferChoice {
  TransferMode mode;
  int64_t private_bandwidth; // bytes/s of a link of its own: no sharing, no latency; 0: none
  Tick retry;                // without room at the receiver asks again this often; 0: waits in line
} TransferChoice;

typedef struct TransferPolicy {
  Policy policy;
  /* Once for each request, when its decode instance is known and its KV could begin to move.
   * `bandwidth` is an unshared link's, in bytes/s. */
  TransferChoice (*pick)(const void *state, const Request *request, const PoolSpec *from,
                         const PoolSpec *to, int64_t bandwidth);
} TransferPolicy;
#endif
