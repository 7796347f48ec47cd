/* Images of prompts where a scheduler decides step by step. Pinned: whose chunks end where, what is
 * encoded again, what the cache evicts, what the prefix cache finds, and what encoding takes. Not
 * pinned here: whole runs, in differential_vllm. */
#include "sim/core/content.h"
#include "sim/core/encoder.h"
#include "tests/unit/scene_testing.h"

TestSuite(encoder, .init = setup_scene, .fini = teardown);

static RequestInputs inputs_of(RequestInput *items, size_t n) {
  return (RequestInputs){.items = items, .n = n};
}

static int64_t fit(Encoder *encoder, RequestInputs *inputs, int64_t computed, int64_t tokens,
                   int64_t budget) {
  return encoder_fit(encoder, inputs, computed, tokens, budget);
}

static int64_t take(Encoder *encoder, RequestInputs *inputs, uint64_t *ret_inputs) {
  *ret_inputs = 0;
  return encoder_take(encoder, inputs, ret_inputs);
}

/* Images at 10 and 40 of 20 tokens each. */
#define TWO_IMAGES                                                                                 \
  { {.of = {1, 10, 20}}, {.of = {2, 40, 20}}, }

Test(encoder, a_chunk_ends_before_an_image_beyond_the_budget) {
  RequestInput items[] = TWO_IMAGES;
  RequestInputs inputs = inputs_of(items, 2);
  Encoder encoder;
  uint64_t which;
  encoder_init(&encoder, 100, &arena);
  cr_expect_eq(fit(&encoder, &inputs, 0, 10, 100), 10); // up to the first
  cr_expect_eq(take(&encoder, &inputs, &which), 0);
  cr_expect_eq(fit(&encoder, &inputs, 0, 11, 100), 11); // one token of it: it is encoded whole
  cr_expect_eq(encoder.n_chosen, 1);
  cr_expect_eq(fit(&encoder, &inputs, 0, 100, 39), 40); // the budget is for one
  cr_expect_eq(encoder.n_chosen, 1);
  cr_expect_eq(fit(&encoder, &inputs, 40, 60, 19), 0); // it is there already
  cr_expect_eq(fit(&encoder, &inputs, 0, 100, 40), 100);
  cr_expect_eq(take(&encoder, &inputs, &which), 40);
  cr_expect_eq(which, 3);
  cr_expect_eq(encoder.n_free, 60);
  encoder_audit(&encoder, 2);
}

/* A prefix hit within the first image needs it still; behind it it does not. */
Test(encoder, an_image_is_needed_as_far_as_it_is_not_computed) {
  RequestInput items[] = TWO_IMAGES;
  RequestInputs inputs = inputs_of(items, 2);
  Encoder encoder;
  encoder_init(&encoder, 100, &arena);
  cr_expect_eq(fit(&encoder, &inputs, 29, 5, 100), 5);
  cr_expect_eq(encoder.n_chosen, 1);
  cr_expect_eq(fit(&encoder, &inputs, 30, 5, 100), 5);
  cr_expect_eq(encoder.n_chosen, 0);
}

Test(encoder, an_image_is_encoded_once_for_all_who_name_it) {
  RequestInput a_items[] = {{.of = {7, 0, 20}}, {.of = {7, 20, 20}}},
               b_items[] = {{.of = {7, 5, 20}}};
  RequestInputs a = inputs_of(a_items, 2), b = inputs_of(b_items, 1);
  Encoder encoder;
  uint64_t which;
  encoder_init(&encoder, 20, &arena);
  cr_expect_eq(fit(&encoder, &a, 0, 40, 20), 40);
  cr_expect_eq(take(&encoder, &a, &which), 20);
  cr_expect_eq(which, 1);
  cr_expect_eq(fit(&encoder, &b, 0, 30, 0), 30); // the cache has it
  cr_expect_eq(take(&encoder, &b, &which), 0);
  encoder_audit(&encoder, 2);
  encoder_leave(&encoder, &a, 20); // its second place is to come, but the name was left
  encoder_audit(&encoder, 1);
  encoder_leave(&encoder, &b, 25);
  cr_expect_eq(encoder.n_freeable, 20);
  cr_expect_eq(fit(&encoder, &a, 20, 20, 0), 20);
  encoder_audit(&encoder, 1);
}

/* Three of 30 tokens in a cache of 100: for the fourth the one goes that was left first. */
Test(encoder, what_was_left_longest_ago_is_evicted) {
  RequestInput items[4][1];
  RequestInputs inputs[4];
  Encoder encoder;
  uint64_t which;
  encoder_init(&encoder, 100, &arena);
  for (int i = 0; i < 4; i++) {
    items[i][0] = (RequestInput){.of = {(uint64_t)i + 1, 0, 30}};
    inputs[i] = inputs_of(items[i], 1);
  }
  for (int i = 0; i < 3; i++) {
    cr_expect_eq(fit(&encoder, &inputs[i], 0, 30, 30), 30);
    take(&encoder, &inputs[i], &which);
  }
  cr_expect_eq(fit(&encoder, &inputs[3], 0, 30, 30), 0); // all are referred to
  encoder_leave(&encoder, &inputs[1], 29);               // not all of its place
  cr_expect_eq(fit(&encoder, &inputs[3], 0, 30, 30), 0);
  encoder_leave(&encoder, &inputs[1], 30);
  encoder_leave(&encoder, &inputs[0], 30);
  cr_expect_eq(fit(&encoder, &inputs[3], 0, 30, 30), 30);
  take(&encoder, &inputs[3], &which);
  cr_expect_eq(encoder.n_free, 10);
  cr_expect_eq(fit(&encoder, &inputs[0], 0, 30, 0), 30); // still there
  cr_expect_eq(fit(&encoder, &inputs[1], 0, 30, 0), 0);  // evicted
  encoder_audit(&encoder, 3);
}

/* The same text with another image in it, or with the same one elsewhere, is another beginning. */
Test(encoder, a_beginning_is_named_by_its_images) {
  const TraceSegment segments[] = {{11, 32}, {12, 64}, {13, INT32_MAX}};
  const TraceRow row = {.segments = segments, .n_segments = 3};
  const TraceInput images[] = {{1, 40, 8}, {2, 50, 8}}, other[] = {{3, 40, 8}, {2, 50, 8}},
                   moved[] = {{1, 41, 8}, {2, 50, 8}};
  Content plain = {0}, with = {0}, without = {0}, elsewhere = {0};
  content_set(&plain, &row, 0, &arena);
  content_set(&with, &row, 0, &arena);
  content_set(&without, &row, 0, &arena);
  content_set(&elsewhere, &row, 0, &arena);
  content_mark(&with, images, 2, &arena);
  content_mark(&without, other, 2, &arena);
  content_mark(&elsewhere, moved, 2, &arena);
  for (int64_t tokens = 1; tokens <= 100; tokens++) {
    const uint64_t key = content_key(&with, tokens);
    cr_expect_eq(key == content_key(&plain, tokens), tokens <= 40, "%d", (int)tokens);
    cr_expect_eq(key == content_key(&without, tokens), tokens <= 40, "%d", (int)tokens);
    cr_expect_eq(key == content_key(&elsewhere, tokens), tokens <= 40, "%d", (int)tokens);
  }
}

/* --- whole runs: an iteration takes 10 ms and 1 ms for each token */

static void choose(const char *options) {
  scene_choose(&scene, POLICY_BATCHER, "vllm", options);
}

static TraceRow with_image(TraceRow row, const TraceInput *image) {
  row.inputs = image;
  row.n_inputs = 1;
  return row;
}

/* Two prompts of 50 tokens with an image of 40 at 10, and a budget of 40 a step: the first has 50
 * tokens, the second 10 in the same step and 40 in the next. */
Test(encoder, the_second_image_of_a_step_waits) {
  const TraceInput one = {1, 10, 40}, two = {2, 10, 40};
  const TraceRow rows[] = {with_image(row(0, 50, 1), &one), with_image(row(0, 50, 1), &two)};
  choose("{async_scheduling: false, max_num_encoder_input_tokens: 40, encoder_cache_size: 80}");
  run(rows, 2);
  expect_at(scene.records[0].first_token_at, 70000, "the first");
  expect_at(scene.records[1].first_token_at, 70000 + 50000, "the second");
  cr_expect_eq(scene.result.metrics.encoder_tokens, 80);
}

/* With one name there is one image. */
Test(encoder, equal_images_are_encoded_once) {
  const TraceInput one = {1, 10, 40};
  const TraceRow rows[] = {with_image(row(0, 50, 1), &one), with_image(row(0, 50, 1), &one)};
  choose("{async_scheduling: false, max_num_encoder_input_tokens: 40, encoder_cache_size: 80}");
  run(rows, 2);
  expect_at(scene.records[1].first_token_at, 110000, "the second");
  cr_expect_eq(scene.result.metrics.encoder_tokens, 40);
}

/* The second is at its image already, and set aside; the third, without one, goes before it. */
Test(encoder, a_waiting_request_at_its_image_is_set_aside) {
  const TraceInput one = {1, 0, 40}, two = {2, 0, 40};
  const TraceRow rows[] = {with_image(row(0, 50, 1), &one), with_image(row(0, 50, 1), &two),
                           row(0, 20, 1)};
  choose("{async_scheduling: false, max_num_encoder_input_tokens: 40, encoder_cache_size: 80}");
  run(rows, 3);
  expect_at(scene.records[0].first_token_at, 80000, "the first");
  expect_at(scene.records[2].first_token_at, 80000, "the third");
  expect_at(scene.records[1].first_token_at, 140000, "the second");
}

/* The cache has room for one, which is referred to until its step has ended. The step after that
 * has been decided by then if steps are decided ahead: it has the second token of the first
 * request, and the second image waits for the one after. */
Test(encoder, an_output_stays_until_a_step_has_ended) {
  const TraceInput one = {1, 0, 40}, two = {2, 0, 40};
  const TraceRow rows[] = {with_image(row(0, 50, 2), &one), with_image(row(0, 50, 1), &two)};
  const Tick decode = 1510; // with 51 tokens of context
  for (int ahead = 0; ahead < 2; ahead++) {
    choose(ahead ? "{max_num_encoder_input_tokens: 80, encoder_cache_size: 40}"
                 : "{async_scheduling: false, max_num_encoder_input_tokens: 80, "
                   "encoder_cache_size: 40}");
    run(rows, 2);
    expect_at(scene.records[1].first_token_at, 60000 + ahead * 10000 + decode + 60000,
              "the second");
  }
}

Test(encoder, encoding_takes_its_time) {
  const TraceInput one = {1, 0, 40};
  const TraceRow rows[] = {with_image(row(0, 50, 1), &one)};
  choose("{encoder_time_per_token: 100 us}");
  run(rows, 1);
  expect_at(scene.records[0].first_token_at, 60000 + 4000, "the token");
}

Test(encoder, an_image_that_no_step_can_encode_is_an_error) {
  const TraceInput one = {1, 0, 41};
  const TraceRow rows[] = {with_image(row(0, 50, 1), &one)};
  choose("{max_num_encoder_input_tokens: 80, encoder_cache_size: 40}");
  cr_expect_lt(scene_run(&scene, rows, 1), 0);
  cr_expect_eq(diag.n_entries, 1);
}
