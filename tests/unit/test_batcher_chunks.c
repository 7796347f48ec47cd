/* How batchers cut and pad prefill: padded batches of whole prompts (continuous), chunks beside
 * decodes (sarathi), chunks of one size (tetriinfer). Blocks are of one token. */
#include "sim/policies.h"
#include "tests/unit/batcher_testing.h"

TestSuite(batcher_chunks, .init = setup, .fini = teardown);

/* The planned chunks have been prefilled. */
static void prefill_planned(void) {
  Instance *machine = &stage.machines[0];
  for (size_t i = 0; i < stage.plan.n_prefills; i++) {
    const RequestIx ix = stage.plan.prefills[i].request;
    Request *request = &stage.requests.slots[ix];
    const bool started = request->prefilled_tokens > 0;
    request->prefilled_tokens += stage.plan.prefills[i].tokens;
    const bool ends = request->prefilled_tokens == request_prefill_tokens(request);
    const int32_t kv = request->prefilled_tokens + ends;
    machine->free_blocks -= kv - request->kv_blocks;
    request->kv_blocks = kv;
    machine->n_started += !ends - started;
    if (ends) request_queue_remove(&machine->prefill_queue, stage.requests.slots, ix);
  }
}

/* --- continuous */

Test(batcher_chunks, continuous_pads_prompts_to_the_longest) {
  static const struct {
    const char *what, *options, *want;
  } cases[] = {
      {"not by itself", NULL, "paused 0p10 1p40 2p30 3p40"},
      {"30 tokens and 40² − 10², 10 and 40² − 30²", "{pad_prefills: true}",
       "paused 0p10 1p40 2p30 3p40 ~40/2200"},
      {"two at a time", "{max_num_prefill_seqs: 2}", "paused 0p10 1p40"},
      {"and padded", "{max_num_prefill_seqs: 2, pad_prefills: true}", "paused 0p10 1p40 ~30/1500"},
      {"sequences are fewer", "{max_num_prefill_seqs: 3, max_num_seqs: 1}", "paused 0p10"},
      {"padding counts as tokens: 3 × 40 > 100",
       "{max_num_batched_tokens: 100, pad_prefills: true}", "paused 0p10 1p40 ~30/1500"},
      {"the first never waits", "{max_num_batched_tokens: 5, pad_prefills: true}", "paused 0p10"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("continuous", cases[i].options, 1000);
    prefills((int32_t[]){10, 40, 30, 40}, 4);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

/* --- sarathi */

/* 10 ms, two decodes of 50 tokens of context, 1 ms each and 1 ms for that: 13 ms in all. */
Test(batcher_chunks, sarathi_keeps_to_a_time_beside_decodes) {
  static const struct {
    const char *what, *options, *want;
  } cases[] = {
      {"no time is asked for", "{}", "2p60 3p30"},
      {"37 tokens more in 50 ms", "{tbt: 50 ms}", "2p37"},
      {"the second is cut", "{tbt: 80 ms}", "2p60 3p7"},
      {"one token", "{tbt: 14 ms}", "2p1"},
      {"decodes alone take as long", "{tbt: 13.9 ms}", ""},
      {"the budget is less", "{tbt: 50 ms, max_num_batched_tokens: 12}", "2p10"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("sarathi", cases[i].options, 1000);
    stage.pool.perfmodel = plain_model(&arena);
    for (int r = 0; r < 2; r++)
      stage_decode(&stage, 0, REQUEST_RUNS, 49, 10);
    prefills((int32_t[]){60, 30}, 2);
    expect_plan(&subject, cases[i].want, cases[i].what);
    stage.machines[0].activity = ACTIVITY_DECODE;
    cr_expect_eq(wake(&subject, WAKE_RELEASE, REQUEST_NONE), *cases[i].want != 0, "%s",
                 cases[i].what);
  }
  const Subject subject = start("sarathi", "{tbt: 1 ms}", 1000);
  prefills((int32_t[]){60, 30}, 2);
  expect_plan(&subject, "0p60 1p30", "nobody decodes");
}

Test(batcher_chunks, sarathi_fills_what_decodes_leave_of_the_budget) {
  static const struct {
    const char *what;
    int64_t tokens, kv_blocks;
    const char *want;
  } cases[] = {
      {"3 run, 2 join, 4 are left", 9, 1000, "5p4 +3 +4"},
      {"the second is cut", 15, 1000, "5p8 6p2 +3 +4"},
      {"both whole", 100, 1000, "5p8 6p6 +3 +4"},
      {"no token is left", 5, 1000, "+3 +4"},
      {"decodes never wait for prompts", 3, 1000, ""},
      {"100 held, growth of 5, room for 8", 15, 113, "5p8 +3 +4"},
      {"a prompt begins when all of it fits", 15, 112, "+3 +4"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *options =
        arena_printf(&arena, "{max_num_batched_tokens: %d}", (int)cases[i].tokens);
    const Subject subject = start("sarathi", options, cases[i].kv_blocks);
    decodes(REQUEST_RUNS, 3, 20);
    decodes(REQUEST_WAITS_DECODE, 2, 20);
    prefills((int32_t[]){8, 6}, 2);
    expect_plan(&subject, cases[i].want, cases[i].what);
  }
}

Test(batcher_chunks, sarathi_ends_a_prompt_before_it_begins_another) {
  const Subject subject = start("sarathi", "{max_num_batched_tokens: 10}", 36);
  prefills((int32_t[]){25, 8}, 2);
  expect_plan(&subject, "0p10", "the first chunk");
  prefill_planned();
  const RequestIx evicted = stage_prefill(&stage, 0, 4);
  request_queue_remove(&stage.machines[0].prefill_queue, stage.requests.slots, evicted);
  request_queue_insert(&stage.machines[0].prefill_queue, stage.requests.slots, evicted,
                       stage.machines[0].prefill_queue.first);
  expect_plan(&subject, "0p10", "even one that was evicted and queued before it");
  prefill_planned();
  stage.machines[0].free_blocks = 3;
  expect_plan(&subject, "0p3", "as far as memory goes, and nobody behind it");
  stage.machines[0].free_blocks = 5;
  expect_plan(&subject, "0p5", "to the last block");
  stage.machines[0].free_blocks = 20;
  expect_plan(&subject, "0p5 2p4 1p1", "then the others in their order");
}

Test(batcher_chunks, sarathi_keeps_a_place_for_the_prompt_that_has_begun) {
  const Subject subject = start("sarathi", "{max_num_batched_tokens: 10, max_num_seqs: 2}", 1000);
  prefills((int32_t[]){25, 8, 8}, 3);
  expect_plan(&subject, "0p10", "cut by the tokens");
  prefill_planned();
  decodes(REQUEST_WAITS_DECODE, 2, 20);
  expect_plan(&subject, "0p9 +3", "one place is left");
}

Test(batcher_chunks, sarathi_begins_no_prompt_while_others_are_swapped) {
  const Subject subject = start("sarathi", "{max_num_batched_tokens: 10}", 1000);
  prefills((int32_t[]){25, 8}, 2);
  planned(&subject);
  prefill_planned();
  const RequestIx swapped = stage_request(&stage, 2000, 10);
  request_queue_push(&stage.machines[0].swapped, stage.requests.slots, swapped);
  expect_plan(&subject, "0p10", "one that has begun goes on");
  prefill_planned();
  expect_plan(&subject, "0p5", "the other waits");
}

Test(batcher_chunks, sarathi_cuts_a_run_for_a_prompt_that_can_join) {
  static const struct {
    const char *what;
    Wake why;
    int n_prompts;
    int64_t tokens, free_blocks; // 2 decodes run, and grow by 2
    bool want;
  } cases[] = {
      {"a prompt fits", WAKE_PREFILL, 1, 10, 12, true},
      {"one block less", WAKE_PREFILL, 1, 10, 11, false},
      {"no token is left", WAKE_PREFILL, 1, 2, 500, false},
      {"behind another", WAKE_PREFILL, 2, 10, 500, false},
      {"memory for one that waited", WAKE_RELEASE, 2, 10, 12, true},
      {"still none", WAKE_RELEASE, 2, 10, 11, false},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *options =
        arena_printf(&arena, "{max_num_batched_tokens: %d}", (int)cases[i].tokens);
    const Subject subject = start("sarathi", options, 1000);
    decodes(REQUEST_RUNS, 2, 20);
    for (int k = 0; k < cases[i].n_prompts; k++)
      stage_prefill(&stage, 0, 10);
    stage.machines[0].activity = ACTIVITY_DECODE;
    stage.machines[0].free_blocks = cases[i].free_blocks;
    cr_expect_eq(wake(&subject, cases[i].why, 2), cases[i].want, "%s", cases[i].what);
  }
}

/* --- tetriinfer */

/* Plans chunk by chunk until nothing is left. */
static void expect_chunks(const Subject *subject, const char *const *wants, const char *what) {
  for (; *wants; wants++) {
    expect_plan(subject, *wants, what);
    prefill_planned();
  }
  expect_plan(subject, "", what);
}

/* Fig. 7: prompts in order of arrival, sorted, then sliced and merged to chunks of 512; the last is
 * padded. */
Test(batcher_chunks, tetriinfer_slices_and_merges_scheduled_prompts) {
  static const struct {
    const char *policy;
    const char *const wants[4];
  } cases[] = {
      {"fcfs", {"paused 0p512", "paused 0p188 1p100 2p224", "paused 2p76 3p50 ~386/0"}},
      {"sjf", {"paused 3p50 1p100 2p300 0p62", "paused 0p512", "paused 0p126 ~386/0"}},
      {"ljf", {"paused 0p512", "paused 0p188 2p300 1p24", "paused 1p76 3p50 ~386/0"}},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *options = arena_printf(&arena, "{prefill_policy: %s}", cases[i].policy);
    const Subject subject = start("tetriinfer", options, 10000);
    prefills((int32_t[]){700, 100, 300, 50}, 4);
    expect_chunks(&subject, cases[i].wants, cases[i].policy);
  }
}

Test(batcher_chunks, tetriinfer_schedules_anew_when_the_last_batch_is_prefilled) {
  const Subject subject =
      start("tetriinfer", "{prefill_sched_batch: 2, chunk_size: 10, prefill_policy: sjf}", 1000);
  prefills((int32_t[]){8, 8, 3}, 3);
  expect_plan(&subject, "paused 0p8 1p2", "two are scheduled, equals in order of arrival");
  prefill_planned();
  stage_prefill(&stage, 0, 1);
  expect_plan(&subject, "paused 1p6 ~4/0", "nobody joins them");
  prefill_planned();
  expect_plan(&subject, "paused 3p1 2p3 ~6/0", "the next two");
}

Test(batcher_chunks, tetriinfer_waits_for_memory_for_a_whole_chunk) {
  const Subject subject = start("tetriinfer", "{chunk_size: 10, prefill_policy: fcfs}", 99);
  decodes(REQUEST_WAITS_DECODE, 1, 70);
  prefills((int32_t[]){15, 15}, 2);
  expect_plan(&subject, "paused 1p10", "29 are free");
  prefill_planned();
  expect_plan(&subject, "+0", "19 are free, and 5 + 15 are wanted");
  stage.machines[0].free_blocks = 20;
  expect_plan(&subject, "paused 1p5 2p5", "now they are there");
}

Test(batcher_chunks, tetriinfer_cuts_a_chunk_that_never_fits) {
  const Subject subject = start("tetriinfer", "{chunk_size: 10, prefill_policy: fcfs}", 20);
  prefills((int32_t[]){15, 12}, 2);
  expect_plan(&subject, "paused 0p10", "all of the first fits");
  prefill_planned();
  expect_plan(&subject, "paused 0p5 ~5/0", "the second can never be here beside it");
  prefill_planned();
  expect_plan(&subject, "", "nor now: the first still holds 16");
  stage.machines[0].free_blocks = 20;
  expect_plan(&subject, "paused 1p10", "it has moved");
}

/* Otherwise the prompt that has begun would be given up, and begin again, for ever. */
Test(batcher_chunks, tetriinfer_cuts_a_chunk_when_no_decode_can_run) {
  const Subject subject = start("tetriinfer", "{chunk_size: 10, prefill_policy: fcfs}", 86);
  prefills((int32_t[]){15, 15}, 2);
  planned(&subject);
  prefill_planned();
  decodes(REQUEST_WAITS_DECODE, 1, 70);
  stage.machines[0].free_blocks = 0;
  expect_plan(&subject, "", "no room for anybody");
  stage.machines[0].n_outgoing = 1;
  stage.machines[0].decode_queue = REQUEST_QUEUE_EMPTY;
  stage.machines[0].free_blocks = 6;
  expect_plan(&subject, "", "what leaves will make room");
  stage.machines[0].n_outgoing = 0;
  expect_plan(&subject, "paused 0p5 ~5/0", "nobody will");
}

Test(batcher_chunks, tetriinfer_cuts_a_run_only_for_a_chunk_that_fits) {
  const Subject subject = start("tetriinfer", "{chunk_size: 10, prefill_policy: sjf}", 100);
  decodes(REQUEST_RUNS, 1, 80);
  stage.machines[0].activity = ACTIVITY_DECODE;
  cr_expect_not(wake(&subject, WAKE_PREFILL, stage_prefill(&stage, 0, 21)), "of 20");
  cr_expect_not(wake(&subject, WAKE_CHAINED, 1));
  cr_expect(wake(&subject, WAKE_PREFILL, stage_prefill(&stage, 0, 10)), "it would go first");
  expect_plan(&subject, "paused 2p10", "and does");
  cr_expect_not(wake(&subject, WAKE_RELEASE, 0), "the other is still too long");
  stage.machines[0].free_blocks = 21;
  cr_expect(wake(&subject, WAKE_RELEASE, 0));
}

/* What is wrong with these options on machines of plain_model, whose throughput is within a
 * tenth of the best from 128 tokens on; "" if nothing. */
static const char *refusal(const char *options, int64_t kv_blocks, const char **ret_key) {
  const Batcher *batcher = (const Batcher *)policy_find(POLICY_BATCHER, "tetriinfer");
  const PoolSpec pool = {
      .name = "pool", .kv_blocks = kv_blocks, .block_size = 1, .perfmodel = plain_model(&arena)};
  const void *state = policy_state(POLICY_BATCHER, "tetriinfer", options, &arena);
  const char *wrong = batcher->refuse(state, &pool, &arena, ret_key);
  return wrong ? wrong : "";
}

Test(batcher_chunks, tetriinfer_refuses_chunks_that_memory_cannot_hold) {
  const char *key = NULL;
  cr_expect_str_eq(refusal("{chunk_size: 100}", 100, &key), "");
  cr_expect_null(key);
  cr_expect_str_eq(refusal("{chunk_size: 100}", 99, &key),
                   "a chunk of 100 tokens exceeds the KV memory of pool 'pool', 99 tokens");
  cr_expect_str_eq(key, "chunk_size");
  cr_expect_str_eq(refusal("{chunk: saturation, chunk_size: 1}", 128, &key), "");
  cr_expect_str_eq(refusal("{chunk: saturation, chunk_size: 1}", 127, &key),
                   "a chunk of 128 tokens exceeds the KV memory of pool 'pool', 127 tokens");
  cr_expect_str_eq(key, "chunk");
}
