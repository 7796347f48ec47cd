/* Requests that are cut at a token, and DynaServe's router. Pinned: the times of a request that is
 * cut in its prompt and of one that is cut in its output, to the tick, and the bytes that move;
 * that a cut at the end of the prompt is disaggregation and one behind the last token is none, by
 * the digest of the run; that tokens are conserved and none is computed twice; where the balance
 * is. */
#include "sim/router/router.h"
#include "tests/unit/scene_testing.h"

TestSuite(cuts, .init = setup_scene, .fini = teardown);

/* Two machines that serve both phases, with the links of scene_split. */
static void set_up(const char *transfer, const char *router) {
  scene_split(&scene, 1, 1);
  scene.config.n_pools = 1;
  scene.pools[0].count = 2;
  scene.pools[0].role = ROLE_MIXED;
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 50}");
  scene_choose(&scene, POLICY_TRANSFER, transfer, NULL);
  scene_choose(&scene, POLICY_PREDICTOR, "oracle", NULL);
  scene_choose(&scene, POLICY_ROUTER, "dynaserve", router);
}

/* Of 100 tokens of prompt and 20 of output 60 are the first part: 50 + 10 tokens take 60 + 20 ms,
 * and their KV 60 ms. The other 40 take 50 ms, and with them the first token is there. The 19
 * others take 11 ms each and 1.01 to 1.19 ms for their context. */
Test(cuts, one_that_is_cut_in_its_prompt_is_prefilled_in_turn) {
  set_up("serialized", "{cut: share, share: 0.5}");
  const TraceRow rows[] = {row(0, 100, 20)};
  run(rows, COUNT(rows));
  const RequestRecord *record = &scene.records[0];
  expect_at(record->first_token_at, 60000 + 20000 + 60000 + 50000, "first token");
  expect_at(record->last_token_at, 190000 + 19 * 11000 + 20900, "end");
  cr_expect(record->prompt_tokens == 100 && record->output_tokens == 20 &&
            record->generated_tokens == 20);
  cr_expect(record->prefill_instance == 1 && record->decode_instance == 1);
  cr_expect_eq(scene.result.metrics.transferred_bytes, 60 * 1000000);
  cr_expect_eq((int64_t)scene.result.instances[0].prefill_tokens, 60);
  cr_expect_eq((int64_t)scene.result.instances[1].prefill_tokens, 40);
}

/* The KV of the first 50 tokens moves in the 20 ms of the other ten, and 30 ms longer; then that of
 * the ten. */
Test(cuts, kv_moves_chunk_by_chunk_as_it_is_computed) {
  set_up("chunked", "{cut: share, share: 0.5}");
  const TraceRow rows[] = {row(0, 100, 20)};
  run(rows, COUNT(rows));
  expect_at(scene.records[0].first_token_at, 60000 + 60000 + 50000, "first token");
}

/* 110 tokens are the first part: the prompt takes 60 + 60 ms and makes the first token, ten others
 * follow. Then 110 tokens of KV take 110 ms, and the last nine tokens are made there. */
Test(cuts, one_that_is_cut_in_its_output_goes_on_elsewhere) {
  set_up("serialized", "{cut: share, share: 0.91667}");
  const TraceRow rows[] = {row(0, 100, 20)};
  run(rows, COUNT(rows));
  const RequestRecord *record = &scene.records[0];
  expect_at(record->first_token_at, 120000, "first token");
  expect_at(record->last_token_at, 120000 + 19 * 11000 + 20900 + 110000, "end");
  cr_expect(record->prompt_tokens == 100 && record->output_tokens == 20 &&
            record->generated_tokens == 20);
  cr_expect(record->prefill_instance == 0 && record->decode_instance == 1);
  cr_expect_eq(scene.result.metrics.transferred_bytes, 110 * 1000000);
  cr_expect_eq((int64_t)scene.result.instances[0].decode_tokens, 10);
  cr_expect_eq((int64_t)scene.result.instances[1].decode_tokens, 9);
}

/* It ends before the cut that was foreseen for it. */
Test(cuts, an_output_that_ends_sooner_is_not_cut) {
  set_up("serialized", "{cut: share, share: 1}");
  const TraceRow rows[] = {row(0, 100, 20)};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.transfers, 0);
  expect_at(scene.records[0].last_token_at, 120000 + 19 * 11000 + 20900, "end");
}

/* --- against what is without a cut */

/* Rows from a stream; the sums of their tokens. */
static int64_t draw_rows(TraceRow *rows, int n, uint64_t seed, int64_t *ret_outputs) {
  Rng rng;
  rng_init(&rng, seed, "rows");
  int64_t prompts = 0;
  Tick at = 0;
  *ret_outputs = 0;
  for (int r = 0; r < n; r++) {
    at += (Tick)rng_below(&rng, 300) * MS;
    const int32_t prompt = 10 + (int32_t)rng_below(&rng, 300);
    rows[r] = row(at, prompt, 1 + (int32_t)rng_below(&rng, 60));
    prompts += prompt;
    *ret_outputs += rows[r].output_tokens;
  }
  return prompts;
}

static uint64_t digest_of(const TraceRow *rows, const char *router, const char *options) {
  scene_choose(&scene, POLICY_ROUTER, router, options);
  run(rows, SCENE_REQUESTS);
  return scene.result.digest;
}

Test(cuts, one_at_the_end_of_the_prompt_is_disaggregation) {
  static const char *const transfers[] = {"serialized", "layerwise", "chunked"};
  TraceRow rows[SCENE_REQUESTS];
  int64_t outputs;
  draw_rows(rows, SCENE_REQUESTS, 7, &outputs);
  for (size_t i = 0; i < COUNT(transfers); i++) {
    scene_split(&scene, 1, 1);
    scene.config.n_pools = 2;
    scene_choose(&scene, POLICY_BATCHER, "sarathi", "{max_num_batched_tokens: 100}");
    scene_choose(&scene, POLICY_TRANSFER, transfers[i], NULL);
    scene_choose(&scene, POLICY_PREDICTOR, "oracle", NULL);
    const uint64_t plain = digest_of(rows, "jsq", NULL);
    cr_expect_gt(scene.result.metrics.transfers, 0);
    cr_expect_eq(digest_of(rows, "dynaserve", "{cut: prompt}"), plain, "%s", transfers[i]);
    cr_expect_neq(digest_of(rows, "dynaserve", NULL), plain);
    teardown();
    setup_scene();
  }
}

Test(cuts, one_behind_the_last_token_is_none) {
  TraceRow rows[SCENE_REQUESTS];
  int64_t outputs;
  draw_rows(rows, SCENE_REQUESTS, 8, &outputs);
  set_up("chunked", NULL);
  scene.pools[0].count = 1;
  const uint64_t plain = digest_of(rows, "jsq", NULL);
  cr_expect_eq(digest_of(rows, "dynaserve", NULL), plain, "of one machine");
  scene.pools[0].count = 2;
  const uint64_t spread = digest_of(rows, "dynaserve", "{cut: share, share: 1}");
  cr_expect_eq(scene.result.metrics.transfers, 0);
  cr_expect_eq(digest_of(rows, "dynaserve", "{cut: share, share: 1, batch: 64}"), spread);
  digest_of(rows, "dynaserve", "{cut: share, share: 0}");
  cr_expect_eq(scene.result.metrics.transfers, 0, "all of it is the second part");
}

/* Little memory and links of any speed: requests wait for each other's room, and give way. */
Test(cuts, tokens_are_conserved_and_none_is_computed_twice) {
  static const int64_t nics[] = {10000000, 1000000000, 1000000000000000};
  static const char *const cuts[] = {"{cut: share, share: 0.3}", "{cut: share, share: 0.95}", NULL};
  for (size_t i = 0; i < COUNT(nics) * COUNT(cuts); i++) {
    teardown();
    setup_scene();
    set_up("chunked", cuts[i / COUNT(nics)]);
    scene.pools[0].nic_bandwidth = nics[i % COUNT(nics)];
    scene.pools[0].count = 3;
    scene.pools[0].kv_blocks = 60;
    TraceRow rows[SCENE_REQUESTS];
    int64_t outputs, made = 0, prefilled = 0;
    const int64_t prompts = draw_rows(rows, SCENE_REQUESTS, 5, &outputs);
    run(rows, COUNT(rows));
    const Metrics *metrics = &scene.result.metrics;
    cr_expect_gt(metrics->transfers, SCENE_REQUESTS / 2);
    for (int r = 0; r < SCENE_REQUESTS; r++) {
      made += scene.records[r].generated_tokens;
      cr_expect(scene.records[r].prompt_tokens == rows[r].prompt_tokens &&
                scene.records[r].output_tokens == rows[r].output_tokens);
    }
    for (InstanceIx m = 0; m < 3; m++)
      prefilled += (int64_t)scene.result.instances[m].prefill_tokens;
    cr_expect_eq(made, outputs);
    cr_expect(metrics->recomputes + metrics->restarted_prefills > 0 ? prefilled >= prompts
                                                                    : prefilled == prompts);
  }
}

/* In its first part, on its way and in its second it has all of its lengths. */
Test(cuts, one_that_is_given_up_is_whole) {
  static const int64_t patience[] = {50, 100, 160, 1000};
  for (size_t i = 0; i < 2 * COUNT(patience); i++) {
    set_up("serialized",
           i < COUNT(patience) ? "{cut: share, share: 0.5}" : "{cut: share, share: 0.91667}");
    TraceRow rows[] = {row(0, 100, 20), row(5 * MS, 100, 20)};
    rows[0].patience = patience[i % COUNT(patience)] * MS;
    run(rows, COUNT(rows));
    const RequestRecord *record = &scene.records[0];
    cr_expect(record->prompt_tokens == 100 && record->output_tokens == 20, "%d and %d",
              record->prompt_tokens, record->output_tokens);
    cr_expect_eq(record->cancelled != 0, record->last_token_at < 0);
    teardown();
    setup_scene();
  }
}

/* --- where the balance is */

/* A token of output is 11 ms and 10 us for each token of context, of which there are 110 in the
 * middle: 12.1 ms. The prompt takes 110 ms. After five tokens both have 170.5 and 181.5 ms, after
 * six 182.6 and 169.4. */
Test(cuts, the_balance_is_in_the_output_of_a_long_one) {
  set_up("serialized", "{batch: 1}");
  const TraceRow rows[] = {row(0, 100, 20)};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.transferred_bytes, 105 * 1000000);
}

/* A token is 15.02 ms: 10 + 230 ms against 10 + 170 + 60.08. */
Test(cuts, the_balance_is_in_the_prompt_of_a_short_one) {
  set_up("serialized", "{batch: 1}");
  const TraceRow rows[] = {row(0, 400, 4)};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.transferred_bytes, 230 * 1000000);
}

/* The first has 240 ms there and 240.08 here. The second one's first part goes where there are 240:
 * 240 + 10 + s against 240.08 + 10 + (400 - s) + 60.08; so it is cut after the same token, and its
 * first part is on the first machine, too. */
Test(cuts, loads_are_of_what_was_sent_and_has_not_left) {
  set_up("serialized", "{batch: 1}");
  const TraceRow rows[] = {row(0, 400, 4), row(1 * MS, 400, 4), row(10000 * MS, 400, 4)};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.transferred_bytes, 3 * 230 * 1000000);
  cr_expect_eq((int64_t)scene.result.instances[0].prefill_tokens, 3 * 230);
}
