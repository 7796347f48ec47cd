/* How long a run is to be, and what of it is left out. Pinned: each reason to go on with the length
 * that it asks for, each way to end, and that neither requests nor the start ever shrink. */
#include "experiments/campaign/steady.h"
#include <criterion/criterion.h>
#include <math.h>

TestSuite(steady);

static const LengthConfig usual = {
    .automatic = true, .finds_start = true, .precision = 0.05, .most = 200000};

/* A run in which nothing is wrong. */
static Pass good_pass(const Steady *steady) {
  return (Pass){
      .arrived = steady->requests, .start = {.ended = true}, .least_known = 0.04, .e2es = 50};
}

typedef struct Case {
  const char *name;
  int64_t start; // found; -1: not ended
  double least_known, e2es;
  int64_t requests, left_out; // then; 0 requests: it ends
} Case;

Test(steady, what_is_lacking_says_how_much_longer) {
  /* A first run of 1,000. Ranges shrink with the root, a tenth is added, rounded up to hundreds. */
  static const Case cases[] = {
      {"enough", 0, 0.04, 50, 0, 0},
      {"twice as wide", 0, 0.10, 50, 4400, 0},           // 1.1 · 4 · 1000
      {"a little too wide", 0, 0.0501, 50, 1300, 0},     // a quarter more at least
      {"far too wide", 0, 1, 50, 8000, 0},               // eight times at most
      {"not known", 0, NAN, 50, 4000, 0},                //
      {"two E2Es", 0, 0.04, 2, 2800, 0},                 // 1.1 · 5 / 2 · 1000, up
      {"a start", 200, 0.04, 50, 1000, 200},             // the same again
      {"a start and too wide", 200, 0.1, 50, 3800, 200}, // 200 + 1.1 · 4 · 800, up
      {"all start", -1, 0.04, 50, 4000, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case *row = &cases[i];
    Steady steady;
    LengthEnd end;
    steady_init(&steady, &usual);
    cr_assert_eq(steady.requests, 1000);
    Pass pass = good_pass(&steady);
    pass.start = (FoundStart){.requests = row->start > 0 ? (uint64_t)row->start : 0,
                              .ended = row->start >= 0};
    pass.least_known = row->least_known;
    pass.e2es = row->e2es;
    const bool goes_on = steady_goes_on(&steady, &pass, &end);
    cr_expect_eq(goes_on, row->requests > 0, "%s", row->name);
    cr_expect_eq(steady.requests, goes_on ? row->requests : 1000, "%s: %lld", row->name,
                 (long long)steady.requests);
    cr_expect_eq(steady.left_out, row->left_out, "%s", row->name);
    cr_expect(goes_on || end == LENGTH_REACHED, "%s", row->name);
  }
}

Test(steady, a_shorter_start_is_not_taken_back) {
  Steady steady = {.length = &usual, .requests = 2000, .left_out = 300};
  LengthEnd end;
  Pass pass = good_pass(&steady);
  pass.start.requests = 120;
  cr_expect(!steady_goes_on(&steady, &pass, &end) && end == LENGTH_REACHED);
  cr_expect_eq(steady.left_out, 300);
}

Test(steady, saturation_is_seen_twice) {
  Steady steady;
  LengthEnd end;
  steady_init(&steady, &usual);
  Pass pass = good_pass(&steady);
  pass.saturated = pass.hopeless = true;
  cr_expect(steady_goes_on(&steady, &pass, &end));
  cr_expect_eq(steady.requests, 2000);
  pass.arrived = steady.requests;
  cr_expect(!steady_goes_on(&steady, &pass, &end) && end == LENGTH_SATURATED);
}

Test(steady, it_ends_where_there_is_no_more) {
  Steady steady;
  LengthEnd end;
  steady_init(&steady, &usual);
  Pass pass = good_pass(&steady);
  pass.least_known = 0.2;
  pass.arrived = 700; // the trace was over
  cr_expect(!steady_goes_on(&steady, &pass, &end) && end == LENGTH_WORKLOAD);
  const LengthConfig few = {.automatic = true, .precision = 0.05, .most = 400};
  steady_init(&steady, &few);
  cr_expect_eq(steady.requests, 400);
  pass.arrived = 400;
  cr_expect(!steady_goes_on(&steady, &pass, &end) && end == LENGTH_MOST);
}

/* `warm: auto` of a run whose length is given: once more without its start, and that is it. */
Test(steady, a_given_length_stays) {
  const LengthConfig given = {.finds_start = true};
  Steady steady;
  LengthEnd end;
  steady_init(&steady, &given);
  Pass pass = good_pass(&steady);
  pass.least_known = NAN;
  pass.start.requests = 50;
  cr_expect(steady_goes_on(&steady, &pass, &end));
  cr_expect(steady.left_out == 50 && steady.requests == 0);
  cr_expect(!steady_goes_on(&steady, &pass, &end));
}
