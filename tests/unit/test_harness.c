/* The harness on the fake backend, under a clock that goes by what the backend says things took.
 * Pinned: what is in the file after a budget, a drift, a clock that fell, a lack of memory, a wrong
 * result, a failure, an interruption, and after going on. Not pinned: any time. */
#include "calib/harness.h"
#include "calib/operators.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(harness, .init = setup, .fini = teardown, .timeout = 120);

/* A run, and the fake backend below one that keeps a clock. */
typedef struct Rig {
  CalibModel model;
  CalibDevice device;
  Plan plan;
  Recorder recorder;
  const char *path;
  HarnessReport report;
  volatile sig_atomic_t interrupted;
  size_t interrupt_at; // points; 0: never
  bool is_gpu, unverified, few_anchors;
} Rig;

extern const Backend backend_fake;
static const Backend *const fake = &backend_fake;
static CalibDevice timed_device;
static double clock_seconds, creep; // `creep`: how much slower the machine is with each second

static CalibStatus timed_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  const CalibStatus status = fake->measure(state, repeats, ret_seconds, error);
  *ret_seconds *= 1 + creep * clock_seconds;
  clock_seconds += *ret_seconds * repeats;
  return status;
}

/* As long as a plan thinks. */
static CalibStatus timed_prepare(void *state, const CalibPoint *point, char *error) {
  const PlanRates rates = plan_rates(NULL, &timed_device);
  clock_seconds += rates.preparing;
  return fake->prepare(state, point, error);
}

static double read_clock(void *context) {
  (void)context;
  return clock_seconds;
}

static void stop_at(void *context, size_t done, size_t left, double seconds_left) {
  Rig *rig = context;
  (void)left;
  (void)seconds_left;
  if (rig->interrupt_at > 0 && done >= rig->interrupt_at) rig->interrupted = SIGINT;
}

static void make_plan(Rig *rig) {
  const PlanOptions options = {.seed = 1};
  rig->model = (CalibModel){.name = "m",
                            .num_hidden_layers = 4,
                            .hidden_size = 1024,
                            .num_attention_heads = 8,
                            .num_key_value_heads = 8,
                            .head_dim = 128,
                            .intermediate_size = 4096,
                            .vocab_size = 32000,
                            .max_position_embeddings = 4096,
                            .tensor_parallel_size = 1,
                            .block_size = 16};
  plan_init(&rig->plan, &rig->model, &rig->device, &options, &arena);
}

/* Opens the fake backend as TANDEM_FAKE=`words`: its processor, whose plan is short, or its GPU,
 * which knows its clock. */
static void *open_fake(Rig *rig, const char *words) {
  char error[CALIB_ERROR_SIZE] = "";
  void *state = NULL;
  const CalibOptions options = {.device = rig->is_gpu ? 0 : 1, .seed = 1, .verify = true};
  setenv("TANDEM_FAKE", words, 1);
  cr_assert_eq(fake->open(&options, &state, error), CALIB_OK, "%s", error);
  fake->describe(state, &rig->device);
  make_plan(rig);
  cr_assert_eq(fake->load(state, &rig->model, error), CALIB_OK, "%s", error);
  plan_waive(&rig->plan, fake, state, &arena);
  return state;
}

static HarnessOptions options_of(Rig *rig, double seconds) {
  HarnessOptions options = harness_options_default();
  options.seconds = seconds;
  options.verify = !rig->unverified;
  options.anchor_seconds = rig->few_anchors ? 30 : 2;
  options.clock = read_clock;
  options.interrupted = &rig->interrupted;
  options.progress = stop_at;
  options.progress_context = rig;
  return options;
}

/* Runs the plan until it ends, into the file; goes on with the rows of `before`, if any. */
static int run(Rig *rig, const char *words, double seconds, const Profile *before) {
  void *state = open_fake(rig, words);
  Backend timed = *fake;
  timed.measure = timed_measure;
  timed.prepare = timed_prepare;
  timed_device = rig->device;
  Profile profile;
  profile_init(&profile, "made", &arena);
  if (before) profile = *before;
  const ProfileGroup group = {.model = rig->model.name,
                              .gpu = rig->device.gpu,
                              .tensor_parallel_size = rig->model.tensor_parallel_size};
  plan_go_on(&rig->plan, &profile, &group);
  if (!rig->path) rig->path = temp_file("", 0, &arena);
  cr_assert_eq(recorder_open(&rig->recorder, rig->path, &profile, &diag), 0);
  const HarnessJob job = {.backend = &timed,
                          .state = state,
                          .model = &rig->model,
                          .device = &rig->device,
                          .plan = &rig->plan,
                          .recorder = &rig->recorder,
                          .arena = &arena};
  const HarnessOptions options = options_of(rig, seconds);
  rig->report = (HarnessReport){.left = 0};
  const int status = harness_run(&job, &options, &rig->report, &diag);
  cr_assert_eq(recorder_close(&rig->recorder, &diag), 0);
  fake->close(state);
  return status;
}

/* What the file has; it must be what the recorder thinks. */
static Profile load(const Rig *rig) {
  Profile profile;
  cr_assert_eq(profile_load(&profile, rig->path, &arena, &diag), 0);
  cr_assert_eq(profile_digest(&profile), profile_digest(&rig->recorder.profile));
  unlink(rig->path);
  return profile;
}

static int count_rows(const Profile *profile, int64_t configuration) {
  int n = 0;
  for (size_t i = 0; i < profile->n_rows; i++)
    n += profile->rows[i].configuration == configuration;
  return n;
}

/* Every point that was not waived is there, anchors at least once. */
static void expect_complete(const Rig *rig, const Profile *profile) {
  for (size_t i = 0; i < rig->plan.n; i++) {
    const PlanPoint *point = &rig->plan.points[i];
    const int n = count_rows(profile, point->configuration);
    if (point->waived)
      cr_expect_eq(n, 0, "'%s' was waived", calib_op_name(point->point.op));
    else if (point->class == PLAN_ANCHOR)
      cr_expect_geq(n, 1);
    else // once, or as often as the device was not steady
      cr_expect(n == point->readings && (n == 1 || n == point->drifted),
                "%d rows of configuration %lld", n, (long long)point->configuration);
  }
}

Test(harness, a_whole_run) {
  Rig rig = {.path = NULL};
  cr_assert_eq(run(&rig, "", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.end, HARNESS_DONE);
  cr_expect_eq(rig.report.left, 0);
  cr_expect_eq(rig.report.drifts, 0);
  cr_expect_gt(rig.report.anchors, 4);
  expect_complete(&rig, &profile);
  for (size_t i = 0; i < profile.n_rows; i++) {
    const ProfileRow *row = &profile.rows[i];
    cr_assert(row->samples >= SAMPLES_LEAST && row->mad_us >= 0 && *row->stop);
    cr_assert(row->p10_us <= row->median_us && row->median_us <= row->p90_us);
    cr_assert(isnan(row->roofline_fraction)); // of a machine nobody knows
  }
}

Test(harness, a_budget_keeps_the_most_important_points) {
  Rig rig = {.path = NULL};
  cr_assert_eq(run(&rig, "", 4, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.end, HARNESS_BUDGET);
  cr_expect_gt(rig.report.left, 0);
  int last = PLAN_ANCHOR;
  bool gap = false; // after the first point that is missing none of a later class may be there
  for (size_t i = 0; i < rig.plan.n; i++) {
    const PlanPoint *point = &rig.plan.points[i];
    if (point->waived) continue;
    const bool there = count_rows(&profile, point->configuration) > 0;
    cr_assert(there == (point->readings > 0) && !(gap && there));
    gap |= !there;
    if (there) last = (int)point->class;
  }
  cr_expect(gap && last >= PLAN_COARSE);
}

Test(harness, going_on_measures_what_was_left) {
  Rig first = {.path = NULL}, second = {.path = NULL};
  cr_assert_eq(run(&first, "", 4, NULL), 0);
  const Profile half = load(&first);
  ProfileRow *rows = ARENA_ARRAY(&arena, ProfileRow, half.n_rows);
  memcpy(rows, half.rows, half.n_rows * sizeof *rows); // the run goes on in those of `half`
  cr_assert_eq(run(&second, "", INFINITY, &half), 0);
  const Profile whole = load(&second);
  cr_expect_eq(second.report.end, HARNESS_DONE);
  expect_complete(&second, &whole);
  for (size_t i = 0; i < half.n_rows; i++)
    cr_assert_eq(whole.rows[i].median_us, rows[i].median_us);
}

Test(harness, a_step_is_seen_and_its_block_measured_again) {
  Rig rig = {.path = NULL};
  cr_assert_eq(run(&rig, "step=0.1", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.drifts, 1);
  cr_expect_gt(rig.report.remeasured, 0);
  cr_expect_eq(rig.report.flagged, 0);
  cr_expect_float_eq(rig.report.worst_drift, 0.1, 0.02);
  expect_complete(&rig, &profile);
}

static bool is_anchor(const Plan *plan, int64_t configuration) {
  for (size_t i = 0; i < plan->n; i++)
    if (plan->points[i].configuration == configuration && plan->points[i].class == PLAN_ANCHOR)
      return true;
  return false;
}

Test(harness, a_drift_that_goes_on_is_flagged) {
  Rig rig = {.path = NULL};
  creep = 0.02;
  cr_assert_eq(run(&rig, "", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  int64_t flagged = 0, anchors = 0; // readings, and those that told
  for (size_t i = 0; i < profile.n_rows; i++)
    if (strstr(profile.rows[i].stop, PLAN_DRIFT))
      *(is_anchor(&rig.plan, profile.rows[i].configuration) ? &anchors : &flagged) += 1;
  cr_expect_gt(anchors, 0);
  cr_expect_gt(rig.report.flagged, 0);
  cr_expect_eq(flagged, 5 * rig.report.flagged); // the budget is endless
  expect_complete(&rig, &profile);
}

Test(harness, what_drifted_is_replaced_when_a_run_goes_on) {
  Rig first = {.path = NULL}, second = {.path = NULL};
  creep = 0.02;
  cr_assert_eq(run(&first, "", 4, NULL), 0);
  const Profile drifted = load(&first);
  creep = 0;
  cr_assert_eq(run(&second, "", INFINITY, &drifted), 0);
  const Profile steady = load(&second);
  cr_expect_gt(first.report.flagged, 0);
  cr_expect_eq(second.report.remeasured, first.report.flagged);
  cr_expect_eq(second.report.flagged, 0);
  expect_complete(&second, &steady);
}

/* Rows of an operator whose `stop` has the flag; `ret_rows`: all of its rows. */
static int64_t count_flagged(const Profile *profile, ProfileOp op, const char *flag,
                             int64_t *ret_rows) {
  int64_t flagged = 0;
  *ret_rows = 0;
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    const bool is_flagged = strstr(row->stop, flag) != NULL;
    cr_expect(!is_flagged || row->op == op, "'%s' of another operator", flag);
    *ret_rows += row->op == op;
    flagged += is_flagged;
  }
  return flagged;
}

Test(harness, what_the_clock_fell_at_is_measured_again) {
  Rig rig = {.is_gpu = true};
  int64_t rows;
  cr_assert_eq(run(&rig, "slow=gemm_o by=1 dip=0.5 from=2 until=4", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.slowed, 3);
  cr_expect_eq(rig.report.remeasured, 3);
  cr_expect_eq(rig.report.flagged, 0);
  cr_expect_eq(count_flagged(&profile, PROFILE_GEMM_O, PLAN_CLOCK, &rows), 0);
  expect_complete(&rig, &profile);
}

Test(harness, a_clock_that_stays_down_is_flagged_in_each_row) {
  Rig first = {.is_gpu = true}, second = {.is_gpu = true};
  int64_t rows;
  cr_assert_eq(run(&first, "slow=gemm_o dip=0.7 throttle=32", INFINITY, NULL), 0);
  const Profile fallen = load(&first);
  const int64_t flagged = count_flagged(&fallen, PROFILE_GEMM_O, PLAN_CLOCK, &rows);
  cr_expect_gt(first.report.flagged, 1);
  cr_expect_eq(rows, 5 * first.report.flagged);
  cr_expect_eq(flagged, rows);
  cr_expect_eq(first.report.slowed, rows);
  expect_complete(&first, &fallen);
  cr_assert_eq(run(&second, "", INFINITY, &fallen), 0); // five readings are enough
  cr_expect_eq(second.report.remeasured, 0);
  cr_expect_eq(second.report.flagged, first.report.flagged);
  load(&second);
}

/* Where the limit of power is the only reason, that is the clock of such work. */
Test(harness, a_clock_at_the_limit_of_power_is_none_that_fell) {
  static const struct {
    const char *words;
    bool fell;
  } cases[] = {{"slow=gemm_o dip=0.7 throttle=4", false},
               {"slow=gemm_o dip=0.7 throttle=68", true}, // and of heat
               {"slow=gemm_o dip=0.8", false},
               {"slow=copy_h2d dip=0.3", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Rig rig = {.is_gpu = true};
    cr_assert_eq(run(&rig, cases[i].words, INFINITY, NULL), 0);
    cr_expect_eq(rig.report.slowed > 0, cases[i].fell, "%s", cases[i].words);
    cr_expect_eq(rig.report.flagged > 0, cases[i].fell, "%s", cases[i].words);
    load(&rig);
  }
}

Test(harness, no_memory_for_a_point_is_none_for_larger_ones) {
  Rig rig = {.path = NULL};
  cr_assert_eq(run(&rig, "oom=300", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  size_t waived = 0;
  for (size_t i = 0; i < rig.plan.n; i++) {
    const PlanPoint *point = &rig.plan.points[i];
    if (!point->waived || strcmp(point->waived, "out of memory") != 0) continue;
    waived++;
    cr_expect(point->point.size > 300 ||
              point->shape.prefill_tokens + point->shape.decode_seqs > 300);
  }
  cr_expect_gt(waived, 5);
  cr_expect_eq(rig.report.end, HARNESS_DONE);
  expect_complete(&rig, &profile);
}

Test(harness, wrong_results_are_not_recorded) {
  Rig rig = {.path = NULL};
  cr_assert_eq(run(&rig, "wrong=gemm_up", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect(rig.report.wrong[CALIB_GEMM_UP] && !rig.report.wrong[CALIB_GEMM_DOWN]);
  for (size_t i = 0; i < profile.n_rows; i++)
    cr_assert_neq(profile.rows[i].op, PROFILE_GEMM_UP);
  expect_complete(&rig, &profile);
}

/* Four fifths of what the plan would take: no point is left out, nor has fewer than 7 samples. */
Test(harness, a_short_budget_shortens_points) {
  Rig rig = {.is_gpu = true, .few_anchors = true};
  const SampleLimits limits = sample_limits_default;
  fake->close(open_fake(&rig, ""));
  const PlanRates rates = plan_rates(NULL, &rig.device);
  const double budget = plan_seconds(&rig.plan, &rig.model, &rates, &limits) / 1.25;
  clock_seconds = 0;
  cr_assert_eq(run(&rig, "outliers=0", budget, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.end, HARNESS_DONE);
  cr_expect_eq(rig.report.left, 0);
  cr_expect_lt(clock_seconds, budget);
  for (size_t i = 0; i < profile.n_rows; i++)
    cr_assert_geq(profile.rows[i].samples, 7);
}

/* Whether at its verification or, without one, point by point. */
Test(harness, an_operator_that_is_refused_waives_itself) {
  for (int verified = 0; verified < 2; verified++) {
    Rig rig = {.unverified = !verified};
    cr_assert_eq(run(&rig, "refuse=linear", INFINITY, NULL), 0);
    const Profile profile = load(&rig);
    int64_t waived = 0;
    for (size_t i = 0; i < rig.plan.n; i++) {
      const PlanPoint *point = &rig.plan.points[i];
      if (point->point.op != CALIB_LINEAR) continue;
      waived++;
      cr_expect(point->waived && strstr(point->waived, "'linear' is refused"));
    }
    cr_expect_gt(waived, 5);
    cr_expect_eq(rig.report.end, HARNESS_DONE);
    cr_expect(!rig.report.wrong[CALIB_LINEAR]);
    expect_complete(&rig, &profile);
  }
}

Test(harness, a_failure_ends_the_run_and_keeps_what_there_was) {
  Rig rig = {.path = NULL};
  cr_assert_eq(run(&rig, "fail=20", INFINITY, NULL), -1);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.end, HARNESS_FAILED);
  cr_expect_eq(profile.n_rows, 19);
  expect_entry(&diag, 0, 0, 0, "point 20 fails", "a failure");
  cr_expect_eq(diag.entries[0].kind, DIAG_ENVIRONMENT);
}

Test(harness, an_interruption_ends_it_between_points) {
  Rig rig = {.path = NULL, .interrupt_at = 10};
  cr_assert_eq(run(&rig, "", INFINITY, NULL), 0);
  const Profile profile = load(&rig);
  cr_expect_eq(rig.report.end, HARNESS_INTERRUPTED);
  cr_expect_eq((int64_t)profile.n_rows, 10 + rig.report.anchors);
  cr_expect_gt(rig.report.left, 0);
}

Test(harness, the_file_is_not_there_until_it_can_be_used) {
  const char *path = temp_file("", 0, &arena);
  unlink(path);
  Recorder recorder;
  Profile profile;
  ProfileRow row = profile_row("m", "g", 1);
  row.op = PROFILE_LINEAR;
  row.batch.prefill_tokens = 5;
  row.median_us = 2;
  profile_init(&profile, "made", &arena);
  cr_assert_eq(recorder_open(&recorder, path, &profile, &diag), 0);
  for (int i = 0; i < 4; i++) {
    row.configuration = i;
    cr_assert_eq(recorder_add(&recorder, &row, &diag), 0);
    cr_assert_eq(access(path, F_OK) == 0, i + 1 >= RECORDER_FIRST_ROWS);
    Profile found;
    if (i + 1 >= RECORDER_FIRST_ROWS) {
      cr_assert_eq(profile_load(&found, path, &arena, &diag), 0);
      cr_assert_eq(found.n_rows, (size_t)i + 1);
    }
  }
  cr_assert_eq(recorder_close(&recorder, &diag), 0);
  unlink(path);
}
