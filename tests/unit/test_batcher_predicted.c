/* Who joins the decodes of a TetriInfer instance, by what is predicted of them: greedy, reserve-
 * static and reserve-dynamic. Blocks are of one token; a request of a stage has made one token. */
#include "tests/unit/batcher_testing.h"

TestSuite(batcher_predicted, .init = setup, .fini = teardown);

static Subject begin(const char *policy, const char *more, int64_t kv_blocks) {
  return start("tetriinfer", arena_printf(&arena, "{decode_policy: %s%s}", policy, more),
               kv_blocks);
}

/* A decode of `context` tokens of KV of which `low` … `high` − 1 output tokens are predicted. */
static RequestIx decode(RequestState state, int32_t context, int32_t low, int32_t high) {
  const RequestIx ix = stage_decode(&stage, 0, state, context, 50);
  stage.requests.slots[ix].predicted_low = low;
  stage.requests.slots[ix].predicted_high = high;
  return ix;
}

static int64_t review(const Subject *self) {
  const InstanceView view = stage_view(&stage, 0);
  return self->batcher->review(self->state, self->machine_state, &view);
}

/* One of 20 runs and is predicted to make 10 more; one of 20, to make 30 more, waits. */
Test(batcher_predicted, policies_differ_in_the_memory_they_want) {
  static const struct {
    const char *policy;
    int64_t needed; // beyond the 40 that are held
  } cases[] = {
      {"greedy", 2},           // a token of each
      {"reserve_static", 31},  // a token of the one, all of the other
      {"reserve_dynamic", 20}, // of each until the first finishes
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    for (int more = -1; more <= 0; more++) {
      const Subject subject = begin(cases[i].policy, "", 40 + cases[i].needed + more);
      decode(REQUEST_RUNS, 20, 11, 100);
      decode(REQUEST_WAITS_DECODE, 20, 31, 100);
      expect_plan(&subject, more < 0 ? "" : "+1", cases[i].policy);
    }
}

Test(batcher_predicted, the_upper_end_counts_if_wanted) {
  const Subject subject = begin("reserve_static", ", estimate: high", 40 + 1 + 98);
  decode(REQUEST_RUNS, 20, 11, 100);
  decode(REQUEST_WAITS_DECODE, 20, 31, 100); // 99 at most, one is made
  expect_plan(&subject, "+1", "98 and a token of the other");
  stage.machines[0].free_blocks--;
  expect_plan(&subject, "", "one block less");
}

Test(batcher_predicted, an_overrun_is_expected_to_make_one_more) {
  const Subject subject = begin("reserve_static", "", 42);
  decode(REQUEST_RUNS, 20, 0, 1);
  decode(REQUEST_WAITS_DECODE, 20, 1, 2);
  expect_plan(&subject, "+1", "a token of each");
}

Test(batcher_predicted, nobody_overtakes) {
  const Subject subject = begin("reserve_static", "", 100);
  decode(REQUEST_RUNS, 20, 2, 3);
  decode(REQUEST_WAITS_DECODE, 20, 90, 100);
  decode(REQUEST_WAITS_DECODE, 20, 2, 3);
  expect_plan(&subject, "", "the first is too long");
}

Test(batcher_predicted, predictions_do_not_bar_who_would_run_alone) {
  static const char *const policies[] = {"greedy", "reserve_static", "reserve_dynamic"};
  for (size_t i = 0; i < COUNT(policies); i++) {
    const Subject subject = begin(policies[i], "", 41);
    decode(REQUEST_WAITS_DECODE, 20, 90, 100);
    decode(REQUEST_WAITS_DECODE, 20, 90, 100);
    expect_plan(&subject, "+0", policies[i]);
  }
}

/* 30 are free. Both who join count: the first is predicted to make 15 more, the second 9; after 9,
 * 18 are held; after 15, with a third, 45 would be. */
Test(batcher_predicted, reserve_dynamic_counts_those_who_join_with_it) {
  const Subject subject = begin("reserve_dynamic", "", 90);
  decode(REQUEST_WAITS_DECODE, 20, 16, 20);
  decode(REQUEST_WAITS_DECODE, 20, 16, 20);
  decode(REQUEST_WAITS_DECODE, 20, 16, 20);
  expect_plan(&subject, "+0 +1", "15 of each are 30, 45 are too many");
  stage.requests.slots[2].predicted_low = 11;
  expect_plan(&subject, "+0 +1 +2", "the third finishes first, after 10");
}

/* 10 more of the one that runs and of one that waits are 20; 16 are free. The later it joins the
 * less it has made by then: after k iterations it needs 10 − k, so 10 + 10 − k <= 16 from k = 4. */
Test(batcher_predicted, reserve_dynamic_looks_again_when_time_alone_has_made_room) {
  const Subject subject = begin("reserve_dynamic", "", 56);
  decode(REQUEST_RUNS, 20, 11, 100);
  decode(REQUEST_WAITS_DECODE, 20, 31, 100);
  expect_plan(&subject, "", "now it does not fit");
  cr_expect_eq(review(&subject), 4);
  stage.machines[0].activity = ACTIVITY_DECODE;
  cr_expect(wake(&subject, WAKE_DECODE, 1), "the run is laid out anew for it");
  stage.machines[0].free_blocks = 9;
  cr_expect_eq(review(&subject), INT64_MAX, "the batch alone takes 10");
  cr_expect_not(wake(&subject, WAKE_DECODE, 1));
}

Test(batcher_predicted, other_policies_are_not_asked_again) {
  static const char *const policies[] = {"greedy", "reserve_static"};
  for (size_t i = 0; i < COUNT(policies); i++) {
    const Subject subject = begin(policies[i], "", 41);
    decode(REQUEST_RUNS, 20, 11, 100);
    decode(REQUEST_WAITS_DECODE, 20, 31, 100);
    cr_expect_eq(review(&subject), INT64_MAX, "%s", policies[i]);
    stage.machines[0].activity = ACTIVITY_DECODE;
    cr_expect_not(wake(&subject, WAKE_RELEASE, 1), "%s", policies[i]);
  }
}

Test(batcher_predicted, a_full_batch_takes_nobody) {
  const Subject subject = begin("greedy", ", max_num_seqs: 1", 1000);
  decode(REQUEST_RUNS, 20, 11, 100);
  decode(REQUEST_WAITS_DECODE, 20, 31, 100);
  expect_plan(&subject, "", "one place");
  stage.machines[0].activity = ACTIVITY_DECODE;
  cr_expect_not(wake(&subject, WAKE_DECODE, 1));
}

/* As those that wait here, but beyond what they hold: 20 for the KV, and what they will make. */
Test(batcher_predicted, kv_is_received_for_who_might_join_behind_those_that_wait) {
  static const struct {
    const char *policy;
    int64_t needed;
  } cases[] = {
      {"greedy", 23},          // a token of each, and all of the third
      {"reserve_static", 52},  // a token of the others, 30 of the third
      {"reserve_dynamic", 50}, // ten of each
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    for (int more = -1; more <= 0; more++) {
      const Subject subject = begin(cases[i].policy, "", 40 + cases[i].needed + more);
      decode(REQUEST_RUNS, 20, 11, 100);
      decode(REQUEST_WAITS_DECODE, 20, 31, 100);
      const RequestIx third = stage_request(&stage, 20, 50);
      Request *request = &stage.requests.slots[third];
      request->state = REQUEST_MOVES;
      request->generated_tokens = 1;
      request->kv_blocks = 20; // where it was prefilled
      request->predicted_low = 31;
      const InstanceView view = stage_view(&stage, 0);
      cr_expect_eq(subject.batcher->receives(subject.state, subject.machine_state, &view, third),
                   more == 0, "%s", cases[i].policy);
    }
}
