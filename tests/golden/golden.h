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
  PoolSpec pools[3]; // without their performance model
  uint32_t n_pools;
  GroupSpec groups[1];
  uint32_t n_groups;
  Named policies[POLICY_KINDS];
  Tick network_latency, monitor_interval;
  int64_t heavy_above;
  TraceRow rows[4];
  int n_rows;
  const char *expected; // the event log without its header, without trailing zeros in times
} Scenario;

extern const Scenario golden_scenarios[], golden_control_scenarios[], golden_batching_scenarios[],
    golden_shape_scenarios[];
extern const int golden_n_scenarios, golden_n_control_scenarios, golden_n_batching_scenarios,
    golden_n_shape_scenarios;

#define MS (TICKS_PER_SECOND / 1000)

/* A machine with KV of 1000 bytes per token, over a NIC of `rate` tokens per second; it has as many
 * blocks in CPU memory, a millisecond per token away and half of one back. */
#define POOL(role_, count_, blocks, block_size_, rate)                                             \
  {                                                                                                \
    .name = "pool", .machine = "machine", .role = (role_), .count = (count_),                      \
    .kv_blocks = (blocks), .block_size = (block_size_), .kv_bytes_per_token = 1000,                \
    .num_hidden_layers = 2, .nic_bandwidth = (rate)*1000, .kv_transfer_overhead = 2 * MS,          \
    .cpu_kv_blocks = (blocks), .kv_block_bytes = (block_size_)*1000,                               \
    .host_link = {.options = {.to_gpu = 2000000, .to_cpu = 1000000, .efficiency = 1}},             \
  }
#endif
