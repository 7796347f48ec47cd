/* The digest of a performance model: every number of it enters, and nothing else does. */
#include "perfmodel/perfmodel.h"
#include "tests/unit/testing.h"

TestSuite(model_digest, .init = setup, .fini = teardown);

static uint64_t digest_of(const char *text) {
  PerfModel model;
  const char *path = temp_file(text, strlen(text), &arena);
  cr_assert_eq(perfmodel_load(&model, path, 4, &arena, &diag), 0, "%s", text);
  unlink(path);
  return model.digest;
}

#define HEADER "model: m\ngpu: g\ntensor_parallel_size: 1\n"
#define LINEAR "linear: {knots: [[1, 0.010], [101, 0.020]]}\n"
#define PAIRS  "prefill_attention: {measured: [0, 1000000], knots: [[0, 0], [1000000, 0.001]]}\n"
#define TABLE                                                                                      \
  "decode_attention:\n"                                                                            \
  "  rows:\n"                                                                                      \
  "    - {sequences: 1, knots: [[0, 0], [1000, 0.001]]}\n"                                         \
  "    - {sequences: 3, knots: [[0, 0.002], [1000, 0.004], [2000, 0.008]]}\n"
#define HEAD  "head: {knots: [[1, 0.0005], [101, 0.0015]]}\n"
#define SMALL "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR PAIRS TABLE HEAD
#define SIM   "form: splitwise-sim\n" HEADER

Test(model_digest, every_number_of_a_model_is_in_its_digest) {
  static const char *const texts[] = {
      SMALL,
      "form: composed\n" HEADER "overhead: 1.001 ms\n" LINEAR PAIRS TABLE HEAD,
      "form: composed\n" HEADER
      "overhead: 1 ms\nlinear: {knots: [[2, 0.010], [101, 0.020]]}\n" PAIRS TABLE HEAD,
      "form: composed\n" HEADER
      "overhead: 1 ms\nlinear: {knots: [[1, 0.011], [101, 0.020]]}\n" PAIRS TABLE HEAD,
      "form: composed\n" HEADER
      "overhead: 1 ms\nlinear: {knots: [[1, 0.010], [102, 0.020]]}\n" PAIRS TABLE HEAD,
      "form: composed\n" HEADER
      "overhead: 1 ms\nlinear: {knots: [[1, 0.010], [101, 0.021]]}\n" PAIRS TABLE HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR
      "prefill_attention: {measured: [0, 1000000], knots: [[0, 0.0005], [1000000, 0.0015]]}\n" TABLE
          HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n"
      "linear: {measured: [0, 101], knots: [[1, 0.010], [101, 0.020]]}\n" PAIRS TABLE HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n"
      "linear: {measured: [1, 102], knots: [[1, 0.010], [101, 0.020]]}\n" PAIRS TABLE HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR "prefill_attention: none\n" TABLE HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR PAIRS TABLE "head: none\n",
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR PAIRS "decode_attention: none\n" HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR PAIRS TABLE
      "head: {knots: [[1, 0.0005], [101, 0.0016]]}\n",
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR PAIRS "decode_attention:\n  rows:\n"
      "    - {sequences: 1, knots: [[0, 0], [1000, 0.001]]}\n"
      "    - {sequences: 3, knots: [[0, 0.002], [1000, 0.004], [2000, 0.009]]}\n" HEAD,
      SMALL "mixed_attention: {factor: 1.5}\n",
      SMALL "mixed_attention: {rows: [{sequences: 1, knots: [[0, 0], [1000, 0.001]]}]}\n",
      SMALL "mixed_attention: {rows: [{sequences: 2, knots: [[0, 0], [1000, 0.001]]}]}\n",
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR
      "prefill_attention: {rows: [{tokens: 9, knots: [[0, 0], [1000000, 0.001]]}]}\n" TABLE HEAD,
      "form: composed\n" HEADER "overhead: 1 ms\n" LINEAR
      "prefill_attention: {rows: [{tokens: 8, knots: [[0, 0], [1000000, 0.001]]}]}\n" TABLE HEAD,
      SIM "mixed_factor: 1.1\nprefill: {knots: [[1, 0.1], [9, 0.2]]}\n"
          "decode: {knots: [[1, 0.1], [9, 0.2]]}\n",
      SIM "mixed_factor: 1.2\nprefill: {knots: [[1, 0.1], [9, 0.2]]}\n"
          "decode: {knots: [[1, 0.1], [9, 0.2]]}\n",
      SIM "mixed_factor: 1.1\nprefill: {knots: [[1, 0.1], [8, 0.2]]}\n"
          "decode: {knots: [[1, 0.1], [9, 0.2]]}\n",
      SIM "mixed_factor: 1.1\nprefill: {knots: [[1, 0.1], [9, 0.2]]}\n"
          "decode: {knots: [[1, 0.1], [9, 0.20000000001]]}\n",
  };
  enum { TEXTS = sizeof texts / sizeof *texts };
  uint64_t digests[TEXTS];
  for (int i = 0; i < TEXTS; i++) {
    digests[i] = digest_of(texts[i]);
    cr_expect_eq(digest_of(texts[i]), digests[i]);
    for (int k = 0; k < i; k++)
      cr_expect_neq(digests[i], digests[k], "%s\nand\n%s", texts[i], texts[k]);
  }
}
