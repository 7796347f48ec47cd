/* Fitting. Pinned: the solver against the Kuhn-Tucker conditions of random problems; knots, slopes
 * and held-out errors on synthetic GPUs whose terms are known; that replicates never help a
 * held-out configuration; the overhead of a profile of operators; that files read back to what was
 * fitted, are the same for the same seed, and name their profile; what the shipped files say of
 * their errors; with TANDEM_DATA_DIR the errors on SplitwiseSim's profile. Not pinned: that the
 * knots found are the best ones, and the pictures. */
#include "base/rng.h"
#include "perfmodel/check_profile.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/fit_solve.h"
#include "perfmodel/import/import.h"
#include "tests/unit/testing.h"
#include <math.h>

static Rng rng;

static void begin(void) {
  setup_data();
  rng_init(&rng, 7, "test fit");
}

TestSuite(fit, .init = begin, .fini = teardown);

/* ---- The solver ---- */

enum { ROWS = 20, COLUMNS = 6, LIMITS = 9 };

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

Test(fit, solutions_meet_the_kuhn_tucker_conditions) {
  int bound = 0;
  for (int trial = 0; trial < 200; trial++) {
    double rows[ROWS * COLUMNS], targets[ROWS], limits[LIMITS * COLUMNS], x[COLUMNS];
    double multipliers[LIMITS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
      rows[i] = rng_normal(&rng);
    for (int i = 0; i < ROWS; i++)
      targets[i] = rng_normal(&rng);
    for (int i = 0; i < LIMITS * COLUMNS; i++)
      limits[i] = rng_normal(&rng);
    FitSystem system = {ROWS, COLUMNS, LIMITS, rows, targets, limits};
    double squares = fit_solve(&system, x, multipliers), seen = 0;
    double gradient[COLUMNS] = {0};
    for (int i = 0; i < ROWS; i++) {
      double rest = dot(&rows[i * COLUMNS], x, COLUMNS) - targets[i];
      seen += rest * rest;
      for (int j = 0; j < COLUMNS; j++)
        gradient[j] += rows[i * COLUMNS + j] * rest;
    }
    cr_assert_float_eq(squares, seen, 1e-9);
    for (int i = 0; i < LIMITS; i++) {
      double slack = dot(&limits[i * COLUMNS], x, COLUMNS);
      cr_assert_geq(slack, -1e-9, "trial %d: limit %d is broken by %g", trial, i, slack);
      cr_assert_geq(multipliers[i], 0);
      cr_assert_float_eq(multipliers[i] * slack, 0, 1e-8);
      bound += multipliers[i] > 0;
      for (int j = 0; j < COLUMNS; j++)
        gradient[j] -= multipliers[i] * limits[i * COLUMNS + j];
    }
    for (int j = 0; j < COLUMNS; j++)
      cr_assert_float_eq(gradient[j], 0, 1e-7, "trial %d: gradient %g", trial, gradient[j]);
  }
  cr_assert_gt(bound, 200, "limits rarely mattered");
}

/* ---- Synthetic profiles ---- */

static void add(Profile *profile, ProfileOp op, BatchShape batch, double seconds, double noise) {
  ProfileRow row = import_row("m", "g", 1, op, batch, 1e6 * seconds);
  row.median_us *= 1 + noise * rng_normal(&rng);
  profile_add(profile, &row);
}

static FitResult *fit_only(const Profile *profile, const FitOptions *options) {
  ProfileGroup *groups;
  cr_assert_eq(profile_groups(profile, &groups, &arena), 1);
  FitResult *result = ARENA_NEW(&arena, FitResult);
  int status = fit_group(result, profile, &groups[0], options, &arena, &diag);
  cr_assert_eq(status, 0, "%s", diag.n_entries > 0 ? diag.entries[0].message : "");
  return result;
}

static const FitOptions OPTIONS = {.preset = "ideal", .seed = 1};

/* Flat to 1024 tokens, then 20 us and from 4096 on 30 us a token. */
static double bent(double tokens) {
  double rest = tokens > 1024 ? fmin(tokens, 4096) - 1024 : 0;
  return 0.02 + 20e-6 * rest + 30e-6 * (tokens > 4096 ? tokens - 4096 : 0);
}

static Profile bent_profile(int replicates, double noise) {
  Profile profile;
  profile_init(&profile, "bent", &arena);
  for (int64_t tokens = 128; tokens <= 8192; tokens += 128)
    for (int i = 0; i < replicates; i++)
      add(&profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens}, bent((double)tokens),
          noise);
  return profile;
}

Test(fit, known_knots_come_back_within_a_grid_step_and_slopes_within_a_percent) {
  const int64_t knots[] = {128, 1024, 4096, 8192};
  const double slopes[] = {0, 20e-6, 30e-6};
  for (int trial = 0; trial < 5; trial++) {
    Profile profile = bent_profile(20, 0.02);
    const FitResult *result = fit_only(&profile, &OPTIONS);
    const FitCurve *curve = &result->model.curves[PROFILE_LINEAR];
    cr_assert_eq(curve->n_knots, 4, "%d knots", curve->n_knots);
    for (int k = 0; k < 4; k++)
      cr_assert_leq(llabs(curve->x[k] - knots[k]), 128, "knot %d at %lld", k,
                    (long long)curve->x[k]);
    for (int k = 0; k < 3; k++) {
      double slope =
          (curve->seconds[k + 1] - curve->seconds[k]) / (double)(curve->x[k + 1] - curve->x[k]);
      cr_assert_float_eq(slope, slopes[k], k == 0 ? 1e-6 : 0.01 * slopes[k], "slope %d: %g us", k,
                         1e6 * slope);
    }
    cr_assert_lt(result->parts[FIT_OPERATORS + PROFILE_LINEAR].held_out.mape, 0.01);
  }
}

Test(fit, a_line_gets_no_knots_between) {
  Profile profile;
  profile_init(&profile, "line", &arena);
  for (int64_t tokens = 1; tokens <= 4096; tokens *= 2)
    for (int i = 0; i < 5; i++)
      add(&profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens},
          0.01 + 1e-5 * (double)tokens, 0.02);
  cr_assert_eq(fit_only(&profile, &OPTIONS)->model.curves[PROFILE_LINEAR].n_knots, 2);
}

Test(fit, no_curve_falls_and_no_time_is_negative_whatever_was_measured) {
  for (int trial = 0; trial < 20; trial++) {
    Profile profile;
    profile_init(&profile, "noise", &arena);
    for (int64_t n = 1; n <= 32; n *= 2) {
      for (int64_t context = 128; context <= 4096; context *= 2) {
        double seconds = 0.001 + 0.01 * rng_uniform(&rng);
        add(&profile, PROFILE_LINEAR, (BatchShape){.decode_seqs = n}, seconds, 0);
        add(&profile, PROFILE_DECODE_ATTENTION, (BatchShape){0, 0, n, n * context, n}, seconds, 0);
      }
    }
    const FitModel *model = &fit_only(&profile, &OPTIONS)->model;
    cr_assert_gt(model->decode.n_rows, 1);
    for (int64_t n = 1; n <= 40; n++) {
      for (int64_t context = 0; context <= 300000; context += 1777) {
        BatchShape batch = {0, 0, n, context, n}, longer = {0, 0, n, context + 1777, n};
        BatchShape more = {0, 0, n + 1, context + (context + n - 1) / n, n + 1}; // as long
        double seconds = fit_eval(model, PROFILE_DECODE_ATTENTION, &batch);
        cr_assert_geq(seconds, 0);
        cr_assert_leq(seconds, fit_eval(model, PROFILE_DECODE_ATTENTION, &longer) + 1e-12);
        cr_assert_leq(seconds, fit_eval(model, PROFILE_DECODE_ATTENTION, &more) + 1e-12);
      }
      BatchShape batch = {.decode_seqs = n}, more = {.decode_seqs = n + 1};
      cr_assert_leq(fit_eval(model, PROFILE_LINEAR, &batch),
                    fit_eval(model, PROFILE_LINEAR, &more) + 1e-12);
    }
  }
}

/* A GPU like an H100: floors, then rates. */
static double gpu_linear(const BatchShape *batch) {
  double tokens = (double)(batch->prefill_tokens + batch->decode_seqs);
  return fmax(0.009 + 4e-6 * tokens, 0.0095 + 22e-6 * (tokens - 128));
}

static double gpu_prefill_attention(const BatchShape *batch) {
  return 0.0004 + 1.1e-9 * (double)batch->prefill_area2;
}

/* 1 us a sequence, and context at the rate of the memory, which eight sequences need: a single one
 * has an eighth of it. */
static double gpu_decode_attention(const BatchShape *batch) {
  double context = (double)batch->context_tokens, n = (double)batch->decode_seqs;
  return 0.0008 + 1e-6 * n + 30e-9 * context * fmax(1, 8 / n);
}

static double gpu_head(const BatchShape *batch) {
  return 0.0003 + 2e-6 * (double)batch->logit_seqs;
}

static double gpu_iteration(const BatchShape *batch) {
  return 0.002 + gpu_linear(batch) +
         (batch->prefill_tokens > 0 ? gpu_prefill_attention(batch) : 0) +
         (batch->decode_seqs > 0 ? gpu_decode_attention(batch) : 0) + gpu_head(batch);
}

static Profile gpu_profile(bool operators, double noise) {
  static double (*const terms[PROFILE_TERMS])(const BatchShape *) = {
      gpu_iteration, gpu_linear, gpu_prefill_attention, gpu_decode_attention, gpu_head};
  Profile profile;
  profile_init(&profile, "gpu", &arena);
  for (int repeat = 0; repeat < 5; repeat++) {
    for (int64_t prompts = 1; prompts <= 16; prompts *= 2) {
      for (int64_t tokens = 64; tokens <= 4096; tokens *= 2) {
        BatchShape batch = {prompts * tokens, prompts * tokens * tokens, 0, 0, prompts};
        for (int op = 0; op < PROFILE_TERMS; op++)
          if (op != PROFILE_DECODE_ATTENTION && (operators || op == PROFILE_ITERATION))
            add(&profile, (ProfileOp)op, batch, terms[op](&batch), noise);
      }
    }
    for (int64_t n = 1; n <= 32; n *= 2) {
      for (int64_t context = 256; context <= 8192; context *= 2) {
        BatchShape batch = {0, 0, n, n * context, n};
        for (int op = 0; op < PROFILE_TERMS; op++)
          if (op != PROFILE_PREFILL_ATTENTION && (operators || op == PROFILE_ITERATION))
            add(&profile, (ProfileOp)op, batch, terms[op](&batch), noise);
      }
    }
  }
  return profile;
}

Test(fit, held_out_configurations_of_a_synthetic_gpu_are_within_two_percent) {
  for (int operators = 0; operators < 2; operators++) {
    Profile profile = gpu_profile(operators, 0.02);
    const FitResult *result = fit_only(&profile, &OPTIONS);
    cr_assert_eq(result->whole, !operators);
    for (int part = 0; part < FIT_PARTS; part++) {
      const FitPartScores *scores = &result->parts[part];
      if (scores->rows == 0 || isnan(scores->held_out.mape)) continue;
      cr_assert_leq(scores->held_out.mape, 0.02, "%s: %.2f%%", fit_part_name((FitPart)part),
                    100 * scores->held_out.mape);
    }
    cr_assert_leq(result->parts[FIT_ALL_ITERATIONS].train.mape, 0.02);
  }
}

Test(fit, overhead_is_what_iterations_take_longer_than_their_operators) {
  Profile profile = gpu_profile(true, 0);
  FitOptions ideal = {.preset = "ideal", .ideal = true, .seed = 1};
  cr_assert_float_eq(fit_only(&profile, &OPTIONS)->model.overhead, 0.002, 5e-5);
  cr_assert_eq(fit_only(&profile, &ideal)->model.overhead, 0);
  Profile bare = bent_profile(1, 0);
  cr_assert_eq(fit_only(&bare, &OPTIONS)->model.overhead, 0);
}

Test(fit, operators_are_fitted_over_their_own_part_of_the_batch) {
  Profile profile = bent_profile(1, 0);
  for (int64_t n = 1; n <= 64; n *= 2)
    add(&profile, PROFILE_HEAD, (BatchShape){.logit_seqs = n}, 0.001 + 1e-5 * (double)n, 0);
  const FitCurve *head = &fit_only(&profile, &OPTIONS)->model.curves[PROFILE_HEAD];
  cr_assert_eq(head->low, 1);
  cr_assert_eq(head->high, 64);
  cr_assert_float_eq(fit_curve_eval(head, 48), 0.00148, 1e-8);
}

Test(fit, replicates_do_not_help_a_held_out_configuration) {
  Profile once = bent_profile(1, 0.02), often;
  profile_init(&often, "often", &arena);
  for (size_t i = 0; i < once.n_rows; i++)
    for (int k = 0; k < 9; k++)
      profile_add(&often, &once.rows[i]);
  const FitPart part = (FitPart)(FIT_OPERATORS + PROFILE_LINEAR);
  const FitPartScores *a = &fit_only(&once, &OPTIONS)->parts[part];
  const FitPartScores *b = &fit_only(&often, &OPTIONS)->parts[part];
  cr_assert_eq(a->held_out.mape, b->held_out.mape);
  cr_assert_eq(a->held_out.worst, b->held_out.worst);
  cr_assert_eq(b->configurations, 64);
  cr_assert_eq(b->rows, 64 * 9);
}

Test(fit, what_is_too_little_to_fit_is_said) {
  Profile one, headless;
  profile_init(&one, "one.csv", &arena);
  profile_init(&headless, "headless.csv", &arena);
  for (int i = 0; i < 3; i++)
    add(&one, PROFILE_ITERATION, (BatchShape){.prefill_tokens = 5}, 0.01, 0.02);
  for (int i = 1; i < 4; i++)
    add(&headless, PROFILE_HEAD, (BatchShape){.logit_seqs = i}, 0.01, 0.02);
  const struct {
    const Profile *profile;
    const char *fragment;
  } cases[] = {{&one, "1 usable configuration; a fit needs two"},
               {&headless, "no row of 'linear'"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ProfileGroup *groups;
    FitResult result;
    diag_done(&diag);
    diag_init(&diag);
    profile_groups(cases[i].profile, &groups, &arena);
    cr_assert_eq(fit_group(&result, cases[i].profile, groups, &OPTIONS, &arena, &diag), -1);
    cr_assert_not_null(strstr(diag.entries[0].message, cases[i].fragment), "%s",
                       diag.entries[0].message);
    cr_assert_eq(diag_exit_code(&diag), 3);
  }
}

/* ---- Files ---- */

static char *read_all(const char *path) {
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file);
  char *text = arena_alloc(&arena, 1 << 20);
  cr_assert_lt(fread(text, 1, 1 << 20, file), 1 << 20);
  fclose(file);
  return text;
}

Test(fit, a_saved_model_reads_back_and_names_its_profile) {
  const char *directory = temp_folder(&arena);
  const char *path = arena_printf(&arena, "%s/m_g_tp1.yaml", directory), *before = NULL;
  for (int operators = 0; operators < 2; operators++) {
    Profile profile = gpu_profile(operators, 0.02);
    profile_set_fact(&profile, "note", "quotes \" and \\, caf\xc3\xa9");
    for (int repeat = 0; repeat < 2; repeat++) {
      const FitResult *result = fit_only(&profile, &OPTIONS);
      cr_assert_eq(fit_save(result, &profile, path, &diag), 0);
      PerfModel model;
      FitRecord record;
      int status = perfmodel_load(&model, path, 64, &arena, &diag) |
                   fit_record_load(&record, path, &arena, &diag);
      cr_assert_eq(status, 0, "%s", diag.n_entries > 0 ? diag.entries[0].message : "");
      cr_assert_eq(record.n_points, result->n_points);
      cr_assert_eq(fit_record_check(&record, &profile, &diag), 0);
      for (int i = 0; i < record.n_points; i++) {
        const FitPoint *point = &record.points[i];
        double seconds = fit_eval(&result->model, point->op, &point->batch);
        // slopes over the context are whole ticks
        double slack = 1e-9 * seconds + 2e-12 * (double)(1 + point->batch.context_tokens);
        cr_assert_float_eq(fit_record_eval(&model, point), seconds, slack);
      }
      if (repeat) cr_assert_str_eq(read_all(path), before);
      before = read_all(path);
    }
    add(&profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = 9}, 0.01, 0);
    FitRecord record;
    cr_assert_eq(fit_record_load(&record, path, &arena, &diag), 0);
    cr_assert_eq(fit_record_check(&record, &profile, &diag), -1);
    cr_assert_not_null(strstr(diag.entries[diag.n_entries - 1].message, "was fitted to rows with"));
  }
  unlink(path);
  rmdir(directory);
}

/* scores.PART.KIND of a model file: mean, 95th percentile, worst in percent. */
static void stated(const Node *root, const char *part, const char *kind, double ret[3]) {
  const Node *scores = node_find(node_find(node_find(root, "fit"), "scores"), part);
  const Node *list = node_find(scores, kind);
  cr_assert_not_null(list, "no %s of %s", kind, part);
  const Node *value = list->first;
  for (int i = 0; i < 3; i++, value = value->next)
    ret[i] = strtod(value->text, NULL);
}

static const char *const SHIPPED[] = {"bloom-176b_a100-80gb_tp8",
                                      "bloom-176b_h100-80gb_tp8",
                                      "bloom-176b_h100-80gb-pcap_tp8",
                                      "llama2-70b_a100-80gb_tp2",
                                      "llama2-70b_a100-80gb_tp4",
                                      "llama2-70b_a100-80gb_tp8",
                                      "llama2-70b_h100-80gb_tp2",
                                      "llama2-70b_h100-80gb_tp4",
                                      "llama2-70b_h100-80gb_tp8",
                                      "llama2-70b_h100-80gb-pcap_tp2",
                                      "llama2-70b_h100-80gb-pcap_tp4",
                                      "llama2-70b_h100-80gb-pcap_tp8",
                                      NULL};

Test(fit, shipped_files_err_on_their_points_by_exactly_what_they_state) {
  for (int m = 0; SHIPPED[m]; m++) {
    const char *path =
        arena_printf(&arena, "%s/fitted/splitwise-2023/%s.yaml", data_dir, SHIPPED[m]);
    PerfModel model;
    FitRecord record;
    cr_assert_eq(fit_record_load(&record, path, &arena, &diag), 0);
    cr_assert_eq(perfmodel_load(&model, path, 64, &arena, &diag), 0);
    const Node *root = yaml_load(path, &arena, &diag);
    double sum[FIT_PARTS] = {0}, worst[FIT_PARTS] = {0}, largest = 0;
    int count[FIT_PARTS] = {0};
    for (int i = 0; i < record.n_points; i++) {
      const FitPoint *point = &record.points[i];
      double error = 100 * fabs(fit_record_eval(&model, point) / point->seconds - 1);
      FitPart part = fit_part(point->op, &point->batch);
      sum[part] += error;
      worst[part] = fmax(worst[part], error);
      count[part]++;
      if (part == FIT_DECODE && point->batch.decode_seqs >= 32) largest = fmax(largest, error);
    }
    const FitPart parts[] = {FIT_PREFILL, FIT_DECODE};
    for (int k = 0; k < 2; k++) {
      double train[3];
      stated(root, fit_part_name(parts[k]), "train", train);
      cr_assert_gt(count[parts[k]], 10);
      cr_assert_float_eq(sum[parts[k]] / count[parts[k]], train[0], 0.006, "%s", SHIPPED[m]);
      cr_assert_float_eq(worst[parts[k]], train[2], 0.006, "%s", SHIPPED[m]);
    }
    cr_assert_leq(largest, 5, "%s: decode at the largest batches is %.1f%% off", SHIPPED[m],
                  largest);
  }
}

/* ---- SplitwiseSim's profile ---- */

typedef struct Means {
  double random, held_out, held_out_size;
  int groups;
} Means;

/* Fits all groups of the checked profile, with or without the power-capped GPU, and sums. */
static void fit_all(const Profile *all, bool capped, Means *ret_all, Means *ret_large) {
  Profile some, checked;
  CheckReport report;
  ProfileGroup *groups;
  profile_init(&some, "some", &arena);
  for (size_t i = 0; i < all->n_rows; i++)
    if ((strstr(all->rows[i].gpu, "pcap") != NULL) == capped) profile_add(&some, &all->rows[i]);
  check_profile(&report, &some, data_dir, &arena);
  check_clean(&report, &checked, &arena);
  size_t n = profile_groups(&checked, &groups, &arena);
  for (size_t g = 0; g < n; g++) {
    FitResult *result = ARENA_NEW(&arena, FitResult);
    cr_assert_eq(fit_group(result, &checked, &groups[g], &OPTIONS, &arena, &diag), 0);
    Means *const means[] = {ret_all, ret_large};
    for (int k = 0; k < (groups[g].tensor_parallel_size >= 4 ? 2 : 1); k++) {
      means[k]->random += result->parts[FIT_ALL_ITERATIONS].random.mape;
      means[k]->held_out += result->parts[FIT_PREFILL].held_out.mape;
      means[k]->held_out_size += result->parts[FIT_PREFILL].held_out_size.mape;
      means[k]->groups++;
    }
  }
}

Test(fit, errors_on_splitwise_sims_profile_are_below_the_papers_and_interpolations) {
  const char *shared = getenv("TANDEM_DATA_DIR");
  const char *path =
      arena_printf(&arena, "%s/profiles/splitwise-sim-perf_model.csv", shared ? shared : "");
  if (access(path, R_OK) != 0) cr_skip_test("TANDEM_DATA_DIR has no profiles");
  const ImportInput input = {.path = path, .data_dir = data_dir};
  Profile profile;
  Means all = {0}, large = {0};
  profile_init(&profile, path, &arena);
  cr_assert_eq(import_profile(importer_find("splitwise-sim"), &input, &profile, &diag), 0);
  fit_all(&profile, false, &all, &large);
  fit_all(&profile, true, &all, &large);
  cr_assert_eq(all.groups, 12);
  cr_assert_eq(large.groups, 9);
  cr_assert_leq(all.random / all.groups, 0.03, "%.2f%%", 100 * all.random / all.groups);
  cr_assert_leq(large.random / large.groups, 0.03);
  cr_assert_lt(large.held_out / large.groups, 0.096);
  cr_assert_lt(large.held_out_size / large.groups, 0.096, "%.2f%%",
               100 * large.held_out_size / large.groups);
}
