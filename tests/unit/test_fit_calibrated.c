/* Fits to profiles as calibration writes them. Pinned: which rows are used and what is said of the
 * others; that iterations which differ from their operators are predicted, in each of the three
 * ways and on configurations held out; that jumps at tile edges are followed; all-reduces from
 * rows, from a ring, and their absence. Not pinned: levels and knots. */
#include "base/rng.h"
#include "perfmodel/fit.h"
#include "tests/unit/testing.h"
#include <math.h>

static Rng rng;
static Profile profile;
static double attention_rate; // seconds of a pair of tokens, or of a token of context

static void begin(void) {
  setup();
  rng_init(&rng, 11, "test fit calibrated");
  attention_rate = 2e-9;
  profile_init(&profile, "calibrated", &arena);
}

TestSuite(fit_calibrated, .init = begin, .fini = teardown);

enum { GPUS = 8, BYTES_PER_TOKEN = 16384, CALLS = 160 };
static const double NOISE = 0.004;

/* ---- A GPU whose terms are known ---- */

/* Never less than reading the weights; 6% more just beyond a power of two, whose tiles are full. */
static double linear_of(double tokens) {
  double full = exp2(ceil(log2(tokens)));
  return fmax(0.008, 25e-6 * tokens * (1 + 0.06 * 2 * (full - tokens) / full));
}

static double prefill_of(double area2) {
  return 3e-4 + attention_rate * area2;
}

static double decode_of(double n, double context) {
  return 5e-4 + 2e-6 * n + attention_rate * context;
}

static double head_of(double sequences) {
  return 2e-4 + 1e-6 * sequences;
}

/* How iterations differ from the sum of their operators. */
typedef struct Difference {
  double overhead, linear, attention;
  double once; // what prefills and decodes both cost, and an iteration of both only once
} Difference;

static void add(ProfileOp op, const char *mode, BatchShape batch, double seconds) {
  ProfileRow row = profile_row("m", "g", GPUS);
  row.op = op;
  row.mode = mode;
  row.cache = "cold";
  row.batch = batch;
  row.configuration = (int64_t)profile.n_rows;
  row.median_us = 1e6 * seconds * (1 + NOISE * rng_normal(&rng));
  row.mad_us = NOISE * row.median_us;
  row.samples = 20;
  profile_add(&profile, &row);
}

static void add_iteration(const char *mode, BatchShape batch, Difference by) {
  double tokens = (double)(batch.prefill_tokens + batch.decode_seqs);
  double seconds = by.overhead + by.linear * linear_of(tokens) + head_of((double)batch.logit_seqs);
  if (batch.prefill_tokens > 0) seconds += by.attention * prefill_of((double)batch.prefill_area2);
  if (batch.decode_seqs > 0)
    seconds += by.attention * decode_of((double)batch.decode_seqs, (double)batch.context_tokens);
  if (batch.prefill_tokens > 0 && batch.decode_seqs > 0) seconds -= by.once;
  add(PROFILE_ITERATION, mode, batch, seconds);
}

static void add_operators(const char *mode) {
  for (int64_t tokens = 1; tokens <= 4096; tokens *= 2) {
    add(PROFILE_LINEAR, mode, (BatchShape){.prefill_tokens = tokens}, linear_of((double)tokens));
    if (tokens < 64) continue; // the other side of the tile
    add(PROFILE_LINEAR, mode, (BatchShape){.prefill_tokens = tokens + 1},
        linear_of((double)tokens + 1));
  }
  for (int64_t chunk = 64; chunk <= 4096; chunk *= 2)
    for (int64_t past = 0; past <= 8192; past += 4096) {
      int64_t area2 = chunk * (2 * past + chunk);
      add(PROFILE_PREFILL_ATTENTION, mode,
          (BatchShape){.prefill_tokens = chunk, .prefill_area2 = area2}, prefill_of((double)area2));
    }
  for (int64_t n = 1; n <= 128; n *= 2) {
    add(PROFILE_HEAD, mode, (BatchShape){.logit_seqs = n}, head_of((double)n));
    for (int64_t context = 64; context <= 8192; context *= 4)
      add(PROFILE_DECODE_ATTENTION, mode,
          (BatchShape){.decode_seqs = n, .context_tokens = n * context},
          decode_of((double)n, (double)(n * context)));
  }
}

static void add_iterations(const char *mode, Difference by) {
  for (int64_t tokens = 64; tokens <= 4096; tokens *= 2)
    add_iteration(mode, (BatchShape){tokens, tokens * tokens, 0, 0, 1}, by);
  for (int64_t n = 1; n <= 128; n *= 4)
    for (int64_t context = 128; context <= 8192; context *= 4) {
      add_iteration(mode, (BatchShape){0, 0, n, n * context, n}, by);
      add_iteration(mode, (BatchShape){512, 512 * 512, n, n * context, n + 1}, by);
    }
}

static const FitOptions OPTIONS = {.preset = "ideal", .seed = 1};

static const FitResult *fit(const FitOptions *options) {
  ProfileGroup *groups;
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  FitResult *result = ARENA_NEW(&arena, FitResult);
  int status = fit_group(result, &profile, &groups[0], options, &arena, &diag);
  cr_assert_eq(status, 0, "%s", diag.n_entries > 0 ? diag.entries[0].message : "");
  return result;
}

static double predict(const FitResult *result, BatchShape batch) {
  return fit_eval(&result->model, PROFILE_ITERATION, &batch);
}

/* ---- Iterations and operators ---- */

Test(fit_calibrated, iterations_are_predicted_however_they_differ_from_their_operators) {
  static const Difference cases[] = {{0, 1, 1, 0},
                                     {0.002, 1, 1, 0},
                                     {0.0005, 1.08, 1, 0},
                                     {0.001, 1.05, 0.8, 0},
                                     {0.001, 0.93, 1.2, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    profile_init(&profile, "calibrated", &arena);
    add_operators("graph");
    add_iterations("graph", cases[i]);
    const FitResult *result = fit(&OPTIONS);
    const FitPartScores *scores = &result->parts[FIT_ALL_ITERATIONS];
    cr_assert(result->joined && scores->configurations > 30);
    cr_expect_leq(scores->train.mape, 0.01, "case %zu: %.2f%%", i, 100 * scores->train.mape);
    cr_expect_leq(scores->held_out.mape, 0.012, "case %zu, %s: %.2f%%", i,
                  fit_way_name(result->way), 100 * scores->held_out.mape);
    // far from what was measured whole, where operators give the shape
    BatchShape batch = {0, 0, 64, 64 * 6000, 64};
    double expected = cases[i].overhead + cases[i].linear * linear_of(64) + head_of(64) +
                      cases[i].attention * decode_of(64, 64 * 6000);
    cr_expect_float_eq(predict(result, batch) / expected, 1, 0.03, "case %zu: %.4f", i,
                       predict(result, batch) / expected);
  }
}

/* No overhead and no level of a term gives that: constants have to move between terms, which
 * operators alone would forbid. */
Test(fit_calibrated, what_iterations_of_both_pay_only_once_is_modelled) {
  attention_rate = 1e-12; // launching it is all
  add_operators("graph");
  add_iterations("graph", (Difference){.linear = 1, .attention = 1, .once = 3e-4});
  const FitResult *result = fit(&OPTIONS);
  const FitPart parts[] = {FIT_PREFILL, FIT_DECODE, FIT_MIXED};
  cr_expect_geq(result->way, FIT_JOINT, "%s", fit_way_name(result->way));
  for (int i = 0; i < 3; i++)
    cr_expect_leq(result->parts[parts[i]].held_out.mape, 0.015, "%s: %.2f%%",
                  fit_part_name(parts[i]), 100 * result->parts[parts[i]].held_out.mape);
}

Test(fit_calibrated, levels_stay_near_one_where_the_sum_of_operators_holds) {
  add_operators("graph");
  add_iterations("graph", (Difference){.overhead = 0.002, .linear = 1, .attention = 1});
  const FitResult *result = fit(&OPTIONS);
  cr_assert_neq(result->way, FIT_JOINT);
  cr_assert_float_eq(result->model.overhead, 0.002, 2e-4);
  for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++)
    cr_assert_float_eq(result->levels.of[op], 1, 0.03, "%s: %.3f", profile_op_name((ProfileOp)op),
                       result->levels.of[op]);
}

Test(fit_calibrated, jumps_at_the_edges_of_tiles_are_followed) {
  add_operators("graph");
  const FitResult *result = fit(&OPTIONS);
  for (int64_t tokens = 512; tokens <= 4096; tokens *= 2)
    for (int side = 0; side < 2; side++) {
      double seconds = fit_curve_eval(&result->model.curves[PROFILE_LINEAR], tokens + side);
      cr_expect_float_eq(seconds / linear_of((double)(tokens + side)), 1, 0.02, "at %lld: %.3f",
                         (long long)tokens + side, seconds / linear_of((double)(tokens + side)));
    }
}

/* ---- Which rows ---- */

Test(fit_calibrated, one_mode_is_fitted_and_rows_of_other_conditions_are_left_out) {
  add_operators("graph");
  add_iterations("graph", (Difference){.overhead = 0.001, .linear = 1, .attention = 1});
  const size_t graph = profile.n_rows;
  add_iterations("eager", (Difference){.overhead = 0.011, .linear = 1, .attention = 1});
  const int64_t eager = (int64_t)(profile.n_rows - graph);
  for (size_t i = 0; i < 10; i++) {
    ProfileRow row = profile.rows[i];
    row.median_us *= 0.1;
    row.cache = i < 4 ? "hot" : "cold";
    row.busy = i >= 4;
    profile_add(&profile, &row);
  }
  ProfileRow detail = profile_row("m", "g", GPUS);
  detail.op = PROFILE_GEMM_O;
  detail.size = 5;
  detail.median_us = 1e9;
  profile_add(&profile, &detail);
  const FitResult *result = fit(&OPTIONS);
  cr_expect_eq(result->left_out.other_mode, eager);
  cr_expect_eq(result->left_out.hot_or_busy, 10);
  cr_expect_eq(result->left_out.details, 1);
  cr_expect_eq(result->left_out.early_stops, 0);
  cr_expect_eq(result->n_points, (int)graph);
  cr_expect_float_eq(result->model.overhead, 0.001, 2e-4);
  FitOptions options = OPTIONS;
  options.mode = "eager"; // operators have no such rows: theirs of graphs serve
  result = fit(&options);
  cr_expect_float_eq(result->model.overhead, 0.011, 2e-4);
  cr_expect_eq(result->left_out.other_mode, eager);
}

/* ---- All-reduces ---- */

/* Of one call: 6 us, and 100 GB/s from 64 KiB on. */
static double call_of(double bytes) {
  return 6e-6 + fmax(0, bytes - 65536) / 100e9;
}

static void add_all_reduces(const char *stop) {
  for (int64_t bytes = 1024; bytes <= (1 << 26); bytes *= 2) {
    ProfileRow row = profile_row("m", "g", GPUS);
    row.op = PROFILE_ALL_REDUCE;
    row.mode = "graph";
    row.size = bytes;
    row.median_us = 1e6 * call_of((double)bytes);
    row.stop = stop;
    profile_add(&profile, &row);
  }
}

static const FitAllReduce KNOWN = {.calls = CALLS, .bytes_per_token = BYTES_PER_TOKEN};

Test(fit_calibrated, all_reduces_that_a_shard_lacks_are_added_from_their_rows) {
  static const char *const stops[] = {"ci", "modelled"};
  for (int i = 0; i < 2; i++) {
    profile_init(&profile, "calibrated", &arena);
    add_operators("graph");
    add_iterations("graph", (Difference){.overhead = 0.001, .linear = 1, .attention = 1});
    add_all_reduces(stops[i]);
    FitOptions options = OPTIONS;
    options.all_reduce = KNOWN;
    const FitResult *without = fit(&options);
    cr_expect_null(without->all_reduce); // the profile does not say that they are lacking
    cr_expect_eq(without->left_out.details, 17);
    profile_set_fact(&profile, "all_reduce", "none");
    const FitResult *with = fit(&options);
    cr_assert_not_null(with->all_reduce);
    cr_expect_not_null(strstr(with->all_reduce, i == 0 ? "17 measured rows" : "17 modelled rows"));
    cr_expect_not(with->lacks_all_reduce);
    cr_expect_eq(with->left_out.details, 0);
    for (int64_t tokens = 64; tokens <= 4096; tokens *= 4) {
      BatchShape batch = {tokens, tokens * tokens, 0, 0, 1};
      double seconds = CALLS * call_of((double)(tokens * BYTES_PER_TOKEN));
      double added = predict(with, batch) - predict(without, batch);
      cr_expect_float_eq(added, seconds, 0.015 * predict(with, batch), "%lld: %g, not %g",
                         (long long)tokens, added, seconds);
    }
  }
}

Test(fit_calibrated, given_times_serve_where_no_all_reduce_was_measured_and_their_lack_is_said) {
  add_operators("graph");
  profile_set_fact(&profile, "all_reduce", "none");
  FitOptions options = OPTIONS;
  const FitResult *result = fit(&options);
  cr_expect(result->lacks_all_reduce);
  cr_expect_str_eq(result->all_reduce, "missing: the model is not known");
  options.all_reduce = KNOWN;
  result = fit(&options);
  cr_expect(result->lacks_all_reduce);
  cr_expect_str_eq(result->all_reduce, "missing: measured on one GPU");
  double bare = fit_curve_eval(&result->model.curves[PROFILE_LINEAR], 1024);
  static const int64_t bytes[] = {0, 1 << 20, 1 << 21}; // the last line goes on
  static const double seconds[] = {5e-6, 5e-6 + 4e-12 * (1 << 20), 5e-6 + 4e-12 * (1 << 21)};
  options.all_reduce.source = "rings of 'dgx'";
  options.all_reduce.n_sizes = 3;
  options.all_reduce.bytes = bytes;
  options.all_reduce.seconds = seconds;
  result = fit(&options);
  cr_expect_not(result->lacks_all_reduce);
  cr_expect_not_null(strstr(result->all_reduce, "rings of 'dgx'"));
  double ring = CALLS * (5e-6 + 4e-12 * 1024 * BYTES_PER_TOKEN);
  cr_expect_float_eq(fit_curve_eval(&result->model.curves[PROFILE_LINEAR], 1024) - bare, ring,
                     0.02 * bare);
}
