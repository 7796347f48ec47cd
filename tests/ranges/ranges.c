/* Whether 95% ranges from within a run are what they say: over 200 seeds of three stations of
 * queueing theory, between 90% and 98% of those printed for a mean or a percentile hold its true
 * value. With an argument the seeds are others, from that one on.
 *
 * Stations are those of tests/station.h, where whole tokens and iterations are a bias below 1e-4.
 * The sojourn in M/M/1 is exponential; the wait in M/D/1 is Erlang's series, its mean
 * Pollaczek-Khinchine's; that in M/M/4 is 0 or exponential, by Erlang C. */
#include "tests/station.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 200, REQUESTS = 40000, SERVERS = 4, QUANTILES = 4, FIGURES = 1 + QUANTILES };

#define LOAD 0.6

static const double quantiles[QUANTILES] = {0.5, 0.9, 0.95, 0.99};

/* The probability that a station's time is above t > 0. */
typedef struct Law {
  Station station;
  int which; // histogram: E2E, or TTFT, the wait
  double (*above)(double t);
  double (*mean)(void);
} Law;

/* ---- Theory ---- */

static double above_mm1(double t) {
  return exp(-t * (1 - LOAD) / STATION_SERVICE);
}
static double mean_mm1(void) {
  return STATION_SERVICE / (1 - LOAD);
}

static double above_md1(double t) {
  const double wait = t - STATION_SERVICE;
  if (wait < 0) return 1;
  double sum = 0;
  for (int k = 0; k * STATION_SERVICE <= wait; k++) {
    const double x = LOAD * (k - wait / STATION_SERVICE);
    sum += pow(x, k) * exp(-x) / tgamma(k + 1);
  }
  return 1 - (1 - LOAD) * sum;
}
static double mean_md1(void) {
  return STATION_SERVICE + LOAD * STATION_SERVICE / (2 * (1 - LOAD));
}

static double above_mmk(double t) {
  return station_waits(SERVERS, LOAD) * exp(-t * SERVERS * (1 - LOAD) / STATION_SERVICE);
}
static double mean_mmk(void) {
  return station_waits(SERVERS, LOAD) * STATION_SERVICE / (SERVERS * (1 - LOAD));
}

/* Where `above` falls to 1 - q; 0 where it begins below. */
static double quantile_of(const Law *law, double q) {
  double low = 0, high = 20 * STATION_SERVICE;
  if (law->above(1e-9) <= 1 - q) return 0;
  for (int i = 0; i < 100; i++) {
    const double middle = (low + high) / 2;
    *(law->above(middle) > 1 - q ? &low : &high) = middle;
  }
  return low;
}

static const Law laws[] = {
    {{"M/M/1", 1, false, LENGTH_EXPONENTIAL}, METRICS_e2e, above_mm1, mean_mm1},
    {{"M/D/1", 1, false, LENGTH_CONSTANT}, METRICS_e2e, above_md1, mean_md1},
    {{"M/M/4", SERVERS, true, LENGTH_EXPONENTIAL}, METRICS_ttft, above_mmk, mean_mmk},
};

enum { LAWS = sizeof laws / sizeof *laws };

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
static bool run_seed(const Law *law, uint64_t seed, Tally tallies[FIGURES]) {
  Arena arena;
  Diag diag;
  SimResult result;
  arena_init(&arena);
  diag_init(&diag);
  const double rate = LOAD * law->station.servers / STATION_SERVICE;
  const SimConfig config = {.keeps_batches = true};
  bool good = station_run(&law->station, rate, REQUESTS, seed, config, &result, &arena, &diag) == 0;
  if (good) {
    const Histogram *times = &result.metrics.histograms[law->which];
    good = !batches_saturated(result.batches);
    count(&tallies[0], histogram_mean(times),
          batches_mean_range(result.batches, &result.metrics, 0, law->which), law->mean());
    for (int i = 0; i < QUANTILES; i++)
      count(&tallies[1 + i], histogram_quantile(times, quantiles[i]),
            batches_quantile_range(result.batches, &result.metrics, 0, law->which, quantiles[i]),
            quantile_of(law, quantiles[i]));
  }
  diag_done(&diag);
  arena_done(&arena);
  return good;
}

static int cover(const Law *law, uint64_t first_seed) {
  Tally tallies[FIGURES] = {0};
  int n_bad = 0;
  for (uint64_t i = 0; i < SEEDS; i++)
    n_bad += !run_seed(law, first_seed + i, tallies);
  if (n_bad > 0) printf("%s: %d runs failed or are called saturated\n", law->station.name, n_bad);
  for (int i = 0; i < FIGURES; i++) {
    const Tally *tally = &tallies[i];
    const double truth = i == 0 ? law->mean() : quantile_of(law, quantiles[i - 1]);
    if (truth == 0) continue; // most do not wait
    const double share = (double)tally->held / SEEDS;
    const bool right = tally->known == SEEDS && share >= 0.90 && share <= 0.98;
    printf("%s %-5s %8.5f s, +- %4.1f%%, holds in %5.1f%% of %d seeds%s\n", law->station.name,
           i == 0 ? "mean" : (const char *[]){"p50", "p90", "p95", "p99"}[i - 1], truth,
           100 * tally->relative / SEEDS, 100 * share, SEEDS, right ? "" : ": WRONG");
    n_bad += !right;
  }
  return n_bad;
}

int main(int argc, char **argv) {
  const uint64_t first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  int n_bad = 0;
  for (int i = 0; i < LAWS; i++)
    n_bad += cover(&laws[i], first_seed);
  return n_bad > 0;
}
