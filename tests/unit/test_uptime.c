/* How many instances are up, in closed form: against the binomial distribution of independent
 * machines, against the product form of racks, against the sum over all states of machines, racks
 * and power feeds, and against runs, within three standard errors of their mean. */
#include "experiments/report/uptime.h"
#include "tests/unit/sim_testing.h"
#include <criterion/criterion.h>
#include <gsl/gsl_randist.h>
#include <math.h>

TestSuite(uptime, .init = setup, .fini = teardown);

enum { MACHINES = 8, MOST = 24, RUNS = 40, Z = 3 };

static const Lifetime machine_up = {LIFETIME_EXPONENTIAL, 100, 0};
static const Lifetime machine_down = {LIFETIME_EXPONENTIAL, 10, 0};
static const Lifetime rack_up = {LIFETIME_EXPONENTIAL, 300, 0};
static const Lifetime rack_down = {LIFETIME_LOGNORMAL, 30, 1};
static const Lifetime feed_up = {LIFETIME_WEIBULL, 800, 0.8};
static const Lifetime feed_down = {LIFETIME_CONSTANT, 50, 0};

static Scene scene;
static FaultSource sources[MOST];

/* Of machines `first` and on, so many; the cluster's first pool is of eight machines. */
static void fail(uint32_t first, uint32_t n, Lifetime up, Lifetime down) {
  sources[scene.config.n_faults++] =
      (FaultSource){.first = first, .n_instances = n, .up = up, .down = down};
}

static void begin(void) {
  scene_init(&scene, &arena, &diag);
  scene.pools[0].count = MACHINES;
  scene.config.faults = sources;
  scene.config.retry.limit = 1;
}

static void add_machines(void) {
  for (uint32_t m = 0; m < MACHINES; m++)
    fail(m, 1, machine_up, machine_down);
}

static void add_domains(uint32_t size, Lifetime up, Lifetime down) {
  for (uint32_t m = 0; m < MACHINES; m += size)
    fail(m, size, up, down);
}

static const double A = 100.0 / 110, R = 300.0 / 330, F = 800.0 / 850;

Test(uptime, independent_machines_are_up_as_the_binomial_distribution_says) {
  begin();
  add_machines();
  const double *got = uptime_expected(&scene.config, 0, &arena);
  cr_assert(got);
  for (unsigned n = 0; n <= MACHINES; n++)
    cr_expect_float_eq(got[n], gsl_ran_binomial_pdf(n, A, MACHINES), 1e-12, "%u up", n);
}

/* With r racks up, n machines of them are. */
Test(uptime, of_racks_it_is_a_product) {
  begin();
  add_domains(2, rack_up, rack_down); // in any order
  add_machines();
  const double *got = uptime_expected(&scene.config, 0, &arena);
  cr_assert(got);
  for (unsigned n = 0; n <= MACHINES; n++) {
    double want = 0;
    for (unsigned r = (n + 1) / 2; r <= MACHINES / 2; r++)
      want += gsl_ran_binomial_pdf(r, R, MACHINES / 2) * gsl_ran_binomial_pdf(n, A, 2 * r);
    cr_expect_float_eq(got[n], want, 1e-12, "%u up: %g, not %g", n, got[n], want);
  }
}

/* All 2^14 states of eight machines, four racks and two feeds. */
static void sum_states(double want[MACHINES + 1]) {
  for (unsigned state = 0; state < 1u << 14; state++) {
    double chance = 1;
    unsigned n = 0;
    for (unsigned i = 0; i < 14; i++) {
      const double up = i < 8 ? A : i < 12 ? R : F;
      chance *= state >> i & 1 ? up : 1 - up;
    }
    for (unsigned m = 0; m < 8; m++)
      n += (state >> m & 1) && (state >> (8 + m / 2) & 1) && (state >> (12 + m / 4) & 1);
    want[n] += chance;
  }
}

Test(uptime, of_feeds_over_racks_it_is_the_sum_over_all_states) {
  double want[MACHINES + 1] = {0};
  begin();
  add_domains(4, feed_up, feed_down);
  add_machines();
  add_domains(2, rack_up, rack_down);
  sum_states(want);
  const double *got = uptime_expected(&scene.config, 0, &arena);
  cr_assert(got);
  for (unsigned n = 0; n <= MACHINES; n++)
    cr_expect_float_eq(got[n], want[n], 1e-12, "%u up: %g, not %g", n, got[n], want[n]);
}

/* Racks with a machine of each of two pools: of each pool one machine of four is in each. Spares of
 * the second one: two of four are enough. */
Test(uptime, of_a_pool_only_its_own_machines_count) {
  FaultPart others[4];
  begin();
  scene.pools[0].count = 4;
  scene.pools[1] = scene.pools[0];
  scene.pools[1].scaling = (PoolScaling){.min = 2, .start = 2, .max = 4};
  scene.config.n_pools = 2;
  for (uint32_t r = 0; r < 4; r++) {
    fail(r, 1, rack_up, rack_down);
    others[r] = (FaultPart){4 + r, 1};
    sources[r].others = &others[r];
    sources[r].n_others = 1;
  }
  for (uint32_t p = 0; p < 2; p++) {
    const double *got = uptime_expected(&scene.config, p, &arena);
    cr_assert(got);
    for (unsigned n = 0; n <= 4; n++)
      cr_expect_float_eq(got[n], gsl_ran_binomial_pdf(n, R, 4), 1e-12);
  }
  cr_expect_float_eq(uptime_expected_share(&scene.config, 0, &arena), pow(R, 4), 1e-12);
  cr_expect_float_eq(uptime_expected_share(&scene.config, 1, &arena),
                     1 - pow(1 - R, 4) - 4 * R * pow(1 - R, 3), 1e-12);
}

Test(uptime, what_has_no_closed_form_has_none) {
  static const FaultSpan span = {1, 2};
  begin();
  cr_expect_null(uptime_expected(&scene.config, 0, &arena), "nothing fails");
  fail(0, 3, rack_up, rack_down);
  fail(2, 3, rack_up, rack_down);
  cr_expect_null(uptime_expected(&scene.config, 0, &arena), "they have a machine in common");
  sources[1].first = 3;
  cr_expect(uptime_expected(&scene.config, 0, &arena));
  sources[1].kind = FAULT_DRAIN;
  cr_expect_null(uptime_expected(&scene.config, 0, &arena), "maintenance");
  sources[1].kind = FAULT_SLOW;
  cr_expect(uptime_expected(&scene.config, 0, &arena), "slow is up");
  sources[0].spans = &span;
  sources[0].n_spans = 1;
  cr_expect_null(uptime_expected(&scene.config, 0, &arena), "a schedule");
}

/* Of 40 runs over as many seeds; racks, feeds, and starts that take as long as a tenth of a
 * repair. */
Test(uptime, runs_have_as_many_up_as_the_closed_form, STATISTICS) {
  double sums[MACHINES + 1] = {0}, squares[MACHINES + 1] = {0};
  begin();
  add_machines();
  add_domains(2, rack_up, rack_down);
  add_domains(4, feed_up, feed_down);
  scene.pools[0].start_up.boot = tick_from_seconds(2);
  const double *want = uptime_expected(&scene.config, 0, &arena);
  cr_assert(want);
  for (int i = 0; i < RUNS; i++) {
    const TraceRow rows[] = {row(0, 1, 1), row(tick_from_seconds(40000), 1, 1)};
    scene.config.seed = (uint64_t)i + 1;
    cr_assert_eq(scene_run(&scene, rows, 2), 0);
    for (uint32_t n = 0; n <= MACHINES; n++) {
      const double share = uptime_share(&scene.result.pools[0], n, scene.result.span);
      sums[n] += share;
      squares[n] += share * share;
    }
  }
  double at_least = 0;
  for (int n = MACHINES; n > 0; n--) {
    at_least += want[n];
    const double mean = sums[n] / RUNS;
    const double error = sqrt((squares[n] / RUNS - mean * mean) / (RUNS - 1));
    cr_expect_lt(fabs(mean - at_least), Z * error,
                 "%d up for %g of the time, expected %g, error %g", n, mean, at_least, error);
    cr_expect_lt(error, 0.02 * at_least, "%d: too wide an interval to tell", n);
  }
  cr_expect_float_eq(sums[0] / RUNS, 1, 1e-9);
}
