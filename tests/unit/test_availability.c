/* The share of time in which machines are up, against the machine-repair model with a repairman for
 * each, M/M/c//c: each is up for MTBF / (MTBF + MTTR) of the time whatever the distributions,
 * and how many are down has the binomial distribution (an alternating renewal process each,
 * independent of one another). Within three standard errors that means over 40 spans of time give.
 *
 * Not pinned: fewer repairmen than machines, which there is not. */
#include "sim/books/observer.h"
#include "tests/unit/sim_testing.h"
#include <criterion/criterion.h>
#include <gsl/gsl_randist.h>
#include <math.h>

enum { MACHINES = 6, SPANS = 40, CYCLES = 300, Z = 3 };

typedef struct Repairs {
  Tick span, since;
  int n_down;
  double shares[SPANS][MACHINES + 1]; // of each span, with so many down
} Repairs;

static void book(Repairs *self, Tick until) {
  while (self->since < until) {
    const int span = (int)(self->since / self->span);
    const Tick end = (span + 1) * self->span < until ? (span + 1) * self->span : until;
    if (span < SPANS)
      self->shares[span][self->n_down] += (double)(end - self->since) / (double)self->span;
    self->since = end;
  }
}

static void on_outcome(void *context, Tick at, Outcome outcome, uint64_t request,
                       InstanceIx machine, int64_t a, int64_t b) {
  (void)request, (void)machine, (void)a, (void)b;
  Repairs *self = context;
  book(self, at);
  self->n_down += (outcome == OUTCOME_FAILURE) - (outcome == OUTCOME_UP);
}

typedef struct Times {
  const char *name;
  Lifetime up, down;
} Times;

static const Times times[] = {
    {"exponential", {LIFETIME_EXPONENTIAL, 100, 0}, {LIFETIME_EXPONENTIAL, 25, 0}},
    {"weibull and lognormal", {LIFETIME_WEIBULL, 100, 0.7}, {LIFETIME_LOGNORMAL, 10, 1}},
    {"lognormal and constant", {LIFETIME_LOGNORMAL, 100, 0.8}, {LIFETIME_CONSTANT, 40, 0}},
};

static void run_repairs(Repairs *repairs, const Times *kind, Arena *arena, Diag *diag) {
  Scene scene;
  scene_init(&scene, arena, diag);
  scene.pools[0].count = MACHINES;
  FaultSource sources[MACHINES];
  for (uint32_t m = 0; m < MACHINES; m++)
    sources[m] = (FaultSource){.first = m, .n_instances = 1, .up = kind->up, .down = kind->down};
  scene.config.seed = 5;
  scene.config.faults = sources;
  scene.config.n_faults = MACHINES;
  scene.config.retry.limit = 1;
  const SimObserver observer = {.context = repairs, .on_outcome = on_outcome};
  scene.config.observer = &observer;
  repairs->span = tick_from_seconds(CYCLES * (kind->up.mean + kind->down.mean));
  const TraceRow last = row(SPANS * repairs->span, 1, 1); // until then it goes on
  cr_assert_eq(scene_run(&scene, &last, 1), 0);
  book(repairs, SPANS * repairs->span);
}

/* Of the shares of time with so many down. */
static double mean_share(const Repairs *self, int n_down, double *ret_error) {
  double sum = 0, squares = 0;
  for (int i = 0; i < SPANS; i++) {
    sum += self->shares[i][n_down];
    squares += self->shares[i][n_down] * self->shares[i][n_down];
  }
  const double mean = sum / SPANS;
  *ret_error = sqrt((squares / SPANS - mean * mean) / (SPANS - 1));
  return mean;
}

Test(availability, as_many_machines_are_down_as_the_repair_model_says, STATISTICS) {
  for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
    Arena arena;
    Diag diag;
    arena_init(&arena);
    diag_init(&diag);
    Repairs repairs = {0};
    run_repairs(&repairs, &times[k], &arena, &diag);
    const double down = times[k].down.mean / (times[k].up.mean + times[k].down.mean);
    for (int n = 0; n <= 3; n++) {
      double error;
      const double got = mean_share(&repairs, n, &error);
      const double want = gsl_ran_binomial_pdf((unsigned)n, down, MACHINES);
      cr_expect_lt(fabs(got - want), Z * error,
                   "%s: %d down for %g of the time, expected %g, error %g", times[k].name, n, got,
                   want, error);
      cr_expect_lt(error, 0.1 * want, "%s: too wide an interval to tell", times[k].name);
    }
    diag_done(&diag);
    arena_done(&arena);
  }
}
