/* The engine against queueing theory, with machines simple enough for it.
 *
 * Pinned: mean waits of M/M/1 and M/D/1 (Pollaczek-Khinchine) and of M/M/k (Erlang C) at loads of
 * 0.5 and 0.8, within three standard errors that batch means of the run itself give; Little's law
 * and the utilisation law on the same runs. Not pinned: distributions of waits, other policies.
 *
 * M/M/1 and M/D/1 are one machine that prefills one request at a time, 1 us per prompt token, one
 * output token each; prompts of 100,000 tokens in the mean make the rounding to whole tokens a bias
 * of 1e-5. M/M/k is one machine whose every iteration lasts 1 us whatever is in it, so that each of
 * its k sequences is a server, for 100,000 iterations in the mean; starts wait for the end of an
 * iteration, which adds at most 1 us to mean waits of 1.4 ms and more: a bias below 1e-3, where the
 * standard errors are 6e-3 to 3e-2. Each run has a seed of its own. */
#include "sim/sim.h"
#include "traces/workload.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { BATCHES = 50, PER_BATCH = 8000, WARM_UP = 1, REQUESTS = (BATCHES + WARM_UP) * PER_BATCH };

#define MEAN_TOKENS     100000.0
#define SECONDS_A_TOKEN 1e-6
#define MEAN_SERVICE    (MEAN_TOKENS * SECONDS_A_TOKEN)
#define Z               3

typedef struct Station {
  const char *name;
  int64_t servers;
  bool decodes; // service is decode iterations, otherwise prefill
  LengthKind service;
} Station;

static const Station stations[] = {
    {"M/M/1", 1, false, LENGTH_EXPONENTIAL}, {"M/D/1", 1, false, LENGTH_CONSTANT},
    {"M/M/1", 1, true, LENGTH_EXPONENTIAL},  {"M/M/2", 2, true, LENGTH_EXPONENTIAL},
    {"M/M/4", 4, true, LENGTH_EXPONENTIAL},  {"M/M/8", 8, true, LENGTH_EXPONENTIAL},
};

static const double loads[] = {0.5, 0.8};

enum { STATIONS = sizeof stations / sizeof *stations, LOADS = sizeof loads / sizeof *loads };

/* A station under a load, run. */
typedef struct Bench {
  Arena arena;
  Diag diag;
  Tick *arrived_at, *began_at, *ended_at; // [REQUESTS] by id
  SimResult result;
} Bench;

/* --- theory */

/* Pollaczek-Khinchine: mean wait of M/G/1, `scv` being the squared coefficient of variation of
 * service. */
static double wait_mg1(double rate, double service, double scv) {
  const double load = rate * service;
  return load * service * (1 + scv) / (2 * (1 - load));
}

/* Erlang C: mean wait of M/M/k. Erlang B by its recursion, B(k) = aB(k-1) / (k + aB(k-1)). */
static double wait_mmk(double rate, double service, int64_t servers) {
  const double offered = rate * service;
  double blocked = 1;
  for (int64_t k = 1; k <= servers; k++)
    blocked = offered * blocked / ((double)k + offered * blocked);
  const double load = offered / (double)servers;
  const double waits = blocked / (1 - load * (1 - blocked));
  return waits * service / ((double)servers * (1 - load));
}

static double wait_of(const Station *station, double rate) {
  if (station->servers > 1) return wait_mmk(rate, MEAN_SERVICE, station->servers);
  return wait_mg1(rate, MEAN_SERVICE, station->service == LENGTH_EXPONENTIAL);
}

/* --- runs */

static int keep_times(void *context, const RequestRecord *record, const Metrics *so_far,
                      Diag *diag) {
  (void)so_far;
  (void)diag;
  Bench *bench = context;
  bench->arrived_at[record->id] = record->arrived_at;
  bench->began_at[record->id] = record->prefill_began_at;
  bench->ended_at[record->id] = record->last_token_at;
  return 0;
}

static void choose(SimConfig *config, PolicyKind kind, const char *name, const char *options,
                   Bench *bench) {
  const Policy *policy = policy_find(kind, name);
  const Node *node =
      options ? yaml_parse("options", options, strlen(options), &bench->arena, &bench->diag) : NULL;
  const void *state =
      policy_bind(policy, node, place_of_file("options"), &bench->arena, &bench->diag);
  cr_assert_not_null(state);
  config->policies[kind] = (PolicyChoice){policy, state};
}

/* Prefill: a line through the origin; decode: a constant. */
static PerfModel model_of(const Station *station, Arena *arena) {
  const PwlKnot line[] = {{0, 0}, {1000000, 1000000 * SECONDS_A_TOKEN}};
  PerfModel model = {.name = station->name, .form = PERF_COMPOSED};
  if (station->decodes)
    model.overhead = tick_from_seconds(SECONDS_A_TOKEN);
  else
    pwl_init(&model.linear, line, 2, false, arena);
  const CurveTable nothing = {0};
  perfmodel_compile(&model, &nothing, station->servers, arena);
  return model;
}

static WorkloadConfig workload_of(const Station *station, double rate) {
  const LengthDistribution service = {.kind = station->service, .mean = MEAN_TOKENS};
  const LengthDistribution one = {.kind = LENGTH_CONSTANT, .mean = 1};
  return (WorkloadConfig){.arrivals = ARRIVAL_POISSON,
                          .rate = rate,
                          .prompt = station->decodes ? one : service,
                          .output = station->decodes ? service : one,
                          .requests = REQUESTS,
                          .seed = -1};
}

static void run(Bench *bench, const Station *station, double rate, uint64_t seed) {
  Arena *arena = &bench->arena;
  arena_init(arena);
  diag_init(&bench->diag);
  bench->arrived_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  bench->began_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  bench->ended_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  const PerfModel model = model_of(station, arena);
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
  const WorkloadConfig workload = workload_of(station, rate);
  SimConfig config = {.pools = &pool,
                      .n_pools = 1,
                      .trace = workload_open(&workload, seed, arena, &bench->diag),
                      .on_request = keep_times,
                      .on_request_context = bench};
  const char *options = arena_printf(arena, "{max_num_seqs: %d}", (int)station->servers);
  choose(&config, POLICY_ROUTER, "round_robin", NULL, bench);
  choose(&config, POLICY_POOL, "fixed", NULL, bench);
  choose(&config, POLICY_BATCHER, station->decodes ? "mixed" : "request_level", options, bench);
  choose(&config, POLICY_TRANSFER, "serialized", NULL, bench);
  choose(&config, POLICY_KVTIER, "recompute", NULL, bench);
  cr_assert_eq(sim_run(&config, &bench->result, arena, &bench->diag), 0);
  cr_assert_eq(bench->result.metrics.completed, REQUESTS);
  trace_close(config.trace);
}

static void bench_done(Bench *bench) {
  diag_done(&bench->diag);
  arena_done(&bench->arena);
}

/* --- statistics */

/* Mean of end - begin over the batches after the warm-up, and its standard error from their
 * means. */
static double batch_means(const Tick *begin, const Tick *end, double *ret_error) {
  double sum = 0, sum_squares = 0;
  for (int batch = WARM_UP; batch < BATCHES + WARM_UP; batch++) {
    double mean = 0;
    for (int i = batch * PER_BATCH; i < (batch + 1) * PER_BATCH; i++)
      mean += tick_seconds(end[i] - begin[i]) / PER_BATCH;
    sum += mean;
    sum_squares += mean * mean;
  }
  const double mean = sum / BATCHES;
  *ret_error = sqrt((sum_squares / BATCHES - mean * mean) / (BATCHES - 1));
  return mean;
}

static int by_time(const void *a, const void *b) {
  const Tick x = *(const Tick *)a, y = *(const Tick *)b;
  return (x > y) - (x < y);
}

/* Mean number of requests between `begin` and `end` from time 0 to the last arrival, by walking
 * through the changes. */
static double mean_number(const Tick *begin, const Tick *end, Arena *arena) {
  Tick *ends = ARENA_ARRAY(arena, Tick, REQUESTS);
  memcpy(ends, end, REQUESTS * sizeof *ends);
  qsort(ends, REQUESTS, sizeof *ends, by_time);
  double area = 0;
  Tick now = 0;
  int n_ended = 0;
  for (int i = 0; i < REQUESTS; i++) {
    for (; ends[n_ended] <= begin[i]; n_ended++) {
      area += tick_seconds(ends[n_ended] - now) * (i - n_ended);
      now = ends[n_ended];
    }
    area += tick_seconds(begin[i] - now) * (i - n_ended);
    now = begin[i];
  }
  return area / tick_seconds(now);
}

/* --- tests */

Test(queueing, mean_waits_are_those_of_theory) {
  for (int s = 0; s < STATIONS; s++) {
    for (int l = 0; l < LOADS; l++) {
      const double rate = loads[l] * (double)stations[s].servers / MEAN_SERVICE;
      const double want = wait_of(&stations[s], rate);
      Bench bench;
      run(&bench, &stations[s], rate, (uint64_t)(s * LOADS + l));
      double error;
      const double got = batch_means(bench.arrived_at, bench.began_at, &error);
      cr_expect_lt(fabs(got - want), Z * error, "%s at %g: %g s, expected %g, error %g",
                   stations[s].name, loads[l], got, want, error);
      cr_expect_lt(error, 0.04 * want, "%s at %g: too wide an interval to tell: %g of %g",
                   stations[s].name, loads[l], error, want);
      bench_done(&bench);
    }
  }
}

/* Over the time of the arrivals; requests that are still there at its end count for less than they
 * will have been, which is the tolerance. */
Test(queueing, mean_numbers_are_arrival_rate_times_mean_times) {
  for (int s = 0; s < STATIONS; s++) {
    const double rate = 0.8 * (double)stations[s].servers / MEAN_SERVICE;
    Bench bench;
    run(&bench, &stations[s], rate, (uint64_t)s);
    const Metrics *metrics = &bench.result.metrics;
    const double span = tick_seconds(bench.arrived_at[REQUESTS - 1]);
    const double got_rate = REQUESTS / span;
    const double in_system = mean_number(bench.arrived_at, bench.ended_at, &bench.arena);
    const double sojourn = histogram_mean(&metrics->e2e) / TICKS_PER_SECOND;
    cr_expect_float_eq(in_system, got_rate * sojourn, 1e-3 * in_system, "%s: %g in the system, %g",
                       stations[s].name, in_system, got_rate * sojourn);
    const double waiting = mean_number(bench.arrived_at, bench.began_at, &bench.arena);
    const double wait = histogram_mean(&metrics->queue) / TICKS_PER_SECOND;
    cr_expect_float_eq(waiting, got_rate * wait, 1e-3 * waiting, "%s: %g waiting, %g",
                       stations[s].name, waiting, got_rate * wait);
    bench_done(&bench);
  }
}

/* A single server is busy for the share of time that is the load. */
Test(queueing, a_server_is_busy_for_the_load) {
  for (int l = 0; l < LOADS; l++) {
    Bench bench;
    run(&bench, &stations[0], loads[l] / MEAN_SERVICE, (uint64_t)l);
    /* Gaps and services have a coefficient of variation of one each. */
    const double relative = sqrt(2.0 / REQUESTS);
    cr_expect_float_eq(bench.result.pools[0].utilization, loads[l], Z * relative * loads[l],
                       "busy %g at %g", bench.result.pools[0].utilization, loads[l]);
    bench_done(&bench);
  }
}
