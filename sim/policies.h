/* The policies that there are, by kind and name. */
#ifndef SIM_POLICIES_H
#define SIM_POLICIES_H
#include "sim/policy.h"

/* "router", "pool", …: the key under `policies:`. */
const char *policy_kind_name(PolicyKind kind);
/* All policies of a kind in the order of the .def list, NULL-terminated. Each is the first member
 * of its table (Router, Predictor, …, KvTier) and may be cast to it. */
const Policy *const *policy_list(PolicyKind kind);
/* The policy with this name, NULL if there is none. */
const Policy *policy_find(PolicyKind kind, const char *name);
/* A new state with the options of `map` bound and checked, which lives in `arena`; a key 'name' is
 * skipped. `map` may be NULL: all defaults. NULL with entries in `diag` when something is wrong. */
void *policy_bind(const Policy *policy, const Node *map, Place owner, Arena *arena, Diag *diag);
#endif
