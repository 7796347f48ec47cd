/* Between the two parts of binding a study: the block's numbers, and its designs. */
#ifndef EXPERIMENTS_PROVISION_DESIGN_H
#define EXPERIMENTS_PROVISION_DESIGN_H
#include "experiments/provision.h"

typedef struct DesignBinding {
  Provision *study;        // with its objective and constraint
  const Node *designs;     // the value of `designs`
  const Node *prices;      // that of `prices`; NULL: none
  bool *price_used;        // [prices->n_children]
  WorkloadConfig workload; // of the first design, for its numbers; set by designs_bind
  Arena *arena;
  Diag *diag;
} DesignBinding;

/* Binds all designs into study->designs and tries each out with its smallest counts. */
int designs_bind(DesignBinding *self);
#endif
