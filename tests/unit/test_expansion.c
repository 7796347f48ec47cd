/* How many layers live on the CPU. Pinned: both formulas and their inverse, each rule of the
 * controller on steps made up for it, that equal steps observed at once are those observed one by
 * one, and, in a loop with the swapping of swap_run.h and the link of host_link.h, the throughput
 * it settles at against every fixed number of layers, its waits there, and its way back when
 * background traffic starts and stops. Not pinned: how many steps it takes to get there. */
#include "base/rng.h"
#include "sim/core/host_link.h"
#include "sim/kvtier/expansion.h"
#include "sim/kvtier/swap_run.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(expansion);

static const OptionSpec OPTIONS[] = {EXPANSION_OPTIONS(
                                         struct { ExpansionOptions own; }, own),
                                     {0}};

static ExpansionOptions defaults(void) {
  ExpansionOptions options;
  option_defaults(OPTIONS, &options);
  return options;
}

/* --- formulas */

Test(expansion, figure_4_has_nine_sevenths_unrefined_and_thirteen_ninths_refined) {
  const ExpansionRatio plain = expansion_ratio(EXPANSION_PLAIN, 9, 2);
  cr_assert(plain.over == 9 && plain.under == 7); // the paper's 1.28, cut off
  const ExpansionRatio refined = expansion_ratio(EXPANSION_REFINED, 9, 2);
  cr_assert(refined.over == 13 && refined.under == 9);
  cr_assert_eq(expansion_blocks(EXPANSION_PLAIN, 9, 2, 700), 900);
  cr_assert_eq(expansion_blocks(EXPANSION_PLAIN, 9, 2, 699), 898); // 898.7
  cr_assert_eq(expansion_blocks(EXPANSION_REFINED, 9, 2, 900), 1300);
  cr_assert_eq(expansion_blocks(EXPANSION_REFINED, 9, 2, 899), 1298); // 1298.6
  cr_assert_eq(expansion_blocks(EXPANSION_REFINED, 9, 0, 899), 899);
}

Test(expansion, layers_for_an_expansion_are_the_fewest_that_reach_it) {
  cr_assert_eq(expansion_layers(EXPANSION_REFINED, 48, 2.08), 25); // 52/25, Fig. 9c
  cr_assert_eq(expansion_layers(EXPANSION_PLAIN, 48, 2), 24);
  cr_assert_eq(expansion_layers(EXPANSION_REFINED, 48, 2), 24);
  cr_assert_eq(expansion_layers(EXPANSION_PLAIN, 48, 1), 0);
  cr_assert_eq(expansion_layers(EXPANSION_PLAIN, 48, 24), 46);
  cr_assert_eq(expansion_layers(EXPANSION_PLAIN, 48, 24.1), -1);
  for (int formula = 0; formula < 2; formula++)
    for (int32_t n = 3; n <= 100; n++)
      for (int32_t m = 0; m <= n - 2; m++) {
        const ExpansionRatio ratio = expansion_ratio((ExpansionFormula)formula, n, m);
        const double wanted = floor(1e6 * (double)ratio.over / (double)ratio.under) / 1e6;
        cr_assert_eq(expansion_layers((ExpansionFormula)formula, n, wanted), m);
      }
}

Test(expansion, more_waits_than_steps_looked_at_are_an_error) {
  Diag diag;
  diag_init(&diag);
  ExpansionOptions options = defaults();
  cr_assert_eq(expansion_check(&options, place_of_file("a.yaml"), &diag), 0);
  options.wait_steps = 6;
  cr_assert_lt(expansion_check(&options, place_of_file("a.yaml"), &diag), 0);
  cr_assert_str_eq(diag.entries[0].message,
                   "'wait_steps' must be at most 'wait_horizon', which is 5");
  diag_done(&diag);
}

/* --- rules, on steps made up */

enum { LAYERS = 10, WINDOW = 20 };

static void observe(Expansion *self, int64_t count, ExpansionStep step) {
  for (int64_t i = 0; i < count; i++)
    expansion_observe(self, &step);
}

static const ExpansionStep STEADY = {
    .steps = 1, .fits = true, .swaps = 10, .swaps_in = 5, .tokens = 100, .ticks = 1000};

static ExpansionStep with(int64_t violations, bool waited, int64_t tokens) {
  ExpansionStep step = STEADY;
  step.violations = violations;
  step.waited = waited;
  step.tokens = tokens;
  return step;
}

/* A controller that judges each layer and has grown to `swapped` of them, at 100 · 1.1^m tokens a
 * step. A new window has begun. */
static Expansion grown(int32_t swapped, int64_t *ret_tokens) {
  ExpansionOptions options = defaults();
  options.trial_growth = 0;
  Expansion self;
  expansion_init(&self, &options, EXPANSION_PLAIN, LAYERS, LAYERS - 2);
  double tokens = 100;
  while (self.usable < swapped) {
    const int32_t before = self.usable;
    observe(&self, 1, with(10, false, (int64_t)tokens));
    if (self.usable > before) tokens *= 1.1;
  }
  *ret_tokens = (int64_t)tokens;
  return self;
}

Test(expansion, starts_on_the_gpu_and_counts_capacity_once_all_layers_were_swapped) {
  const ExpansionOptions options = defaults();
  Expansion self;
  expansion_init(&self, &options, EXPANSION_PLAIN, LAYERS, LAYERS - 2);
  const ExpansionStep idle = {.steps = 1, .fits = true, .tokens = 100, .ticks = 1000};
  cr_assert_eq(expansion_due(&self, false), WINDOW);
  observe(&self, WINDOW - 1, idle);
  cr_assert_eq(self.swapped, 0);
  observe(&self, 1, idle);
  cr_assert(self.swapped == 1 && self.usable == 0);
  cr_assert_eq(expansion_due(&self, false), 1);
  observe(&self, 1, STEADY); // five of ten layers were swapped
  cr_assert(self.swapped == 1 && self.usable == 0);
  observe(&self, 1, STEADY);
  cr_assert(self.swapped == 1 && self.usable == 1);
  cr_assert_eq(expansion_due(&self, false), WINDOW);
}

Test(expansion, grows_when_violations_exceed_their_share_of_a_window) {
  int64_t tokens;
  for (int64_t violations = 9; violations <= 11; violations++) {
    Expansion self = grown(3, &tokens);
    observe(&self, 1, with(violations, false, tokens));
    observe(&self, WINDOW - 1, with(0, false, tokens));
    cr_assert_eq(self.swapped, violations > 10 ? 4 : 3, "of 200 swaps, 5%% are 10");
  }
}

Test(expansion, never_swaps_more_layers_than_it_may) {
  const ExpansionOptions options = defaults();
  Expansion self;
  expansion_init(&self, &options, EXPANSION_PLAIN, LAYERS, 1);
  for (int i = 0; i < 300; i++)
    observe(&self, 1, with(10, false, 100 + i));
  cr_assert(self.swapped == 1 && self.usable == 1);
}

Test(expansion, shrinks_at_the_third_wait_in_five_steps_admission_first) {
  int64_t tokens;
  Expansion self = grown(3, &tokens);
  const ExpansionStep waits = with(10, true, tokens), runs = with(10, false, tokens);
  observe(&self, 2, waits);
  observe(&self, 3, runs);
  observe(&self, 2, waits); // two of five, since the first two are too long ago
  cr_assert(self.swapped == 3 && self.usable == 3);
  cr_assert_eq(expansion_due(&self, true), 1);
  observe(&self, 1, waits);
  cr_assert(self.swapped == 3 && self.usable == 2, "no admission into the high blocks");
  ExpansionStep held = runs;
  held.fits = false;
  observe(&self, 2, held); // all layers swapped, but KV is held beyond
  cr_assert(self.swapped == 3 && self.usable == 2);
  held.steps = 20;
  cr_assert_eq(expansion_due(&self, false), INT64_MAX);
  observe(&self, 1, held);
  cr_assert_eq(self.swapped, 3);
  observe(&self, 1, runs);
  cr_assert(self.swapped == 2 && self.usable == 2);
  observe(&self, 5 * WINDOW, runs);
  cr_assert_eq(self.swapped, 2, "growth has stopped");
}

Test(expansion, gives_up_a_layer_that_makes_swapping_wait_before_its_capacity_counted) {
  int64_t tokens;
  Expansion self = grown(3, &tokens);
  ExpansionStep slow = with(10, false, tokens);
  observe(&self, WINDOW, slow);
  cr_assert(self.swapped == 4 && self.usable == 3);
  slow = with(10, true, tokens);
  slow.swaps_in = 1;
  observe(&self, 3, slow);
  cr_assert(self.swapped == 4 && self.usable == 3);
  observe(&self, LAYERS, slow);
  cr_assert(self.swapped == 3 && self.usable == 3);
}

Test(expansion, stops_without_gain_tries_one_less_and_probes_again) {
  int64_t tokens;
  Expansion self = grown(3, &tokens);
  const ExpansionStep flat = with(10, false, tokens);
  observe(&self, WINDOW, flat); // the gain of the third; now the fourth
  observe(&self, 2, flat);
  cr_assert(self.swapped == 4 && self.usable == 4);
  observe(&self, WINDOW, flat); // no gain
  cr_assert(self.swapped == 4 && self.usable == 3);
  observe(&self, 2, flat);
  cr_assert(self.swapped == 3 && self.usable == 3);
  observe(&self, WINDOW, flat); // and no loss: it stays
  int64_t held = WINDOW + 2;
  for (; self.swapped == 3; held++)
    observe(&self, 1, flat);
  cr_assert_geq(held, 1000);
  cr_assert_lt(held, 1000 + WINDOW);
  cr_assert_eq(self.swapped, 4);
}

Test(expansion, takes_a_layer_back_whose_loss_costs_throughput_and_grows_on) {
  int64_t tokens;
  Expansion self = grown(3, &tokens);
  const ExpansionStep flat = with(10, false, tokens), less = with(10, false, tokens * 9 / 10);
  observe(&self, WINDOW, flat);
  observe(&self, 2 + WINDOW + 2, flat);
  cr_assert(self.swapped == 3 && self.usable == 3);
  observe(&self, WINDOW, less);
  cr_assert_eq(self.swapped, 4);
  observe(&self, 2 + WINDOW, flat);
  cr_assert_eq(self.swapped, 5);
}

/* Of ten layers the third makes the capacity 1.43. */
Test(expansion, judges_growth_once_enough_was_added_and_goes_back_to_where_it_began) {
  for (int loses = 0; loses < 2; loses++) {
    const ExpansionOptions options = defaults();
    Expansion self;
    expansion_init(&self, &options, EXPANSION_PLAIN, LAYERS, LAYERS - 2);
    const ExpansionStep flat = with(10, false, 100), less = with(10, false, 80);
    observe(&self, 3 * (WINDOW + 2), flat);
    cr_assert(self.swapped == 3 && self.usable == 3, "two layers are not judged");
    observe(&self, WINDOW, flat);
    cr_assert(self.swapped == 3 && self.usable == 0);
    observe(&self, 2, flat);
    cr_assert(self.swapped == 0 && self.usable == 0);
    observe(&self, WINDOW, loses ? less : flat);
    cr_assert_eq(self.swapped, loses ? 3 : 0);
  }
}

Test(expansion, a_window_that_waits_for_longer_than_the_ratio_takes_a_layer_back) {
  int64_t tokens;
  for (Tick blocked = 50; blocked <= 51; blocked++) {
    Expansion self = grown(3, &tokens);
    ExpansionStep step = with(0, false, tokens); // each wait is tolerated
    step.blocked = blocked;
    observe(&self, WINDOW - 1, step);
    cr_assert_eq(self.usable, 3);
    observe(&self, 1, step);
    cr_assert(self.swapped == 3 && self.usable == (blocked > 50 ? 2 : 3));
  }
}

/* --- coalescing */

static bool same(const Expansion *a, const Expansion *b) {
  return a->swapped == b->swapped && a->usable == b->usable && a->change == b->change &&
         a->to_swap == b->to_swap && a->trial == b->trial && a->record.rate == b->record.rate &&
         a->record.swapped == b->record.swapped && a->held == b->held &&
         a->held_steps == b->held_steps && a->wait_bits == b->wait_bits && a->steps == b->steps &&
         a->swaps == b->swaps && a->violations == b->violations && a->tokens == b->tokens &&
         a->ticks == b->ticks && a->blocked == b->blocked;
}

Test(expansion, equal_steps_observed_at_once_are_those_observed_one_by_one) {
  Rng rng;
  rng_init(&rng, 1, "expansion");
  int n_changes = 0;
  for (int i = 0; i < 200; i++) {
    ExpansionOptions options = defaults();
    options.window = 1 + (int64_t)rng_below(&rng, 60);
    options.wait_horizon = 1 + (int64_t)rng_below(&rng, 64);
    options.wait_steps = 1 + (int64_t)rng_below(&rng, (uint64_t)options.wait_horizon);
    options.probe_every = 1 + (int64_t)rng_below(&rng, 500);
    Expansion once, each;
    expansion_init(&once, &options, EXPANSION_REFINED, LAYERS, LAYERS - 2);
    each = once;
    for (int k = 0; k < 200; k++) {
      const int64_t due = expansion_due(&once, rng_below(&rng, 4) == 0 && once.swapped > 0);
      ExpansionStep step = with((int64_t)rng_below(&rng, 3), rng_below(&rng, 4) == 0,
                                100 + (int64_t)rng_below(&rng, 30));
      step.fits = rng_below(&rng, 2);
      step.blocked = (Tick)rng_below(&rng, 80);
      step.steps = 1 + (int64_t)rng_below(&rng, due < 100 ? (uint64_t)due : 100);
      const int64_t limit = expansion_due(&once, step.waited);
      if (step.steps > limit) step.steps = limit;
      for (int64_t n = 0; n < step.steps; n++) {
        ExpansionStep one = step;
        one.steps = 1;
        one.fits = step.fits && n == step.steps - 1; // KV leaves at the end
        cr_assert(!expansion_observe(&each, &one) || n == step.steps - 1);
      }
      ExpansionStep all = step;
      all.swaps *= step.steps;
      all.swaps_in *= step.steps;
      all.violations *= step.steps;
      all.tokens *= step.steps;
      all.ticks *= step.steps;
      all.blocked *= step.steps;
      n_changes += expansion_observe(&once, &all);
      cr_assert(same(&once, &each), "controller %d, observation %d", i, k);
    }
  }
  cr_assert_gt(n_changes, 1000);
}

/* --- in a loop with swapping: a decode-bound server whose batch fills what capacity there is */

typedef struct Workload {
  int32_t layers;
  int64_t kv_bytes;     // on the GPU
  double compute, head; // seconds of an iteration in its layers, without KV, and outside of them
  double demand;        // expansion beyond which there is nothing to serve
  HostLink link;
} Workload;

typedef struct Server {
  const Workload *load;
  SwapRun run;
  Tick now, compute;
  int64_t tokens; // of an iteration
} Server;

static HostLink link_of(double efficiency) {
  return (HostLink){.options = {.to_gpu = 419000000000,
                                .to_cpu = 371000000000,
                                .half_size = 840000,
                                .efficiency = efficiency}};
}

static double factor(const Workload *load, int32_t swapped) {
  const ExpansionRatio ratio = expansion_ratio(EXPANSION_PLAIN, load->layers, swapped);
  return (double)ratio.over / (double)ratio.under;
}

static void configure(Server *self, int32_t swapped, int32_t usable) {
  const Workload *load = self->load;
  const double kv = factor(load, usable) * (double)load->kv_bytes;
  const int64_t layer = (int64_t)(kv / load->layers);
  const SwapSpec spec = {.layers = load->layers,
                         .swapped = swapped,
                         .in = host_link_ticks(&load->link, NULL, LINK_TO_GPU, layer, self->now),
                         .out = host_link_ticks(&load->link, NULL, LINK_TO_CPU, layer, self->now),
                         .outside = tick_from_seconds(load->head),
                         .wait_tolerance = defaults().wait_tolerance};
  if (memcmp(&spec, &self->run.state.spec, sizeof spec) != 0) swap_run_begin(&self->run, spec);
  self->compute = tick_from_seconds(load->compute + load->head + kv / 3.2e12);
  self->tokens = (int64_t)(10000 * fmin(factor(load, usable), load->demand));
}

static SwapCounts step(Server *self) {
  const SwapCounts counts = swap_run_advance(&self->run, (Series){.first = self->compute}, 1);
  self->now += counts.ticks;
  return counts;
}

typedef struct Outcome {
  double rate, blocked; // tokens/s; share of time
} Outcome;

static Outcome fixed(const Workload *load, int32_t swapped) {
  Server server = {.load = load};
  SwapCounts sum = {0};
  configure(&server, swapped, swapped);
  for (int i = 0; i < 300; i++) {
    const SwapCounts counts = step(&server);
    swap_counts_add(&sum, &counts, 1);
  }
  return (Outcome){(double)(300 * server.tokens) / tick_seconds(sum.ticks),
                   (double)sum.blocked / (double)sum.ticks};
}

/* The best of the fixed numbers of layers whose waits are within the violation ratio. */
static double best_fixed(const Workload *load, double allowed) {
  double best = 0;
  for (int32_t m = 0; m <= load->layers - 2; m++) {
    const Outcome outcome = fixed(load, m);
    if (outcome.blocked <= allowed) best = fmax(best, outcome.rate);
  }
  return best;
}

static Outcome adapt(Server *server, Expansion *controller, int64_t steps) {
  SwapCounts sum = {0};
  int64_t tokens = 0;
  for (int64_t i = 0; i < steps; i++) {
    configure(server, controller->swapped, controller->usable);
    const Tick compute = server->compute;
    const SwapCounts counts = step(server);
    const ExpansionStep seen = {.steps = 1,
                                .waited =
                                    swap_waits(&server->run.state.spec, counts.blocked, compute),
                                .fits = true,
                                .swaps = counts.swaps_in + counts.swaps_out,
                                .swaps_in = counts.swaps_in,
                                .violations = counts.violations,
                                .tokens = server->tokens,
                                .ticks = counts.ticks,
                                .blocked = counts.blocked};
    expansion_observe(controller, &seen);
    swap_counts_add(&sum, &counts, 1);
    tokens += server->tokens;
  }
  return (Outcome){(double)tokens / tick_seconds(sum.ticks),
                   (double)sum.blocked / (double)sum.ticks};
}

enum { WARM_UP = 4000, SETTLED = 5000 };

Test(expansion, settles_within_two_percent_of_the_best_fixed_expansion) {
  const Workload loads[] = {
      {48, 3000000000, 0.01875, 0.004, 1.5, link_of(0.55)}, // what there is to serve is the limit
      {48, 3000000000, 0.01875, 0.004, 1.2, link_of(1)},
      {40, 7000000000, 0.0082, 0.004, 99, link_of(0.55)}, // the link is
      {40, 3000000000, 0.0082, 0.004, 99, link_of(0.55)},
      {80, 10000000000, 0.03, 0.002, 99, link_of(0.55)},
      {126, 10000000000, 0.04, 0.002, 99, link_of(0.55)}, // a layer is less than 1% of capacity
      {32, 1000000000, 0.03, 0.002, 1, link_of(1)},       // nothing to gain
  };
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
    const ExpansionOptions options = defaults();
    Server server = {.load = &loads[i]};
    Expansion controller;
    expansion_init(&controller, &options, EXPANSION_PLAIN, loads[i].layers, loads[i].layers - 2);
    adapt(&server, &controller, WARM_UP);
    const Outcome settled = adapt(&server, &controller, SETTLED);
    const double best = best_fixed(&loads[i], 1);
    cr_assert_geq(settled.rate, 0.98 * best, "load %zu: %.0f of %.0f tokens/s with %d layers", i,
                  settled.rate, best, controller.usable);
    cr_assert_leq(settled.blocked, options.violation_ratio, "load %zu: %f", i, settled.blocked);
  }
}

/* Memory-bound to the end: throughput would still grow where a quarter of the time is waits. The
 * controller keeps swapping transparent, and is the best of those that do. */
Test(expansion, stays_transparent_where_waits_would_pay) {
  const Workload load = {48, 3000000000, 0.01875, 0.004, 99, link_of(0.6)};
  const ExpansionOptions options = defaults();
  Server server = {.load = &load};
  Expansion controller;
  expansion_init(&controller, &options, EXPANSION_PLAIN, 48, 46);
  adapt(&server, &controller, WARM_UP);
  const Outcome settled = adapt(&server, &controller, SETTLED);
  cr_assert_leq(settled.blocked, 0.005);
  cr_assert_geq(settled.rate, 0.98 * best_fixed(&load, 0));
}

Test(expansion, gives_way_to_background_traffic_and_comes_back_after_it) {
  Workload load = {40, 3000000000, 0.0082, 0.004, 99, link_of(0.55)};
  const ExpansionOptions options = defaults();
  Server server = {.load = &load};
  Expansion controller;
  expansion_init(&controller, &options, EXPANSION_PLAIN, 40, 38);
  adapt(&server, &controller, WARM_UP);
  const int32_t before = controller.usable;
  const double alone = best_fixed(&load, 1);
  BackgroundTraffic traffic = {.from = server.now, .to = TICK_MAX, .share = 0.4};
  load.link.background = &traffic;
  load.link.n_background = 1;
  const Outcome at_first = adapt(&server, &controller, 5);
  cr_assert_gt(at_first.blocked, options.violation_ratio);
  adapt(&server, &controller, 500);
  const Outcome during = adapt(&server, &controller, SETTLED);
  cr_assert_lt(controller.usable, before);
  cr_assert_leq(during.blocked, options.violation_ratio);
  traffic.from = 0;
  cr_assert_geq(during.rate, 0.98 * best_fixed(&load, 1));
  traffic.to = server.now;
  adapt(&server, &controller, WARM_UP);
  const Outcome after = adapt(&server, &controller, SETTLED);
  load.link.n_background = 0;
  cr_assert_geq(after.rate, 0.98 * alone);
  cr_assert_leq(after.blocked, options.violation_ratio);
}
