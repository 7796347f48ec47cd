/* The choices of a design of an offline study, whose keys go through lists, ranges and degrees of
 * parallelism. They are bound by design_bind_choices. */
#ifndef EXPERIMENTS_PROVISION_CHOICES_H
#define EXPERIMENTS_PROVISION_CHOICES_H
#include "experiments/provision/provision.h"

/* private: parallelism.c. Adds the axis that `parallelism: {gpus, pools}` stands for to
 * the map `axes`: named sets of degrees, all whose product is `gpus`, for each of the pools.
 * `root` has the settings of the design. */
int parallelism_add_axis(Node *axes, const Node *block, const Node *root, Arena *arena, Diag *diag);
#endif
