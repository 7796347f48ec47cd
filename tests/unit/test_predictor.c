/* Predictors. Pinned: none knows nothing and the oracle everything; buckets are right as often as
 * they say, and otherwise one off, inside the range; a confusion matrix is followed row by row;
 * what a prediction costs a prefill machine in each mode; which options are refused, with what
 * words. */
#include "base/hash.h"
#include "sim/policies.h"
#include "sim/predictor/predictor.h"
#include "tests/unit/sim_testing.h"
#include <math.h>

TestSuite(predictor, .init = setup, .fini = teardown);

enum { DRAWS = 100000, BUCKETS = 16 };

static const Predictor *find(const char *name) {
  return (const Predictor *)policy_find(POLICY_PREDICTOR, name);
}

static Prediction predict(const char *name, const void *state, int32_t output, uint64_t random) {
  const Request request = {.prompt_tokens = 10, .output_tokens = output};
  return find(name)->predict(state, &request, random);
}

Test(predictor, none_knows_nothing_and_the_oracle_everything) {
  const Prediction none = predict("none", NULL, 77, 1), oracle = predict("oracle", NULL, 77, 1);
  cr_expect(none.low == 0 && none.high == INT32_MAX);
  cr_expect(oracle.low == 77 && oracle.high == 78);
}

/* Counts the buckets predicted for outputs of one length. */
static void draw_many(const char *options, int32_t granularity, int32_t output, int *counts) {
  const void *state = policy_state(POLICY_PREDICTOR, "buckets", options, &arena);
  memset(counts, 0, BUCKETS * sizeof *counts);
  for (uint64_t i = 0; i < DRAWS; i++) {
    const Prediction p = predict("buckets", state, output, hash_mix(hash_mix(1) + i));
    cr_assert(p.low % granularity == 0 && p.high == p.low + granularity);
    cr_assert_lt(p.low / granularity, BUCKETS);
    counts[p.low / granularity]++;
  }
}

static void expect_share(int count, double share, const char *what, int bucket) {
  const double sigma = sqrt(share * (1 - share) * DRAWS);
  cr_expect_leq(fabs(count - share * DRAWS), 3 * sigma, "%s: %d draws of bucket %d, not %g", what,
                count, bucket, share * DRAWS);
}

Test(predictor, buckets_are_right_as_often_as_they_say_and_else_one_off) {
  static const struct {
    const char *options;
    int32_t granularity, output;
    int bucket, below, above; // -1: there is none
    double accuracy;
  } cases[] = {
      {NULL, 200, 500, 2, 1, 3, 0.749},
      {"{granularity: 100}", 100, 1250, 12, 11, 13, 0.589},
      {"{granularity: 400}", 400, 400, 1, 0, 2, 0.85},
      {"{granularity: 400}", 400, 399, 0, -1, 1, 0.85},
      {"{granularity: 300, accuracy: 0.3, max_tokens: 899}", 300, 600, 2, 1, -1, 0.3},
      {"{granularity: 300, accuracy: 0.3, max_tokens: 900}", 300, 1000000, 3, 2, -1, 0.3},
      {"{granularity: 200, accuracy: 1}", 200, 1, 0, -1, -1, 1},
      {"{granularity: 2049, accuracy: 0.5}", 2049, 7, 0, -1, -1, 1}, // there is but one
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *what = cases[i].options ? cases[i].options : "defaults";
    int counts[BUCKETS];
    draw_many(cases[i].options, cases[i].granularity, cases[i].output, counts);
    const double wrong = 1 - cases[i].accuracy;
    const int sides = (cases[i].below >= 0) + (cases[i].above >= 0);
    for (int b = 0; b < BUCKETS; b++) {
      const bool beside = b == cases[i].below || b == cases[i].above;
      const double share = b == cases[i].bucket ? cases[i].accuracy : beside ? wrong / sides : 0;
      expect_share(counts[b], share, what, b);
    }
  }
}

Test(predictor, a_confusion_matrix_is_followed_row_by_row) {
  static const double shares[3][3] = {{0.9, 0.1, 0}, {0, 0.25, 0.75}, {0.5, 0, 0.5}};
  for (int row = 0; row < 3; row++) {
    int counts[BUCKETS];
    draw_many("{confusion: [[0.9, 0.1, 0], [0, 0.25, 0.75], [0.5, 0, 0.5]]}", 200,
              row < 2 ? row * 200 + 60 : 5000, counts);
    for (int b = 0; b < 3; b++)
      expect_share(counts[b], shares[row][b], "matrix", b);
  }
  const void *state =
      policy_state(POLICY_PREDICTOR, "buckets", "{confusion: [[0.5, 0.5], [1, 0]]}", &arena);
  cr_expect_eq(predict("buckets", state, 300, UINT64_MAX).low, 0,
               "the end of a row that ends in 0");
  cr_expect_eq(predict("buckets", state, 0, UINT64_MAX).low, 200);
}

Test(predictor, the_same_number_gives_the_same_prediction) {
  const void *state = policy_state(POLICY_PREDICTOR, "buckets", NULL, &arena);
  for (uint64_t i = 0; i < 100; i++) {
    const Prediction a = predict("buckets", state, 1000, hash_mix(i));
    const Prediction b = predict("buckets", state, 1000, hash_mix(i));
    cr_assert(a.low == b.low && a.high == b.high);
  }
}

Test(predictor, options_that_make_no_sense_are_refused) {
  static const struct {
    const char *options, *message;
  } cases[] = {
      {"{granularity: 150}", "no accuracy is known for a 'granularity' of 150: set 'accuracy'"},
      {"{confusion: [[0.5, 0.4], [0, 1]]}",
       "the shares of a row of 'confusion' must sum to 1, not 0.9"},
      {"{confusion: [[1, 0], [1]]}",
       "each row of 'confusion' must be a list of 2 shares, one for each of the 2 rows"},
      {"{confusion: [[1, 0], 3]}",
       "each row of 'confusion' must be a list of 2 shares, one for each of the 2 rows"},
      {"{confusion: [[1.5, -0.5], [0, 1]]}", "'confusion' must be from 0 to 1, not '1.5'"},
      {"{confusion: 1}", "'confusion' must be a list of rows, one for each bucket"},
      {"{confusion: [[1]], accuracy: 0.5}",
       "'accuracy' follows from 'confusion': the two exclude each other"},
      {"{confusion: [[1]], max_tokens: 5}",
       "'max_tokens' follows from 'confusion': the two exclude each other"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Diag diag;
    diag_init(&diag);
    const char *text = cases[i].options;
    const Node *node = yaml_parse("options", text, strlen(text), &arena, &diag);
    const Policy *policy = policy_find(POLICY_PREDICTOR, "buckets");
    cr_expect_null(policy_bind(policy, node, place_of_file("options"), &arena, &diag), "%s", text);
    cr_assert_geq(diag.n_entries, 1, "%s", text);
    cr_expect_str_eq(diag.entries[0].message, cases[i].message);
    cr_expect_eq(diag_exit_code(&diag), 3);
    diag_done(&diag);
  }
}

/* A machine about to prefill: a prompt of 100 tokens that begins, one of 40 that begins, one of 600
 * that begins, one in its second chunk and one that was evicted. An iteration of n prompt tokens
 * lasts 10 + n ms. */
Test(predictor, buckets_cost_what_their_mode_says) {
  static const struct {
    const char *options;
    int first, n; // of the chunks below
    Tick cost;    // of an iteration of 200 ms
  } cases[] = {
      {NULL, 0, 5, 20 * MS},
      {"{mode: parallel, interference: 0.5}", 1, 1, 100 * MS},
      {"{mode: parallel}", 3, 2, 0},
      {"{mode: free}", 0, 5, 0},
      {"{mode: sequential}", 0, 1, 11 * MS}, // 110 / 10
      {"{mode: sequential}", 0, 2, 21 * MS}, // 2 x 100, padded: 210 / 10
      {"{mode: sequential}", 0, 5, 82 * MS}, // and 610 / 10 for the long one, alone
      {"{mode: sequential, padding_limit: 50}", 0, 2, 16 * MS},   // 110 / 10 + 50 / 10
      {"{mode: sequential, padding_limit: 600}", 0, 3, 181 * MS}, // 3 x 600
      {"{mode: sequential, speedup: 1}", 1, 1, 50 * MS},
      {"{mode: sequential}", 3, 2, 0},
  };
  static const int32_t prompts[] = {100, 40, 600, 700, 50};
  Stage stage;
  stage_init(&stage, "P", 1000, 16, &arena);
  stage.pool.perfmodel = plain_model(&arena);
  RequestIx chunks[COUNT(prompts)];
  for (size_t i = 0; i < COUNT(prompts); i++)
    chunks[i] = stage_prefill(&stage, 0, prompts[i]);
  stage.requests.slots[chunks[3]].prefilled_tokens = 512;
  stage.requests.slots[chunks[4]].recomputes = 1;
  for (size_t i = 0; i < COUNT(prompts); i++)
    stage.requests.slots[chunks[i]].disturbed = true;
  for (size_t i = 0; i < COUNT(cases); i++) {
    const void *state = policy_state(POLICY_PREDICTOR, "buckets", cases[i].options, &arena);
    stage.machines[0].chunks = chunks + cases[i].first;
    stage.machines[0].n_chunks = (size_t)cases[i].n;
    const InstanceView view = stage_view(&stage, 0);
    cr_expect_eq(find("buckets")->cost(state, &view, 200 * MS), cases[i].cost, "case %zu", i);
  }
  const void *state = policy_state(POLICY_PREDICTOR, "buckets", "{interference: 10}", &arena);
  stage.machines[0].chunks = chunks;
  const InstanceView view = stage_view(&stage, 0);
  const double half = (double)(TICK_MAX / 2);
  cr_expect_eq(find("buckets")->cost(state, &view, TICK_MAX / 2), 10 * half, "past all time");
}

/* TetriInfer §5.2.2: beside the small model 80% of the prefills take as long as alone, and all of
 * them 10% longer on average; so the others take 50% longer. */
Test(predictor, four_of_five_prefills_are_unaffected_and_the_mean_is_a_tenth) {
  const void *state = policy_state(POLICY_PREDICTOR, "buckets", "{unaffected: 0.8}", &arena);
  Stage stage;
  stage_init(&stage, "P", 1000, 16, &arena);
  RequestIx chunk = stage_prefill(&stage, 0, 512);
  Request *request = &stage.requests.slots[chunk];
  stage.machines[0].chunks = &chunk;
  stage.machines[0].n_chunks = 1;
  const InstanceView view = stage_view(&stage, 0);
  int unaffected = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    request->disturbed =
        find("buckets")->predict(state, request, hash_mix(hash_mix(1) + i)).disturbs;
    const double cost = find("buckets")->cost(state, &view, 200 * MS);
    cr_assert(cost == 0 || cost == 100 * MS, "%g", cost);
    unaffected += cost == 0;
  }
  expect_share(unaffected, 0.8, "unaffected", 0);
}

/* Prompts of 90 and 30 tokens in one batch, 130 ms. A prefill machine predicts; one that is mixed
 * does not. */
Test(predictor, predicting_prolongs_prefill_on_prefill_machines) {
  static const struct {
    const char *name, *options;
    bool split;
    Tick first_token;
  } cases[] = {
      {"none", NULL, true, 130 * MS},
      {"oracle", NULL, true, 130 * MS},
      {"buckets", NULL, true, 143 * MS},
      {"buckets", "{mode: sequential}", true, 149 * MS}, // 2 x 90 padded: 190 / 10
      {"buckets", "{mode: free}", true, 130 * MS},
      {"buckets", NULL, false, 130 * MS},
  };
  const TraceRow rows[] = {row(0, 90, 1), row(0, 30, 1)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    Diag diag;
    diag_init(&diag);
    Scene scene;
    scene_init(&scene, &arena, &diag);
    if (cases[i].split) scene_split(&scene, 1, 1);
    scene_choose(&scene, POLICY_PREDICTOR, cases[i].name, cases[i].options);
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
    cr_expect_eq(scene.records[0].first_token_at, cases[i].first_token, "case %zu", i);
    diag_done(&diag);
  }
}
