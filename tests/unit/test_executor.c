/* Another clock than the performance model. Pinned: an executor is asked for every iteration, with
 * the sequences whose sums are the batch's shape; chunks, decodes and evicted requests have the
 * past they must have; one that fails stops the run with its reason; one that is interrupted ends
 * before the next event. */
#include "tests/unit/scene_testing.h"

TestSuite(executor, .init = setup_scene, .fini = teardown);

static const TraceRow alone[] = {{.at = 0, .prompt_tokens = 90, .output_tokens = 3}};

/* What an executor was asked to run, all iterations one after the other. */
typedef struct Clock {
  ExecutorBatch batches[64];
  BatchSequence sequences[256];
  size_t n, n_sequences;
  size_t fails_at; // the number of the iteration that fails; 0: none
} Clock;

static Tick seven_ms(void *context, const ExecutorBatch *batch, Diag *ret_diag) {
  Clock *clock = context;
  const int32_t n = batch->n_prefills + batch->n_decodes;
  cr_assert(clock->n < COUNT(clock->batches) &&
            clock->n_sequences + (size_t)n <= COUNT(clock->sequences));
  BatchSequence *copies = &clock->sequences[clock->n_sequences];
  memcpy(copies, batch->sequences, (size_t)n * sizeof *copies);
  clock->n_sequences += (size_t)n;
  clock->batches[clock->n] = *batch;
  clock->batches[clock->n++].sequences = copies;
  if (clock->n != clock->fails_at) return 7 * MS;
  return diag_environment(ret_diag, place_of_file(NULL), "the device is on fire");
}

/* The sums of the shape are those of the sequences. */
static void expect_sums(const ExecutorBatch *batch) {
  BatchShape sums = {.decode_seqs = batch->n_decodes};
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++) {
    const int64_t new = batch->sequences[i].new_tokens, past = batch->sequences[i].past_tokens;
    if (i >= batch->n_prefills) {
      cr_expect_eq(new, 1);
      sums.context_tokens += past + 1;
    } else {
      sums.prefill_tokens += new;
      sums.prefill_area2 += new *(2 * past + new);
    }
  }
  cr_expect(sums.prefill_tokens == batch->shape.prefill_tokens &&
            sums.prefill_area2 == batch->shape.prefill_area2 &&
            sums.decode_seqs == batch->shape.decode_seqs &&
            sums.context_tokens == batch->shape.context_tokens);
}

/* Runs the scene on an empty clock. */
static void run_on_clock(Clock *clock, const TraceRow *rows, size_t n_rows) {
  const Executor executor = {.context = clock, .iteration = seven_ms};
  scene.config.executor = &executor;
  cr_assert_eq(scene_run(&scene, rows, n_rows), 0);
  scene.config.executor = NULL;
  for (size_t i = 0; i < clock->n; i++)
    expect_sums(&clock->batches[i]);
}

static void expect_sequence(const BatchSequence *got, uint64_t request, int32_t new_tokens,
                            int32_t past_tokens) {
  cr_expect(got->request == request && got->new_tokens == new_tokens &&
                got->past_tokens == past_tokens,
            "request %d: %d new, %d past, not request %d: %d new, %d past", (int)got->request,
            got->new_tokens, got->past_tokens, (int)request, new_tokens, past_tokens);
}

Test(executor, an_executor_is_asked_for_every_iteration) {
  Clock clock = {0};
  run_on_clock(&clock, alone, 1);
  cr_expect_eq(scene.records[0].first_token_at, 7 * MS);
  cr_expect_eq(scene.records[0].last_token_at, 21 * MS);
  static const BatchShape want[] = {{90, 90 * 90, 0, 0, 1}, {0, 0, 1, 91, 1}, {0, 0, 1, 92, 1}};
  cr_assert_eq(clock.n, COUNT(want));
  for (size_t i = 0; i < COUNT(want); i++) {
    const BatchShape *got = &clock.batches[i].shape;
    cr_expect(got->prefill_tokens == want[i].prefill_tokens &&
                  got->prefill_area2 == want[i].prefill_area2 &&
                  got->decode_seqs == want[i].decode_seqs &&
                  got->context_tokens == want[i].context_tokens &&
                  got->logit_seqs == want[i].logit_seqs,
              "iteration %zu", i);
  }
  expect_sequence(&clock.sequences[0], 0, 90, 0);
  expect_sequence(&clock.sequences[1], 0, 1, 90);
  expect_sequence(&clock.sequences[2], 0, 1, 91);
}

/* A batcher that admits all decodes and prefills 32 tokens of what waits first. */
static bool always_wake(void *state, void *machine_state, const InstanceView *view, Wake why,
                        RequestIx request) {
  (void)state, (void)machine_state, (void)view, (void)why, (void)request;
  return true;
}

static void plan_chunks(void *state, void *machine_state, const InstanceView *view,
                        BatchPlan *plan) {
  (void)state, (void)machine_state;
  const Instance *machine = view->instance;
  for (RequestIx ix = machine->decode_queue.first; ix != REQUEST_NONE; ix = view->requests[ix].next)
    plan_admit(plan, ix);
  if (machine->prefill_queue.count == 0) return;
  const Request *first = &view->requests[machine->prefill_queue.first];
  const int32_t left = request_prefill_tokens(first) - first->prefilled_tokens;
  plan_prefill(plan, machine->prefill_queue.first, left < 32 ? left : 32);
}

static const Batcher chunks = {
    .policy = {.name = "chunks"}, .wake = always_wake, .plan = plan_chunks};

Test(executor, an_executor_sees_chunks_and_decodes_of_one_iteration_with_their_past) {
  scene.config.policies[POLICY_BATCHER] = (PolicyChoice){&chunks.policy, NULL};
  const TraceRow rows[] = {row(0, 20, 4), row(MS, 50, 2)};
  Clock clock = {0};
  run_on_clock(&clock, rows, COUNT(rows));
  cr_assert_geq(clock.n, 3u);
  const ExecutorBatch *second = &clock.batches[1], *third = &clock.batches[2];
  cr_assert(second->n_prefills == 1 && second->n_decodes == 1);
  expect_sequence(&second->sequences[0], 1, 32, 0);
  expect_sequence(&second->sequences[1], 0, 1, 20);
  cr_expect_eq(second->shape.logit_seqs, 1); // the prompt goes on
  cr_assert(third->n_prefills == 1 && third->n_decodes == 1);
  expect_sequence(&third->sequences[0], 1, 18, 32);
  expect_sequence(&third->sequences[1], 0, 1, 21);
  cr_expect_eq(third->shape.logit_seqs, 2);
}

/* Two requests whose KV outgrows ten blocks of 16 tokens: one is evicted, and prefilled again with
 * the tokens it had made. */
Test(executor, an_executor_sees_a_recomputed_request_with_its_output_as_prompt) {
  scene.pools[0].kv_blocks = 10;
  const TraceRow rows[] = {row(0, 70, 20), row(0, 70, 20)};
  Clock clock = {0};
  run_on_clock(&clock, rows, COUNT(rows));
  cr_assert_eq(scene.result.metrics.recomputes, 1u);
  int32_t made[2] = {0};
  bool again = false;
  for (size_t i = 0; i < clock.n; i++) {
    const ExecutorBatch *batch = &clock.batches[i];
    for (int32_t k = 0; k < batch->n_prefills + batch->n_decodes; k++) {
      const BatchSequence *sequence = &batch->sequences[k];
      const bool prefill = k < batch->n_prefills;
      again |= prefill && made[sequence->request] > 0;
      expect_sequence(sequence, sequence->request, prefill ? 70 + made[sequence->request] : 1,
                      prefill ? 0 : 70 + made[sequence->request] - 1);
      made[sequence->request]++;
    }
  }
  cr_expect(again && made[0] == 20 && made[1] == 20);
}

Test(executor, an_executor_that_fails_stops_the_run_with_its_reason) {
  const TraceRow rows[] = {row(0, 20, 4), row(MS, 50, 2)};
  for (size_t fails_at = 1; fails_at <= 3; fails_at++) {
    Clock clock = {.fails_at = fails_at};
    const Executor executor = {.context = &clock, .iteration = seven_ms};
    diag.n_entries = 0;
    scene.config.executor = &executor;
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), -1);
    cr_assert_eq(clock.n, fails_at, "it went on");
    cr_assert_eq(diag.n_entries, 1);
    cr_assert_str_eq(diag.entries[0].message, "the device is on fire");
    cr_assert_eq(diag_exit_code(&diag), 4);
  }
}

static volatile sig_atomic_t wanted;

/* The user interrupts the run during its second iteration. */
static Tick interrupt_second(void *context, const ExecutorBatch *batch, Diag *ret_diag) {
  Clock *clock = context;
  const Tick ticks = seven_ms(clock, batch, ret_diag);
  wanted = clock->n == 2;
  return ticks;
}

Test(executor, a_run_that_is_interrupted_fails_before_its_next_event) {
  Clock clock = {0};
  const Executor executor = {.context = &clock, .iteration = interrupt_second};
  scene.config.executor = &executor;
  scene.config.interrupted = &wanted;
  cr_assert_eq(scene_run(&scene, alone, 1), -1);
  cr_assert_eq(clock.n, 2u, "it went on");
  cr_assert_eq(diag_exit_code(&diag), 130);
  cr_assert_eq(diag.n_entries, 1);
}
