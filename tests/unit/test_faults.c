/* Machines that are maintained, and machines that are slow, in whole runs: who is placed where and
 * when, to the tick. Times are worked out by hand from the plain model (sim_testing.h); random
 * clusters with all kinds of faults are the swarm's. */
#include "tests/unit/scene_testing.h"

TestSuite(faults, .init = setup_scene, .fini = teardown);

enum { SOURCES = 2 };

static FaultSource sources[SOURCES];
static FaultSpan spans[SOURCES];

/* The only bad time of source `i`, over the first machine, in ms. */
static void fault(int i, FaultKind kind, double factor, int64_t from, int64_t until) {
  spans[i] = (FaultSpan){from * MS, until * MS};
  sources[i] = (FaultSource){
      .kind = kind, .factor = factor, .n_instances = 1, .spans = &spans[i], .n_spans = 1};
  scene.config.faults = sources;
  scene.config.n_faults = (uint32_t)i + 1;
}

/* Of 90 tokens in 100 ms, and steps of 11.91 ms, 11.92 ms … until a failure: what has ended counts,
 * the time of the rest. With a tick of back-off all is made again once it is up, at 300 ms. */
Test(faults, an_iteration_ends_unfinished_with_its_machine) {
  static const struct {
    const char *what;
    int64_t fails;           // ms
    Tick busy;               // us, until then
    int64_t prefills, steps; // that ended then
    int64_t lost;            // tokens
  } cases[] = {
      {"in the prefill", 40, 40000, 0, 0, 0},
      {"in the tick in which the prefill would end", 100, 100000, 0, 0, 0},
      {"in the first step", 105, 105000, 1, 0, 91},
      {"in the third", 130, 130000, 1, 2, 93},
      {"in the last", 440, 440000, 1, 28, 119},
  };
  scene.config.retry = (RetryOptions){.limit = 1};
  for (size_t i = 0; i < COUNT(cases); i++)
    for (int step = 0; step < 2; step++) {
      const char *what = cases[i].what;
      scene.config.step = step;
      scene.config.detection = step * 20 * MS;
      fault(0, FAULT_FAIL, 1, cases[i].fails, 500);
      const TraceRow rows[] = {row(0, 90, 30)};
      run(rows, 1);
      const InstanceTotals *totals = &scene.result.instances[0];
      expect_at(scene.records[0].last_token_at / US * US, 500000 + 449450, what);
      expect_at((Tick)instance_busy_ticks(totals) / US * US, cases[i].busy + 449450, what);
      expect_at((Tick)totals->down_ticks / US * US, 500000 - cases[i].fails * 1000, what);
      cr_expect_eq(totals->prefill_iterations, 1 + cases[i].prefills, "%s", what);
      cr_expect_eq(totals->decode_iterations, 29 + cases[i].steps, "%s", what);
      cr_expect_eq(totals->decode_tokens, 29 + cases[i].steps, "%s", what);
      cr_expect_eq(totals->prefill_tokens, 90 + 90 * cases[i].prefills, "%s", what);
      cr_expect_eq(scene.result.metrics.lost_tokens, cases[i].lost, "%s", what);
      cr_expect_eq((int64_t)scene.result.metrics.tbt.total, 29 + cases[i].steps, "%s", what);
    }
}

/* 90 tokens in 100 ms, 90 ms to move, then steps; one of both machines fails at 150 ms.
 * That is known at 300 ms. */
Test(faults, kv_from_or_to_a_failed_machine_stands_still) {
  static const struct {
    const char *what;
    uint32_t fails; // machine
    Tick last;      // us
    uint64_t redirects, losses;
  } cases[] = {
      {"from it: it is lost", 0, 300000 + 100000 + 90000 + 23830, 0, 1},
      {"to it: the sender has it all", 2, 300000 + 90000 + 23830, 1, 0},
  };
  scene_split(&scene, 2, 2);
  scene.config.retry = (RetryOptions){.limit = 1};
  scene.config.detection = 150 * MS;
  for (size_t i = 0; i < COUNT(cases); i++) {
    fault(0, FAULT_FAIL, 1, 150, 10000);
    sources[0].first = cases[i].fails;
    const TraceRow rows[] = {row(0, 90, 3)};
    run(rows, 1);
    const Metrics *metrics = &scene.result.metrics;
    expect_at(scene.records[0].last_token_at / US * US, cases[i].last, cases[i].what);
    cr_expect(metrics->redirects == cases[i].redirects && metrics->losses == cases[i].losses, "%s",
              cases[i].what);
    cr_expect_eq(scene.records[0].decode_instance, 3u);
  }
}

/* A prompt of 40 tokens takes 50 ms. It is lost at 10 ms, and 10 ms after it is tried again. */
Test(faults, the_back_off_doubles_up_to_the_most) {
  static const struct {
    const char *what;
    Tick backoff, most; // ms
    Tick waits[3];      // ms; 0: a tick
  } cases[] = {
      {"no limit", 5, 0, {5, 10, 20}},
      {"a limit", 5, 8, {5, 8, 8}},
      {"a limit below the first", 5, 3, {3, 3, 3}},
      {"none, and no limit", 0, 0, {0, 0, 0}},
      {"none, with a limit", 0, 8, {0, 0, 0}},
  };
  enum { FAILURES = 3 };
  for (size_t i = 0; i < COUNT(cases); i++) {
    FaultSpan fails[FAILURES]; // each back after a microsecond
    Tick begins = 0;
    for (int f = 0; f < FAILURES; f++) {
      fails[f] = (FaultSpan){begins + 10 * MS, begins + 10 * MS + US};
      begins = fails[f].from + (cases[i].waits[f] > 0 ? cases[i].waits[f] * MS : US);
    }
    sources[0] = (FaultSource){
        .kind = FAULT_FAIL, .factor = 1, .n_instances = 1, .spans = fails, .n_spans = FAILURES};
    scene.config.faults = sources;
    scene.config.n_faults = 1;
    scene.config.retry = (RetryOptions){
        .limit = FAILURES, .backoff = cases[i].backoff * MS, .most_backoff = cases[i].most * MS};
    const TraceRow rows[] = {row(0, 40, 1)};
    run(rows, 1);
    expect_at(scene.records[0].prefill_began_at / US * US, begins / US, cases[i].what);
    cr_expect_eq(scene.records[0].n_lost, 3u, "%s", cases[i].what);
  }
}

/* The machine fails at 10 ms with the first request and at 30 ms with both. Without a back-off each
 * is tried again in a tick, so that the first goes on first at 40 ms. */
Test(faults, without_a_back_off_the_lower_number_goes_first) {
  static const FaultSpan fails[] = {{10 * MS, 11 * MS}, {30 * MS, 40 * MS}};
  scene.config.retry = (RetryOptions){.limit = 2, .most_backoff = 8 * MS};
  sources[0] = (FaultSource){
      .kind = FAULT_FAIL, .factor = 1, .n_instances = 1, .spans = fails, .n_spans = 2};
  scene.config.faults = sources;
  scene.config.n_faults = 1;
  const TraceRow rows[] = {row(0, 40, 1), row(12 * MS, 40, 1)};
  scene_choose(&scene, POLICY_BATCHER, "continuous", "{max_num_seqs: 1}");
  run(rows, 2);
  cr_expect(scene.records[0].n_lost == 2 && scene.records[1].n_lost == 1);
  expect_at(scene.records[0].first_token_at / US * US, 90000, "lost twice");
  expect_at(scene.records[1].first_token_at / US * US, 140000, "lost once");
}

/* From 10 ms on 90 tokens in 100 ms, then steps of 11.91 ms, 11.92 ms …: only what begins in the
 * span is slow. */
Test(faults, slow_iterations_are_those_that_begin_in_the_span) {
  static const struct {
    const char *what;
    int64_t from, until; // ms
    Tick first, last;    // us
  } cases[] = {
      {"all", 0, 1000, 210000, 210000 + 2 * 23830},
      {"none: it begins in an iteration and ends in it", 20, 100, 110000, 133830},
      {"the second step", 115, 125, 110000, 121910 + 2 * 11920},
      {"the prefill", 0, 60, 210000, 233830},
      {"a step that begins as the span does", 110, 115, 110000, 110000 + 2 * 11910 + 11920},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    fault(0, FAULT_SLOW, 2, cases[i].from, cases[i].until);
    const TraceRow rows[] = {row(10 * MS, 90, 3)};
    run(rows, 1);
    expect_at(scene.records[0].first_token_at, cases[i].first, cases[i].what);
    expect_at(scene.records[0].last_token_at, cases[i].last, cases[i].what);
  }
}

Test(faults, the_slowest_of_several_sources_counts) {
  fault(0, FAULT_SLOW, 4, 0, 150);
  fault(1, FAULT_SLOW, 2, 0, 1000);
  const TraceRow rows[] = {row(10 * MS, 40, 1), row(300 * MS, 40, 1)};
  run(rows, 2);
  expect_at(scene.records[0].first_token_at, 210000, "four times 50 ms");
  expect_at(scene.records[1].first_token_at, 400000, "twice");
}

/* Of two machines the first is drained from 50 ms on. It has finished at 123.83 ms. */
Test(faults, who_drains_finishes_and_gets_nothing_until_it_is_back) {
  scene.pools[0].count = 2;
  scene.pools[0].start_up.boot = 50 * MS;
  fault(0, FAULT_DRAIN, 1, 50, 300);
  const TraceRow rows[] = {row(0, 90, 3), row(60 * MS, 90, 30), row(130 * MS, 90, 1),
                           row(349 * MS, 10, 1), row(351 * MS, 10, 1)};
  static const InstanceIx placed[] = {0, 1, 1, 1, 0};
  run(rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(scene.records[i].prefill_instance, placed[i], "request %zu", i);
  expect_at(scene.records[0].last_token_at, 123830, "it is finished there");
  const InstanceTotals *totals = &scene.result.instances[0];
  cr_expect(totals->maintenances == 1 && totals->failures == 0);
  expect_at((Tick)totals->down_ticks, 350000 - 123830, "away");
  cr_expect_eq(scene.result.metrics.losses, 0u);
}

Test(faults, who_has_not_drained_in_time_goes_on) {
  scene.pools[0].count = 2;
  fault(0, FAULT_DRAIN, 1, 50, 110);
  const TraceRow rows[] = {row(0, 90, 30), row(60 * MS, 90, 30), row(105 * MS, 90, 1),
                           row(111 * MS, 10, 1)};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.records[2].prefill_instance, 1u, "while it drains");
  cr_expect_eq(scene.records[3].prefill_instance, 0u, "as soon as it does not");
  cr_expect(scene.result.instances[0].maintenances == 0 &&
            scene.result.instances[0].down_ticks == 0);
}

/* The only machine: those that come meanwhile wait in front until it is back at 260 ms. */
Test(faults, a_cluster_that_drains_whole_holds_its_requests) {
  scene.pools[0].start_up.boot = 10 * MS;
  fault(0, FAULT_DRAIN, 1, 50, 250);
  const TraceRow rows[] = {row(0, 90, 1), row(60 * MS, 90, 1)};
  run(rows, 2);
  expect_at(scene.records[0].first_token_at, 100000, "it was there");
  expect_at(scene.records[1].first_token_at, 360000, "it waits");
}

/* 90 tokens in 100 ms, 90 ms to move, then 11.91 and 11.92 ms. The machine that is to decode fails:
 * what is prefilled goes to the other one, as long as its KV is where that was. */
Test(faults, who_is_to_be_decoded_on_a_failed_machine_goes_to_another) {
  static const struct {
    const char *what;
    int64_t fails; // ms
    Tick last;     // us
    uint64_t redirects;
  } cases[] = {
      {"in its prefill", 50, 213830, 1},
      {"on its way there", 150, 150000 + 113830, 1},
      {"there: it begins anew in a tick", 195, 195000 + 213830, 0},
  };
  scene_split(&scene, 1, 2);
  scene.config.retry = (RetryOptions){.limit = 1};
  for (size_t i = 0; i < COUNT(cases); i++) {
    fault(0, FAULT_FAIL, 1, cases[i].fails, 10000);
    sources[0].first = 1;
    const TraceRow rows[] = {row(0, 90, 3)};
    run(rows, 1);
    const Metrics *metrics = &scene.result.metrics;
    cr_expect(metrics->redirects == cases[i].redirects && metrics->losses == 1 - metrics->redirects,
              "%s", cases[i].what);
    expect_at(scene.records[0].last_token_at / US * US, cases[i].last, cases[i].what);
    cr_expect_eq(scene.records[0].decode_instance, 2u);
  }
}

/* Its first token at 100 ms; the machine fails at 105 ms, in the iteration that would have made the
 * second at 111.91 ms, and is back at 200 ms. What is left is a prompt of 91 tokens, the last of
 * which is output that the client has, and two tokens. */
Test(faults, a_request_resumes_after_the_tokens_that_its_client_has) {
  Tick last[2];
  for (int resume = 0; resume < 2; resume++) {
    scene.config.retry = (RetryOptions){.limit = 1, .resume = resume};
    scene.config.detection = 5 * MS;
    fault(0, FAULT_FAIL, 1, 105, 200);
    const TraceRow rows[] = {row(0, 90, 3)};
    run(rows, 1);
    const Metrics *metrics = &scene.result.metrics;
    const RequestRecord *record = &scene.records[0];
    cr_expect_eq(metrics->losses, 1u);
    cr_expect_eq(metrics->resumed_tokens, resume ? 1 : 0);
    cr_expect_eq(metrics->lost_tokens, resume ? 90 : 91);
    cr_expect_eq(metrics->tbt.total, 2u);
    cr_expect(record->prompt_tokens == 90 && record->output_tokens == 3);
    expect_at(record->first_token_at / US * US, resume ? 100000 : 300000, "first");
    last[resume] = record->last_token_at / US * US; // but for the tick of the back-off
  }
  expect_at(last[0], 323830, "made anew");
  expect_at(last[1], 301000 + 11920, "resumed");
}

/* Its client gives up as it is prefilled: as the step ends the next is decided and begins, with a
 * token of it or its other chunk, which counts only if the machine does not fail in that step. A
 * prefill takes 10 ms and one per token. */
Test(faults, a_decided_step_that_is_broken_off_computed_nothing_in_vain) {
  static const struct {
    const char *options;
    int64_t patience, fails; // ms
    int64_t computed;        // tokens
  } cases[] = {
      {NULL, 50, 105, 90 + 1},
      {NULL, 50, 200, 90 + 2},
      {"max_num_batched_tokens: 48", 50, 60, 48},
      {"max_num_batched_tokens: 48", 50, 111, 90 + 1},
  };
  static const char *const batchers[] = {"vllm", "sglang"};
  for (size_t i = 0; i < 2 * COUNT(cases); i++) {
    TraceRow rows[] = {row(0, 90, 30)};
    rows[0].first_token_patience = cases[i / 2].patience * MS;
    scene_choose(&scene, POLICY_BATCHER, batchers[i % 2], cases[i / 2].options);
    scene.config.detection = 20 * MS;
    fault(0, FAULT_FAIL, 1, cases[i / 2].fails, 500);
    run(rows, 1);
    const Metrics *metrics = &scene.result.metrics;
    cr_expect_eq(metrics->cancelled, 1u);
    cr_expect_eq(metrics->cancelled_tokens, cases[i / 2].computed, "%s, case %zu", batchers[i % 2],
                 i / 2);
  }
}

/* With mixed chunks the first one has a place behind the second from the decision on in which it
 * decodes beside that, which is made as its prefill begins. In a machine that fails in it nothing
 * was computed. */
Test(faults, a_prefill_that_is_broken_off_computed_nothing_whatever_its_place) {
  const TraceRow rows[] = {row(0, 40, 30), row(0, 40, 30)};
  scene_choose(&scene, POLICY_BATCHER, "sglang",
               "{max_num_batched_tokens: 48, enable_mixed_chunk: true}");
  scene.config.retry = (RetryOptions){.limit = 1};
  fault(0, FAULT_FAIL, 1, 30, 500);
  run(rows, COUNT(rows));
  cr_expect(scene.result.metrics.losses == 2 && scene.result.metrics.lost_tokens == 0);
}

/* A step has at most two requests. The second is prefilled from 72.83 ms on, and gives way as that
 * begins to one that has come since it was decided and is more urgent. In a machine that fails in
 * that prefill nothing was computed, or dropped. */
Test(faults, a_prefill_that_gave_way_and_is_broken_off_dropped_nothing) {
  static const int64_t fails[] = {80, 130}; // ms
  TraceRow rows[] = {row(0, 40, 30), row(51 * MS, 40, 20), row(63 * MS, 40, 20)};
  rows[1].priority = 1;
  scene_choose(&scene, POLICY_BATCHER, "sglang",
               "{enable_priority_scheduling: true, priority_scheduling_preemption_threshold: 0, "
               "max_num_seqs: 2}");
  scene.config.retry = (RetryOptions){.limit = 1};
  for (size_t i = 0; i < COUNT(fails); i++) {
    fault(0, FAULT_FAIL, 1, fails[i], 500);
    run(rows, COUNT(rows));
    cr_expect_eq(scene.records[1].preemptions, 1);
    cr_expect_eq(scene.result.metrics.dropped_tokens, i == 0 ? 0 : 40);
  }
}

/* The first of two machines is ten times as slow: a prompt of 90 tokens takes it 1 s. After 50 ms
 * the other one has it too, and its first token 100 ms later is the request's; both steps are
 * made there. Where the other has been given such a prompt at 10 ms, the copy is in line until
 * 110 ms. */
Test(faults, of_two_copies_the_first_is_the_request) {
  static const struct {
    const char *what;
    Tick after; // ms
    double share;
    int32_t beside; // tokens of a request that came meanwhile, to the other machine; 0: none
    Tick last;      // us
    uint64_t hedges, won;
    InstanceIx machine;
  } cases[] = {
      {"the second copy is first", 50, 1, 0, 151000 + 23830, 1, 1, 1},
      {"in line behind another", 50, 1, 90, 210000 + 23830, 2, 1, 1},
      {"as it is placed", 1, 1, 0, 102000 + 23830, 1, 1, 1},
      {"it would be due after the first token", 1100, 1, 0, 1001000 + 23830, 0, 0, 0},
      {"none may", 50, 0, 0, 1001000 + 23830, 0, 0, 0},
  };
  scene.pools[0].count = 2;
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene.config.hedge = (HedgeOptions){cases[i].after * MS, cases[i].share};
    fault(0, FAULT_SLOW, 10, 0, 1000);
    const TraceRow rows[] = {row(MS, 90, 3), row(10 * MS, cases[i].beside, 1)};
    run(rows, cases[i].beside > 0 ? 2 : 1);
    const Metrics *metrics = &scene.result.metrics;
    const RequestRecord *record = &scene.records[0];
    expect_at(record->last_token_at, cases[i].last, cases[i].what);
    cr_expect_eq(record->prefill_instance, cases[i].machine, "%s", cases[i].what);
    cr_expect(metrics->hedges == cases[i].hedges && metrics->hedges_won == cases[i].won, "%s",
              cases[i].what);
    cr_expect_eq(metrics->hedged_tokens, cases[i].won ? 91 : 0, "%s", cases[i].what);
    cr_expect(metrics->completed == metrics->asked.requests && metrics->cancelled == 0);
  }
}

/* The first machine fails in the iteration of the first request, which nobody knows until 210 ms:
 * the third waits there, and the copies of both behind the second on the other, where their 130
 * tokens begin at 111 ms. Nobody is lost, and nobody tried again. */
Test(faults, a_copy_is_left_when_the_machine_of_the_other_fails) {
  scene.pools[0].count = 2;
  scene.config.hedge = (HedgeOptions){20 * MS, 1};
  scene.config.detection = 200 * MS;
  fault(0, FAULT_FAIL, 1, 10, 10000);
  const TraceRow rows[] = {row(0, 40, 1), row(11 * MS, 90, 1), row(12 * MS, 90, 1)};
  run(rows, COUNT(rows));
  const Metrics *metrics = &scene.result.metrics;
  expect_at(scene.records[0].last_token_at, 251000, "the iteration in progress is lost");
  expect_at(scene.records[2].last_token_at, 251000, "its copy is what is left");
  cr_expect(metrics->completed == 3 && metrics->losses == 0);
  cr_expect(metrics->hedges == 3 && metrics->hedges_won == 0 && metrics->hedged_tokens == 0);
}

/* 90 tokens in 100 ms, whose KV is written in 180 ms and read in as many; the first machine fails,
 * in an iteration, and the request goes on on the second in a tick. 29 steps take 349.45 ms. */
Test(faults, a_request_whose_prompt_is_in_the_checkpoint_store_begins_with_its_decode) {
  static const struct {
    const char *what;
    int64_t capacity, fails; // bytes, ms
    Tick first;              // us
    uint64_t checkpoints;
    int64_t restored;
  } cases[] = {
      {"it is there", 0, 300, 300000 + 180000, 1, 90},
      {"it just fits", 90000000, 300, 300000 + 180000, 1, 90},
      {"it does not fit", 89999999, 300, 300000 + 100000, 0, 0},
      {"it was on its way", 0, 250, 250000 + 100000, 1, 0},
  };
  scene.pools[0].count = 2;
  scene.config.retry = (RetryOptions){.limit = 1};
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene.config.checkpoint = (CheckpointOptions){500000000, cases[i].capacity};
    fault(0, FAULT_FAIL, 1, cases[i].fails, 10000);
    const TraceRow rows[] = {row(0, 90, 30)};
    run(rows, 1);
    const Metrics *metrics = &scene.result.metrics;
    const RequestRecord *record = &scene.records[0];
    expect_at(record->first_token_at / US * US, cases[i].first, cases[i].what);
    expect_at(record->last_token_at / US * US, cases[i].first + 349450, cases[i].what);
    cr_expect(metrics->losses == 1 && record->decode_instance == 1, "%s", cases[i].what);
    cr_expect_eq(metrics->checkpoints, cases[i].checkpoints, "%s", cases[i].what);
    cr_expect_eq(metrics->restored_tokens, cases[i].restored, "%s", cases[i].what);
  }
}

/* 90 tokens in 100 ms, then 90 ms to move, of which the first 50 go as ever. */
Test(faults, kv_waits_for_links_and_goes_on_where_it_was) {
  static const struct {
    const char *what;
    double factor;
    int64_t until; // ms
    Tick last;     // us
  } cases[] = {
      {"slow to the end", 2, 1000, 100000 + 50000 + 2 * 40000 + 23830},
      {"slow for a while", 4, 170, 100000 + 50000 + 20000 + 35000 + 23830},
      {"down for a while", 0, 350, 100000 + 50000 + 200000 + 40000 + 23830},
  };
  scene_split(&scene, 1, 1);
  for (size_t i = 0; i < COUNT(cases); i++) {
    fault(0, FAULT_LINK, cases[i].factor, 150, cases[i].until);
    const TraceRow rows[] = {row(0, 90, 3)};
    run(rows, 1);
    expect_at(scene.records[0].last_token_at, cases[i].last, cases[i].what);
  }
}

/* The numbers of the requests of `event` in a log, in its order. */
static const char *numbers_of(const char *log, const char *event) {
  const char *numbers = "", *mark = arena_printf(&arena, ",%s,", event);
  while ((log = strstr(log, mark)) != NULL) {
    log += strlen(mark);
    numbers = arena_printf(&arena, "%s %.*s", numbers, (int)strcspn(log, ","), log);
  }
  return numbers;
}

/* Slots of requests that have ended are used again, so the numbers are no order of slots. */
Test(faults, what_a_failed_machine_has_is_lost_in_the_order_of_its_numbers) {
  char *log = NULL;
  size_t size = 0;
  fault(0, FAULT_FAIL, 1, 1000, 1100);
  scene.config.event_log = open_memstream(&log, &size);
  cr_assert_not_null(scene.config.event_log);
  const TraceRow rows[] = {row(0, 10, 1),          row(0, 10, 99),         row(1, 10, 1),
                           row(400 * MS, 10, 200), row(500 * MS, 10, 200), row(600 * MS, 10, 200)};
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  fclose(scene.config.event_log);
  cr_expect_str_eq(numbers_of(log, "lost"), " 1 3 4 5", "%s", log);
  free(log);
}

/* What drains may fail: what it has is lost, and it stays away until both are over. */
Test(faults, a_machine_that_drains_can_fail) {
  scene.pools[0].start_up.boot = 10 * MS;
  scene.config.detection = 5 * MS;
  scene.config.retry = (RetryOptions){.limit = 1, .backoff = 1};
  fault(0, FAULT_DRAIN, 1, 20, 500);
  fault(1, FAULT_FAIL, 1, 50, 80);
  const TraceRow rows[] = {row(0, 90, 2)};
  run(rows, 1);
  cr_expect_eq(scene.result.metrics.losses, 1u);
  expect_at(scene.records[0].first_token_at, 610000, "after maintenance and start");
  expect_at((Tick)scene.result.instances[0].down_ticks, 460000, "down, then in maintenance");
}

/* --- domains */

typedef struct Seen {
  Outcome outcome;
  InstanceIx instance;
  Tick at; // us
} Seen;

enum { SEEN = 16 };
static Seen seen[SEEN];
static size_t n_seen;

static void see(void *context, Tick at, Outcome outcome, uint64_t request, InstanceIx machine,
                int64_t a, int64_t b) {
  (void)context, (void)request, (void)a, (void)b;
  if (outcome != OUTCOME_FAILURE && outcome != OUTCOME_REPAIR && outcome != OUTCOME_UP) return;
  cr_assert_lt(n_seen, SEEN);
  seen[n_seen++] = (Seen){outcome, machine, at / US};
}

/* A rack with the second of two prefill machines and the first of two decode machines, down from
 * 150 ms to 400 ms, and again from 1 s to 1.1 s; a start takes 20 ms and 30 ms. */
Test(faults, a_rack_takes_exactly_the_instances_of_both_pools_that_are_in_it) {
  static const FaultPart decode = {2, 1};
  static const FaultSpan down[] = {{150 * MS, 400 * MS}, {1000 * MS, 1100 * MS}};
  static const Seen want[] = {
      {OUTCOME_FAILURE, 1, 150000},  {OUTCOME_FAILURE, 2, 150000},  {OUTCOME_REPAIR, 1, 400000},
      {OUTCOME_REPAIR, 2, 400000},   {OUTCOME_UP, 1, 420000},       {OUTCOME_UP, 2, 430000},
      {OUTCOME_FAILURE, 1, 1000000}, {OUTCOME_FAILURE, 2, 1000000}, {OUTCOME_REPAIR, 1, 1100000},
      {OUTCOME_REPAIR, 2, 1100000},  {OUTCOME_UP, 1, 1120000},      {OUTCOME_UP, 2, 1130000},
  };
  const FaultSource rack = {.kind = FAULT_FAIL,
                            .first = 1,
                            .n_instances = 1,
                            .others = &decode,
                            .n_others = 1,
                            .spans = down,
                            .n_spans = 2};
  const SimObserver observer = {.on_outcome = see};
  scene_split(&scene, 2, 2);
  scene.pools[0].start_up.boot = 20 * MS;
  scene.pools[1].start_up.boot = 30 * MS;
  scene.config.faults = &rack;
  scene.config.n_faults = 1;
  scene.config.observer = &observer;
  scene.config.retry = (RetryOptions){.limit = 5};
  const TraceRow rows[] = {row(0, 90, 3),        row(200 * MS, 90, 3), row(210 * MS, 90, 3),
                           row(440 * MS, 90, 3), row(450 * MS, 90, 3), row(2000 * MS, 90, 3)};
  for (int step = 0; step < 2; step++) {
    n_seen = 0;
    scene.config.step = step;
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
    cr_assert_eq(n_seen, COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++)
      cr_expect(seen[i].outcome == want[i].outcome && seen[i].instance == want[i].instance &&
                    seen[i].at == want[i].at,
                "outcome %zu: %d of %u at %lld us", i, seen[i].outcome, seen[i].instance,
                (long long)seen[i].at);
    static const Tick away[] = {0, 270 + 120, 280 + 130, 0}; // ms
    for (InstanceIx m = 0; m < 4; m++)
      cr_expect_eq((Tick)scene.result.instances[m].down_ticks, away[m] * MS, "instance %u", m);
    for (size_t i = 1; i < 3; i++)
      cr_expect(scene.records[i].prefill_instance == 0 && scene.records[i].decode_instance == 3,
                "request %zu was sent into the rack", i);
  }
}

/* Slow in both pools by the model of each: 100 ms of prefill, then steps of 11.91 and 11.92 ms. */
Test(faults, a_slow_domain_slows_the_instances_of_each_of_its_pools) {
  static const FaultPart decode = {1, 1};
  static const FaultSpan all = {0, 100000 * MS};
  const FaultSource feed = {.kind = FAULT_SLOW,
                            .factor = 3,
                            .n_instances = 1,
                            .others = &decode,
                            .n_others = 1,
                            .spans = &all,
                            .n_spans = 1};
  scene_split(&scene, 1, 1);
  scene.config.faults = &feed;
  scene.config.n_faults = 1;
  const TraceRow rows[] = {row(10 * MS, 90, 3)};
  run(rows, 1);
  expect_at(scene.records[0].first_token_at / US * US, 310000, "prefill");
  expect_at(scene.records[0].last_token_at / US * US, 310000 + 90000 + 3 * 23830, "decode");
}

/* An instance on several machines, or under several feeds, is down while any of them is. */
Test(faults, an_instance_is_up_when_all_its_domains_are) {
  static const FaultSpan first = {100 * MS, 300 * MS}, second = {200 * MS, 500 * MS};
  const FaultSource feeds[] = {
      {.kind = FAULT_FAIL, .n_instances = 1, .spans = &first, .n_spans = 1},
      {.kind = FAULT_FAIL, .n_instances = 2, .spans = &second, .n_spans = 1}};
  scene.pools[0].count = 2;
  scene.config.faults = feeds;
  scene.config.n_faults = 2;
  const TraceRow rows[] = {row(0, 10, 1), row(1000 * MS, 90, 3)};
  run(rows, 2);
  expect_at((Tick)scene.result.instances[0].down_ticks / US * US, 400000, "of both");
  expect_at((Tick)scene.result.instances[1].down_ticks / US * US, 300000, "of one");
}
