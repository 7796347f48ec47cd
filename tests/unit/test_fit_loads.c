/* What a fit writes can be run. Pinned: over random profiles of operators and of iterations that
 * `check` has nothing against, wide and noisy as other projects' are, the file that fit_save writes
 * is one that perfmodel_load takes, and more context never makes a decode faster in it; that rows
 * are raised to keep the rules; that nothing is written that would not load. */
#include "base/rng.h"
#include "perfmodel/check_profile.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/import/import.h"
#include "perfmodel/table_rows.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(fit_loads, .init = setup_folder, .fini = teardown_folder);

/* A GPU: what its operators take, each measured with this noise. */
typedef struct Gpu {
  double launch, per_token, per_context, per_sequence, bend, noise;
} Gpu;

/* Over so many powers of ten. */
static double scaled(Rng *rng, double low, double high) {
  return low * pow(high / low, rng_uniform(rng));
}

static Gpu draw_gpu(Rng *rng) {
  return (Gpu){.launch = scaled(rng, 1e-5, 1e-2),
               .per_token = scaled(rng, 1e-7, 1e-4),
               .per_context = scaled(rng, 1e-11, 1e-7),
               .per_sequence = rng_below(rng, 3) ? scaled(rng, 1e-8, 1e-4) : 0,
               .bend = scaled(rng, 1e2, 1e6),
               .noise = rng_below(rng, 4) ? scaled(rng, 1e-4, 0.1) : 0};
}

static void add(Profile *profile, ProfileOp op, BatchShape batch, double seconds, double noise,
                Rng *rng) {
  ProfileRow row = import_row("llama2-70b", "made-up", 1, op, batch,
                              1e6 * seconds * fmax(0.2, 1 + noise * rng_normal(rng)));
  profile_add(profile, &row);
}

/* Context is read at a rate that grows with it: from launch-bound to bandwidth-bound. */
static double decode_seconds(const Gpu *gpu, double seqs, double context) {
  return gpu->launch / 10 + gpu->per_sequence * seqs +
         gpu->per_context * (context + gpu->bend * (1 - exp(-context / gpu->bend)));
}

/* One or more numbers of sequences, each with contexts of its own, as wide as memory lets them be.
 */
static void add_decodes(Profile *profile, const Gpu *gpu, bool whole, Rng *rng) {
  const int64_t widest = 1 << (10 + rng_below(rng, 10));
  const int64_t most = 1 << rng_below(rng, 10), step = rng_below(rng, 2) ? 2 : 4;
  for (int64_t n = 1; n <= most; n *= step)
    for (int64_t each = 16 << rng_below(rng, 4); each <= widest; each *= step) {
      const BatchShape batch = {.decode_seqs = n, .context_tokens = n * each, .logit_seqs = n};
      const double seconds = decode_seconds(gpu, (double)n, (double)(n * each));
      const double linear = gpu->launch + gpu->per_token * (double)n;
      if (whole)
        add(profile, PROFILE_ITERATION, batch, linear + seconds, gpu->noise, rng);
      else
        add(profile, PROFILE_DECODE_ATTENTION,
            (BatchShape){.decode_seqs = n, .context_tokens = n * each}, seconds, gpu->noise, rng);
    }
}

static void add_prefills(Profile *profile, const Gpu *gpu, bool whole, Rng *rng) {
  for (int64_t tokens = 1; tokens <= 4096; tokens *= 4) {
    const double linear = gpu->launch + gpu->per_token * (double)tokens;
    const double area = (double)tokens * (double)tokens, attention = gpu->per_context / 4 * area;
    const BatchShape batch = {.prefill_tokens = tokens, .prefill_area2 = tokens * tokens};
    if (whole) {
      BatchShape prefill = batch;
      prefill.logit_seqs = 1;
      add(profile, PROFILE_ITERATION, prefill, linear + attention, gpu->noise, rng);
      continue;
    }
    add(profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, linear, gpu->noise, rng);
    add(profile, PROFILE_PREFILL_ATTENTION, batch, gpu->launch / 20 + attention, gpu->noise, rng);
    if (tokens <= 256)
      add(profile, PROFILE_HEAD, (BatchShape){.logit_seqs = tokens}, gpu->launch / 5, gpu->noise,
          rng);
  }
}

/* What `check` leaves of a profile. */
static void draw_profile(Profile *ret_profile, Rng *rng) {
  Profile all;
  CheckReport report;
  const Gpu gpu = draw_gpu(rng);
  const bool whole = rng_below(rng, 4) == 0;
  profile_init(&all, "made-up.csv", &arena);
  profile_set_fact(&all, "engine_preset", "ideal");
  add_prefills(&all, &gpu, whole, rng);
  add_decodes(&all, &gpu, whole, rng);
  for (size_t i = 0; i < all.n_rows; i++)
    all.rows[i].configuration = (int64_t)i + 1;
  check_profile(&report, &all, data_dir, &arena);
  check_clean(&report, ret_profile, &arena);
}

/* A decode with more context takes no less. */
static void expect_rises(const PerfModel *model, uint64_t seed, Rng *rng) {
  for (int i = 0; i < 300; i++) {
    const int64_t n = 1 + (int64_t)rng_below(rng, (uint64_t)model->max_decode_seqs);
    const int64_t context = (int64_t)scaled(rng, 1, 1e8);
    const int64_t longer = context + (int64_t)scaled(rng, 1, 1e6);
    const Tick here = perfmodel_decode_step(model, n, context);
    cr_assert_gt(here, 0, "seed %d: %d sequences of %ld tokens take no time", (int)seed, (int)n,
                 (long)context);
    cr_assert_leq(here, perfmodel_decode_step(model, n, longer),
                  "seed %d: %d sequences are faster with %ld tokens than with %ld", (int)seed,
                  (int)n, (long)longer, (long)context);
  }
}

/* The cleaned profile of a seed, fitted, written and loaded. */
static void try_seed(uint64_t seed) {
  Rng rng;
  Profile profile;
  ProfileGroup *groups;
  PerfModel model;
  rng_init(&rng, seed, "fit loads");
  draw_profile(&profile, &rng);
  const FitOptions options = {.preset = "ideal", .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  int status = fit_group(result, &profile, &groups[0], &options, &arena, &diag);
  if (!status) status = fit_save(result, &profile, path, &diag);
  if (!status) status = perfmodel_load(&model, path, 600, &arena, &diag);
  cr_assert_eq(status, 0, "seed %d: %s", (int)seed,
               diag.n_entries ? diag.entries[0].message : "no message");
  expect_rises(&model, seed, &rng);
}

Test(fit_loads, what_a_fit_writes_can_be_run) {
  enum { SEEDS = 24 };
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    try_seed(seed);
}

/* Rows at knots that they share, as rounding and the solver may leave them. */
Test(fit_loads, rows_are_raised_until_they_keep_the_rules) {
  enum { ROWS = 4, KNOTS = 6 };
  Rng rng;
  rng_init(&rng, 1, "settle");
  for (int trial = 0; trial < 500; trial++) {
    PwlKnot knots[ROWS][KNOTS];
    RowKnots rows[ROWS];
    TableRows settled;
    int64_t context = 0;
    for (int i = 0; i < ROWS * KNOTS; i++) {
      const int r = i / KNOTS, k = i % KNOTS;
      const Tick ticks = (Tick)rng_below(&rng, 1000000) + 100000 * (k + r);
      // of every other trial the rows share their knots
      knots[r][k] = (PwlKnot){100 * (k + 1) * (k + 1 + trial % 2 * r), tick_seconds(ticks)};
      rows[r] = (RowKnots){knots[r], KNOTS};
    }
    for (int r = 0; r < ROWS; r++)
      for (int k = 1; k < KNOTS; k++)
        knots[r][k].seconds = fmax(knots[r][k].seconds, knots[r][k - 1].seconds);
    cr_assert(table_rows_init(&settled, rows, ROWS, false, &arena));
    cr_assert_eq(settled.n == KNOTS, trial % 2 == 0);
    table_rows_settle(&settled);
    cr_assert_eq(settled.seconds[0], knots[0][0].seconds);
    for (int r = 0; r < ROWS; r++) {
      cr_assert_eq(table_rows_fault(&settled, r, &context), TABLE_SOUND);
      const Tick *row = &settled.ticks[r * settled.n], *before = row - settled.n;
      for (int k = 0; k < settled.n; k++) {
        cr_assert(k == 0 || row[k] >= row[k - 1]);
        cr_assert(r == 0 || row[k] >= before[k]);
        if (r > 0 && k > 0 && (r + 1 == ROWS || k + 1 == settled.n))
          cr_assert_geq(row[k] - row[k - 1], before[k] - before[k - 1]);
        const Tick rounded = tick_from_seconds(settled.seconds[r * settled.n + k]);
        cr_assert_eq(rounded, row[k]);
      }
    }
  }
}

Test(fit_loads, tables_of_too_many_numbers_are_refused) {
  enum { ROWS = 2049 };
  static PwlKnot knots[ROWS];
  static RowKnots rows[ROWS];
  TableRows table;
  for (int r = 0; r < ROWS; r++) {
    knots[r] = (PwlKnot){r, 1};
    rows[r] = (RowKnots){&knots[r], 1};
  }
  cr_expect_not(table_rows_init(&table, rows, ROWS, false, &arena));
  cr_expect(table_rows_init(&table, rows, ROWS / 2, false, &arena));
}

/* Times that no file may say: a token takes a day. */
Test(fit_loads, a_model_that_would_not_load_is_not_written) {
  Profile profile;
  ProfileGroup *groups;
  profile_init(&profile, "made-up.csv", &arena);
  for (int64_t tokens = 1; tokens <= 64; tokens *= 2) {
    ProfileRow row = import_row("m", "g", 1, PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens},
                                86400e6 * (double)tokens);
    row.configuration = tokens;
    profile_add(&profile, &row);
  }
  const FitOptions options = {.preset = "ideal", .seed = 1};
  FitResult *result = ARENA_NEW(&arena, FitResult);
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], &options, &arena, &diag), 0);
  cr_expect_eq(fit_save(result, &profile, path, &diag), -1);
  cr_expect_neq(access(path, F_OK), 0);
  cr_assert_gt(diag.n_entries, 0);
  cr_expect(strstr(diag.entries[0].message, "seconds"), "%s", diag.entries[0].message);
}
