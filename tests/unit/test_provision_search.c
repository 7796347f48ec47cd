/* The search against brute force: on monotone grids it finds an optimum, with few probes; where
 * a grid is not monotone it says so when it has seen it; and it asks the same however much is known
 * beforehand. */
#include "base/rng.h"
#include "experiments/provision/search.h"
#include "tests/unit/testing.h"
#include <math.h>

enum { SIDE = 40, RATES = 200 };

static Rng rng;

/* The truth: the largest rate that each cluster holds; 0: none. And what was asked for. */
static int64_t capacity[SIDE + 1][SIDE + 1];
static bool asked[SIDE + 1][SIDE + 1][RATES + 2];
static int n_asked;

static void begin(void) {
  setup();
  rng_init(&rng, 5, "provision_search");
}

TestSuite(provision_search, .init = begin, .fini = teardown);

static ProbeVerdict truth(void *context, const Probe *probe) {
  (void)context;
  bool *seen = &asked[probe->counts[0]][probe->counts[1]][probe->rate];
  cr_assert(!*seen, "asked twice");
  *seen = true;
  n_asked++;
  return probe->rate <= capacity[probe->counts[0]][probe->counts[1]] ? PROBE_HOLDS : PROBE_FAILS;
}

static void forget(void) {
  memset(asked, 0, sizeof asked);
  n_asked = 0;
}

/* Capacities that never fall as counts grow: sums of what each row and column adds. */
static void draw_monotone(int64_t steepness) {
  for (int a = 0; a <= SIDE; a++)
    for (int b = 0; b <= SIDE; b++) {
      const int64_t left = a > 0 ? capacity[a - 1][b] : 0, below = b > 0 ? capacity[a][b - 1] : 0;
      const int64_t base = left > below ? left : below;
      const int64_t more = (int64_t)rng_below(&rng, (uint64_t)steepness + 1);
      capacity[a][b] = base + more < RATES ? base + more : RATES;
    }
}

static SearchSpace space_of(int64_t a_high, int64_t b_high, double a_price, double b_price,
                            int64_t rate) {
  return (SearchSpace){.n_counts = 2,
                       .low = {1, 1},
                       .high = {a_high, b_high},
                       .each = {a_price, b_price},
                       .start = {.rate = rate}};
}

/* The least cost by looking at every cell; INFINITY: none holds. */
static double least_cost(const SearchSpace *space) {
  double least = INFINITY;
  for (int64_t a = space->low[0]; a <= space->high[0]; a++)
    for (int64_t b = space->low[1]; b <= space->high[1]; b++)
      if (capacity[a][b] >= space->start.rate)
        least = fmin(least, space->each[0] * (double)a + space->each[1] * (double)b);
  return least;
}

Test(provision_search, the_least_is_that_of_brute_force_with_far_fewer_probes) {
  int n_found = 0, n_cells = 0, n_probes = 0;
  for (int round = 0; round < 400; round++) {
    draw_monotone(1 + (int64_t)rng_below(&rng, 6));
    const SearchSpace space = space_of(1 + (int64_t)rng_below(&rng, SIDE),
                                       1 + (int64_t)rng_below(&rng, SIDE), 0.1 + rng_uniform(&rng),
                                       0.1 + rng_uniform(&rng), 1 + (int64_t)rng_below(&rng, 60));
    SearchResult result;
    forget();
    search_least(&space, truth, NULL, &result, &arena);
    const double least = least_cost(&space);
    cr_assert(result.done && result.monotone);
    cr_assert_eq(result.found, isfinite(least), "round %d", round);
    n_cells += (int)(space.high[0] * space.high[1]);
    n_probes += n_asked;
    if (!result.found) {
      cr_assert_leq(n_asked, 8, "all machines fail: twice as many are asked for each time");
      continue;
    }
    n_found++;
    const double cost = space.each[0] * (double)result.answer.counts[0] +
                        space.each[1] * (double)result.answer.counts[1];
    cr_assert_float_eq(cost, least, 1e-9, "round %d: %g, not %g", round, cost, least);
  }
  cr_expect_gt(n_found, 100);
  cr_expect_lt(n_probes * 8, n_cells, "%d of %d", n_probes, n_cells);
}

/* Machines of two types, of which instances take these shares; the other type costs 0.6. */
static const double machine_shares[][2] = {{0.125, 0.25}, {0.5, 0.25}, {1, 0.125}, {0.5, 0.5}};
static double whole_cost(const void *context, const int64_t *counts) {
  const double *shares = context;
  return ceil(shares[0] * (double)counts[0]) + 0.6 * ceil(shares[1] * (double)counts[1]);
}

/* Whether some cluster holds that costs less, or the same with less of the machines in use. */
static bool is_beaten(const SearchSpace *space, const Probe *answer) {
  const double cost = whole_cost(space->cost_context, answer->counts);
  const double share =
      space->each[0] * (double)answer->counts[0] + space->each[1] * (double)answer->counts[1];
  for (int64_t a = space->low[0]; a <= space->high[0]; a++)
    for (int64_t b = space->low[1]; b <= space->high[1]; b++) {
      const double other = whole_cost(space->cost_context, (int64_t[]){a, b});
      const double used = space->each[0] * (double)a + space->each[1] * (double)b;
      if (capacity[a][b] >= space->start.rate &&
          (other < cost - 1e-9 || (other < cost + 1e-9 && used < share - 1e-9)))
        return true;
    }
  return false;
}

Test(provision_search, where_machines_are_whole_the_least_of_them_is_found) {
  int n_found = 0, n_cells = 0, n_probes = 0;
  for (int round = 0; round < 400; round++) {
    draw_monotone(1 + (int64_t)rng_below(&rng, 6));
    const double *shares = machine_shares[round % 4];
    SearchSpace space =
        space_of(1 + (int64_t)rng_below(&rng, SIDE), 1 + (int64_t)rng_below(&rng, SIDE), shares[0],
                 0.6 * shares[1], 1 + (int64_t)rng_below(&rng, 60));
    space.cost = whole_cost;
    space.cost_context = shares;
    SearchResult result;
    forget();
    search_least(&space, truth, NULL, &result, &arena);
    cr_assert_eq(result.found, isfinite(least_cost(&space)));
    if (!result.found) continue;
    n_found++;
    n_cells += (int)(space.high[0] * space.high[1]);
    n_probes += n_asked;
    cr_assert_not(is_beaten(&space, &result.answer), "round %d", round);
  }
  cr_expect_gt(n_found, 100);
  cr_expect_lt(n_probes * 8, n_cells, "%d of %d", n_probes, n_cells);
}

Test(provision_search, a_likely_answer_changes_no_cost) {
  for (int round = 0; round < 200; round++) {
    draw_monotone(3);
    SearchSpace space = space_of(SIDE, 20, 1, 0.6, 40);
    space.has_start = true;
    space.start.counts[0] = 1 + (int64_t)rng_below(&rng, SIDE);
    space.start.counts[1] = 1 + (int64_t)rng_below(&rng, 20);
    SearchResult result;
    forget();
    search_least(&space, truth, NULL, &result, &arena);
    const double least = least_cost(&space);
    cr_assert_eq(result.found, isfinite(least));
    if (result.found)
      cr_assert_float_eq((double)result.answer.counts[0] + 0.6 * (double)result.answer.counts[1],
                         least, 1e-9, "round %d", round);
  }
}

Test(provision_search, one_count_and_none_are_searched_too) {
  for (int64_t least = 1; least <= SIDE + 1; least++) {
    for (int64_t a = 0; a <= SIDE; a++)
      capacity[a][0] = a >= least;
    const SearchSpace space = {
        .n_counts = 1, .low = {1}, .high = {SIDE}, .each = {2.5}, .start = {.rate = 1}};
    SearchResult result;
    forget();
    search_least(&space, truth, NULL, &result, &arena);
    cr_assert_eq(result.found, least <= SIDE);
    if (result.found) cr_assert_eq(result.answer.counts[0], least);
    cr_assert_leq(n_asked, 11);
  }
  capacity[0][0] = 7;
  for (int64_t rate = 7; rate <= 8; rate++) {
    const SearchSpace fixed = {.start = {.rate = rate}};
    SearchResult result;
    forget();
    search_least(&fixed, truth, NULL, &result, &arena);
    cr_assert_eq(result.found, rate == 7);
    cr_assert_eq(n_asked, 1);
  }
}

/* Splits of a budget: the largest rate of any, found by its exhaustive definition. */
Test(provision_search, the_largest_rate_is_that_of_brute_force) {
  for (int round = 0; round < 300; round++) {
    draw_monotone(4);
    Probe clusters[SIDE];
    SearchSpace space = {.n_counts = 2,
                         .clusters = clusters,
                         .n_clusters = 1 + (int)rng_below(&rng, SIDE - 1),
                         .rate_low = 1 + (int64_t)rng_below(&rng, 10),
                         .rate_high = 20 + (int64_t)rng_below(&rng, RATES - 20)};
    int64_t best = 0;
    for (int i = 0; i < space.n_clusters; i++) {
      clusters[i] = (Probe){{i + 1, SIDE - i}, 0};
      if (capacity[i + 1][SIDE - i] > best) best = capacity[i + 1][SIDE - i];
    }
    if (best > space.rate_high) best = space.rate_high;
    space.has_start = rng_below(&rng, 2) == 0;
    space.start = (Probe){{1 + (int64_t)rng_below(&rng, SIDE), 1 + (int64_t)rng_below(&rng, SIDE)},
                          space.rate_low + (int64_t)rng_below(&rng, 10)};
    SearchResult result;
    forget();
    search_largest_rate(&space, truth, NULL, &result, &arena);
    cr_assert(result.done && result.monotone);
    cr_assert_eq(result.found, best >= space.rate_low, "round %d", round);
    if (result.found) cr_assert_eq(result.answer.rate, best, "round %d", round);
    // Each cluster once, and bisections only while the best improves.
    cr_assert_leq(n_asked, space.n_clusters + 16 * 6, "round %d: %d", round, n_asked);
  }
}

Test(provision_search, one_cluster_takes_logarithmically_many_probes) {
  for (int64_t rate = 0; rate <= RATES; rate++) {
    capacity[3][4] = rate;
    const Probe cluster = {{3, 4}, 0};
    const SearchSpace space = {.n_counts = 2,
                               .clusters = &cluster,
                               .n_clusters = 1,
                               .rate_low = 1,
                               .rate_high = RATES,
                               .start = {.rate = 50}};
    SearchResult result;
    forget();
    search_largest_rate(&space, truth, NULL, &result, &arena);
    cr_assert_eq(result.found, rate > 0);
    if (rate > 0) cr_assert_eq(result.answer.rate, rate);
    cr_assert_leq(n_asked, 16, "%d probes for %d", n_asked, (int)rate);
  }
}

Test(provision_search, likely_counts_change_no_cost) {
  for (int round = 0; round < 200; round++) {
    draw_monotone(3);
    SearchSpace space = space_of(SIDE, 20, 1, 0.6, 40);
    for (int d = 0; d < 2; d++)
      space.likely[d] = (int64_t)rng_below(&rng, 2 * SIDE); // may be out of range
    SearchResult result;
    forget();
    search_least(&space, truth, NULL, &result, &arena);
    const double least = least_cost(&space);
    cr_assert(result.monotone);
    cr_assert_eq(result.found, isfinite(least));
    if (result.found)
      cr_assert_float_eq((double)result.answer.counts[0] + 0.6 * (double)result.answer.counts[1],
                         least, 1e-9, "round %d", round);
  }
}

/* The least, (7, 3), is found with what costs most to simulate, clusters that hold, asked for but
 * once; what is likely is one too few of one count. */
Test(provision_search, near_likely_counts_one_cluster_that_holds_is_asked_for) {
  for (int a = 0; a <= SIDE; a++)
    for (int b = 0; b <= SIDE; b++)
      capacity[a][b] = a >= 7 && b >= 3;
  SearchSpace space = space_of(SIDE, SIDE, 1, 1, 1);
  SearchResult result;
  for (int less = 0; less < 2; less++) {
    space.likely[0] = 7;
    space.likely[1] = 3 - less;
    forget();
    search_least(&space, truth, NULL, &result, &arena);
    int n_held = 0;
    for (int i = 0; i < result.n_steps; i++)
      n_held += result.steps[i].verdict == PROBE_HOLDS;
    cr_expect_eq(result.answer.counts[0], 7);
    cr_expect_eq(result.answer.counts[1], 3);
    cr_expect_leq(n_held, 1 + less);
  }
}

/* (4, 3) holds although (4, 10) does not. */
Test(provision_search, what_contradicts_monotony_is_said) {
  for (int a = 0; a <= SIDE; a++)
    for (int b = 0; b <= SIDE; b++)
      capacity[a][b] = a >= 5 && b >= 3;
  SearchResult result;
  const SearchSpace space = space_of(10, 10, 1, 1, 1);
  forget();
  search_least(&space, truth, NULL, &result, &arena);
  cr_assert(result.monotone);
  cr_assert_eq(result.answer.counts[0], 5);
  cr_assert_eq(result.answer.counts[1], 3);
  capacity[4][3] = 1;
  forget();
  search_least(&space, truth, NULL, &result, &arena);
  cr_assert_eq(result.answer.counts[0], 4, "a cheaper neighbour that holds is the answer");
  cr_assert_eq(result.answer.counts[1], 3);
  cr_assert(!result.monotone);
}

/* ---- Step by step ---- */

/* Knows what was told; everything else is unknown. */
typedef struct Notes {
  Probe probes[1000];
  ProbeVerdict verdicts[1000];
  int n;
} Notes;

static ProbeVerdict recall(void *context, const Probe *probe) {
  const Notes *notes = context;
  for (int i = 0; i < notes->n; i++)
    if (probe_equal(&notes->probes[i], probe)) return notes->verdicts[i];
  return PROBE_UNKNOWN;
}

Test(provision_search, told_one_verdict_at_a_time_it_takes_the_same_way) {
  static Notes notes;
  for (int round = 0; round < 50; round++) {
    draw_monotone(3);
    const SearchSpace space = space_of(SIDE, 15, 1, 1.7, 30);
    SearchResult at_once, stepped;
    forget();
    search_least(&space, truth, NULL, &at_once, &arena);
    notes.n = 0;
    forget();
    for (;;) {
      search_least(&space, recall, &notes, &stepped, &arena);
      if (stepped.done) break;
      notes.probes[notes.n] = stepped.needs;
      notes.verdicts[notes.n++] = truth(NULL, &stepped.needs);
    }
    cr_assert_eq(at_once.n_steps, stepped.n_steps);
    cr_assert_eq(notes.n, stepped.n_steps);
    for (int i = 0; i < stepped.n_steps; i++)
      cr_assert(probe_equal(&at_once.steps[i].probe, &stepped.steps[i].probe));
    cr_assert_eq(at_once.found, stepped.found);
    if (stepped.found) cr_assert(probe_equal(&at_once.answer, &stepped.answer));
  }
}
