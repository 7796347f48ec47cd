/* One rule at a time: which policies and features a cluster has, so that its outcomes say something
 * of one of them alone. All others are policies of the test, which never change, or policies that
 * decide nothing. A rule that only works beside another has that one with it, as its users have. */
#ifndef TESTS_SWARM_RULES_H
#define TESTS_SWARM_RULES_H
#include "sim/sim.h"

typedef struct Rule {
  const char *name;     // as in experiments/outcomes.def
  PolicyKind kind;      // of `policy`
  const Policy *policy; // NULL: a feature, or what all runs go by
} Rule;

/* All of them, each policy in the order of its list; lives in `arena`. */
const Rule *rules_list(size_t *ret_n, Arena *arena);
/* The policies of a cluster for it, without options. */
void rule_policies(const Rule *self, PolicyChoice *ret_policies);
/* Whether its clusters have that feature. */
bool rule_has(const Rule *self, const char *feature);
#endif
