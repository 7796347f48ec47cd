/* The option `kv_connector` of batchers that schedule step by step. */
#ifndef SIM_BATCHER_CONNECTOR_H
#define SIM_BATCHER_CONNECTOR_H
#include "base/option.h"
#include "sim/core/scheduler.h"

/* What a node says; NULL: no connector. */
int connector_bind(ConnectorOptions *self, const Node *map, Place owner, Diag *diag);
/* What it cannot be used with on instances that keep a prefix cache or not, in a sentence; NULL:
 * with all. */
const char *connector_refuse(const ConnectorOptions *self, const PoolSpec *pool, bool caches);
/* Of an item of `tiers`. */
extern const OptionSpec connector_tier_options[];
#endif
