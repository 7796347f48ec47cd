/* Whether 95% ranges from within a run are what they say: over 200 seeds of three stations of
 * queueing theory, between 90% and 98% of those printed for a mean or a percentile hold its true
 * value.
 *
 * M/M/1 and M/D/1 are one machine that prefills one request at a time, 1 us per prompt token. M/M/4
 * is one machine whose every iteration lasts 1 us, whatever of its four sequences is in it. Service
 * is 0.1 s in the mean, so that whole tokens and iterations are a bias below 1e-4. Theory: the
 * sojourn in M/M/1 is exponential; the wait in M/D/1 is Erlang's series, its mean
 * Pollaczek-Khinchine's; that in M/M/4 is 0 or exponential, by Erlang C. */
#include "sim/sim.h"
#include "traces/workload.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEEDS = 200, REQUESTS = 40000, SERVERS = 4, QUANTILES = 4, FIGURES = 1 + QUANTILES };

#define MEAN_TOKENS     100000.0
#define SECONDS_A_TOKEN 1e-6
#define SERVICE         (MEAN_TOKENS * SECONDS_A_TOKEN)
#define LOAD            0.6

static const double quantiles[QUANTILES] = {0.5, 0.9, 0.95, 0.99};

/* The probability that a station's time is above t > 0. */
typedef struct Station {
  const char *name;
  int servers;
  LengthKind service;
  Ranged which; // E2E, or TTFT: the wait
  double (*above)(double t);
  double (*mean)(void);
} Station;

/* ---- Theory ---- */

static double above_mm1(double t) {
  return exp(-t * (1 - LOAD) / SERVICE);
}
static double mean_mm1(void) {
  return SERVICE / (1 - LOAD);
}

static double above_md1(double t) {
  const double wait = t - SERVICE;
  if (wait < 0) return 1;
  double sum = 0;
  for (int k = 0; k * SERVICE <= wait; k++) {
    const double x = LOAD * (k - wait / SERVICE);
    sum += pow(x, k) * exp(-x) / tgamma(k + 1);
  }
  return 1 - (1 - LOAD) * sum;
}
static double mean_md1(void) {
  return SERVICE + LOAD * SERVICE / (2 * (1 - LOAD));
}

/* Erlang C, from Erlang B by its recursion. */
static double waits(void) {
  const double offered = LOAD * SERVERS;
  double blocked = 1;
  for (int k = 1; k <= SERVERS; k++)
    blocked = offered * blocked / (k + offered * blocked);
  return blocked / (1 - LOAD * (1 - blocked));
}
static double above_mmk(double t) {
  return waits() * exp(-t * SERVERS * (1 - LOAD) / SERVICE);
}
static double mean_mmk(void) {
  return waits() * SERVICE / (SERVERS * (1 - LOAD));
}

/* Where `above` falls to 1 - q; 0 where it begins below. */
static double quantile_of(const Station *station, double q) {
  double low = 0, high = 20 * SERVICE;
  if (station->above(1e-9) <= 1 - q) return 0;
  for (int i = 0; i < 100; i++) {
    const double middle = (low + high) / 2;
    *(station->above(middle) > 1 - q ? &low : &high) = middle;
  }
  return low;
}

static const Station stations[] = {
    {"M/M/1", 1, LENGTH_EXPONENTIAL, RANGED_E2E, above_mm1, mean_mm1},
    {"M/D/1", 1, LENGTH_CONSTANT, RANGED_E2E, above_md1, mean_md1},
    {"M/M/4", SERVERS, LENGTH_EXPONENTIAL, RANGED_TTFT, above_mmk, mean_mmk},
};

enum { STATIONS = sizeof stations / sizeof *stations };

/* ---- Runs ---- */

static void choose(SimConfig *config, PolicyKind kind, const char *name, const char *options,
                   Arena *arena, Diag *diag) {
  const Policy *policy = policy_find(kind, name);
  const Node *node = options ? yaml_parse("options", options, strlen(options), arena, diag) : NULL;
  config->policies[kind] =
      (PolicyChoice){policy, policy_bind(policy, node, place_of_file("options"), arena, diag)};
}

static PerfModel model_of(const Station *station, Arena *arena) {
  const PwlKnot line[] = {{0, 0}, {1000000, 1000000 * SECONDS_A_TOKEN}};
  PerfModel model = {.name = station->name, .form = PERF_COMPOSED};
  if (station->servers > 1)
    model.overhead = tick_from_seconds(SECONDS_A_TOKEN);
  else
    pwl_init(&model.linear, line, 2, false, arena);
  const CurveTable nothing = {0};
  perfmodel_compile(&model, &nothing, station->servers, arena);
  return model;
}

static int simulate(const Station *station, uint64_t seed, SimResult *result, Arena *arena,
                    Diag *diag) {
  const bool decodes = station->servers > 1;
  const LengthDistribution service = {.kind = station->service, .mean = MEAN_TOKENS};
  const LengthDistribution one = {.kind = LENGTH_CONSTANT, .mean = 1};
  const WorkloadConfig workload = {.arrivals = ARRIVAL_POISSON,
                                   .rate = LOAD * station->servers / SERVICE,
                                   .prompt = decodes ? one : service,
                                   .output = decodes ? service : one,
                                   .requests = REQUESTS,
                                   .seed = -1};
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
  SimConfig config = {.pools = &pool,
                      .n_pools = 1,
                      .trace = workload_open(&workload, seed, arena, diag),
                      .keeps_batches = true};
  const char *options = arena_printf(arena, "{max_num_seqs: %d}", station->servers);
  choose(&config, POLICY_ROUTER, "round_robin", NULL, arena, diag);
  choose(&config, POLICY_POOL, "fixed", NULL, arena, diag);
  choose(&config, POLICY_BATCHER, decodes ? "mixed" : "request_level", options, arena, diag);
  choose(&config, POLICY_TRANSFER, "serialized", NULL, arena, diag);
  choose(&config, POLICY_KVTIER, "recompute", NULL, arena, diag);
  const int status = sim_run(&config, result, arena, diag);
  trace_close(config.trace);
  return status;
}

/* ---- Coverage ---- */

typedef struct Tally {
  int held, known;
  double relative; // sum of half-widths over the true values
} Tally;

static void count(Tally *tally, double middle, double half, double truth) {
  const double slack = 2e-6; // an iteration
  if (isnan(half)) return;
  tally->known++;
  tally->held += fabs(middle / TICKS_PER_SECOND - truth) <= half / TICKS_PER_SECOND + slack;
  tally->relative += half / TICKS_PER_SECOND / truth;
}

/* False when the run failed, or seems saturated. */
static bool run_seed(const Station *station, uint64_t seed, Tally tallies[FIGURES]) {
  Arena arena;
  Diag diag;
  SimResult result;
  arena_init(&arena);
  diag_init(&diag);
  bool good = simulate(station, seed, &result, &arena, &diag) == 0;
  if (good) {
    const Histogram *times = &result.metrics.histograms[ranged_histograms[station->which]];
    good = !batches_saturated(result.batches);
    count(&tallies[0], histogram_mean(times),
          batches_mean_range(result.batches, &result.metrics, station->which), station->mean());
    for (int i = 0; i < QUANTILES; i++)
      count(&tallies[1 + i], histogram_quantile(times, quantiles[i]),
            batches_quantile_range(result.batches, &result.metrics, station->which, quantiles[i]),
            quantile_of(station, quantiles[i]));
  }
  diag_done(&diag);
  arena_done(&arena);
  return good;
}

static int cover(const Station *station) {
  Tally tallies[FIGURES] = {0};
  int n_bad = 0;
  for (int seed = 1; seed <= SEEDS; seed++)
    n_bad += !run_seed(station, (uint64_t)seed, tallies);
  if (n_bad > 0) printf("%s: %d runs failed or are called saturated\n", station->name, n_bad);
  for (int i = 0; i < FIGURES; i++) {
    const Tally *tally = &tallies[i];
    const double truth = i == 0 ? station->mean() : quantile_of(station, quantiles[i - 1]);
    if (truth == 0) continue; // most do not wait
    const double share = (double)tally->held / SEEDS;
    const bool right = tally->known == SEEDS && share >= 0.90 && share <= 0.98;
    printf("%s %-5s %8.5f s, +- %4.1f%%, holds in %5.1f%% of %d seeds%s\n", station->name,
           i == 0 ? "mean" : (const char *[]){"p50", "p90", "p95", "p99"}[i - 1], truth,
           100 * tally->relative / SEEDS, 100 * share, SEEDS, right ? "" : ": WRONG");
    n_bad += !right;
  }
  return n_bad;
}

int main(void) {
  int n_bad = 0;
  for (int s = 0; s < STATIONS; s++)
    n_bad += cover(&stations[s]);
  return n_bad > 0;
}
