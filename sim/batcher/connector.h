/* The option `kv_connector` of batchers that schedule step by step. */
#ifndef SIM_BATCHER_CONNECTOR_H
#define SIM_BATCHER_CONNECTOR_H
#include "base/option.h"
#include "sim/core/scheduler.h"

/* What a node says; NULL: no connector. */
int connector_bind(ConnectorOptions *self, const Node *map, Place owner, Diag *diag);
#endif
