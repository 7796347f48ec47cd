/* What who watches a run is told of it, worked out by hand from the plain model. That it is all
 * there, and changes nothing, the swarm holds for every policy. */
#include "tests/unit/scene_testing.h"

enum { TEXT_MAX = 2000 };

static char told[TEXT_MAX];
static size_t used;

static void begin(void) {
  setup_scene();
  used = 0;
}

TestSuite(observer, .init = begin, .fini = teardown);

#define TELL(...) used += (size_t)snprintf(told + used, TEXT_MAX - used, __VA_ARGS__)

static double ms(Tick ticks) {
  return (double)ticks / (double)MS;
}

static void on_iterations(void *context, const IterationSpan *span) {
  (void)context;
  TELL("machine %u: %g to %g, %lld of %lld+%lld\n", span->instance, ms(span->begin), ms(span->end),
       (long long)span->n_iterations, (long long)span->shape.prefill_tokens,
       (long long)span->shape.decode_seqs);
}

static void on_transfer(void *context, const TransferSpan *span) {
  (void)context;
  TELL("request %llu: %u to %u, %g to %g, %lld MB\n", (unsigned long long)span->request, span->from,
       span->to, ms(span->begin), ms(span->end), (long long)(span->bytes / 1000000));
}

static void on_copy(void *context, const CopySpan *span) {
  (void)context;
  TELL("copy %d: %g to %g, %lld MB\n", span->direction, ms(span->begin), ms(span->end),
       (long long)(span->bytes / 1000000));
}

static void on_outcome(void *context, Tick at, Outcome outcome, uint64_t request,
                       InstanceIx machine, int64_t a, int64_t b) {
  (void)context, (void)machine, (void)a, (void)b;
  if (outcome == OUTCOME_LAST_TOKEN)
    TELL("last of %llu: %g\n", (unsigned long long)request, ms(at));
}

static void on_sample(void *context, const InstanceSample *sample) {
  (void)context;
  TELL("%g machine %u: %lld wait, %lld run, %lld of %lld blocks\n", ms(sample->at),
       sample->instance, (long long)sample->n_waiting, (long long)sample->n_running,
       (long long)sample->used_blocks, (long long)sample->kv_blocks);
}

/* Two prompts of 90 tokens, 10 + 90 ms each; 90 ms for the KV of the first; of its decodes the
 * second iteration lasts 10 us longer than the first of 10 + 1 + 91/100 ms. */
static const TraceRow pair[] = {{.prompt_tokens = 90, .output_tokens = 3},
                                {.prompt_tokens = 90, .output_tokens = 1}};

static void watch(const SimObserver *observer, const TraceRow *rows, size_t n_rows) {
  scene.config.observer = observer;
  cr_assert_eq(scene_run(&scene, rows, n_rows), 0);
}

Test(observer, is_told_what_machines_and_links_did) {
  const SimObserver observer = {
      .on_iterations = on_iterations, .on_transfer = on_transfer, .on_outcome = on_outcome};
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_BATCHER, "continuous", "{max_num_batched_tokens: 100}");
  watch(&observer, pair, COUNT(pair));
  cr_expect_str_eq(told, "machine 0: 0 to 100, 1 of 90+0\n"
                         "request 0: 0 to 1, 100 to 190, 90 MB\n"
                         "machine 0: 100 to 200, 1 of 90+0\n"
                         "last of 1: 200\n"
                         "machine 1: 190 to 213.83, 2 of 0+1\n"
                         "last of 0: 213.83\n");
}

/* At 0 it has just begun, and at 70 ms it is the same; a prompt of 90 tokens has six blocks of 16,
 * and the first waits to be decoded while the second is prefilled. */
Test(observer, samples_are_of_moments_between_events) {
  const SimObserver observer = {.on_sample = on_sample, .interval = 70 * MS};
  scene_choose(&scene, POLICY_BATCHER, "continuous", "{max_num_batched_tokens: 100}");
  watch(&observer, pair, COUNT(pair));
  cr_expect_str_eq(told, "0 machine 0: 1 wait, 1 run, 6 of 1000 blocks\n"
                         "140 machine 0: 1 wait, 1 run, 12 of 1000 blocks\n"
                         "210 machine 0: 0 wait, 1 run, 6 of 1000 blocks\n");
}

/* A run goes on meanwhile: 8 tokens more are 13 blocks of them. */
Test(observer, samples_have_what_a_run_has_taken) {
  const SimObserver observer = {.on_sample = on_sample, .interval = 200 * MS};
  const TraceRow rows[] = {row(0, 90, 30)};
  scene.pools[0].block_size = 8;
  watch(&observer, rows, 1);
  cr_expect_str_eq(told, "0 machine 0: 0 wait, 1 run, 12 of 1000 blocks\n"
                         "200 machine 0: 0 wait, 1 run, 13 of 1000 blocks\n"
                         "400 machine 0: 0 wait, 1 run, 15 of 1000 blocks\n");
}

Test(observer, copies_to_cpu_memory_wait_for_each_other) {
  const SimObserver observer = {.on_copy = on_copy};
  scene_split(&scene, 1, 1);
  scene.config.network_path = NETWORK_INDIRECT;
  for (int i = 0; i < 2; i++)
    scene.pools[i].host_link.options = (HostLinkOptions){1000000000, 500000000, .efficiency = 1};
  const TraceRow rows[] = {row(0, 90, 3), row(0, 90, 3)};
  watch(&observer, rows, COUNT(rows));
  cr_expect_str_eq(told, "copy 1: 190 to 370, 90 MB\n"
                         "copy 1: 370 to 550, 90 MB\n"
                         "copy 0: 460 to 550, 90 MB\n"
                         "copy 0: 640 to 730, 90 MB\n");
}
