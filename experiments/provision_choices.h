/* What a design of an offline study enumerates: from its map to axes, and to the settings of one
 * choice. */
#ifndef EXPERIMENTS_PROVISION_CHOICES_H
#define EXPERIMENTS_PROVISION_CHOICES_H
#include "experiments/provision.h"

/* Binds the name, settings and choices of a design from its map; `root` is the configuration that
 * it is put to. All problems at once. */
int choices_bind(Design *self, const Node *map, Node *root, Arena *arena, Diag *diag);
/* The figure of an answer that is the number its choice sets under `key`; false when none is. */
bool choice_number(const Design *design, int64_t choice, const char *key, double *ret_value);

/* private: provision_parallelism.c. Adds the axis that `parallelism: {gpus, pools}` stands for to
 * the map `axes`: named sets of degrees, all whose product is `gpus`, for each of the pools.
 * `root` has the settings of the design. */
int parallelism_add_axis(Node *axes, const Node *block, const Node *root, Arena *arena, Diag *diag);
#endif
