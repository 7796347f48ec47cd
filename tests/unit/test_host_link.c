/* The link between GPU and CPU memory. Pinned: the rate's form against Pie Fig. 1, directions and
 * efficiency, transfers across changes of background traffic worked out by hand, the schedule's
 * next change, and messages about wrong schedules. */
#include "base/rng.h"
#include "sim/core/host_link.h"
#include "tests/unit/testing.h"

typedef struct State {
  HostLinkOptions link;
} State;

static const OptionSpec OPTIONS[] = {
    {"to_gpu_bandwidth", OPTION_BANDWIDTH, offsetof(State, link.to_gpu), "419 GB/s", .min = 1e6,
     .max = 1e15},
    {"to_cpu_bandwidth", OPTION_BANDWIDTH, offsetof(State, link.to_cpu), "371 GB/s", .min = 1e6,
     .max = 1e15},
    HOST_LINK_USE(State, link),
    {0}};

TestSuite(host_link, .init = setup, .fini = teardown);

static int load(HostLink *self, const char *text) {
  State state = {0};
  const Node *root = yaml_parse("test.yaml", text, strlen(text), &arena, &diag);
  cr_assert_not_null(root);
  cr_assert_eq(option_bind(OPTIONS, root, NULL, place_of_file("test.yaml"), &state, &diag), 0);
  return host_link_init(self, &state.link, &arena, &diag);
}

Test(host_link, sixteen_megabytes_get_95_percent_of_the_peak) {
  HostLink link;
  cr_assert_eq(load(&link, "{efficiency: 1}"), 0);
  const int64_t s = 16000000;
  const double in = (double)s / tick_seconds(host_link_ticks(&link, NULL, LINK_TO_GPU, s, 0));
  const double out = (double)s / tick_seconds(host_link_ticks(&link, NULL, LINK_TO_CPU, s, 0));
  cr_assert_float_eq(in / 419e9, 0.95, 0.001);
  cr_assert_float_eq(out / 371e9, 0.95, 0.001);
  const double half = 840000 / tick_seconds(host_link_ticks(&link, NULL, LINK_TO_GPU, 840000, 0));
  cr_assert_float_eq(half / 419e9, 0.5, 1e-6);
}

Test(host_link, efficiency_stretches_every_transfer) {
  HostLink whole, half;
  load(&whole, "{efficiency: 1}");
  load(&half, "{efficiency: 50%}");
  for (int64_t s = 1; s < 1000000000; s *= 7) {
    const Tick ticks = host_link_ticks(&whole, NULL, LINK_TO_CPU, s, 0);
    const Tick twice = host_link_ticks(&half, NULL, LINK_TO_CPU, s, 0);
    cr_assert(twice >= 2 * ticks - 1 && twice <= 2 * ticks + 1);
  }
}

static const char SCHEDULE[] = "to_gpu_bandwidth: 100 GB/s\n"
                               "to_cpu_bandwidth: 50 GB/s\n"
                               "half_size: 0 B\n"
                               "background:\n"
                               "  - {from: 1 s, to: 3 s, share: 50%}\n"
                               "  - {from: 2 s, bandwidth: 25 GB/s, direction: to_gpu}\n"
                               "  - {from: 5 s, to: 6 s, share: 100%, direction: to_cpu}\n";

Test(host_link, a_transfer_goes_at_the_rate_that_background_traffic_leaves) {
  HostLink link;
  cr_assert_eq(load(&link, SCHEDULE), 0);
  static const struct {
    LinkDirection direction;
    int64_t gigabytes;
    double begin, seconds;
  } cases[] = {
      {LINK_TO_GPU, 100, 0, 1},    // before anything
      {LINK_TO_GPU, 50, 1, 1},     // half of it left
      {LINK_TO_GPU, 150, 0, 2},    // 100 in the first second, 50 in the next
      {LINK_TO_GPU, 175, 0, 3},    // and 25 at a quarter
      {LINK_TO_GPU, 250, 0, 4},    // and 75 at three
      {LINK_TO_GPU, 75, 1000, 1},  // the open end
      {LINK_TO_CPU, 50, 1, 2},     // the other direction shares the first
      {LINK_TO_CPU, 25, 2, 1},     // and not the second
      {LINK_TO_CPU, 50, 3, 1},     //
      {LINK_TO_CPU, 101, 3, 3.01}, // the least in the third second: 0.5 GB
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Tick begin = tick_from_seconds(cases[i].begin);
    const Tick ticks =
        host_link_ticks(&link, NULL, cases[i].direction, cases[i].gigabytes * 1000000000, begin);
    cr_assert_float_eq(tick_seconds(ticks), cases[i].seconds, 1e-9, "case %zu: %.9f", i,
                       tick_seconds(ticks));
  }
}

Test(host_link, the_next_change_is_the_next_begin_or_end) {
  HostLink link;
  load(&link, SCHEDULE);
  static const double changes[] = {1, 2, 3, 5, 6};
  Tick now = 0;
  for (int i = 0; i < 5; i++) {
    now = host_link_next_change(&link, NULL, now);
    cr_assert_eq(now, tick_from_seconds(changes[i]));
    cr_assert_eq(host_link_next_change(&link, NULL, now - 1), now);
  }
  cr_assert_eq(host_link_next_change(&link, NULL, now), TICK_MAX);
}

Test(host_link, a_longer_transfer_never_takes_less) {
  HostLink link;
  load(&link, SCHEDULE);
  for (int begin = 0; begin < 8; begin++) {
    Tick last = 0;
    for (int64_t s = 1; s < INT64_C(500000000000); s += s / 10 + 1) {
      const Tick ticks = host_link_ticks(&link, NULL, LINK_TO_CPU, s, begin * TICKS_PER_SECOND);
      cr_assert_geq(ticks, last);
      last = ticks;
    }
  }
}

/* At 1 MB/s, of which background traffic leaves at least a hundredth: 9e6 s for 90 GB. */
Test(host_link, the_slowest_link_moves_what_is_asked_in_104_days) {
  static const struct {
    int64_t to_gpu, to_cpu, half_size;
    double efficiency, bytes;
    bool good;
  } cases[] = {
      {1000000, 1000000, 0, 1, 8.999e10, true},
      {1000000, 1000000, 0, 1, 9.001e10, false},
      {1000000, 1000000, 20000000, 1, 8.997e10, true},
      {1000000, 1000000, 20000000, 1, 8.999e10, false},
      {2000000, 1000000, 0, 1, 9.001e10, false},
      {1000000, 2000000, 0, 1, 9.001e10, false},
      {2000000, 2000000, 0, 1, 9.001e10, true},
      {2000000, 2000000, 0, 0.5, 9.001e10, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const HostLink link = {.options = {.to_gpu = cases[i].to_gpu,
                                       .to_cpu = cases[i].to_cpu,
                                       .half_size = cases[i].half_size,
                                       .efficiency = cases[i].efficiency}};
    const int status = host_link_check(&link, cases[i].bytes, "it", place_of_file("x"), &diag);
    cr_expect_eq(status == 0, cases[i].good, "case %zu", i);
  }
}

Test(host_link, traffic_may_last_for_less_than_a_second) {
  HostLink link;
  cr_assert_eq(load(&link, "{efficiency: 1, background: [{to: 500 ms, share: 50%}]}"), 0);
  cr_expect_eq(link.background[0].from, 0);
  cr_expect_eq(link.background[0].to, TICKS_PER_SECOND / 2);
  cr_expect_eq(2 * host_link_rate(&link, NULL, LINK_TO_GPU, 0),
               host_link_rate(&link, NULL, LINK_TO_GPU, TICKS_PER_SECOND / 2));
}

Test(host_link, wrong_schedules_are_reported_where_they_stand) {
  HostLink link;
  cr_assert_lt(load(&link, "background: 3"), 0);
  cr_assert_lt(load(&link, "background: [{from: 3 s, to: 2 s}, {share: 120%}, {sahre: 1%}]"), 0);
  cr_assert_eq(diag.n_entries, 4);
  cr_assert_str_eq(diag.entries[0].message, "'background' must be a list");
  cr_assert_str_eq(diag.entries[1].message, "'to' must be later than 'from'");
  cr_assert_eq(diag.entries[1].at.line, 1);
  cr_assert_str_eq(diag.entries[3].message, "unknown key 'sahre'");
}

/* Each begins when it can and the one before it has ended, and takes what it would alone. */
Test(host_link, the_ends_of_a_queue_are_a_sum) {
  HostLink link;
  cr_assert_eq(load(&link, "{efficiency: 0.8, background: [{from: 1 s, to: 2 s, share: 50%}]}"), 0);
  for (uint64_t seed = 1; seed <= 20; seed++) {
    Rng rng;
    rng_init(&rng, seed, "queue");
    CopyQueue queue = {0};
    Tick plain[LINK_DIRECTIONS] = {0}, now = 0;
    for (int i = 0; i < 200; i++) {
      const LinkDirection direction = (LinkDirection)rng_below(&rng, LINK_DIRECTIONS);
      const int64_t bytes = 1 + (int64_t)rng_below(&rng, 5000000000);
      const bool beside_tier = rng_below(&rng, 4) == 0;
      now += (Tick)rng_below(&rng, 30) * TICKS_PER_SECOND / 1000;
      Tick *end = &plain[direction];
      const Tick from = *end > now ? *end : now;
      const CopyQueue tier = {{TICK_MAX, TICK_MAX}};
      *end = from + host_link_ticks(&link, beside_tier ? &tier : NULL, direction, bytes, from);
      cr_assert_eq(host_link_queue(&link, &queue, direction, bytes, now, beside_tier), *end);
      cr_assert_eq(queue.ends[direction], *end);
    }
  }
}

/* 371 GB in a second of their own, or in two; a quarter of the link beside both. */
Test(host_link, a_tier_has_half_of_what_is_left_while_copies_last) {
  HostLink link;
  cr_assert_eq(load(&link, "{efficiency: 1, half_size: 0 B,"
                           " background: [{from: 2 s, to: 3 s, share: 50%}]}"),
               0);
  CopyQueue queue = {{0}};
  const int64_t second = 371000000000;
  cr_expect_eq(host_link_queue(&link, &queue, LINK_TO_CPU, second, 0, false), TICKS_PER_SECOND);
  cr_expect_eq(host_link_ticks(&link, &queue, LINK_TO_CPU, second, 0), TICKS_PER_SECOND * 3 / 2);
  cr_expect_eq(host_link_next_change(&link, &queue, 0), TICKS_PER_SECOND);
  cr_expect_eq(host_link_next_change(&link, &queue, TICKS_PER_SECOND), 2 * TICKS_PER_SECOND);
  cr_expect_float_eq(host_link_rate(&link, &queue, LINK_TO_CPU, 0), 371e9 / 2, 1);
  cr_expect_float_eq(host_link_rate(&link, &queue, LINK_TO_GPU, 0), 419e9, 1, "the other way");
  queue.ends[LINK_TO_CPU] = 3 * TICKS_PER_SECOND;
  cr_expect_float_eq(host_link_rate(&link, &queue, LINK_TO_CPU, 2 * TICKS_PER_SECOND), 371e9 / 4,
                     1);
  cr_expect_eq(host_link_queue(&link, &queue, LINK_TO_CPU, second, 0, true), 5 * TICKS_PER_SECOND);
}
