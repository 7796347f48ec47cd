/* SplitwiseSim's flows at 8f99e7d: serialized, each over a link of its own at the scheduler's
 * bandwidth (200 GiB/s; the "overlap" schedulers use ten times that), no latency; a receiver
 * without room is asked again every second. */
#include "sim/transfer/transfer_policy.h"

typedef struct State {
  int64_t bandwidth; // bytes/s
  Tick retry;
} State;

static TransferChoice pick(const void *state, const Request *request, const PoolSpec *from,
                           const PoolSpec *to, int64_t bandwidth) {
  (void)request, (void)from, (void)to, (void)bandwidth;
  const State *self = state;
  return (TransferChoice){
      .mode = TRANSFER_SERIALIZED, .private_bandwidth = self->bandwidth, .retry = self->retry};
}

static const OptionSpec options[] = {
    {"bandwidth", OPTION_BANDWIDTH, offsetof(State, bandwidth), "200 GiB/s", .min = 1, .max = 1e18,
     .help = "of each transfer, whatever else moves"},
    {"retry", OPTION_TICKS, offsetof(State, retry), "1 s", .min = 1e-6, .max = 1e6,
     .help = "how often a full receiver is asked again"},
    {0},
};

const TransferPolicy transfer_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help = "transfers of SplitwiseSim: unshared links, polling for room",
               .state_size = sizeof(State),
               .options = options},
    .pick = pick,
};
