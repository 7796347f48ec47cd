/* The swapping of runs, fast. Pinned: ticks and counts equal to the layer-exact reference, to the
 * tick, on random layers, swap times and compute series with and without waits, however a run is
 * cut into parts; stretches and their inversion; that the condition of transparency is sufficient,
 * and sharp where pairs last a whole number of layers. Not pinned: how long a stretch is. */
#include "base/rng.h"
#include "sim/kvtier/swap_run.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(swap_run);

enum { LONGEST = 60, AFTER = 3 };

typedef struct Case {
  SwapSpec spec;
  Series compute;
  int64_t count;
} Case;

/* What a reference took, iteration by iteration, and AFTER more beyond the case's count. */
typedef struct Reference {
  SwapCounts iterations[LONGEST + AFTER], sum;
} Reference;

/* After the case's own iterations short ones follow, in which what was left behind shows. */
static Tick compute_at(const Case *of, int64_t i) {
  if (i < of->count) return series_at(of->compute, i);
  return of->spec.outside + (of->compute.first - of->spec.outside + 3) / 4;
}

static Reference refer(const Case *of) {
  LayerSwap swap;
  Reference result = {.sum = {0}};
  layer_swap_init_steady(&swap, of->spec);
  for (int64_t i = 0; i < of->count + AFTER; i++) {
    layer_swap_iterate(&swap, compute_at(of, i), &result.iterations[i]);
    if (i < of->count) swap_counts_add(&result.sum, &result.iterations[i], 1);
  }
  return result;
}

static void expect_counts(const Case *of, const SwapCounts *got, const SwapCounts *expected) {
  cr_assert(memcmp(got, expected, sizeof *got) == 0,
            "n %d m %d in %lld out %lld outside %lld compute %lld + %lld i, %lld iterations: "
            "ticks %lld not %lld, blocked %lld not %lld, waits %lld not %lld, swaps %lld not %lld, "
            "violations %lld not %lld",
            of->spec.layers, of->spec.swapped, (long long)of->spec.in, (long long)of->spec.out,
            (long long)of->spec.outside, (long long)of->compute.first, (long long)of->compute.step,
            (long long)got->iterations, (long long)got->ticks, (long long)expected->ticks,
            (long long)got->blocked, (long long)expected->blocked, (long long)got->waits,
            (long long)expected->waits, (long long)got->swaps_in, (long long)expected->swaps_in,
            (long long)got->violations, (long long)expected->violations);
}

/* Layers, then the load of the link: what keeping up takes of the time there is, from far below 1
 * to far above. */
static Case draw(Rng *rng) {
  const int32_t n = 3 + (int32_t)rng_below(rng, rng_below(rng, 2) ? 20 : 94);
  const bool most = rng_below(rng, 8) == 0; // then a layer that begins may be alone on the GPU
  const int32_t m = most ? n - 2 : 1 + (int32_t)rng_below(rng, (uint64_t)(n - 2));
  const Tick layer =
      rng_below(rng, 4) ? 1000 + (Tick)rng_below(rng, 500000000) : 1 + (Tick)rng_below(rng, 50);
  const double load = portable_exp(-3 + 4.5 * rng_uniform(rng));
  Tick swap = (Tick)(load * (double)layer * (n - 1) / (m + 2)) + 1;
  if (rng_below(rng, 3) == 0) swap = (swap + layer - 1) / layer * layer; // whole layers
  const Tick other = rng_below(rng, 2) ? swap : 1 + (Tick)rng_below(rng, (uint64_t)swap);
  const bool in_slower = rng_below(rng, 2);
  const Tick outside = rng_below(rng, 2) ? (Tick)rng_below(rng, (uint64_t)(layer * n)) : 0;
  const Tick ragged = rng_below(rng, 2) ? (Tick)rng_below(rng, (uint64_t)n) : 0;
  const bool no_ticks = rng_below(rng, 50) == 0; // for some layers
  const Tick first = outside + (no_ticks ? 0 : layer * n) + ragged + 1;
  const uint64_t steepest = (uint64_t)(first / (rng_below(rng, 2) ? 10 : 2000)) + 1;
  const Tick step = rng_below(rng, 3) ? (Tick)rng_below(rng, steepest) : 0;
  Series compute = {.first = first, .step = step};
  if (rng_below(rng, 2)) {
    compute.first_fraction = (uint32_t)rng_u64(rng);
    compute.step_fraction = rng_below(rng, 2) ? (uint32_t)rng_u64(rng) : 0;
    compute.carry = SERIES_CARRY;
  }
  return (Case){.spec = {.layers = n,
                         .swapped = m,
                         .in = in_slower ? swap : other,
                         .out = in_slower ? other : swap,
                         .outside = outside},
                .compute = compute,
                .count = 1 + (int64_t)rng_below(rng, LONGEST)};
}

/* Advances by random parts (0: as one) and then on, iteration by iteration, to see the state. */
static void expect_parts(const Case *of, const Reference *reference, Rng *rng, int64_t longest) {
  SwapRun run;
  SwapCounts sum = {0};
  swap_run_begin(&run, of->spec);
  for (int64_t done = 0; done < of->count;) {
    int64_t part = longest ? 1 + (int64_t)rng_below(rng, (uint64_t)longest) : of->count;
    if (part > of->count - done) part = of->count - done;
    const Series compute = series_after(of->compute, done);
    const SwapCounts counts = swap_run_advance(&run, compute, part);
    swap_counts_add(&sum, &counts, 1);
    if (part == 1) expect_counts(of, &counts, &reference->iterations[done]);
    done += part;
  }
  expect_counts(of, &sum, &reference->sum);
  for (int64_t i = of->count; i < of->count + AFTER; i++) {
    const SwapCounts counts = swap_run_advance(&run, (Series){.first = compute_at(of, i)}, 1);
    expect_counts(of, &counts, &reference->iterations[i]);
  }
}

/* Each iteration of each stretch takes what the reference took. Returns the stretches. */
static int expect_stretches(const Case *of, const Reference *reference) {
  SwapRun run;
  int n_stretches = 0;
  swap_run_begin(&run, of->spec);
  for (int64_t done = 0; done < of->count; n_stretches++) {
    const Series compute = series_after(of->compute, done);
    const SwapStretch stretch = swap_run_plan(&run, compute, of->count - done);
    cr_assert(stretch.count > 0 && stretch.count <= of->count - done && stretch.series.step >= 0);
    for (int64_t i = 0; i < stretch.count; i++) {
      const SwapCounts *one = &reference->iterations[done + i];
      cr_assert_eq(series_at(stretch.series, i), one->ticks);
      cr_assert_eq(stretch.waits, one->waits > 0);
    }
    swap_run_advance(&run, compute, stretch.count);
    done += stretch.count;
  }
  return n_stretches;
}

Test(swap_run, agrees_with_the_layers_to_the_tick_with_and_without_waits, .timeout = 120) {
  enum { CASES = 3000 };
  Rng rng;
  rng_init(&rng, 1, "swap_run");
  int n_proven = 0, n_waiting = 0, n_constant_waiting = 0, n_coalesced = 0, n_asymmetric = 0;
  for (int i = 0; i < CASES; i++) {
    const Case of = draw(&rng);
    const Reference reference = refer(&of);
    SwapRun run;
    swap_run_begin(&run, of.spec);
    const bool proven = swap_run_is_transparent(&run, of.compute.first);
    const bool waiting = reference.sum.waits > 0;
    cr_assert(!proven || !waiting, "case %d waits in spite of the proof", i);
    n_proven += proven;
    n_waiting += waiting;
    n_constant_waiting += waiting && series_is_even(of.compute);
    n_asymmetric += of.spec.in != of.spec.out;
    expect_parts(&of, &reference, &rng, 0);
    expect_parts(&of, &reference, &rng, 1);
    expect_parts(&of, &reference, &rng, 20);
    n_coalesced += expect_stretches(&of, &reference) < of.count;
  }
  cr_log_info("proven %d waiting %d constant %d coalesced %d asymmetric %d", n_proven, n_waiting,
              n_constant_waiting, n_coalesced, n_asymmetric);
  cr_assert_geq(n_proven, 1000);
  cr_assert_geq(n_waiting, 1000);
  cr_assert_geq(n_constant_waiting, 300);
  cr_assert_geq(n_asymmetric, 1000);
  cr_assert_geq(n_coalesced, 1000);
}

/* Layers of equal ticks and pairs of d whole layers: nobody waits exactly when m + 2 pairs fit into
 * the n - 1 layers between two turns. */
Test(swap_run, the_condition_is_sharp_for_pairs_of_whole_layers) {
  for (int32_t n = 3; n <= 50; n++)
    for (int32_t m = 1; m <= n - 2; m++)
      for (int32_t d = 1; d * m <= 2 * n; d++) {
        const SwapSpec spec = {.layers = n, .swapped = m, .in = d * 100, .out = d * 100};
        SwapRun run;
        swap_run_begin(&run, spec);
        const bool fits = (m + 2) * d <= n - 1;
        cr_assert_eq(swap_run_is_transparent(&run, n * 100), fits);
        const SwapCounts counts = swap_run_advance(&run, (Series){.first = n * 100}, 3);
        cr_assert_eq(counts.waits == 0, fits, "n %d m %d d %d", n, m, d);
      }
}

/* Where the link is the limit, m + 2 pairs of s ticks bring a layer's turn n - 1 layers on. */
Test(swap_run, a_link_that_cannot_keep_up_sets_the_pace) {
  const Tick s = 5000;
  const int32_t n = 48;
  for (int32_t m = 10; m <= 40; m += 5) {
    const SwapSpec spec = {.layers = n, .swapped = m, .in = s, .out = s};
    SwapRun run;
    swap_run_begin(&run, spec);
    const int64_t turns = 10 * (n - 1); // 10 n (m + 2) pairs
    const SwapCounts counts = swap_run_advance(&run, (Series){.first = n * 10}, turns);
    cr_assert_eq(counts.swaps_in, 10 * (m + 2) * n);
    cr_assert_leq(counts.ticks, counts.swaps_in * s);
    cr_assert_geq(counts.ticks, (counts.swaps_in - 1) * s, "the last pair may be under way");
  }
}

Test(swap_run, many_iterations_cost_as_little_as_their_pattern) {
  static const Case cases[] = {
      {{.layers = 48, .swapped = 20, .in = 1900, .out = 2000, .outside = 777}, {.first = 96123}, 0},
      {{.layers = 48, .swapped = 24, .in = 1900, .out = 3000, .outside = 777}, {.first = 96123}, 0},
      {{.layers = 48, .swapped = 10, .in = 1900, .out = 2000, .outside = 777},
       {.first = 96123, .step = 1},
       0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    SwapRun once, parts;
    swap_run_begin(&once, cases[i].spec);
    parts = once;
    const SwapCounts all = swap_run_advance(&once, cases[i].compute, 100000);
    SwapCounts sum = {0};
    for (int64_t done = 0; done < 100000; done += 2) {
      const Series compute = series_after(cases[i].compute, done);
      const SwapCounts two = swap_run_advance(&parts, compute, 2);
      swap_counts_add(&sum, &two, 1);
    }
    expect_counts(&cases[i], &all, &sum);
  }
}

Test(swap_run, without_swapping_a_run_takes_its_compute_time) {
  SwapRun run;
  swap_run_begin(&run, (SwapSpec){.layers = 9, .in = 1, .out = 1});
  const SwapStretch stretch = swap_run_plan(&run, (Series){.first = 100, .step = 3}, 1000);
  cr_assert_eq(stretch.count, 1000);
  cr_assert_eq(stretch.series.first, 100);
  const SwapCounts counts = swap_run_advance(&run, (Series){.first = 100, .step = 3}, 1000);
  cr_assert_eq(counts.ticks, series_sum((Series){.first = 100, .step = 3}, 1000));
  cr_assert_eq(counts.swaps_in + counts.violations, 0);
}
