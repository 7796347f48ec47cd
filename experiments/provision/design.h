/* Between the two parts of binding a study: the block's numbers, and its designs. */
#ifndef EXPERIMENTS_PROVISION_DESIGN_H
#define EXPERIMENTS_PROVISION_DESIGN_H
#include "experiments/provision/provision.h"

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

/* private: choices.c. The same of one design of an offline study, from its map: all its
 * choices are bound, and there must be one that can be. */
int design_bind_choices(DesignBinding *self, Design *design, const Node *map);
/* private: parallelism.c. Adds the axis that `parallelism: {gpus, pools}` stands for to the map
 * `axes`: named sets of degrees, all whose product is `gpus`, for each of the pools. `root` has the
 * settings of the design. */
int parallelism_add_axis(Node *axes, const Node *block, const Node *root, Arena *arena, Diag *diag);
/* private: design.c. What the pools of a bound configuration take, into the design's `lots`, in
 * `arena`, `each` and `fixed`. */
int design_bind_pools(DesignBinding *self, Design *design, const Config *config, Arena *arena);
#endif
