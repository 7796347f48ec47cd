/* A whole small cluster with its workload, drawn from a seed.
 *
 * The policies follow from the seed by counting, so that as many consecutive seeds as there are
 * policy sets cover each of them once; everything else is drawn at random, with a liking for what
 * hurts: equal times, equal lengths, memory for hardly more than one request, slow links. */
#ifndef TESTS_SWARM_CLUSTER_H
#define TESTS_SWARM_CLUSTER_H
#include "sim/sim.h"
#include "tests/array_trace.h"
#include "tests/swarm/rules.h"

enum {
  CLUSTER_POOLS = 3,
  CLUSTER_MODELS = 2,
  CLUSTER_CLASSES = 2,
  CLUSTER_TENANTS = 3,
  CLUSTER_COMPONENTS = 4,
  CLUSTER_FAULTS = 16
};

typedef struct Cluster {
  SimConfig config;
  PoolSpec pools[CLUSTER_POOLS];
  PerfModel models[CLUSTER_POOLS];
  ModelSpec specs[CLUSTER_MODELS];
  AdapterSet adapters[CLUSTER_MODELS];
  ComponentSpec components[CLUSTER_COMPONENTS];
  ClassSpec classes[CLUSTER_CLASSES];
  GoodputLimits good_limits[CLUSTER_COMPONENTS + CLUSTER_CLASSES];
  uint32_t ranged[CLUSTER_COMPONENTS + CLUSTER_CLASSES];
  TenantSpec tenants[CLUSTER_TENANTS];
  GroupSpec group;
  FaultSource faults[CLUSTER_FAULTS];
  ArrayTrace workload;
  bool exact; // all times scale to the tick (without network)
} Cluster;

/* Of all clusters from here on: draws from the policies that there were when the outcomes of random
 * clusters were pinned, by their names, so that a policy that is added leaves them alone. */
void cluster_pin_policies(void);
/* All clusters have the batcher of that name, or any (NULL); false: there is none. */
bool cluster_pin_batcher(const char *name);
/* The policies of that kind that are drawn, NULL behind the last; how many. */
const Policy *const *cluster_policies(PolicyKind kind);
uint64_t cluster_count_policies(PolicyKind kind);
/* How many ways of choosing five policies that work together there are. */
uint64_t cluster_policy_sets(void);
/* Draws the cluster of `seed` with all of its times multiplied by `time_scale`. */
void cluster_draw(Cluster *self, uint64_t seed, int64_t time_scale, Arena *arena);
/* The same for a rule, with only the policies and features that it has. */
void cluster_draw_rule(Cluster *self, const Rule *rule, uint64_t seed, Arena *arena);
/* Sets the workload back to its first row. */
void cluster_rewind(Cluster *self);
/* The policies and sizes, in one line. */
const char *cluster_describe(const Cluster *self, Arena *arena);
/* Goes through the layers of every iteration, or no longer; false where there are none to go
 * through. */
bool cluster_flip_layers(Cluster *cluster, Arena *arena);
#endif
