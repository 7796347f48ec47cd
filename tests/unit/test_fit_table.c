/* Terms that follow tables: what the grid says comes back, in both variables, and what is written
 * loads to the same times. */
#include "perfmodel/fit_file.h"
#include "perfmodel/import/import.h"
#include "tests/unit/testing.h"
#include <criterion/criterion.h>
#include <math.h>

static Profile profile;

static void begin(void) {
  setup_folder();
  profile_init(&profile, "made-up.csv", &arena);
  profile_set_fact(&profile, "grid", "each point once");
}

TestSuite(fit_table, .init = begin, .fini = teardown_folder);

static void add(ProfileOp op, BatchShape batch, double seconds) {
  ProfileRow row = import_row("m", "g", 1, op, batch, 1e6 * seconds);
  row.configuration = (int64_t)profile.n_rows + 1;
  profile_add(&profile, &row);
}

/* Keys are read one after the other until 256 tokens fill the GPU. */
static double prefill_of(double tokens, double past) {
  return 1e-5 + 2e-8 * (past + tokens) * fmax(1, tokens / 256);
}

static double decode_of(double context) {
  return 2e-5 + 4e-9 * context;
}

static BatchShape batch_of(int64_t tokens, int64_t past, int64_t seqs, int64_t context) {
  return (BatchShape){tokens, tokens * (2 * past + tokens), seqs, seqs * context, 0};
}

/* Beside prefill decodes read their context three times. */
static void add_table(void) {
  for (int64_t tokens = 1; tokens <= 128; tokens++)
    add(PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, 1e-3 + 1e-6 * (double)tokens);
  for (int64_t p = 16; p <= 2048; p *= 2)
    for (int64_t past = 64; past <= 16384; past *= 2)
      add(PROFILE_PREFILL_ATTENTION, batch_of(p, past, 0, 0), prefill_of((double)p, (double)past));
  for (int64_t n = 1; n <= 128; n *= 2)
    for (int64_t context = 16; context <= 8192; context *= 2) {
      add(PROFILE_DECODE_ATTENTION, batch_of(0, 0, n, context), decode_of((double)(n * context)));
      for (int64_t p = 16; p <= 1024; p *= 8)
        add(PROFILE_DECODE_ATTENTION, batch_of(p, 1024, n, context),
            prefill_of((double)p, 1024) + decode_of(3 * (double)(n * context)));
    }
}

Test(fit_table, grids_of_two_counts_come_back) {
  static const FitPart parts[] = {FIT_OPERATORS + PROFILE_PREFILL_ATTENTION,
                                  FIT_OPERATORS + PROFILE_DECODE_ATTENTION, FIT_MIXED_OPERATORS};
  const FitOptions options = {.preset = "ideal", .ideal = true, .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  ProfileGroup *groups;
  PerfModel model;
  add_table();
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  cr_expect(result->tables);
  for (int i = 0; i < 3; i++)
    cr_expect_leq(result->parts[parts[i]].held_out.mape, 0.04, "%s: %g", fit_part_name(parts[i]),
                  result->parts[parts[i]].held_out.mape);
  cr_assert_eq(fit_save(result, &profile, path, &diag), 0);
  cr_assert_eq(perfmodel_load(&model, path, 128, &arena, &diag), 0);
  for (int i = 0; i < result->n_points; i++) {
    const FitPoint *point = &result->points[i];
    const double seconds = fit_point_eval(&result->model, point);
    cr_assert_float_eq(fit_record_eval(&model, point), seconds, 1e-6 * seconds + 1e-9);
  }
}

/* A chunk of 48 tokens, which is no row, behind 3,000: that of 256 at most, and no less than the
 * keys take. */
Test(fit_table, a_small_chunk_behind_a_long_past_takes_the_time_of_its_keys) {
  const FitOptions options = {.preset = "ideal", .ideal = true, .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  ProfileGroup *groups;
  add_table();
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  const BatchShape chunk = batch_of(48, 3000, 0, 0);
  cr_expect_float_eq(fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &chunk),
                     prefill_of(48, 3000), 0.06 * prefill_of(48, 3000));
}
