/* Timelines derived by hand: what the scenarios are made of. */
#ifndef TESTS_GOLDEN_GOLDEN_H
#define TESTS_GOLDEN_GOLDEN_H
#include "sim/sim.h"

/* A policy by name with its options as YAML, NULL for the defaults. */
typedef struct Named {
  const char *name, *options;
} Named;

typedef struct Scenario {
  const char *name;
  PoolSpec pools[2]; // without their performance model
  uint32_t n_pools;
  Named policies[POLICY_KINDS];
  Tick network_latency;
  TraceRow rows[4];
  int n_rows;
  const char *expected; // the event log without its header, without trailing zeros in times
} Scenario;

extern const Scenario golden_scenarios[];
extern const int golden_n_scenarios;
#endif
