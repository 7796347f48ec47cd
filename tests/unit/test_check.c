/* Checking. Pinned: a sound profile has no findings; each rule finds what was broken in it, names
 * exactly those rows and nothing else, and cleaning takes them out; what is known to be wrong with
 * SplitwiseSim's data is found. Not pinned: the wording of reasons. */
#include "perfmodel/check_profile.h"
#include "perfmodel/hardware.h"
#include "perfmodel/import/import.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(check, .init = setup_data, .fini = teardown);

enum { PREFILLS = 6, DECODES = 6, REPLICATES = 3 };

static void add(Profile *profile, const char *gpu, int64_t configuration, BatchShape batch,
                double median_us) {
  ProfileRow row = import_row("llama2-70b", gpu, 8, PROFILE_ITERATION, batch, median_us);
  row.configuration = configuration;
  row.at.line = (int)profile->n_rows + 2;
  profile_add(profile, &row);
}

/* Whole iterations on one GPU, linear in their work and well above the roofline. Row i of
 * configuration c is i + c·REPLICATES; prefills come first. `factor` scales the times. */
static void add_sound(Profile *profile, const char *gpu, double factor) {
  for (int64_t i = 0; i < PREFILLS + DECODES; i++) {
    const int64_t size = INT64_C(1) << (i < PREFILLS ? 7 + i : i - PREFILLS);
    const BatchShape prefill = {
        .prefill_tokens = size, .prefill_area2 = size * size, .logit_seqs = 1};
    const BatchShape decode = {
        .decode_seqs = size, .context_tokens = size * 600, .logit_seqs = size};
    const double us = i < PREFILLS ? 20e3 + 300 * (double)size : 30e3 + 300 * (double)size;
    for (int k = 0; k < REPLICATES; k++)
      add(profile, gpu, i, i < PREFILLS ? prefill : decode, us * factor * (1 + 0.004 * k));
  }
}

static Profile sound_profile(void) {
  Profile profile;
  profile_init(&profile, "made", &arena);
  add_sound(&profile, "h100-80gb", 1);
  return profile;
}

static CheckReport check(const Profile *profile) {
  CheckReport report;
  check_profile(&report, profile, data_dir, &arena);
  return report;
}

/* Checks that there is one finding, of this rule and of rows first, first + 1, … */
static void expect_finding(const CheckReport *report, CheckRule rule, size_t first, size_t n) {
  cr_assert_eq(report->n_findings, 1, "%zu findings, not one of %s", report->n_findings,
               check_rule_name(rule));
  const CheckFinding *finding = &report->findings[0];
  cr_expect_str_eq(check_rule_name(finding->rule), check_rule_name(rule));
  cr_assert_eq(finding->n_rows, n, "%s: %zu rows, not %zu", finding->reason, finding->n_rows, n);
  for (size_t i = 0; i < n; i++)
    cr_expect_eq(report->rows[finding->first + i], first + i, "%s", finding->reason);
}

/* Cleaning leaves `rows` rows, and nothing to find in them. */
static void expect_clean(const CheckReport *report, size_t rows) {
  Profile cleaned;
  check_clean(report, &cleaned, &arena);
  cr_expect_eq(cleaned.n_rows, rows, "%zu rows are left", cleaned.n_rows);
  CheckReport again = check(&cleaned);
  cr_expect_eq(again.n_findings, 0, "%s", again.n_findings ? again.findings[0].reason : "");
}

Test(check, a_sound_profile_has_no_findings) {
  Profile profile = sound_profile();
  CheckReport report = check(&profile);
  cr_assert_eq(report.n_findings, 0, "%s", report.n_findings ? report.findings[0].reason : "");
  cr_assert_eq(report.n_notes, 0);
}

/* 138 GB of weights on 8 GPUs of 3.35 TB/s take 5.1 ms, 4096 tokens at 989 TFLOP/s 71 ms. */
Test(check, times_below_the_roofline_are_found) {
  Profile profile = sound_profile();
  for (size_t i = 0; i < PREFILLS * REPLICATES; i++)
    profile.rows[i].median_us *= 0.3; // 17 ms for 128 tokens, 374 ms for 4096
  CheckReport report = check(&profile);
  cr_assert_eq(report.n_findings, 0);
  for (size_t i = 0; i < PREFILLS * REPLICATES; i++)
    profile.rows[i].median_us *= 0.15; // 2.6 ms and 56 ms
  report = check(&profile);
  expect_finding(&report, CHECK_ROOFLINE, 0, PREFILLS * REPLICATES);
  expect_clean(&report, profile.n_rows - PREFILLS * REPLICATES);
}

/* Rows of operators finer than a term, of sizes 1024, 2048, …: FLOPs and bytes in proportion. */
static void add_details(Profile *profile, ProfileOp op, const char *cache, double us_per_unit,
                        double flops_per_unit, double bytes_per_unit) {
  for (int64_t size = 1024; size <= 16384; size *= 2) {
    ProfileRow row = profile_row("llama2-70b", "h100-80gb", 8);
    row.op = op;
    row.cache = cache;
    row.size = size;
    row.median_us = us_per_unit * (double)size;
    row.flops = flops_per_unit * (double)size;
    row.bytes = bytes_per_unit * (double)size;
    row.at.line = (int)profile->n_rows + 2;
    profile_add(profile, &row);
  }
}

/* An H100 does 989 MFLOP, moves 3350 kB, sends 450 kB to another or 64 kB to the host in 1 us. */
/* Llama2-70B on 8 GPUs at their peaks: 80 layers of 106,954,752 weights, 1024 of query and 128 of
 * keys on each; of the head 4000 rows of 8192. What was in the cache need not be read. */
Test(check, each_term_has_a_least_time_of_its_own) {
  Hardware gpu;
  cr_assert_eq(hardware_load(&gpu, "dgx-h100", data_dir, place_of_file("x"), &arena, &diag), 0);
  gpu.flops_efficiency = gpu.hbm_efficiency = 1;
  const double flops = hardware_compute_rate(&gpu), memory = hardware_memory_rate(&gpu);
  const double weights = 80 * 2 * 106954752.0 / memory, head = 2 * 4000 * 8192.0 / memory;
  const double product = 80 * 2 * 106954752.0 / flops, logit = 2 * 4000 * 8192.0 / flops;
  const double area = 80 * 2 * 1024.0 / flops, context = 80 * 2 * 2 * 128.0 / memory;
  const double scores = 80 * 4 * 1024.0 / flops;
  const BatchShape prompt = {4096, 4096 * 4096, 0, 0, 1}, decode = {0, 0, 8, 8000, 8};
  const BatchShape many = {.logit_seqs = 4096};
  const struct {
    ProfileOp op;
    BatchShape batch;
    double seconds, hot;
  } cases[] = {
      {PROFILE_LINEAR, decode, weights, 8 * product},
      {PROFILE_LINEAR, prompt, 4096 * product, 4096 * product},
      {PROFILE_PREFILL_ATTENTION, prompt, 4096 * 4096 * area, 4096 * 4096 * area},
      {PROFILE_DECODE_ATTENTION, decode, 8000 * context, 8000 * scores},
      {PROFILE_HEAD, decode, head, 8 * logit},
      {PROFILE_HEAD, many, 4096 * logit, 4096 * logit},
      {PROFILE_ITERATION, decode, weights + 8000 * context + head,
       8 * product + 8000 * scores + 8 * logit},
      {PROFILE_ITERATION, prompt, 4096 * product + 4096 * 4096 * area + head,
       4096 * product + 4096 * 4096 * area + logit},
  };
  for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
    const bool is_hot = i % 2;
    const double seconds = is_hot ? cases[i / 2].hot : cases[i / 2].seconds;
    for (int below = 0; below < 2; below++) { // 0.98 is allowed
      Profile profile;
      profile_init(&profile, "made", &arena);
      ProfileRow row = import_row("llama2-70b", "h100-80gb", 8, cases[i / 2].op, cases[i / 2].batch,
                                  1e6 * seconds * (below ? 0.979 : 0.981));
      row.cache = is_hot ? "hot" : "cold";
      profile_add(&profile, &row);
      cr_expect_eq(check(&profile).n_findings, (size_t)below, "case %zu%s", i / 2,
                   is_hot ? ", hot" : "");
    }
  }
}

Test(check, operators_finer_than_terms_are_held_to_the_work_that_their_rows_state) {
  static const struct {
    ProfileOp op;
    const char *cache;
    double us, flops, bytes; // of a unit
    bool possible;
  } cases[] = {
      {PROFILE_GEMM_UP, "cold", 1, 980e6, 1000e3, true},
      {PROFILE_GEMM_UP, "cold", 1, 1020e6, 1000e3, false},
      {PROFILE_GEMM_UP, "hot", 1, 1020e6, 1000e3, false},
      {PROFILE_NORM, "cold", 1, 0, 3300e3, true},
      {PROFILE_NORM, "cold", 1, 0, 3500e3, false},
      {PROFILE_NORM, "hot", 1, 0, 9000e3, true},
      {PROFILE_NORM, "cold", 1, NAN, NAN, true}, // it states none
      {PROFILE_COPY_D2D, "cold", 1, 0, 3000e3, true},
      {PROFILE_COPY_H2D, "", 1, 0, 60e3, true},
      {PROFILE_COPY_H2D, "", 1, 0, 70e3, false},
      {PROFILE_COPY_H2D, "hot", 1, 0, 70e3, false}, // a cache does not widen the link
      {PROFILE_KV_OUT, "", 1, 0, 70e3, false},
      {PROFILE_ALL_REDUCE, "", 1, 0, 440e3, true},
      {PROFILE_ALL_REDUCE, "", 1, 0, 470e3, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile = sound_profile();
    const size_t n = profile.n_rows;
    add_details(&profile, cases[i].op, cases[i].cache, cases[i].us, cases[i].flops, cases[i].bytes);
    CheckReport report = check(&profile);
    if (cases[i].possible)
      cr_expect_eq(report.n_findings, 0, "case %zu: %s", i,
                   report.n_findings ? report.findings[0].reason : "");
    else
      expect_finding(&report, CHECK_ROOFLINE, n, profile.n_rows - n);
  }
}

Test(check, a_row_that_says_itself_that_it_beats_the_roofline_is_found) {
  Profile profile = sound_profile();
  profile.rows[4].roofline_fraction = 1.03;
  profile.rows[5].roofline_fraction = 1.01;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_ROOFLINE, 4, 1);
  profile.rows[4].cache = "hot";
  report = check(&profile);
  cr_expect_eq(report.n_findings, 0);
}

Test(check, a_larger_size_in_less_time_is_found) {
  Profile profile = sound_profile();
  const size_t first = profile.n_rows;
  add_details(&profile, PROFILE_COPY_H2D, "", 1, 0, 5e3);
  profile.rows[first + 4].median_us = 0.85 * profile.rows[first + 3].median_us;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_NON_MONOTONE, first + 4, 1);
}

Test(check, rows_measured_in_other_ways_are_not_compared) {
  Profile profile = sound_profile();
  const size_t n = profile.n_rows;
  for (size_t way = 0; way < 3; way++) {
    for (size_t i = 0; i < n; i++) { // half of the time, or twice: replicates in no way
      ProfileRow row = profile.rows[i];
      row.mode = way == 0 ? "eager" : "";
      row.cache = way == 1 ? "hot" : "";
      row.busy = way == 2;
      row.median_us *= (way == 1 ? 0.5 : 2) * (1 + 0.01 * (double)(i / REPLICATES));
      profile_add(&profile, &row);
    }
  }
  CheckReport report = check(&profile);
  cr_assert_eq(report.n_findings, 0, "%s", report.n_findings ? report.findings[0].reason : "");
}

Test(check, a_file_that_was_cut_short_is_noted) {
  Profile profile = sound_profile();
  profile.torn = true;
  CheckReport report = check(&profile);
  cr_assert_eq(report.n_notes, 1);
  cr_assert_str_eq(report.notes[0], profile_torn_note);
}

Test(check, an_unknown_gpu_or_model_is_noted_once) {
  Profile profile;
  profile_init(&profile, "made", &arena);
  add_sound(&profile, "abacus", 1e-6);
  CheckReport report = check(&profile);
  cr_assert_eq(report.n_findings, 0);
  cr_assert_eq(report.n_notes, 1);
  cr_assert_not_null(strstr(report.notes[0], "abacus"));
}

Test(check, more_work_in_far_less_time_ran_out_of_memory) {
  Profile profile = sound_profile();
  const size_t first = (PREFILLS + DECODES - 1) * REPLICATES; // the largest decode
  for (size_t i = first; i < first + REPLICATES; i++)
    profile.rows[i].median_us *= 0.4;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_OUT_OF_MEMORY, first, REPLICATES);
  expect_clean(&report, profile.n_rows - REPLICATES);
}

Test(check, the_point_at_odds_with_most_others_is_not_monotone) {
  static const struct {
    size_t configuration;
    double factor;
  } cases[] = {{PREFILLS + 5, 0.7}, {PREFILLS, 1.5}, {PREFILLS + 2, 1.4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile = sound_profile();
    const size_t first = cases[i].configuration * REPLICATES;
    for (size_t k = first; k < first + REPLICATES; k++)
      profile.rows[k].median_us *= cases[i].factor;
    CheckReport report = check(&profile);
    expect_finding(&report, CHECK_NON_MONOTONE, first, REPLICATES);
    expect_clean(&report, profile.n_rows - REPLICATES);
  }
}

/* 512 tokens take 174 ms and 1024 take 327 ms, but 256 take 387 ms: the first two say so, and the
 * one that says it loudest is named. */
Test(check, a_point_out_of_line_is_held_against_the_one_farthest_from_it) {
  Profile profile = sound_profile();
  for (size_t i = 0; i < REPLICATES; i++)
    profile.rows[REPLICATES + i].median_us *= 4;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_NON_MONOTONE, REPLICATES, REPLICATES);
  const char *line = arena_printf(&arena, "line %d ", profile.rows[2 * REPLICATES].at.line);
  cr_expect_not_null(strstr(report.findings[0].reason, line), "%s", report.findings[0].reason);
}

Test(check, a_dip_within_the_noise_is_no_finding) {
  Profile profile = sound_profile();
  const size_t first = (PREFILLS + 1) * REPLICATES; // two decodes: 0.97 of the time of one
  for (size_t i = 0; i < REPLICATES; i++)
    profile.rows[first + i].median_us = profile.rows[PREFILLS * REPLICATES + i].median_us * 0.97;
  CheckReport report = check(&profile);
  cr_expect_eq(report.n_findings, 0);
}

/* A shared machine: both rows have samples of both its speeds. */
Test(check, rows_whose_samples_meet_are_no_finding) {
  static const struct {
    double less_p10_us;
    size_t n_findings;
  } cases[] = {{6848, 0}, {6908, 1}, {NAN, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    profile_init(&profile, "made", &arena);
    const BatchShape less = {.prefill_tokens = 6}, more = {.prefill_tokens = 8};
    ProfileRow row = import_row("m", "g", 1, PROFILE_LINEAR, less, 8064);
    row.configuration = 1;
    row.mad_us = 213;
    row.p10_us = cases[i].less_p10_us;
    profile_add(&profile, &row);
    row = import_row("m", "g", 1, PROFILE_LINEAR, more, 6700);
    row.configuration = 2;
    row.mad_us = 70;
    row.p90_us = 6907;
    profile_add(&profile, &row);
    CheckReport report = check(&profile);
    cr_expect_eq(report.n_findings, cases[i].n_findings, "case %zu: %zu findings", i,
                 report.n_findings);
  }
}

Test(check, many_short_prompts_may_take_longer_than_one_long) {
  Profile profile = sound_profile();
  add(&profile, "h100-80gb", 99,
      (BatchShape){.prefill_tokens = 4096, .prefill_area2 = 8 * 512 * 512, .logit_seqs = 8}, 2.4e6);
  CheckReport report = check(&profile);
  cr_expect_eq(report.n_findings, 0, "%s", report.n_findings ? report.findings[0].reason : "");
}

/* One long context is read by few multiprocessors; several of its length are more work. */
Test(check, sequences_share_a_context_that_is_no_longer) {
  static const struct {
    int64_t context; // of eight sequences
    size_t n_findings;
  } cases[] = {{2048, 0}, {8192, 0}, {16384, 1}, {20000, 1}};
  for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
    const ProfileOp op = i % 2 ? PROFILE_DECODE_ATTENTION : PROFILE_ITERATION;
    const BatchShape one = {.decode_seqs = 1, .context_tokens = 16384};
    const BatchShape eight = {.decode_seqs = 8, .context_tokens = 8 * cases[i / 2].context};
    Profile profile;
    profile_init(&profile, "made", &arena);
    ProfileRow less = import_row("m", "g", 1, op, one, 20.1);
    ProfileRow more = import_row("m", "g", 1, op, eight, 10.1);
    less.configuration = 1;
    more.configuration = 2;
    profile_add(&profile, &less);
    profile_add(&profile, &more);
    const CheckReport report = check(&profile);
    cr_expect_eq(report.n_findings, cases[i / 2].n_findings, "case %zu: %zu findings", i,
                 report.n_findings);
  }
}

Test(check, replicates_that_disagree_are_found) {
  Profile profile = sound_profile();
  profile.rows[4].median_us *= 1.2;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_REPLICATES, 4, 1);
  expect_clean(&report, profile.n_rows - 1);
  profile = sound_profile();
  profile.rows[3].median_us *= 0.8; // with the next, no two of the three agree
  profile.rows[4].median_us *= 1.2;
  report = check(&profile);
  expect_finding(&report, CHECK_REPLICATES, 3, REPLICATES);
  profile = sound_profile();
  profile.rows[4].median_us *= 1.2;
  profile.rows[4].stop = "time; drift"; // the measuring itself has said so
  report = check(&profile);
  cr_expect_eq(report.n_findings, 0);
}

/* Of a GPU that runs at 1800 MHz, and says why it does not. */
Test(check, rows_whose_clock_fell_are_found) {
  static const struct {
    const char *throttle;
    double mean, least;
    bool fell;
  } cases[] = {
      {"none", 1800, 1800, false},
      {"none", 1700, 1360, false},            // 0.756 of what is usual
      {"none", 1700, 1340, true},             // 0.744
      {"hardware thermal", 1300, 1300, true}, // all the while
      {"power cap", 1200, 1100, false},       // what the limit leaves
      {"power cap", 1200, 890, true},         // but not that
      {"power cap, hardware thermal", 1200, 1100, true},
      {"none", 1980, 1480, true}, // above what is usual, and down from there
      {"", 1300, 500, false},     // a processor
      {"none", NAN, NAN, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile = sound_profile();
    for (size_t k = 0; k < profile.n_rows; k++) {
      profile.rows[k].throttle = "none";
      profile.rows[k].sm_clock_mhz = profile.rows[k].least_sm_clock_mhz = 1800;
    }
    ProfileRow *row = &profile.rows[5];
    row->throttle = cases[i].throttle;
    row->sm_clock_mhz = cases[i].mean;
    row->least_sm_clock_mhz = cases[i].least;
    CheckReport report = check(&profile);
    cr_expect_eq(report.n_findings, cases[i].fell, "case %zu", i);
    if (!cases[i].fell) continue;
    expect_finding(&report, CHECK_CLOCK, 5, 1);
    expect_clean(&report, profile.n_rows - 1);
  }
}

/* Copies over a link do without multiprocessors, and other GPUs have clocks of their own. */
Test(check, the_usual_clock_is_that_of_a_gpu_at_work) {
  Profile profile = sound_profile();
  const size_t n = profile.n_rows;
  add_sound(&profile, "l4", 3);
  add_details(&profile, PROFILE_COPY_H2D, "", 1, 0, 5e3);
  for (size_t i = 0; i < profile.n_rows; i++) {
    ProfileRow *row = &profile.rows[i];
    row->throttle = "none";
    row->sm_clock_mhz = row->least_sm_clock_mhz = i < n ? 1800 : row->size > 0 ? 300 : 1000;
    row->median_us *= 1 + 1e-4 * (double)i; // a multiple of nothing
  }
  cr_expect_eq(check(&profile).n_findings, 0);
}

Test(check, copied_replicates_are_found_but_for_the_first) {
  Profile profile = sound_profile();
  profile.rows[7].median_us = profile.rows[8].median_us = profile.rows[6].median_us;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_COPIES, 7, 2);
  expect_clean(&report, profile.n_rows - 2);
}

Test(check, a_group_computed_from_another_is_found) {
  Profile profile = sound_profile();
  const size_t first = profile.n_rows;
  add_sound(&profile, "h100-80gb-pcap", 1.3);
  CheckReport report = check(&profile);
  cr_assert_eq(report.n_findings, 2); // prefill and decode are looked at apart
  for (size_t i = 0; i < 2; i++) {
    cr_expect_eq(report.findings[i].rule, CHECK_MULTIPLE);
    cr_expect_eq(report.findings[i].n_rows, PREFILLS * REPLICATES);
    cr_expect_eq(report.rows[report.findings[i].first], first + i * PREFILLS * REPLICATES);
    cr_expect_not_null(strstr(report.findings[i].reason, "1.3 times"));
  }
  expect_clean(&report, first);
  profile.rows[first].median_us *= 1.001; // measured after all
  report = check(&profile);
  cr_expect_eq(report.n_findings, 1);
}

Test(check, zeros_for_missing_values_lose_only_the_value) {
  Profile profile = sound_profile();
  profile.rows[0].power_w = 0;
  profile.rows[1].power_w = 300;
  CheckReport report = check(&profile);
  expect_finding(&report, CHECK_ZERO, 0, 1);
  expect_clean(&report, profile.n_rows);
  Profile cleaned;
  check_clean(&report, &cleaned, &arena);
  cr_assert(isnan(cleaned.rows[0].power_w) && cleaned.rows[1].power_w == 300);
  cr_assert_eq(profile.rows[0].power_w, 0); // the profile itself stays as it is
}

Test(check, samples_without_spread_lose_it) {
  static const struct {
    int64_t samples;
    double mad_us, p10_us, p90_us;
    bool found;
  } cases[] = {{10, 0, NAN, NAN, true},
               {10, NAN, 9, 9, true},
               {10, NAN, NAN, NAN, false},
               {1, 0, 9, 9, false},
               {10, 1, 9, 11, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile = sound_profile();
    profile.rows[5].samples = cases[i].samples;
    profile.rows[5].mad_us = cases[i].mad_us;
    profile.rows[5].p10_us = cases[i].p10_us;
    profile.rows[5].p90_us = cases[i].p90_us;
    CheckReport report = check(&profile);
    cr_expect_eq(report.n_findings, cases[i].found, "case %zu", i);
    if (!cases[i].found) continue;
    expect_finding(&report, CHECK_ZERO_SPREAD, 5, 1);
    expect_clean(&report, profile.n_rows);
  }
}

Test(check, what_is_wrong_with_splitwise_sim_is_found) {
  const char *path = data_path("TANDEM_DATA_DIR", "profiles/splitwise-sim-perf_model.csv", &arena);
  if (!path) cr_skip_test("TANDEM_DATA_DIR has no SplitwiseSim profile");
  const ImportInput input = {.path = path, .data_dir = data_dir};
  Profile profile;
  profile_init(&profile, path, &arena);
  cr_assert_eq(import_profile(importer_find("splitwise-sim"), &input, &profile, &diag), 0);
  CheckReport report = check(&profile);
  size_t multiples = 0, failed = 0, below = 0;
  for (size_t i = 0; i < report.n_findings; i++) {
    const CheckFinding *finding = &report.findings[i];
    const ProfileRow *first = &profile.rows[report.rows[finding->first]];
    if (finding->rule == CHECK_MULTIPLE) {
      multiples += finding->n_rows;
      cr_expect_str_eq(finding->group->gpu, "h100-80gb-pcap");
      const char *ratio = first->batch.decode_seqs > 0 ? "is 1 times" : "is 1.3 times";
      cr_expect_not_null(strstr(finding->reason, ratio), "%s", finding->reason);
    }
    bool is_failure = finding->rule == CHECK_OUT_OF_MEMORY || finding->rule == CHECK_ROOFLINE;
    if (!is_failure) continue;
    *(finding->rule == CHECK_ROOFLINE ? &below : &failed) += finding->n_rows;
    cr_expect(finding->group->tensor_parallel_size == 2 && first->batch.prefill_tokens == 32768);
  }
  cr_expect_eq(multiples, 4 * 210);
  cr_expect_eq(failed, 3 * 5);
  cr_expect_eq(below, 3 * 5);
}
