/* The engine against queueing theory, with machines simple enough for it.
 *
 * Pinned: mean waits of M/M/1 and M/D/1 (Pollaczek-Khinchine) and of M/M/k (Erlang C) at loads of
 * 0.5 and 0.8, within three standard errors that batch means of the run itself give; Little's law
 * and the utilisation law on the same runs. Not pinned: distributions of waits, other policies.
 *
 * Stations are those of tests/station.h: prompts of 100,000 tokens in the mean make the rounding to
 * whole tokens a bias of 1e-5; starts in M/M/k wait for the end of an iteration, which adds at most
 * 1 us to mean waits of 1.4 ms and more: a bias below 1e-3, where the standard errors are 6e-3 to
 * 3e-2. Each run has a seed of its own. */
#include "tests/station.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { BATCHES = 50, PER_BATCH = 8000, WARM_UP = 1, REQUESTS = (BATCHES + WARM_UP) * PER_BATCH };

#define Z 3

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

static double wait_mmk(double rate, double service, int servers) {
  const double load = rate * service / servers;
  return station_waits(servers, load) * service / (servers * (1 - load));
}

static double wait_of(const Station *station, double rate) {
  if (station->servers > 1) return wait_mmk(rate, STATION_SERVICE, station->servers);
  return wait_mg1(rate, STATION_SERVICE, station->service == LENGTH_EXPONENTIAL);
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

static void run(Bench *bench, const Station *station, double rate, uint64_t seed) {
  Arena *arena = &bench->arena;
  arena_init(arena);
  diag_init(&bench->diag);
  bench->arrived_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  bench->began_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  bench->ended_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  const SimConfig config = {.on_request = keep_times, .on_request_context = bench};
  cr_assert_eq(
      station_run(station, rate, REQUESTS, seed, config, &bench->result, arena, &bench->diag), 0);
  cr_assert_eq(bench->result.metrics.completed, REQUESTS);
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
      const double rate = loads[l] * stations[s].servers / STATION_SERVICE;
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
    const double rate = 0.8 * stations[s].servers / STATION_SERVICE;
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
    run(&bench, &stations[0], loads[l] / STATION_SERVICE, (uint64_t)l);
    /* Gaps and services have a coefficient of variation of one each. */
    const double relative = sqrt(2.0 / REQUESTS);
    cr_expect_float_eq(bench.result.pools[0].utilization, loads[l], Z * relative * loads[l],
                       "busy %g at %g", bench.result.pools[0].utilization, loads[l]);
    bench_done(&bench);
  }
}
