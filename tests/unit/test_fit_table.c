/* Terms that follow tables: what the grid says comes back, in both variables, and what is written
 * loads to the same times. */
#include "perfmodel/fit_cells.h"
#include "perfmodel/fit_compose.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/import/import.h"
#include "tests/unit/testing.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

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

/* What is written loads to the same times. */
static void expect_saved(const FitResult *result) {
  PerfModel model;
  cr_assert_eq(fit_save(result, &profile, path, &diag), 0);
  cr_assert_eq(perfmodel_load(&model, path, 128, &arena, &diag), 0);
  for (int i = 0; i < result->n_points; i++) {
    const FitPoint *point = &result->points[i];
    const double seconds = fit_point_eval(&result->model, point);
    cr_assert_float_eq(fit_record_eval(&model, point), seconds, 2e-5 * seconds + 1e-9);
  }
}

Test(fit_table, grids_of_two_counts_come_back) {
  static const FitPart parts[] = {FIT_OPERATORS + PROFILE_PREFILL_ATTENTION,
                                  FIT_OPERATORS + PROFILE_DECODE_ATTENTION, FIT_MIXED_OPERATORS};
  const FitOptions options = {.preset = "ideal", .ideal = true, .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  ProfileGroup *groups;
  add_table();
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  cr_expect(result->tables);
  for (int i = 0; i < 3; i++)
    cr_expect_leq(result->parts[parts[i]].held_out.mape, 0.04, "%s: %g", fit_part_name(parts[i]),
                  result->parts[parts[i]].held_out.mape);
  expect_saved(result);
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

/* Prompts of 16 to 2,048 tokens, one to 64 at once: each takes whole tiles of 128 queries, so that
 * as many tokens take longer in shorter prompts. */
static double tiled_of(double prompts, double tokens) {
  return 1e-5 + 2e-8 * prompts * fmax(128, tokens) * (1 + tokens / 512);
}

static void add_prompts(void) {
  for (int64_t tokens = 1; tokens <= 128; tokens++)
    add(PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, 1e-3 + 1e-6 * (double)tokens);
  for (int64_t n = 1; n <= 64; n *= 2)
    for (int64_t p = 16; p <= 2048; p *= 2)
      for (int64_t at = p; at <= p + p / 2; at += p / 2)
        add(PROFILE_PREFILL_ATTENTION, (BatchShape){n * at, n * at * at, 0, 0, 0},
            tiled_of((double)n, (double)at));
}

Test(fit_table, short_prompts_take_longer_than_long_ones_of_as_many_tokens) {
  const FitOptions options = {.preset = "ideal", .ideal = true, .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  ProfileGroup *groups;
  add_prompts();
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  const FitPartScores *scores = &result->parts[FIT_OPERATORS + PROFILE_PREFILL_ATTENTION];
  cr_expect_leq(scores->train.mape, 0.02, "%g", scores->train.mape);
  cr_expect_leq(scores->held_out.mape, 0.04, "%g", scores->held_out.mape);
  const BatchShape many = {2048, 2048 * 32, 0, 0, 0}, few = {2048, 2048 * 128, 0, 0, 0};
  cr_expect_float_eq(fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &many), tiled_of(64, 32),
                     0.05 * tiled_of(64, 32));
  cr_expect_gt(fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &many),
               2 * fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &few));
}

/* Launches of 1 ms less products that grow with tokens, up to 8,192; then work. The shortest
 * prompts take longest. Neither a level of all of them nor the least of the shortest. */
Test(fit_table, what_is_left_of_launches_falls_with_tokens) {
  static const double seconds[] = {9e-4, 8e-4, 6e-4, 2e-4, 9e-4};
  const FitOptions options = {.preset = "ideal", .ideal = true, .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  ProfileGroup *groups;
  for (int64_t tokens = 1; tokens <= 128; tokens++)
    add(PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, 1e-3 + 1e-6 * (double)tokens);
  for (int t = 0; t < 5; t++)
    for (int64_t p = 16; p <= 1024; p *= 4)
      add(PROFILE_PREFILL_ATTENTION, (BatchShape){1024 << t, (1024 << t) * p, 0, 0, 0},
          p == 16 ? 9e-4 : seconds[t]);
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  for (int t = 0; t < 5; t++) {
    const BatchShape batch = {1024 << t, (1024 << t) * 256, 0, 0, 0};
    const double fitted = fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &batch);
    cr_expect_float_eq(fitted, seconds[t], 0.03 * seconds[t], "%d tokens: %g", 1024 << t, fitted);
  }
}

/* A cell between samples takes the least of the lines through it; one beyond all is not known. */
Test(fit_table, cells_take_the_least_line) {
  static const FitSample samples[] = {{16, 1, 9, 1},  {16, 4, 12, 1}, {32, 1, 9, 1}, {32, 2, 0, 1},
                                      {32, 8, 30, 1}, {64, 2, 30, 1}, {64, 4, 14, 1}};
  const FitSpan rows[] = {{samples, 2}, {samples + 2, 3}, {samples + 5, 2}};
  FitSample others[7];
  memcpy(others, samples, sizeof others);
  const FitCell measured = fit_cell(rows, 3, 1, 2, true, false);
  cr_expect(measured.known && measured.y == 0);
  // of 32 at 4: its own line says 10, that of 16 and 64 at 4 says 12.67, no ray is there
  FitCell cell = fit_cell(rows, 3, 1, 4, true, false);
  cr_expect(cell.known);
  cr_expect_float_eq(cell.y, 10, 1e-9);
  // its own line says 23.3 there: the column of 16 and 64 is less
  others[3].y = 20;
  const FitSpan slow[] = {{others, 2}, {others + 2, 3}, {others + 5, 2}};
  cell = fit_cell(slow, 3, 1, 4, true, false);
  cr_expect_float_eq(cell.y, 12 + 2.0 / 3, 1e-9);
  cell = fit_cell(slow, 3, 1, 4, false, false); // rows of others follow their own
  cr_expect_float_eq(cell.y, 20 + 10 / 3.0, 1e-9);
  cell = fit_cell(slow, 3, 1, 16, true, false);
  cr_expect(!cell.known);
}

/* Beyond the ends of a row time rises as in the nearest row that has both places. */
Test(fit_table, cells_beyond_a_row_rise_as_the_nearest_does) {
  static const FitSample samples[] = {{1, 64, 2, 1},  {1, 128, 3, 1}, {2, 128, 4, 1},
                                      {2, 256, 6, 1}, {4, 64, 8, 1},  {4, 256, 20, 1}};
  const FitSpan rows[] = {{samples, 2}, {samples + 2, 2}, {samples + 4, 2}};
  FitCell cell = fit_cell(rows, 3, 1, 64, false, false); // a column of 1 and 4: (2 + 1/3 * 6) = 4
  cr_expect(cell.known);
  cr_expect_float_eq(cell.y, 4, 1e-9);
  cell = fit_cell(rows, 3, 0, 256, false, false); // of 2 from 128 on: 3 * 6 / 4
  cr_expect(!cell.known);
  cr_expect_float_eq(cell.y, 4.5, 1e-9);
}

/* Where samples are sparse: half way between its own line, 1 + 4/3, and the one that goes on from
 * the left, 1. */
Test(fit_table, sparse_cells_lie_between_their_bounds) {
  static const FitSample samples[] = {
      {16, 1, 3, 1}, {32, 1, 1, 1}, {32, 2, 1, 1}, {32, 8, 5, 1}, {32, 16, 15, 1}};
  const FitSpan rows[] = {{samples, 1}, {samples + 1, 4}};
  cr_expect_float_eq(fit_cell(rows, 2, 1, 4, true, false).y, 1 + 4 / 3.0, 1e-9);
  const FitCell cell = fit_cell(rows, 2, 1, 4, true, true);
  cr_expect(cell.known);
  cr_expect_float_eq(cell.y, 1 + 2 / 3.0, 1e-9);
  const FitCell alone = fit_cell(rows, 2, 0, 4, true, true); // the row after it
  cr_expect_not(alone.known);
  cr_expect_float_eq(alone.y, cell.y, 1e-9);
  cr_expect_eq(fit_cell(rows, 2, 0, 1, true, true).y, 3);
}

static double product_of(double tokens) {
  return 1e-3 * fmax(1, tokens / 400);
}

/* No grid: prompts of 8 tokens once, and `head` at few numbers of sequences, between which and
 * beyond which it goes as `linear` does. */
Test(fit_table, a_sparse_profile_is_followed) {
  const FitOptions options = {.preset = "ideal", .ideal = true, .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  ProfileGroup *groups;
  profile_init(&profile, "made-up.csv", &arena);
  for (int64_t tokens = 1; tokens <= 4096; tokens += (tokens + 7) / 8)
    add(PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, product_of((double)tokens));
  for (int64_t p = 16; p <= 2048; p *= 2)
    for (int64_t past = 0; past <= 8192; past = past ? 8 * past : 16)
      add(PROFILE_PREFILL_ATTENTION, batch_of(p, past, 0, 0), prefill_of((double)p, (double)past));
  add(PROFILE_PREFILL_ATTENTION, batch_of(8, 0, 0, 0), 5e-6);
  for (int64_t n = 1; n <= 1024; n *= 4)
    add(PROFILE_HEAD, (BatchShape){.logit_seqs = n}, product_of((double)n) / 10);
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  const BatchShape shortest = batch_of(8, 0, 0, 0), chunk = batch_of(8, 4096, 0, 0);
  const double few = fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &shortest);
  const double long_past = fit_eval(&result->model, PROFILE_PREFILL_ATTENTION, &chunk);
  cr_expect_float_eq(few, 5e-6, 1e-8, "%g", few);
  cr_expect_float_eq(long_past, prefill_of(16, 4096), 0.05 * prefill_of(16, 4096), "%g", long_past);
  for (int64_t n = 512; n <= 2048; n *= 2) {
    const BatchShape batch = {.logit_seqs = n};
    const double head = fit_eval(&result->model, PROFILE_HEAD, &batch);
    cr_expect_float_eq(10 * head, product_of((double)n), 0.03 * product_of((double)n), "%g", head);
  }
  expect_saved(result);
}

static double stepped_of(double tokens) {
  return 1e-2 * ceil(tokens / 128);
}

/* Products were timed at the edges of tiles, iterations just past them: both come back. */
Test(fit_table, linear_has_knots_where_only_iterations_have_been) {
  const FitOptions options = {.preset = "ideal", .seed = 1};
  ProfileGroup *groups;
  FitResult *result = ARENA_NEW(&arena, FitResult);
  for (int64_t tokens = 128; tokens <= 2048; tokens *= 2) {
    add(PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, stepped_of((double)tokens));
    add(PROFILE_PREFILL_ATTENTION, batch_of(tokens, 0, 0, 0), 1e-4);
    for (int64_t more = 1; more <= 64 && tokens < 2048; more *= 2)
      add(PROFILE_ITERATION, batch_of(tokens + more, 0, 0, 0),
          1e-4 + stepped_of((double)(tokens + more)));
  }
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  cr_expect_str_eq(fit_way_name(result->way), "filled");
  const FitCurve *linear = &result->model.curves[PROFILE_LINEAR];
  cr_expect_float_eq(fit_curve_eval(linear, 256), stepped_of(256), 1e-6);
  cr_expect_float_eq(fit_curve_eval(linear, 260), stepped_of(260), 1e-6);
  cr_expect_float_eq(fit_curve_eval(linear, 2048), stepped_of(2048), 1e-6);
}

/* Of three operators that were missed by 10% each iterations are, and those whose tokens were not
 * measured are left out. */
Test(fit_table, iterations_are_composed_of_rows_held_out) {
  const FitPoint points[] = {
      {.op = PROFILE_LINEAR, .batch = {.prefill_tokens = 8}, .seconds = 4, .held_out = 4.4},
      {.op = PROFILE_LINEAR, .batch = {.prefill_tokens = 10}, .seconds = 6, .held_out = 6.6},
      {.op = PROFILE_PREFILL_ATTENTION, .batch = {8, 64, 0, 0, 0}, .seconds = 2, .held_out = 2.2},
      {.op = PROFILE_PREFILL_ATTENTION, .batch = {9, 81, 0, 0, 0}, .seconds = 2, .held_out = 9},
      {.op = PROFILE_DECODE_ATTENTION, .batch = {0, 0, 2, 20, 0}, .seconds = 3, .held_out = 2},
      {.op = PROFILE_HEAD, .batch = {.logit_seqs = 1}, .seconds = 1, .held_out = 1.1},
      {.op = PROFILE_HEAD, .batch = {.logit_seqs = 2}, .seconds = 1, .held_out = NAN},
      {.op = PROFILE_HEAD, .batch = {.logit_seqs = 2}, .seconds = 2, .held_out = 2},
  };
  FitErrors errors = {.arena = &arena};
  fit_compose_score(points, sizeof points / sizeof *points, 2, 1, &errors);
  cr_assert_eq(errors.parts[FIT_PREFILL].n, 1);
  cr_assert_eq(errors.parts[FIT_DECODE].n, 0); // two tokens were not measured
  cr_assert_eq(errors.parts[FIT_MIXED].n, 1);  // eight and two are ten
  cr_assert_eq(errors.parts[FIT_ALL_ITERATIONS].n, 2);
  cr_expect_float_eq(errors.parts[FIT_PREFILL].items[0], 0.1, 1e-9);
  cr_expect_float_eq(errors.parts[FIT_MIXED].items[0], fabs(14.8 / 16 - 1), 1e-9);
}
