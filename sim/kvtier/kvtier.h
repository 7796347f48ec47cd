/* Where KV lives when it does not fit in a machine's HBM.
 *
 * Today a tier decides who gives way: a running decode batch that cannot grow by one more token
 * asks for victims until it can. A victim's KV is dropped, and it is prefilled again (prompt and
 * output so far) on the same machine, ahead of requests that have not run. */
#ifndef SIM_KVTIER_KVTIER_H
#define SIM_KVTIER_KVTIER_H
#include "sim/batcher/batcher.h"

struct KvTier {
  Policy policy;
  /* One request of the batch, of `blocked` or of `decode_queue` to give up its KV. NULL: nobody
   * ever does, and a full machine waits; only for batchers that reserve the whole output. */
  RequestIx (*pick)(void *state, const MachineView *view);
};
#endif
