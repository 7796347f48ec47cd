/* Where KV lives when it does not fit in a machine's HBM.
 *
 * A running decode batch that cannot grow by one more token asks for victims until it can. A
 * victim's KV is dropped, and it is prefilled again (prompt and output so far) on the same machine,
 * ahead of requests that have not run; or it goes to the machine's CPU memory and the request waits
 * in `swapped` until the batcher lets it return. */
#ifndef SIM_KVTIER_KVTIER_H
#define SIM_KVTIER_KVTIER_H
#include "sim/batcher/batcher.h"

struct KvTier {
  Policy policy;
  /* One request of the batch, of `blocked` or of `decode_queue`, or one between chunks of its
   * prefill without a transfer, to give up its KV; REQUEST_NONE only when there is none. NULL:
   * nobody ever does, and a full machine waits; only for batchers that reserve the whole output. */
  RequestIx (*pick)(void *state, const MachineView *view);
  bool swaps; // a victim's KV goes to CPU memory; it is dropped only when that is full
};

/* A `pick`: the last to arrive, REQUEST_NONE when nobody holds KV. Needs no state. */
RequestIx kvtier_newest(void *state, const MachineView *view);
#endif
