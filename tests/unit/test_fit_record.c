/* Reading what a model file records of its fit: points within their limits, a digest of 16 digits,
 * and where each kind of wrong line is reported. */
#include "perfmodel/fit_file.h"
#include "tests/unit/testing.h"

TestSuite(fit_record, .init = setup, .fini = teardown);

static int load(FitRecord *record, const char *digest, const char *points) {
  const char *text = arena_printf(&arena,
                                  "fit:\n  profile: made.csv\n  digest: %s\n  facts: {}\n"
                                  "  engine_preset: ideal\n  engine_inside: linear\n  seed: 1\n"
                                  "  unused: 0\n  scores: {}\n  points: %s\n",
                                  digest, points);
  const char *path = temp_file(text, strlen(text), &arena);
  diag.n_entries = diag.n_dropped = 0;
  const int status = fit_record_load(record, path, &arena, &diag);
  unlink(path);
  return status;
}

#define DIGEST "\"00ab00000000cdef\""

Test(fit_record, a_record_is_read) {
  FitRecord record;
  cr_assert_eq(
      load(&record, DIGEST, "[[linear, 16, 256, 0, 0, 1, 0.5], [head, 1, 2, 3, 4, 5, 0.25]]"), 0);
  cr_expect_str_eq(record.profile, "made.csv");
  cr_expect_eq(record.digest, UINT64_C(0xab00000000cdef));
  cr_expect_eq(record.digest_at.line, 3);
  cr_assert_eq(record.n_points, 2);
  const FitPoint *point = &record.points[1];
  cr_expect(record.points[0].op == PROFILE_LINEAR && point->op == PROFILE_HEAD);
  cr_expect(point->batch.prefill_tokens == 1 && point->batch.prefill_area2 == 2);
  cr_expect(point->batch.decode_seqs == 3 && point->batch.context_tokens == 4);
  cr_expect(point->batch.logit_seqs == 5 && point->seconds == 0.25 && point->rows == 1);
}

Test(fit_record, points_have_limits) {
  static const struct {
    const char *point;
    bool good;
  } cases[] = {
      {"[linear, 1000000000, 0, 0, 0, 0, 1]", true},
      {"[linear, 1000000001, 0, 0, 0, 0, 1]", false},
      {"[linear, 1, 1000000000000000, 0, 0, 0, 1]", true},
      {"[linear, 1, 1000000000000001, 0, 0, 0, 1]", false},
      {"[linear, 0, 0, 65536, 0, 0, 1]", true},
      {"[linear, 0, 0, 65537, 0, 0, 1]", false},
      {"[linear, 0, 0, 1, 1000000000, 0, 1]", true},
      {"[linear, 0, 0, 1, 1000000001, 0, 1]", false},
      {"[linear, 1, 0, 0, 0, 1000000, 1]", true},
      {"[linear, 1, 0, 0, 0, 1000001, 1]", false},
      {"[linear, -1, 0, 0, 0, 0, 1]", false},
      {"[linear, 1, 0, 0, 0, 0, 0]", false},
      {"[linear, 1, 0, 0, 0, 0, 100000]", true},
      {"[linear, 1, 0, 0, 0, 0, 100001]", false},
      {"[linear, 1, 0, 0, 0, 1]", false},
      {"[linear, 1, 0, 0, 0, 0, 1, 1]", false},
      {"[norm, 1, 0, 0, 0, 0, 1]", false},
      {"[decode_attention, 1, 0, 0, 0, 0, 1]", false},
      {"[decode_attention, 0, 0, 1, 0, 0, 1]", true},
      {"[iteration, 0, 0, 0, 0, 0, 1]", false},
      {"[iteration, 1, 0, 0, 0, 0, 1]", true},
      {"[iteration, 0, 0, 1, 0, 0, 1]", true},
      {"[head, 0, 0, 0, 0, 0, 1]", true},
      {"5", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FitRecord record;
    const char *good = "[linear, 1, 0, 0, 0, 0, 1]";
    for (int first = 0; first < 2; first++) {
      const char *points = arena_printf(&arena, "[%s, %s]", first ? cases[i].point : good,
                                        first ? good : cases[i].point);
      cr_expect_eq(load(&record, DIGEST, points) == 0, cases[i].good, "%s", points);
      if (!cases[i].good) cr_expect_eq(diag.entries[0].at.line, 10, "%s", points);
    }
  }
}

Test(fit_record, digests_have_16_digits) {
  static const char *const bad[] = {"\"0ab00000000cdef\"", "\"000ab00000000cdef\"",
                                    "\"00ab00000000cdeg\"", "\"\""};
  FitRecord record;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect_eq(load(&record, bad[i], "[]"), -1, "%s", bad[i]);
    expect_entry(&diag, 0, 3, 11, "expected a digest of 16 hexadecimal digits", bad[i]);
  }
  cr_expect_eq(load(&record, DIGEST, "{}"), -1);
  expect_entry(&diag, 0, 10, 11, "expected a list of points", "{}");
}
