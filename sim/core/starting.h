/* How a machine starts, after its repair (faults.h) or since more are wanted (autoscaling.h): it
 * boots, fetches its image, loads the model's weights, captures graphs and warms up, one after
 * another.
 *
 * Weights come from the machine's own disk; from a peer, in whose CPU memory they lie and which
 * sends them from NIC to NIC, machines that start passing them on as they come, so that none takes
 * from another (BlitzScale, arXiv:2412.17246, multicasts them so); or from a store, whose bandwidth
 * all machines of the pool share. A store serves in turn, in the order in which machines were told
 * to start, each with all of its bandwidth: the last of several has its weights when it would by
 * fair shares too, the others earlier. Loads take nothing of what NICs have for KV. */
#ifndef SIM_CORE_STARTING_H
#define SIM_CORE_STARTING_H
#include "base/units.h"

typedef enum WeightsFrom { WEIGHTS_DISK, WEIGHTS_PEER, WEIGHTS_STORE } WeightsFrom;

typedef struct StartUp {
  Tick boot, image, capture, warm_up;
  int weights_from;  // WeightsFrom
  int64_t bandwidth; // bytes/s of the weights, of a store for all; 0: they take no time
} StartUp;

/* When machines are up that begin to start together at `from` and have `bytes` of weights to load,
 * at most `nic` bytes/s of them unless they are on disk: at least a tick later, at most TICK_MAX.
 * `store_free_at`, where a store is done with those before, is moved on. */
Tick start_up_end(const StartUp *self, int64_t bytes, int64_t nic, Tick from, Tick *store_free_at);
/* How long that takes while nobody else loads. */
Tick start_up_alone(const StartUp *self, int64_t bytes, int64_t nic);
#endif
