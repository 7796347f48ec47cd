/* What the keys of pools and of domains share of the binding of faults (faults.c, domains.c). */
#ifndef EXPERIMENTS_CONFIG_FAULTS_H
#define EXPERIMENTS_CONFIG_FAULTS_H
#include "experiments/config/config.h"

#define FAULTS_FOR_EVER 9e6 // seconds

/* The sources of a configuration as they are made. */
typedef struct FaultBinder {
  Config *config;
  PoolSpec *specs; // of the configuration
  const PoolConfig *pool;
  uint32_t ix;    // of the pool
  uint32_t first; // its first machine
  size_t capacity;
  FaultSource *sources;
  Arena *arena;
  Diag *diag;
} FaultBinder;

typedef struct LifetimeKeys {
  double mtbf, mttr;
  int distribution, repair;
  double shape, repair_shape;
} LifetimeKeys;

extern const char *const fault_kind_choices[]; // as FaultKind, NULL-terminated

int faults_add(FaultBinder *self, const Node *node, const FaultSource *source);
/* `mtbf` 0: it must be written. */
int faults_bind_lifetime(LifetimeKeys *keys, const Node *node, double mtbf, Diag *diag);
/* The engine of an instance must start before it fails again, or it never serves. */
int faults_check_up(const FaultBinder *self, const PoolSpec *pool, const Node *node, double mtbf);
/* Whether `factor`, 0 where it is not written, goes with the kind; both stand in `node`. */
int faults_check_factor(const Node *node, int kind, double factor, Diag *diag);
/* From `at` on for `length`, 0: to the end of time. */
FaultSpan *faults_span(Tick at, Tick length, Arena *arena);
/* Machines that an instance of the pool, or several, lie on: how many, and how many of the pool's
 * instances as the simulator has them. */
typedef struct MachineShare {
  uint32_t machines, instances;
} MachineShare;
MachineShare faults_share(const PoolConfig *pool);
/* The group of a pool; NULL: it is in none. */
const GroupSpec *faults_group(const SimConfig *sim, uint32_t pool);
/* The value of `domains`, after the sources of the pools. */
int faults_bind_domains(FaultBinder *self, const Node *node);
/* What `domains` say of links, once all are placed (uplinks.c). */
int faults_bind_uplinks(FaultBinder *self, const Node *domains);
#endif
