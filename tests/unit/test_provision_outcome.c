/* What a study says of a design, from runs made by hand: work and its savings, which failure
 * explains that there is no answer, how sure an answer is, and which design is the best. */
#include "experiments/provision/replicate.h"
#include "tests/unit/testing.h"
#include <math.h>

enum { STEPS = 6, SEEDS = 3 };

static Design design;
static Provision study;

static void begin(void) {
  setup();
  design = (Design){.name = "made",
                    .n_counts = 2,
                    .counts = {{"pools.a.count", 1, 9}, {"pools.b.count", 1, 9}},
                    .fixed = {.n[ROLE_MIXED] = 5},
                    .roles = {ROLE_PREFILL, ROLE_DECODE}};
  study = (Provision){.objective = OBJECTIVE_THROUGHPUT,
                      .tolerance = 0.5,
                      .n_seeds = 1,
                      .designs = &design,
                      .n_designs = 1};
}

TestSuite(provision_outcome, .init = begin, .fini = teardown);

/* A replicate whose search took these steps; each run misses a limit of its own, or meets it. */
static Replicate replicate_of(const SearchStep *steps, int n) {
  Replicate self = {.design = &design};
  self.result.steps = ARENA_ARRAY(&arena, SearchStep, n);
  self.result.n_steps = n;
  self.result.monotone = true;
  self.runs = ARENA_ARRAY(&arena, ProbeRun *, n);
  for (int i = 0; i < n; i++) {
    const bool holds = steps[i].verdict == PROBE_HOLDS;
    SloSpec *spec = ARENA_NEW(&arena, SloSpec);
    SloOutcome *slo = ARENA_NEW(&arena, SloOutcome);
    *spec = (SloSpec){.name = arena_printf(&arena, "limit%d", i), .limit = i + 1};
    *slo = (SloOutcome){.spec = spec, .margin = holds ? 0.5 : -0.5, .met = holds};
    self.result.steps[i] = steps[i];
    self.runs[self.n_runs] = ARENA_NEW(&arena, ProbeRun);
    *self.runs[self.n_runs++] =
        (ProbeRun){.probe = steps[i].probe, .verdict = steps[i].verdict, .slos = slo, .n_slos = 1};
    if (!holds) continue;
    self.result.found = true;
    self.result.answer = steps[i].probe;
  }
  return self;
}

static DesignOutcome outcome_of(const Replicate *replicates) {
  DesignOutcome outcome;
  outcome_fill(&study, &design, replicates, &outcome, &arena);
  return outcome;
}

Test(provision_outcome, the_work_of_all_runs_of_all_seeds_is_summed) {
  static const SearchStep steps[] = {{{{1, 1}, 4}, PROBE_FAILS}, {{{2, 1}, 4}, PROBE_HOLDS}};
  Replicate replicates[SEEDS];
  study.n_seeds = SEEDS;
  for (int s = 0; s < SEEDS; s++) {
    replicates[s] = replicate_of(steps, 2);
    for (int i = 0; i < 2; i++) {
      ProbeRun *run = replicates[s].runs[i];
      run->events = pow(10, 2 * s + i);
      run->saved_events = 3 * run->events;
      run->stopped = i == 0;
      run->reused = s == 2;
    }
  }
  const DesignOutcome outcome = outcome_of(replicates);
  cr_expect_eq(outcome.events, 111111);
  cr_expect_eq(outcome.saved_events, 333333);
  cr_expect_eq(outcome.n_simulations, 6);
  cr_expect_eq(outcome.n_stopped, 3);
  cr_expect_eq(outcome.n_reused, 2);
  cr_expect_eq(outcome.n_holds, 3);
  cr_expect_eq(outcome.n_distinct, 1);
  cr_expect(outcome.monotone);
  replicates[1].result.monotone = false;
  cr_expect(!outcome_of(replicates).monotone);
}

/* Without an answer: the most machines at the lowest rate, in whatever order they were tried. */
Test(provision_outcome, the_easiest_failure_explains_that_there_is_no_answer) {
  static const SearchStep steps[STEPS] = {
      {{{9, 9}, 7}, PROBE_FAILS}, {{{2, 3}, 4}, PROBE_FAILS}, {{{4, 3}, 4}, PROBE_FAILS},
      {{{3, 4}, 4}, PROBE_FAILS}, {{{1, 6}, 4}, PROBE_FAILS}, {{{8, 8}, 5}, PROBE_FAILS},
  };
  for (int first = 0; first < STEPS; first++) {
    SearchStep turned[STEPS];
    for (int i = 0; i < STEPS; i++)
      turned[i] = steps[(first + i) % STEPS];
    const Replicate replicate = replicate_of(turned, STEPS);
    const DesignOutcome outcome = outcome_of(&replicate);
    // Of equals the first that was tried.
    const Probe *easiest = NULL;
    int k = 0;
    for (int i = 0; i < STEPS; i++)
      if (!easiest && turned[i].probe.rate == 4 &&
          turned[i].probe.counts[0] + turned[i].probe.counts[1] == 7) {
        easiest = &turned[i].probe;
        k = i;
      }
    cr_assert_not_null(outcome.why_not);
    cr_expect_str_eq(
        outcome.why_not,
        arena_printf(&arena,
                     "'limit%d', limit %d, is missed with pools.a.count=%lld pools.b.count=%lld at "
                     "2 requests/s",
                     k, k + 1, (long long)easiest->counts[0], (long long)easiest->counts[1]));
  }
  const Replicate none = replicate_of(NULL, 0);
  study.budget_of = OBJECTIVE_COST;
  study.budget = 190.4;
  cr_expect_str_eq(outcome_of(&none).why_not, "no instance counts fit within 190.4 $/h");
}

/* Simulations that going through all of it would take. */
Test(provision_outcome, the_grid_is_all_that_could_be_asked) {
  static const SearchStep steps[] = {{{{2, 1}, 40}, PROBE_HOLDS}};
  static const struct {
    int64_t low, high, start;
    int n_clusters;
    bool found;
    double want;
  } cases[] = {
      {1, 100, 10, 3, true, 3 * 41}, // up to the first rate that nobody holds
      {1, 100, 60, 3, true, 3 * 60}, // or to where the search began
      {30, 100, 10, 3, true, 3 * 12}, {1, 40, 10, 3, true, 3 * 40}, // no rate beyond
      {5, 100, 5, 2, false, 2},       {0, 0, 0, 0, true, 7 * 4},
  };
  Probe clusters[3] = {{{0}, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Replicate replicate = replicate_of(steps, 1);
    replicate.result.found = cases[i].found;
    replicate.space = (SearchSpace){.n_counts = 2,
                                    .low = {2, 5},
                                    .high = {8, 8},
                                    .clusters = clusters,
                                    .n_clusters = cases[i].n_clusters,
                                    .rate_low = cases[i].low,
                                    .rate_high = cases[i].high,
                                    .start = {{0}, cases[i].start}};
    cr_expect_eq(outcome_of(&replicate).n_grid, cases[i].want, "case %zu", i);
  }
}

static Answer answer_of(int64_t a, int64_t b, double rate) {
  return (Answer){
      .found = true, .counts = {a, b}, .rate = rate, .fleet.takes = {.machines = (double)(a + b)}};
}

/* Rates 10, 14 and 12 are 12 on average, 2 apart in standard deviation: 4.303·2/√3. */
Test(provision_outcome, a_spread_is_of_the_seeds_that_have_an_answer) {
  Answer answers[4] = {answer_of(2, 3, 10), answer_of(3, 2, 14), {0}, answer_of(2, 3, 12)};
  DesignOutcome outcome = {.answers = answers};
  study.n_seeds = 4;
  outcome_fill_spread(&study, &outcome);
  cr_expect_eq(outcome.n_found, 3);
  cr_expect_eq(outcome.n_distinct, 3); // none is one of them
  cr_expect_eq(outcome.low, 10);
  cr_expect_eq(outcome.high, 14);
  cr_expect_eq(outcome.mean, 12);
  const double t = 0.95 * sqrt(2 / (1 - 0.95 * 0.95)); // of two degrees of freedom
  cr_expect_float_eq(outcome.half_width, t * 2 / sqrt(3), 1e-12);
  study.objective = OBJECTIVE_MACHINES;
  outcome = (DesignOutcome){.answers = answers};
  outcome_fill_spread(&study, &outcome);
  cr_expect(outcome.low == 5 && outcome.high == 5 && outcome.half_width == 0);
  study.n_seeds = 1;
  outcome = (DesignOutcome){.answers = answers};
  outcome_fill_spread(&study, &outcome);
  cr_expect(outcome.mean == 5 && isnan(outcome.half_width));
  outcome = (DesignOutcome){.answers = &answers[2]};
  outcome_fill_spread(&study, &outcome);
  cr_expect(isnan(outcome.low) && isnan(outcome.high) && isnan(outcome.mean));
}

/* Four seeds with two outcomes between them have the interval of two; with one, none. */
Test(provision_outcome, seeds_with_equal_outcomes_are_one_observation) {
  Answer answers[4] = {answer_of(2, 3, 10), answer_of(3, 2, 14), answer_of(2, 3, 10),
                       answer_of(3, 2, 14)};
  DesignOutcome twice = {.answers = answers}, once = {.answers = answers};
  for (int s = 0; s < 4; s++)
    answers[s].run.outcomes = 7 + (uint64_t)s % 2;
  study.n_seeds = 4;
  outcome_fill_spread(&study, &twice);
  study.n_seeds = 2;
  outcome_fill_spread(&study, &once);
  cr_expect(twice.n_found == 4 && twice.n_different == 2 && twice.mean == once.mean);
  cr_expect_float_eq(twice.half_width, once.half_width, 1e-9);
  for (int s = 0; s < 4; s++)
    answers[s].run.outcomes = 7;
  study.n_seeds = 4;
  twice = (DesignOutcome){.answers = answers};
  outcome_fill_spread(&study, &twice);
  cr_expect(twice.n_different == 1 && twice.mean == 12 && isnan(twice.half_width));
}

/* The best on the first seed; of equals the first. Other seeds say whether it could be another. */
Test(provision_outcome, the_best_is_that_of_the_first_seed) {
  Answer answers[3][2] = {{answer_of(2, 2, 10), answer_of(2, 2, 10)},
                          {answer_of(1, 2, 12), answer_of(1, 2, 12)},
                          {answer_of(2, 1, 12), answer_of(2, 1, 9)}};
  const DesignOutcome outcomes[3] = {
      {.answers = answers[0]}, {.answers = answers[1]}, {.answers = answers[2]}};
  bool flips = true;
  study.n_designs = 3;
  study.n_seeds = 2;
  cr_expect_eq(provision_best(&study, outcomes, &flips), 1);
  cr_expect(!flips);
  answers[2][1].rate = 13;
  cr_expect_eq(provision_best(&study, outcomes, &flips), 1);
  cr_expect(flips);
  study.objective = OBJECTIVE_MACHINES;
  cr_expect_eq(provision_best(&study, outcomes, &flips), 1);
  answers[1][0].found = answers[1][1].found = false;
  cr_expect_eq(provision_best(&study, outcomes, &flips), 2);
  cr_expect(!flips);
  study.objective = OBJECTIVE_COST;
  cr_expect_eq(provision_best(&study, outcomes, &flips), 0);
  for (int d = 0; d < 3; d++)
    answers[d][0].found = false;
  cr_expect_eq(provision_best(&study, outcomes, &flips), -1);
  cr_expect(flips);
}

/* A range is of the seeds and of times moved down and up; where nothing holds it has no end. */
Test(provision_outcome, a_range_is_of_seeds_and_of_times_moved) {
  Answer answers[2] = {answer_of(2, 3, 10), answer_of(2, 4, 14)};
  DesignOutcome outcome = {.answers = answers, .low = 5, .high = 6};
  study.n_seeds = 2;
  study.objective = OBJECTIVE_MACHINES;
  answers[0].run.perfmodel_error = NAN;
  outcome_fill_range(&study, &outcome);
  cr_expect(!outcome.ranged && isnan(outcome.low_model) && isnan(outcome.high_model));
  answers[0].run.perfmodel_error = 0.05;
  outcome.moved[0] = answer_of(2, 1, 10);
  outcome_fill_range(&study, &outcome);
  cr_expect(outcome.ranged && outcome.low_model == 3 && outcome.high_model == INFINITY);
  outcome.moved[1] = answer_of(4, 4, 10);
  outcome_fill_range(&study, &outcome);
  cr_expect(outcome.low_model == 3 && outcome.high_model == 8);
  study.objective = OBJECTIVE_THROUGHPUT;
  outcome.moved[1].found = false;
  outcome.low = 10;
  outcome.high = 14;
  outcome_fill_range(&study, &outcome);
  cr_expect(outcome.low_model == 0 && outcome.high_model == 14);
}

/* What reaches the range of the best may be as good; what has no range says nothing. */
Test(provision_outcome, a_rival_reaches_the_range_of_the_best) {
  DesignOutcome outcomes[2] = {{.ranged = true, .low_model = 4, .high_model = 6},
                               {.ranged = true, .low_model = 6, .high_model = 9}};
  study.objective = OBJECTIVE_COST;
  cr_expect(provision_rivals(&study, outcomes, 0, 1) && !provision_rivals(&study, outcomes, 0, 0));
  outcomes[1].low_model = 6.1;
  cr_expect(!provision_rivals(&study, outcomes, 0, 1));
  study.objective = OBJECTIVE_THROUGHPUT;
  cr_expect(provision_rivals(&study, outcomes, 0, 1)); // more is better
  cr_expect(!provision_rivals(&study, outcomes, 1, 0));
  outcomes[0].ranged = false;
  cr_expect(!provision_rivals(&study, outcomes, 0, 1));
}

/* The first limit's margin is 0.5; with linear longer 0.2, with attention longer 0.1, and 0.3 and
 * 0.4 are as 0.6 and 0.8. Of whole iterations 0.1 of error is 0.1 · (0.3 / 0.1 + 0.4 / 0.2) = 0.5:
 * parts of 0.3, 0.4 and 0.5 over the root of 0.5. What gains margin, or has no error, has none. */
Test(provision_outcome, terms_move_by_what_each_takes_of_the_limit_that_binds) {
  static const SearchStep step = {{{2, 1}, 4}, PROBE_HOLDS};
  static const double margins[TERM_SCREENS] = {0.2, 0.1, 0.6, 0.1};
  const double errors[][TERM_MOVES] = {{0.1, 0.2, 0.3}, {0.1, 0.2, 0.3, 0, 0.1}, {0}};
  const double root = sqrt(0.5);
  const double parts[][TERM_MOVES] = {{0.6, 0.8}, {0.3 / root, 0.4 / root, 0, 0, 0.5 / root}, {0}};
  Replicate first = replicate_of(&step, 1), screens[TERM_SCREENS];
  first.runs[0]->slos[0].margin = 0.5;
  for (int g = 0; g < TERM_SCREENS; g++) {
    screens[g] = replicate_of(&step, 1);
    screens[g].runs[0]->slos[0].margin = margins[g];
  }
  for (size_t i = 0; i < COUNT(errors); i++) {
    const MovedTerms moved = replicate_moved(&first, screens, errors[i]);
    for (int g = 0; g < TERM_MOVES; g++) {
      cr_expect_float_eq(moved.part.by[g], parts[i][g], 1e-12, "%zu: %s", i, term_move_names[g]);
      cr_expect_eq(moved.error[g], errors[i][g]);
    }
  }
  // Where no term takes any of it, all of each counts.
  for (int g = 0; g < TERM_SCREENS; g++)
    screens[g].runs[0]->slos[0].margin = 0.5;
  const MovedTerms all = replicate_moved(&first, screens, errors[1]);
  for (int g = 0; g < TERM_MOVES; g++)
    cr_expect_eq(all.part.by[g], errors[1][g] > 0);
}
