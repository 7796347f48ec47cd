/* Stations of queueing theory as clusters, for tests of the engine against it.
 *
 * One that does not decode is a machine that prefills one request at a time, 1 us per prompt token,
 * one output token each: M/M/1 or M/D/1. One that decodes is a machine whose every iteration lasts
 * 1 us, whatever is in it, so that each of its `servers` sequences is a server: M/M/k. Service is
 * 0.1 s in the mean. */
#ifndef TESTS_STATION_H
#define TESTS_STATION_H
#include "sim/policies.h"
#include "sim/sim.h"
#include "traces/workload.h"
#include <assert.h>
#include <string.h>

#define STATION_TOKENS          100000.0
#define STATION_SECONDS_A_TOKEN 1e-6
#define STATION_SERVICE         (STATION_TOKENS * STATION_SECONDS_A_TOKEN) // seconds, in the mean

typedef struct Station {
  const char *name;
  int servers;
  bool decodes; // service is decode iterations, otherwise prefill
  LengthKind service;
} Station;

/* Erlang C: the probability that a request of M/M/k waits, at this load of each server. From Erlang
 * B by its recursion, B(k) = aB(k-1) / (k + aB(k-1)). */
static inline double station_waits(int servers, double load) {
  const double offered = load * servers;
  double blocked = 1;
  for (int k = 1; k <= servers; k++)
    blocked = offered * blocked / (k + offered * blocked);
  return blocked / (1 - load * (1 - blocked));
}

static inline void station_choose(SimConfig *config, PolicyKind kind, const char *name,
                                  const char *options, Arena *arena, Diag *diag) {
  const Policy *policy = policy_find(kind, name);
  const Node *node = options ? yaml_parse("options", options, strlen(options), arena, diag) : NULL;
  const void *state = policy_bind(policy, node, place_of_file("options"), arena, diag);
  assert(state);
  config->policies[kind] = (PolicyChoice){policy, state};
}

/* Prefill: a line through the origin; decode: a constant. */
static inline PerfModel station_model(const Station *self, Arena *arena) {
  const PwlKnot line[] = {{0, 0}, {1000000, 1000000 * STATION_SECONDS_A_TOKEN}};
  PerfModel model = {.name = self->name, .form = PERF_COMPOSED};
  if (self->decodes)
    model.overhead = tick_from_seconds(STATION_SECONDS_A_TOKEN);
  else
    pwl_init(&model.linear, line, 2, false, arena);
  const CurveTable nothing = {0};
  perfmodel_compile(&model, &nothing, self->servers, arena);
  return model;
}

/* Runs it under Poisson arrivals, with what else `config` says; as sim_run. */
static inline int station_run(const Station *self, double rate, int64_t requests, uint64_t seed,
                              SimConfig config, SimResult *ret_result, Arena *arena, Diag *diag) {
  const LengthDistribution service = {.kind = self->service, .mean = STATION_TOKENS};
  const LengthDistribution one = {.kind = LENGTH_CONSTANT, .mean = 1};
  const WorkloadConfig workload = {.arrivals = ARRIVAL_POISSON,
                                   .rate = rate,
                                   .prompt = self->decodes ? one : service,
                                   .output = self->decodes ? service : one,
                                   .requests = requests,
                                   .seed = -1};
  const PerfModel model = station_model(self, arena);
  const PoolSpec pool = {.name = "server",
                         .machine = "server",
                         .role = ROLE_MIXED,
                         .count = 1,
                         .perfmodel = &model,
                         .kv_blocks = INT64_C(1) << 40,
                         .block_size = 16,
                         .kv_bytes_per_token = 1,
                         .num_hidden_layers = 1,
                         .nic_bandwidth = 1};
  const char *options = arena_printf(arena, "{max_num_seqs: %d}", self->servers);
  config.pools = &pool;
  config.n_pools = 1;
  config.trace = workload_open(&workload, seed, arena, diag);
  station_choose(&config, POLICY_ROUTER, "round_robin", NULL, arena, diag);
  station_choose(&config, POLICY_POOL, "fixed", NULL, arena, diag);
  station_choose(&config, POLICY_BATCHER, self->decodes ? "mixed" : "request_level", options, arena,
                 diag);
  station_choose(&config, POLICY_TRANSFER, "serialized", NULL, arena, diag);
  station_choose(&config, POLICY_KVTIER, "recompute", NULL, arena, diag);
  const int status = sim_run(&config, ret_result, arena, diag);
  trace_close(config.trace);
  return status;
}
#endif
