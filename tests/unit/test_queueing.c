/* The engine against queueing theory, with machines simple enough for it.
 *
 * Pinned: mean waits of M/M/1 and M/D/1 (Pollaczek-Khinchine) and of M/M/k (Erlang C) at loads of
 * 0.5 and 0.8, within three standard errors that batch means of the run itself give; Little's law
 * and the utilisation law on the same runs; M/M/1 and M/D/1 whose server breaks down against a
 * closed form, M/M/4 against a simulation of its own. Not pinned: distributions of waits, other
 * policies.
 *
 * Stations are those of tests/station.h: prompts of 100,000 tokens in the mean make the rounding to
 * whole tokens a bias of 1e-5; starts in M/M/k wait for the end of an iteration, which adds at most
 * 1 us to mean waits of 1.4 ms and more: a bias below 1e-3, where the standard errors are 6e-3 to
 * 3e-2. Each run has a seed of its own. */
#include "tests/station.h"
#include "tests/unit/testing.h"
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

static void run_with(Bench *bench, const Station *station, double rate, uint64_t seed,
                     SimConfig config) {
  Arena *arena = &bench->arena;
  arena_init(arena);
  diag_init(&bench->diag);
  bench->arrived_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  bench->began_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  bench->ended_at = ARENA_ARRAY(arena, Tick, REQUESTS);
  config.on_request = keep_times;
  config.on_request_context = bench;
  cr_assert_eq(
      station_run(station, rate, REQUESTS, seed, config, &bench->result, arena, &bench->diag), 0);
  cr_assert_eq(bench->result.metrics.completed, REQUESTS);
}

static void run(Bench *bench, const Station *station, double rate, uint64_t seed) {
  run_with(bench, station, rate, seed, (SimConfig){0});
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

Test(queueing, mean_waits_are_those_of_theory, STATISTICS) {
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
Test(queueing, mean_numbers_are_arrival_rate_times_mean_times, STATISTICS) {
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
Test(queueing, a_server_is_busy_for_the_load, STATISTICS) {
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

/* --- a server that breaks down */

/* Up and down for exponential times, busy or not. What it does is lost when it fails, and done
 * again from the start: with k slots all that are in service; those who wait keep their places. */
typedef struct Breakdowns {
  double rate, repair; // of failures while up; mean time to repair
} Breakdowns;

static const Breakdowns breakdowns = {.rate = 0.5, .repair = 0.3};

/* Moments of the time from the first start of a service of length `s` to its end: before it is done
 * once without a failure, N times it is cut short after X < s and a repair follows (Gaver 1962,
 * "preemptive repeat identical"); N is geometric with P(N = 0) = exp(-rate s). */
static void completion_moments(double s, double *ret_first, double *ret_second) {
  const double a = breakdowns.rate, d = breakdowns.repair;
  const double grown = expm1(a * s), kept = exp(-a * s), cut = -expm1(-a * s);
  const double x1 = 1 / a - s * kept / cut;
  const double x2 = 2 / (a * a) - (s * s + 2 * s / a) * kept / cut;
  const double m1 = x1 + d, m2 = x2 + 2 * x1 * d + 2 * d * d;
  *ret_first = s + grown * m1;
  *ret_second = s * s + 2 * s * grown * m1 + grown * m2 + 2 * grown * grown * m1 * m1;
}

/* Means of both over the services: of exponential ones by Simpson's rule to 40 of their means. */
static void mean_completion(const Station *station, double *ret_first, double *ret_second) {
  completion_moments(STATION_SERVICE, ret_first, ret_second);
  if (station->service == LENGTH_CONSTANT) return;
  enum { STEPS = 20000 };
  const double step = 40 * STATION_SERVICE / STEPS;
  *ret_first = *ret_second = 0;
  for (int i = 1; i <= STEPS; i++) { // nothing at 0
    double first, second;
    completion_moments(i * step, &first, &second);
    const double weight = (i == STEPS ? 1
                           : i % 2    ? 4
                                      : 2) *
                          step / 3 * exp(-i * step / STATION_SERVICE) / STATION_SERVICE;
    *ret_first += weight * first;
    *ret_second += weight * second;
  }
}

/* Mean time in M/G/1 whose services are those completions and where whoever finds it empty finds it
 * under repair with probability p, as its server was up when the idle time began: M/G/1 with a
 * set-up time A (Levy & Kleinrock 1986), E[A] = p d, E[A²] = 2 p d². */
static double broken_sojourn(const Station *station, double rate) {
  double c1, c2;
  mean_completion(station, &c1, &c2);
  const double d = breakdowns.repair;
  const double p = breakdowns.rate / (breakdowns.rate + 1 / d + rate);
  const double a1 = p * d, a2 = 2 * p * d * d;
  return c1 + rate * c2 / (2 * (1 - rate * c1)) + (2 * a1 + rate * a2) / (2 * (1 + rate * a1));
}

static void run_broken(Bench *bench, const Station *station, double rate, uint64_t seed) {
  const FaultSource fault = {.n_instances = 1,
                             .up = {LIFETIME_EXPONENTIAL, 1 / breakdowns.rate, 0},
                             .down = {LIFETIME_EXPONENTIAL, breakdowns.repair, 0}};
  const SimConfig config = {
      .seed = seed, .faults = &fault, .n_faults = 1, .retry = {.limit = 1000000}};
  run_with(bench, station, rate, seed, config);
}

Test(queueing, a_server_that_breaks_down_serves_as_in_theory, STATISTICS) {
  static const Station broken[] = {{"M/M/1 with breakdowns", 1, true, LENGTH_EXPONENTIAL},
                                   {"M/D/1 with breakdowns", 1, true, LENGTH_CONSTANT},
                                   {"M/M/1 in one iteration each", 1, false, LENGTH_EXPONENTIAL},
                                   {"M/D/1 in one iteration each", 1, false, LENGTH_CONSTANT}};
  for (int s = 0; s < 4; s++) {
    double completion, second;
    mean_completion(&broken[s], &completion, &second);
    const double rate = 0.6 / completion, want = broken_sojourn(&broken[s], rate);
    Bench bench;
    run_broken(&bench, &broken[s], rate, (uint64_t)s + 1);
    double error;
    const double got = batch_means(bench.arrived_at, bench.ended_at, &error);
    cr_expect_lt(fabs(got - want), Z * error, "%s: %g s, expected %g, error %g", broken[s].name,
                 got, want, error);
    cr_expect_lt(error, 0.02 * want, "%s: too wide an interval to tell: %g of %g", broken[s].name,
                 error, want);
    cr_expect_gt(bench.result.metrics.losses, 1000);
    bench_done(&bench);
  }
}

/* The same by a simulation that knows nothing of machines: slots, a queue in order of arrival, and
 * the times at which the server fails and is repaired. */
typedef struct Slots {
  Rng rng;
  double rate, now, arrives, changes;
  bool up;
  int n_slots, n_served, n_arrived, n_done, first; // those from `first` on are in the system
  double *arrived, *work, *left, *ended;           // [REQUESTS]; left: of those in service
} Slots;

static double drawn(Slots *self, double mean) {
  return mean * rng_exponential(&self->rng);
}

/* Those in service: the first n_slots that are there and not done. */
static double next_end(Slots *self, int *ret_who) {
  double least = INFINITY;
  int in_service = 0;
  for (int i = self->first; self->up && i < self->n_arrived && in_service < self->n_slots; i++) {
    if (self->ended[i] > 0) continue;
    in_service++;
    if (self->left[i] < least) least = self->left[i], *ret_who = i;
  }
  return least;
}

static void pass(Slots *self, double time) {
  int in_service = 0;
  for (int i = self->first; self->up && i < self->n_arrived && in_service < self->n_slots; i++) {
    if (self->ended[i] > 0) continue;
    in_service++;
    self->left[i] -= time;
  }
  self->now += time;
}

static void fail_or_repair(Slots *self) {
  self->up = !self->up;
  self->changes = self->now + drawn(self, self->up ? 1 / breakdowns.rate : breakdowns.repair);
  for (int i = self->first; i < self->n_arrived; i++)
    self->left[i] = self->work[i];
}

static void simulate_slots(Slots *self) {
  self->up = true;
  self->arrives = drawn(self, 1 / self->rate);
  self->changes = drawn(self, 1 / breakdowns.rate);
  while (self->n_done < REQUESTS) {
    int who = -1;
    const double end = self->now + next_end(self, &who);
    const double first = fmin(end, fmin(self->arrives, self->changes));
    pass(self, first - self->now);
    if (first == self->changes) {
      fail_or_repair(self);
    } else if (first == end) {
      self->ended[who] = self->now;
      self->n_done++;
      while (self->first < self->n_arrived && self->ended[self->first] > 0)
        self->first++;
    } else {
      const int i = self->n_arrived++;
      self->arrived[i] = self->now;
      self->work[i] = self->left[i] = drawn(self, STATION_SERVICE);
      self->arrives =
          self->n_arrived < REQUESTS ? self->now + drawn(self, 1 / self->rate) : INFINITY;
    }
  }
}

/* Mean time in the system by batches, as of the runs. */
static double slots_sojourn(int n_slots, double rate, double *ret_error, Arena *arena) {
  Slots slots = {.rate = rate,
                 .n_slots = n_slots,
                 .arrived = ARENA_ARRAY(arena, double, REQUESTS),
                 .work = ARENA_ARRAY(arena, double, REQUESTS),
                 .left = ARENA_ARRAY(arena, double, REQUESTS),
                 .ended = ARENA_ARRAY(arena, double, REQUESTS)};
  rng_init(&slots.rng, 17, "slots");
  simulate_slots(&slots);
  Tick *begin = ARENA_ARRAY(arena, Tick, REQUESTS), *end = ARENA_ARRAY(arena, Tick, REQUESTS);
  for (int i = 0; i < REQUESTS; i++) {
    begin[i] = tick_from_seconds(slots.arrived[i]);
    end[i] = tick_from_seconds(slots.ended[i]);
  }
  return batch_means(begin, end, ret_error);
}

Test(queueing, servers_that_break_down_together_serve_as_in_a_simulation_apart, STATISTICS) {
  static const Station broken = {"M/M/4 with breakdowns", 4, true, LENGTH_EXPONENTIAL};
  const double rate = 0.5 * broken.servers / STATION_SERVICE;
  Bench bench;
  run_broken(&bench, &broken, rate, 3);
  double error, other_error;
  const double got = batch_means(bench.arrived_at, bench.ended_at, &error);
  const double want = slots_sojourn(broken.servers, rate, &other_error, &bench.arena);
  cr_expect_lt(fabs(got - want), Z * hypot(error, other_error), "%g s, apart %g, errors %g and %g",
               got, want, error, other_error);
  cr_expect_lt(hypot(error, other_error), 0.04 * want, "too wide an interval to tell");
  bench_done(&bench);
}
