/* Batchers, each on a machine made by hand with blocks of one token. Pinned: what a plan takes
 * within tokens, sequences and memory and in which order, where it stops, who is left out, and for
 * what a machine is woken. That plans are carried out is in test_engine. */
#include "tests/unit/batcher_testing.h"

TestSuite(batcher, .init = setup, .fini = teardown);

/* --- first come, first served */

static const char *const fcfs[] = {"continuous", "mixed", "splitwise"};

/* Those that count the prefilled among the running, as vLLM does: a decode needs no block to join,
 * the newest gives way. */
static bool preempts(const char *name) {
  return strcmp(name, "continuous") == 0 || strcmp(name, "mixed") == 0;
}

/* What the plan looks like when it is only of prefills. */
static void expect_prefills(const Subject *self, const char *want, const char *what) {
  const bool pauses = strcmp(self->name, "continuous") == 0 && *want;
  expect_plan(self, pauses ? arena_printf(&arena, "paused %s", want) : want, what);
}

Test(batcher, prompts_are_taken_in_order_until_one_does_not_fit) {
  static const struct {
    const char *what;
    int32_t prompts[4];
    const char *options;
    int64_t kv_blocks;
    const char *want;
  } cases[] = {
      {"tokens, nobody overtakes", {1000, 1000, 49, 40}, NULL, 10000, "0p1000 1p1000"},
      {"tokens to the last one", {1000, 1000, 48, 1}, NULL, 10000, "0p1000 1p1000 2p48"},
      {"the first may be too long", {5000, 1, 1, 1}, NULL, 10000, "0p5000"},
      {"but only the first", {1, 5000, 1, 1}, NULL, 10000, "0p1"},
      {"sequences", {1, 1, 1, 1}, "{max_num_seqs: 3}", 10000, "0p1 1p1 2p1"},
      {"memory, to the last block", {50, 49, 1, 1}, NULL, 99, "0p50 1p49"},
      {"memory, nobody overtakes", {50, 50, 1, 1}, NULL, 99, "0p50"},
      {"memory for none", {100, 1, 1, 1}, NULL, 99, ""},
  };
  for (size_t b = 0; b < COUNT(fcfs); b++)
    for (size_t i = 0; i < COUNT(cases); i++) {
      const Subject subject = start(fcfs[b], cases[i].options, cases[i].kv_blocks);
      prefills(cases[i].prompts, COUNT(cases[i].prompts));
      expect_prefills(&subject, cases[i].want,
                      arena_printf(&arena, "%s: %s", fcfs[b], cases[i].what));
    }
}

Test(batcher, decodes_are_admitted_in_order_until_one_does_not_fit) {
  static const struct {
    const char *what, *options;
    int64_t kv_blocks; // 3 × 20 are held
    const char *want;
  } cases[] = {
      {"all", NULL, 200, "+0 +1 +2"},
      {"sequences", "{max_num_seqs: 2}", 200, "+0 +1"},
      {"memory for the next token of each", NULL, 62, "+0 +1"},
      {"memory for none", NULL, 60, ""},
  };
  for (size_t b = 0; b < COUNT(fcfs); b++)
    for (size_t i = 0; i < COUNT(cases); i++) {
      const Subject subject = start(fcfs[b], cases[i].options, cases[i].kv_blocks);
      const bool all = preempts(fcfs[b]) && !cases[i].options;
      decodes(REQUEST_WAITS_DECODE, 3, 20);
      expect_plan(&subject, all ? "+0 +1 +2" : cases[i].want,
                  arena_printf(&arena, "%s: %s", fcfs[b], cases[i].what));
    }
}

/* The one with 20 tokens left the other no block, and would be prefilled again in those that it
 * gave up. A prompt that has begun goes on, and one alone begins. */
Test(batcher, prompts_wait_where_somebody_has_just_given_way) {
  static const char *const names[] = {"continuous", "mixed", "splitwise", "sarathi", "tetriinfer"};
  for (size_t b = 0; b < COUNT(names); b++) {
    const char *options = strcmp(names[b], "tetriinfer") == 0 ? "{chunk_size: 20}" : NULL;
    const Subject subject = start(names[b], options, 45);
    stage.made_room = true;
    stage_prefill(&stage, 0, 20);
    const char *alone = planned(&subject);
    cr_expect_not_null(strstr(alone, "0p20"), "%s: '%s'", names[b], alone);
    const Subject again = start(names[b], options, 45);
    stage.made_room = true;
    decodes(REQUEST_WAITS_DECODE, 1, 20);
    stage_prefill(&stage, 0, 20);
    expect_plan(&again, "+0", names[b]);
  }
}

/* The first in line has 30 tokens, the second 10. */
Test(batcher, swapped_requests_return_in_order_with_room_to_spare) {
  static const struct {
    const char *what;
    int waiting;
    int64_t free_blocks; // besides those of the waiting, 20 each
    const char *want;
  } cases[] = {
      {"alone, with room for the next token", 0, 31, "+0"},
      {"not without", 0, 30, ""},
      {"nobody overtakes", 0, 29, ""},
      {"both, the second with a block for the first", 0, 31 + 11 + 1, "+0 +1"},
      {"but no less", 0, 31 + 11, "+0"},
      {"after those that hold their KV, and a block for each", 2, 2 + 31 + 2, "+3 +4 +0"},
      {"no less", 2, 2 + 31 + 1, "+3 +4"},
  };
  for (size_t b = 0; b < COUNT(fcfs); b++)
    for (size_t i = 0; i < COUNT(cases); i++) {
      const int64_t held = 20 * cases[i].waiting;
      const Subject subject = start(fcfs[b], NULL, held + cases[i].free_blocks);
      stage_decode(&stage, 0, REQUEST_SWAPPED, 30, 20);
      stage_decode(&stage, 0, REQUEST_SWAPPED, 10, 20);
      stage_prefill(&stage, 0, 1); // begins only when nobody is swapped
      decodes(REQUEST_WAITS_DECODE, cases[i].waiting, 20);
      expect_plan(&subject, cases[i].want, arena_printf(&arena, "%s: %s", fcfs[b], cases[i].what));
    }
}

Test(batcher, running_decodes_keep_a_block_each_when_swapped_requests_return) {
  enum { ENOUGH = 11 + 2 + 2 }; // two run, and take a block each beside the spare ones
  for (size_t b = 0; b < COUNT(fcfs); b++)
    for (int short_of = 0; short_of < 2; short_of++) {
      const bool reserves = strcmp(fcfs[b], "splitwise") == 0;
      const Subject subject =
          start(fcfs[b], reserves ? "{memory_reserve: 0}" : NULL, 40 + ENOUGH - short_of);
      stage_decode(&stage, 0, REQUEST_SWAPPED, 10, 20);
      decodes(REQUEST_RUNS, 2, 20);
      expect_plan(&subject, short_of ? "" : "+0", fcfs[b]);
    }
}

Test(batcher, a_run_is_cut_short_for_a_swapped_request_that_fits_again) {
  for (size_t b = 0; b < COUNT(fcfs); b++) {
    const Subject subject = start(fcfs[b], NULL, 200);
    stage_decode(&stage, 0, REQUEST_SWAPPED, 10, 20);
    decodes(REQUEST_RUNS, 2, 20);
    stage.machines[0].activity = ACTIVITY_DECODE;
    const RequestIx prompt = stage_prefill(&stage, 0, 10);
    cr_expect_not(wake(&subject, WAKE_PREFILL, prompt), "%s: prompts wait", fcfs[b]);
    stage.machines[0].free_blocks = 12;
    cr_expect_not(wake(&subject, WAKE_RELEASE, 0), "%s: too little", fcfs[b]);
    stage.machines[0].free_blocks = 13;
    cr_expect(wake(&subject, WAKE_RELEASE, 0), "%s: enough", fcfs[b]);
  }
}

Test(batcher, a_resumed_prompt_takes_what_it_still_lacks) {
  for (size_t b = 0; b < COUNT(fcfs); b++) {
    const Subject subject = start(fcfs[b], NULL, 1000);
    const RequestIx ix = stage_prefill(&stage, 0, 100);
    Request *request = &stage.requests.slots[ix];
    request->prefilled_tokens = request->kv_blocks = 30;
    stage.machines[0].free_blocks = 70;
    expect_prefills(&subject, "0p70", fcfs[b]);
    stage.machines[0].free_blocks = 69;
    expect_prefills(&subject, "", fcfs[b]);
  }
}

typedef struct WakeCase {
  const char *what;
  Wake why;
  bool busy;
  int n_prefills, n_decodes; // waiting, 10 tokens each
  int64_t free_blocks;
  bool want;
} WakeCase;

Test(batcher, a_run_is_cut_short_only_for_who_is_next_and_fits) {
  static const WakeCase cases[] = {
      {"idle, a prompt", WAKE_PREFILL, false, 1, 0, 0, true},
      {"idle, KV arrived", WAKE_DECODE, false, 0, 1, 0, true},
      {"idle, KV left", WAKE_RELEASE, false, 1, 0, 0, true},
      {"idle, its own decode to come", WAKE_CHAINED, false, 1, 0, 500, false},
      {"the first prompt", WAKE_PREFILL, true, 1, 0, 10, true},
      {"behind another prompt", WAKE_PREFILL, true, 2, 0, 500, false},
      {"a prompt too large", WAKE_PREFILL, true, 1, 0, 9, false},
      {"the first decode", WAKE_DECODE, true, 0, 1, 1, true},
      {"behind another decode", WAKE_DECODE, true, 0, 2, 500, false},
      {"no memory for its token", WAKE_DECODE, true, 0, 1, 0, false},
      {"memory for a prompt that waited", WAKE_RELEASE, true, 2, 0, 10, true},
      {"still none for it", WAKE_RELEASE, true, 2, 0, 9, false},
      {"memory for a decode that waited", WAKE_RELEASE, true, 0, 2, 1, true},
      {"nobody waits", WAKE_RELEASE, true, 0, 0, 500, false},
  };
  for (size_t b = 0; b < COUNT(fcfs); b++)
    for (size_t i = 0; i < COUNT(cases); i++) {
      const Subject subject = start(fcfs[b], "{max_num_seqs: 2}", 1000);
      Instance *machine = &stage.machines[0];
      machine->activity = cases[i].busy ? ACTIVITY_DECODE : ACTIVITY_IDLE;
      decodes(REQUEST_RUNS, cases[i].busy, 10);
      decodes(REQUEST_WAITS_DECODE, cases[i].n_decodes, 10);
      for (int k = 0; k < cases[i].n_prefills; k++)
        stage_prefill(&stage, 0, 10);
      machine->free_blocks = cases[i].free_blocks;
      const RequestIx last = (RequestIx)stage.requests.n_slots - 1;
      const bool joins = cases[i].why == WAKE_DECODE && preempts(fcfs[b]);
      const bool want = cases[i].want || joins;
      cr_expect_eq(wake(&subject, cases[i].why, last), want, "%s: %s", fcfs[b], cases[i].what);
    }
}

Test(batcher, a_full_batch_is_not_woken) {
  for (size_t b = 0; b < COUNT(fcfs); b++) {
    const Subject subject = start(fcfs[b], "{max_num_seqs: 2}", 1000);
    stage.machines[0].activity = ACTIVITY_DECODE;
    decodes(REQUEST_RUNS, 2, 10);
    cr_expect_not(wake(&subject, WAKE_PREFILL, stage_prefill(&stage, 0, 10)), "%s", fcfs[b]);
    expect_plan(&subject, "", fcfs[b]);
  }
}

/* --- continuous, mixed */

Test(batcher, continuous_counts_those_prefilled_among_the_sequences) {
  const Subject subject = start("continuous", "{max_num_seqs: 4}", 1000);
  const int32_t prompts[] = {10, 10};
  decodes(REQUEST_RUNS, 2, 50);
  decodes(REQUEST_WAITS_DECODE, 1, 50);
  prefills(prompts, 2);
  expect_plan(&subject, "paused 3p10", "2 run, 1 was prefilled");
  decodes(REQUEST_WAITS_DECODE, 1, 50);
  expect_plan(&subject, "+2 +5", "no place for a prompt");
}

Test(batcher, continuous_pauses_decodes_while_prompts_are_prefilled) {
  const Subject subject = start("continuous", NULL, 1000);
  decodes(REQUEST_RUNS, 3, 20);
  decodes(REQUEST_WAITS_DECODE, 2, 20);
  expect_plan(&subject, "+3 +4", "no prompts: the decodes go on, others join");
  stage_prefill(&stage, 0, 30);
  expect_plan(&subject, "paused 5p30", "prompts first");
}

Test(batcher, mixed_gives_decodes_their_token_first_and_prompts_the_rest) {
  static const struct {
    const char *what;
    int64_t tokens, kv_blocks;
    const char *want;
  } cases[] = {
      {"9 tokens: 3 run, 2 join, 4 are left", 9, 1000, "5p4 +3 +4"},
      {"11 tokens: 6 are left", 11, 1000, "5p4 6p2 +3 +4"},
      {"5 tokens: a first prompt joins even so", 5, 1000, "5p4 +3 +4"},
      {"4 tokens: one decode joins", 4, 1000, "5p4 +3"},
      {"100 held, growth of 5, 4 + 2 for the prompts", 11, 111, "5p4 6p2 +3 +4"},
      {"one block less", 11, 110, "5p4 +3 +4"},
      {"growth of the three that run, and one block", 11, 104, "+3 +4"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *options =
        arena_printf(&arena, "{max_num_batched_tokens: %d}", (int)cases[i].tokens);
    const Subject subject = start("mixed", options, cases[i].kv_blocks);
    decodes(REQUEST_RUNS, 3, 20);
    decodes(REQUEST_WAITS_DECODE, 2, 20);
    prefills((int32_t[]){4, 2}, 2);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

/* --- request_level */

Test(batcher, request_level_takes_whole_requests_and_memory_for_their_outputs) {
  static const struct {
    const char *what, *options;
    int64_t kv_blocks;
    const char *want;
  } cases[] = {
      {"all", NULL, 1000, "0p40 1p30 2p5 3p5"},
      {"places", "{max_num_seqs: 3}", 1000, "0p40 1p30 2p5"},
      {"(40 + 10) + (30 + 10) + (5 + 10)", NULL, 105, "0p40 1p30 2p5"},
      {"nobody overtakes", NULL, 104, "0p40 1p30"},
      {"at most all there is", NULL, 49, "0p40"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("request_level", cases[i].options, cases[i].kv_blocks);
    prefills((int32_t[]){40, 30, 5, 5}, 4);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
  const Subject subject = start("request_level", NULL, 82);
  prefills((int32_t[]){40, 40}, 2);
  stage.requests.slots[0].decode_instance = stage.requests.slots[1].decode_instance = 1;
  expect_plan(&subject, "0p40 1p40", "decoded elsewhere: one token more than the prompt");
}

Test(batcher, request_level_pads_prompts_to_the_longest_or_to_what_is_set) {
  static const struct {
    const char *what, *options;
    int32_t prompts[2];
    const char *want;
  } cases[] = {
      {"10 tokens and 40² − 30²", "{padded: true}", {40, 30}, "0p40 1p30 ~10/700"},
      {"the other way round", "{padded: true}", {30, 40}, "0p30 1p40 ~10/700"},
      {"two of a length", "{padded: true}", {40, 40}, "0p40 1p40"},
      {"2·50 − 70 and 2·50² − 40² − 30²",
       "{padded: true, padded_prompt_tokens: 50}",
       {40, 30},
       "0p40 1p30 ~30/2500"},
      {"as long as is set", "{padded: true, padded_prompt_tokens: 40}", {40, 40}, "0p40 1p40"},
      {"only if padded", "{padded_prompt_tokens: 50}", {40, 30}, "0p40 1p30"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("request_level", cases[i].options, 1000);
    prefills(cases[i].prompts, 2);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

Test(batcher, request_level_waits_for_its_batch_to_end) {
  const Subject subject = start("request_level", NULL, 1000);
  prefills((int32_t[]){10}, 1);
  cr_expect(wake(&subject, WAKE_PREFILL, 0));
  decodes(REQUEST_WAITS_DECODE, 2, 20);
  expect_plan(&subject, "+1 +2", "who is prefilled goes first");
  decodes(REQUEST_RUNS, 1, 20);
  expect_plan(&subject, "", "a batch runs");
  stage.machines[0].activity = ACTIVITY_DECODE;
  cr_expect_not(wake(&subject, WAKE_PREFILL, 0));
  cr_expect_not(wake(&subject, WAKE_DECODE, 1));
}

Test(batcher, request_level_reserves_outputs_of_decodes_that_come_from_elsewhere) {
  const Subject subject = start("request_level", NULL, 81);
  decodes(REQUEST_WAITS_DECODE, 3, 20); // 21 more each; 21 are free
  expect_plan(&subject, "+0", "one whole output fits");
}

/* --- splitwise */

#define TEN "{max_num_batched_tokens: 10, max_preemptions: 2, memory_reserve: 0}"

/* Six decodes, 0 … 5 in order of arrival; those in `old` have been left out twice. */
static Subject splitwise_with_six(const char *old) {
  const Subject subject = start("splitwise", TEN, 1000);
  decodes(REQUEST_RUNS, 6, 20);
  for (; *old; old++)
    stage.requests.slots[*old - '0'].preemptions = 2;
  return subject;
}

Test(batcher, splitwise_leaves_out_the_newest_decodes_for_prompts) {
  static const struct {
    const char *what, *old;
    int32_t prompt;
    const char *want;
  } cases[] = {
      {"room for all", "", 4, "6p4"},
      {"3 tokens are left for 6", "", 7, "6p7 -5 -4 -3"},
      {"none are left", "", 10, "6p10 -5 -4 -3 -2 -1 -0"},
      {"a long prompt goes alone", "", 99, "6p99 -5 -4 -3 -2 -1 -0"},
      {"the old stay: 8 tokens for a prompt and four", "35", 7, "6p7 -4 -2 -1"},
      {"the old stay even with a long prompt", "35", 99, "6p99 -4 -2 -1 -0"},
      {"all are old", "012345", 99, "6p99"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = splitwise_with_six(cases[i].old);
    stage_prefill(&stage, 0, cases[i].prompt);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

Test(batcher, splitwise_prompts_make_room_for_the_old) {
  const Subject subject = splitwise_with_six("01");
  prefills((int32_t[]){5, 4}, 2);
  expect_plan(&subject, "6p5 -5", "10 − 2 old = 8: the second prompt waits, three others go on");
}

Test(batcher, splitwise_resumes_those_left_out_before_others_join) {
  const Subject subject = start("splitwise", TEN, 1000);
  decodes(REQUEST_RUNS, 7, 20);
  decodes(REQUEST_BLOCKED, 2, 20);      // 7 and 8
  decodes(REQUEST_WAITS_DECODE, 2, 20); // 9 and 10
  expect_plan(&subject, "+7 +8 +9", "three tokens are left");
  stage.requests.slots[8].preemptions = 2;
  expect_plan(&subject, "+8 +7 +9", "who is due goes first");
  const RequestIx prompt = stage_prefill(&stage, 0, 9);
  cr_assert_eq(prompt, 11u);
  expect_plan(&subject, "11p9 +8 -6 -5 -4 -3 -2 -1 -0",
              "and even into an iteration of prompts, which others leave");
}

Test(batcher, splitwise_keeps_a_share_of_memory_for_growth) {
  static const struct {
    const char *what;
    int running;
    int32_t prompt;
    const char *want;
  } cases[] = {
      {"100 − 80 held − 1 growth − 10 kept = 9", 1, 9, "1p9"},
      {"one more", 1, 10, ""},
      {"nothing runs: all of it", 0, 100, "0p100"},
      {"but no more", 0, 101, ""},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("splitwise", "{memory_reserve: 0.1}", 100);
    decodes(REQUEST_RUNS, cases[i].running, 80);
    stage_prefill(&stage, 0, cases[i].prompt);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

/* --- the splitwise-sim set: tasks are queued by waking it */

static bool arrive_prefill(const Subject *self, int32_t prompt_tokens) {
  return wake(self, WAKE_PREFILL, stage_prefill(&stage, 0, prompt_tokens));
}

/* A decode whose KV has arrived: `context` tokens held, `remaining` to make. */
static bool arrive_decode(const Subject *self, int32_t context, int32_t remaining) {
  return wake(self, WAKE_DECODE, stage_decode(&stage, 0, REQUEST_WAITS_DECODE, context, remaining));
}

/* Carries out the admissions and preemptions of the last plan. */
static void carry_out(void) {
  Instance *machine = &stage.machines[0];
  Request *slots = stage.requests.slots;
  for (size_t i = 0; i < stage.plan.n_preempts; i++) {
    const RequestIx ix = stage.plan.preempts[i];
    batch_remove(&machine->batch, slots, ix, slots[ix].prompt_tokens + slots[ix].generated_tokens);
    slots[ix].state = REQUEST_BLOCKED;
    request_queue_push(&machine->blocked, slots, ix);
  }
  for (size_t i = 0; i < stage.plan.n_admits; i++) {
    const RequestIx ix = stage.plan.admits[i];
    const bool blocked = slots[ix].state == REQUEST_BLOCKED;
    request_queue_remove(blocked ? &machine->blocked : &machine->decode_queue, slots, ix);
    slots[ix].state = REQUEST_RUNS;
    batch_push(&machine->batch, slots, ix, slots[ix].prompt_tokens + slots[ix].generated_tokens,
               slots[ix].output_tokens - slots[ix].generated_tokens, &arena);
  }
  machine->activity = ACTIVITY_DECODE;
}

/* Requests 0 to 4: decode, prompt of 6, decode, prompt of 6, decode. */
static void arrive_alternately(const Subject *self) {
  for (int i = 0; i < 5; i++)
    (void)(i % 2 ? arrive_prefill(self, 6) : arrive_decode(self, 20, 5));
}

Test(batcher, splitwise_sim_selects_prompts_first_then_the_rest_by_arrival) {
  static const struct {
    const char *what, *options;
    int64_t kv_blocks; // 60 are held
    const char *want;
  } cases[] = {
      {"room for all", NULL, 1000, "1p6 3p6 +0 +2 +4"},
      {"10 tokens: the second prompt stops everyone behind it", "{max_num_batched_tokens: 10}",
       1000, "1p6 +0 +2"},
      {"6 tokens", "{max_num_batched_tokens: 6}", 1000, "1p6"},
      {"5 tokens: the first may exceed them", "{max_num_batched_tokens: 5}", 1000, "1p6"},
      {"places", "{max_num_seqs: 3}", 1000, "1p6 3p6 +0"},
      {"memory for the prompts and one whole output", NULL, 60 + 7 + 7 + 5, "1p6 3p6 +0"},
      {"memory for one prompt, and its decodes up to the other", NULL, 60 + 7 + 6, "1p6 +0"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("splitwise_sim", cases[i].options, cases[i].kv_blocks);
    arrive_alternately(&subject);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

Test(batcher, splitwise_sim_lets_no_prompt_overtake) {
  const Subject subject = start("splitwise_sim", "{max_num_batched_tokens: 10}", 1000);
  arrive_prefill(&subject, 6);
  arrive_prefill(&subject, 6);
  arrive_prefill(&subject, 1);
  expect_plan(&subject, "0p6", "the second does not fit, the third would");
}

Test(batcher, splitwise_sim_lets_no_decode_overtake_one_that_lacks_memory) {
  const Subject subject = start("splitwise_sim", NULL, 50);
  arrive_decode(&subject, 20, 15);
  arrive_decode(&subject, 20, 5);
  expect_plan(&subject, "", "ten are free, the first needs 15");
}

Test(batcher, splitwise_sim_leaves_out_the_end_of_the_old_batch) {
  const Subject subject = start("splitwise_sim", "{max_num_batched_tokens: 10}", 1000);
  for (int i = 0; i < 4; i++)
    arrive_decode(&subject, 20, 5);
  expect_plan(&subject, "+0 +1 +2 +3", "decodes alone");
  carry_out();
  arrive_prefill(&subject, 8);
  expect_plan(&subject, "4p8 -2 -3", "two tokens are left");
}

Test(batcher, splitwise_sim_resumes_the_blocked_before_the_running) {
  const Subject subject = start("splitwise_sim", "{max_num_batched_tokens: 3}", 1000);
  for (int i = 0; i < 3; i++)
    arrive_decode(&subject, 20, 5);
  planned(&subject);
  carry_out();
  const RequestIx prompt = stage_prefill(&stage, 0, 2);
  wake(&subject, WAKE_PREFILL, prompt);
  expect_plan(&subject, "3p2 -1 -2", "one token is left");
  carry_out();
  request_queue_remove(&stage.machines[0].prefill_queue, stage.requests.slots, prompt);
  const InstanceView view = stage_view(&stage, 0);
  stage.requests.slots[prompt].decode_instance = 1;
  subject.batcher->finish(subject.state, subject.machine_state, &view, prompt, PHASE_PREFILL);
  expect_plan(&subject, "+1 +2", "and the running one");
}

Test(batcher, splitwise_sim_orca_selects_by_arrival_alone) {
  static const struct {
    const char *what, *options;
    int64_t kv_blocks; // 60 are held
    const char *want;
  } cases[] = {
      {"all", NULL, 1000, "1p6 3p6 +0 +2 +4"},
      {"places by arrival", "{max_num_seqs: 3}", 1000, "1p6 +0 +2"},
      {"memory for 5, 7 and 5, and nobody overtakes", NULL, 60 + 5 + 7 + 5 + 6, "1p6 +0 +2"},
      {"memory for 5 only", NULL, 60 + 5 + 6, "+0"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("splitwise_sim_orca", cases[i].options, cases[i].kv_blocks);
    arrive_alternately(&subject);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

Test(batcher, splitwise_sim_orca_keeps_its_batch) {
  const Subject subject = start("splitwise_sim_orca", "{max_num_seqs: 3}", 1000);
  for (int i = 0; i < 2; i++)
    arrive_decode(&subject, 20, 5);
  planned(&subject);
  carry_out();
  cr_expect(arrive_prefill(&subject, 5000), "there is a place, and no token budget");
  arrive_prefill(&subject, 5);
  expect_plan(&subject, "", "no memory for the first");
  stage.machines[0].free_blocks = 10000;
  expect_plan(&subject, "2p5000", "one place");
}

Test(batcher, the_sim_set_wakes_an_idle_machine_for_a_task_that_fits) {
  static const char *const names[] = {"splitwise_sim", "splitwise_sim_orca"};
  for (size_t i = 0; i < COUNT(names); i++) {
    const Subject subject = start(names[i], NULL, 40);
    cr_expect_not(arrive_prefill(&subject, 40), "%s: 41 tokens", names[i]);
    cr_expect(arrive_prefill(&subject, 39), "%s: its own memory counts, not the first's", names[i]);
    cr_expect_not(arrive_decode(&subject, 20, 21), "%s: 21 more", names[i]);
    cr_expect_not(wake(&subject, WAKE_RELEASE, 0), "%s: the head of the queue does not fit",
                  names[i]);
    stage.machines[0].free_blocks = 41;
    cr_expect(wake(&subject, WAKE_RELEASE, 0), "%s: now it does", names[i]);
  }
}

Test(batcher, splitwise_sim_does_not_cut_a_run_for_a_prompt_past_its_budget) {
  const Subject subject = start("splitwise_sim", "{max_num_batched_tokens: 10}", 1000);
  for (int i = 0; i < 4; i++)
    arrive_decode(&subject, 20, 5);
  planned(&subject);
  carry_out();
  cr_expect(arrive_prefill(&subject, 6), "6 + 4 decodes");
  cr_expect(arrive_prefill(&subject, 10), "decodes make room");
  const RequestIx prompt = stage_prefill(&stage, 0, 11);
  cr_expect_not(wake(&subject, WAKE_PREFILL, prompt), "waits for the run to end");
  cr_expect(wake(&subject, WAKE_CHAINED, prompt), "but for its decode behind it");
  cr_expect(wake(&subject, WAKE_RELEASE, prompt), "or memory");
}
