/* Profiles on disk. Pinned: that what is written reads back to the same digest, that missing is not
 * 0, and where each kind of bad input is reported. Not pinned: the digest's value. */
#include "perfmodel/profile.h"
#include "tests/unit/testing.h"
#include <math.h>

#define HEADER                                                                                     \
  "model,gpu,tensor_parallel_size,op,mode,configuration,prefill_tokens,prefill_area2,decode_seqs," \
  "context_tokens,logit_seqs,median_us,mad_us,p10_us,p90_us,samples,power_w,sm_clock_mhz,"         \
  "mem_clock_mhz,roofline_fraction,stop\n"
#define GOOD "m,g,8,iteration,graph,1,512,262144,0,0,1,100,,,,,,,,,\n"

TestSuite(profile, .init = setup, .fini = teardown, .timeout = 120);

static ProfileRow row_of(const char *model, int32_t degree, ProfileOp op, double median_us) {
  ProfileRow row = profile_row(model, "h100-80gb", degree);
  row.op = op;
  row.mode = "graph";
  row.configuration = 3;
  row.batch = (BatchShape){1, 2, 3, 4, 5};
  row.size = op < PROFILE_TERMS ? 0 : 4096;
  row.median_us = median_us;
  return row;
}

static int load_text(Profile *profile, const char *text, size_t length) {
  diag.n_entries = diag.n_dropped = 0;
  return profile_parse(profile, "test", text, length, &arena, &diag);
}

Test(profile, what_is_saved_loads_again) {
  Profile profile, loaded;
  profile_init(&profile, "made", &arena);
  profile_set_fact(&profile, "gpu", "one");
  profile_set_fact(&profile, "plan digest", "12:34");
  profile_set_fact(&profile, "gpu", "two");
  for (int op = 0; op < PROFILE_OPS; op++) {
    ProfileRow row = row_of("m", 8, (ProfileOp)op, 1.0 / 3 + op);
    row.samples = op;
    row.power_w = op == 0 ? NAN : 0.1 * op;
    row.mad_us = op == 1 ? 0 : NAN; // measured, and none
    row.p10_us = 1e-7;
    row.p90_us = 123456789.123456789;
    row.stop = op == 2 ? "spread, or time" : "";
    row.cache = op == 3 ? "hot" : op == 4 ? "cold" : "";
    row.busy = op == PROFILE_COPY_D2H;
    row.mode = op == PROFILE_COPY_D2H ? "queued" : "";
    row.rates = op == 5 ? "sustained" : op == 6 ? "burst" : "";
    row.energy_j = op == 5 ? 0.25 : NAN;
    row.least_sm_clock_mhz = op == 5 ? 1200 : NAN;
    row.throttle = op == 5 ? "power cap, software thermal" : "";
    row.algorithm = op == PROFILE_GEMM_O ? "algo 66 tile 20" : "";
    row.attn_kernel = op == PROFILE_DECODE_ATTENTION ? "cudnn 9.28.1 engine 3" : "";
    row.flops = op == PROFILE_GEMM_O ? 1e18 / 3 : NAN;
    row.bytes = op == PROFILE_COPY_D2H ? 0 : NAN; // known, and none
    profile_add(&profile, &row);
  }
  const char *path = temp_file("", 0, &arena);
  cr_assert_eq(profile_save(&profile, path, &diag), 0);
  cr_assert_eq(profile_load(&loaded, path, &arena, &diag), 0);
  unlink(path);
  cr_assert_eq(loaded.n_rows, PROFILE_OPS);
  cr_assert_eq(profile_digest(&loaded), profile_digest(&profile));
  cr_assert_eq(loaded.n_facts, 2);
  cr_assert_str_eq(profile_fact(&loaded, "gpu"), "two");
  cr_assert_str_eq(profile_fact(&loaded, "plan digest"), "12:34");
  cr_assert_null(profile_fact(&loaded, "none"));
  cr_assert(isnan(loaded.rows[0].power_w) && loaded.rows[1].power_w == 0.1);
  cr_assert(loaded.rows[1].mad_us == 0 && isnan(loaded.rows[2].mad_us));
  cr_assert_str_eq(loaded.rows[3].cache, "hot");
  cr_assert_str_eq(loaded.rows[4].cache, "cold");
  cr_assert_str_eq(loaded.rows[PROFILE_COPY_D2H].mode, "queued");
  cr_assert(profile_is_sustained(&loaded.rows[5]) && !profile_is_sustained(&loaded.rows[6]));
  cr_assert(loaded.rows[5].energy_j == 0.25 && loaded.rows[5].least_sm_clock_mhz == 1200);
  cr_assert(isnan(loaded.rows[6].energy_j) && !*loaded.rows[6].throttle);
  cr_assert_str_eq(loaded.rows[5].throttle, "power cap, software thermal");
  cr_assert_str_eq(loaded.rows[PROFILE_GEMM_O].algorithm, "algo 66 tile 20");
  cr_assert_str_eq(loaded.rows[PROFILE_DECODE_ATTENTION].attn_kernel, "cudnn 9.28.1 engine 3");
  cr_assert(loaded.rows[PROFILE_COPY_D2H].busy == 1 && loaded.rows[PROFILE_COPY_D2D].busy == 0);
  cr_assert(loaded.rows[PROFILE_GEMM_O].flops == 1e18 / 3 && isnan(loaded.rows[0].flops));
  cr_assert(loaded.rows[PROFILE_COPY_D2H].bytes == 0 && isnan(loaded.rows[0].bytes));
  cr_assert(loaded.rows[PROFILE_NORM].size == 4096 && loaded.rows[0].size == 0);
  cr_assert_eq(loaded.rows[3].at.line, 7); // two facts and the header stand before
}

Test(profile, the_digest_is_of_rows_and_not_of_facts) {
  Profile a, b;
  ProfileRow row = row_of("m", 8, PROFILE_LINEAR, 10);
  profile_init(&a, "a", &arena);
  profile_init(&b, "b", &arena);
  profile_add(&a, &row);
  profile_add(&b, &row);
  profile_set_fact(&b, "date", "today");
  cr_assert_eq(profile_digest(&a), profile_digest(&b));
  b.rows[0].power_w = 0; // is not missing
  cr_assert_neq(profile_digest(&a), profile_digest(&b));
  b.rows[0] = a.rows[0];
  b.rows[0].batch.logit_seqs++;
  cr_assert_neq(profile_digest(&a), profile_digest(&b));
  b.rows[0] = a.rows[0];
  a.rows[0].flops = b.rows[0].bytes = 7;
  cr_assert_neq(profile_digest(&a), profile_digest(&b));
}

Test(profile, every_number_enters_the_digest) {
  static const size_t reals[] = {
      offsetof(ProfileRow, median_us),     offsetof(ProfileRow, mad_us),
      offsetof(ProfileRow, p10_us),        offsetof(ProfileRow, p90_us),
      offsetof(ProfileRow, power_w),       offsetof(ProfileRow, sm_clock_mhz),
      offsetof(ProfileRow, mem_clock_mhz), offsetof(ProfileRow, flops),
      offsetof(ProfileRow, bytes),         offsetof(ProfileRow, roofline_fraction),
      offsetof(ProfileRow, energy_j),      offsetof(ProfileRow, least_sm_clock_mhz),
  };
  static const double values[] = {1, 1.0000000000000002, 2, 0, NAN};
  enum { REALS = sizeof reals / sizeof *reals, VALUES = sizeof values / sizeof *values };
  Profile profile;
  const ProfileRow row = row_of("m", 8, PROFILE_COPY_D2H, 10);
  profile_init(&profile, "a", &arena);
  profile_add(&profile, &row);
  for (int i = 0; i < REALS; i++) {
    uint64_t digests[VALUES];
    for (int v = 0; v < VALUES; v++) {
      profile.rows[0] = row;
      *(double *)((char *)&profile.rows[0] + reals[i]) = values[v];
      digests[v] = profile_digest(&profile);
      for (int before = 0; before < v; before++)
        cr_expect_neq(digests[v], digests[before], "real %d: %g and %g", i, values[v],
                      values[before]);
    }
  }
}

Test(profile, files_without_the_optional_columns_load_and_keep_their_digest) {
  static const char old[] = HEADER GOOD "m,g,8,linear,,2,512,262144,0,0,1,100,,,,,,,,,\n";
  static const char wide[] =
      "model,gpu,tensor_parallel_size,op,mode,cache,busy,configuration,prefill_tokens,"
      "prefill_area2,decode_seqs,context_tokens,logit_seqs,size,median_us,mad_us,p10_us,p90_us,"
      "samples,power_w,sm_clock_mhz,mem_clock_mhz,flops,bytes,roofline_fraction,stop\n"
      "m,g,8,iteration,graph,,,1,512,262144,0,0,1,,100,,,,,,,,,,,\n"
      "m,g,8,linear,,%s,2,512,262144,0,0,1,,100,,,,,,,,,,,\n";
  static const struct {
    const char *cells;
    bool same;
  } cases[] = {{",", true}, {",0", true}, {",1", false}, {"hot,", false}};
  Profile narrow;
  cr_assert_eq(load_text(&narrow, old, strlen(old)), 0);
  cr_assert(isnan(narrow.rows[0].flops) && narrow.rows[0].size == 0 && !*narrow.rows[0].cache);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    const char *text = arena_printf(&arena, wide, cases[i].cells);
    cr_assert_eq(load_text(&profile, text, strlen(text)), 0, "%s", cases[i].cells);
    cr_assert_eq(profile_digest(&profile) == profile_digest(&narrow), cases[i].same, "%s",
                 cases[i].cells);
  }
}

Test(profile, a_file_written_row_by_row_is_the_one_written_at_once) {
  Profile profile;
  profile_init(&profile, "made", &arena);
  profile_set_fact(&profile, "gpu", "one");
  for (int op = 0; op < PROFILE_OPS; op++) {
    ProfileRow row = row_of("m", 8, (ProfileOp)op, 1.0 / 3 + op);
    profile_add(&profile, &row);
  }
  const char *paths[] = {temp_file("", 0, &arena), temp_file("", 0, &arena)};
  char texts[2][8192] = {{0}};
  cr_assert_eq(profile_save(&profile, paths[0], &diag), 0);
  FILE *out = fopen(paths[1], "w");
  cr_assert_not_null(out);
  profile_write_header(&profile, out);
  for (size_t i = 0; i < profile.n_rows; i++)
    profile_write_row(&profile.rows[i], out);
  fclose(out);
  for (int i = 0; i < 2; i++) {
    FILE *in = fopen(paths[i], "r");
    cr_assert_not_null(in);
    cr_assert(fread(texts[i], 1, sizeof texts[i] - 1, in) > 1000);
    fclose(in);
    unlink(paths[i]);
  }
  cr_assert_str_eq(texts[0], texts[1]);
}

Test(profile, groups_come_in_the_order_of_the_rows) {
  Profile profile;
  ProfileGroup *groups = NULL;
  const struct {
    const char *model;
    int32_t degree;
  } rows[] = {{"b", 8}, {"a", 8}, {"b", 4}, {"b", 8}, {"b", 8}};
  profile_init(&profile, "made", &arena);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ProfileRow row = row_of(rows[i].model, rows[i].degree, PROFILE_LINEAR, 1);
    profile_add(&profile, &row);
  }
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 3);
  cr_assert(strcmp(groups[0].model, "b") == 0 && groups[0].tensor_parallel_size == 8);
  cr_assert(strcmp(groups[1].model, "a") == 0 && groups[1].n_rows == 1);
  cr_assert(groups[2].tensor_parallel_size == 4 && groups[0].n_rows == 3);
  cr_assert(profile_in_group(&profile.rows[4], &groups[0]));
  cr_assert_not(profile_in_group(&profile.rows[4], &groups[2]));
}

Test(profile, bad_files_are_located) {
  static const struct {
    const char *text, *part;
    int line, column;
  } cases[] = {
      {"", "has no header row", 0, 0},
      {HEADER, "a profile needs at least two points, found 0", 0, 0},
      {HEADER GOOD, "a profile needs at least two points, found 1", 0, 0},
      {"# no colon\n" HEADER GOOD GOOD, "must have the form '# key: value'", 1, 1},
      {"# a: b\n# a: c\n" HEADER GOOD GOOD, "'a' occurs twice", 2, 1},
      {HEADER GOOD "m,g,8,warp,,1,512,262144,0,0,1,100,,,,,,,,,\n", "unknown operator 'warp'", 3,
       7},
      {HEADER GOOD "m,g,8,iteration,fast,1,512,262144,0,0,1,100,,,,,,,,,\n",
       "'mode' must be graph, queued, eager or empty, not 'fast'", 3, 17},
      {HEADER GOOD "m,g,0,iteration,,1,512,262144,0,0,1,100,,,,,,,,,\n",
       "'tensor_parallel_size' must be a whole number above 0", 3, 5},
      {HEADER GOOD "m,g,8,iteration,,1,0,0,0,0,1,100,,,,,,,,,\n",
       "the batch has no work for operator 'iteration'", 3, 1},
      {HEADER GOOD "m,g,8,decode_attention,,1,0,0,4,0,4,100,,,,,,,,,\n",
       "the batch has no work for operator 'decode_attention'", 3, 1},
      {HEADER GOOD "m,g,8,gemm_o,,1,0,0,0,0,0,100,,,,,,,,,\n",
       "the size gives no work for operator 'gemm_o'", 3, 1},
      {HEADER GOOD "m,g,8,iteration,,1,512,262144,0,0,1,nan,,,,,,,,,\n",
       "'median_us' must be a number above 0, not 'nan'", 3, 37},
      {HEADER GOOD "m,g,8,iteration,,1,512,262144,0,0,1,-5,,,,,,,,,\n",
       "'median_us' must be a number above 0, not '-5'", 3, 37},
      {HEADER GOOD "m,g,8,iteration,,1,512,262144,0,0,1,,,,,,,,,,\n", "'median_us' is empty", 3,
       37},
      {HEADER GOOD "m,g,8,iteration,,1,512,262144,0,0,1,100,,9,8,,,,,,\n",
       "'p10_us' must be at most 'p90_us'", 3, 42},
      {HEADER GOOD "m,g,8\n", "expected 21 fields", 3, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    cr_expect_eq(load_text(&profile, cases[i].text, strlen(cases[i].text)), -1, "%s",
                 cases[i].part);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].text);
    cr_expect_eq(diag_exit_code(&diag), 3);
  }
}

Test(profile, columns_of_another_unit_are_told_the_right_one) {
  Profile profile;
  char *text = arena_printf(&arena, "%s%s%s", HEADER, GOOD, GOOD);
  memcpy(strstr(text, "median_us"), "median_ms", 9);
  cr_assert_eq(load_text(&profile, text, strlen(text)), -1);
  cr_assert_eq(diag.n_entries, 2); // one column is missing, one unknown
  expect_entry(&diag, 0, 1, 1, "missing column 'median_us'", text);
  expect_entry(&diag, 1, 1, 121, "unknown column 'median_ms'", text);
  cr_assert_not_null(strstr(diag.entries[1].hint, "microseconds"));
}

Test(profile, all_problems_come_at_once) {
  Profile profile;
  static const char text[] = HEADER "m,g,8,iteration,,1,512,262144,0,0,1,0,,,,,,,,,\n" GOOD
                                    "m,g,8,iteration,,x,512,262144,0,0,1,-1,,,,,,,,,\n";
  cr_assert_eq(load_text(&profile, text, sizeof text - 1), -1);
  cr_assert_eq(diag.n_entries, 3);
}

Test(profile, a_million_rows_are_the_limit) {
  const size_t header = sizeof HEADER - 1, row = sizeof GOOD - 1, rows = 1000 * 1000 + 1;
  char *text = arena_alloc(&arena, header + rows * row);
  memcpy(text, HEADER, header);
  for (size_t i = 0; i < rows; i++)
    memcpy(text + header + i * row, GOOD, row);
  Profile profile;
  cr_assert_eq(load_text(&profile, text, header + rows * row), -1);
  expect_entry(&diag, 0, 1000 * 1000 + 2, 1, "more than 1000000 rows", "a million and one");
  cr_assert_eq(load_text(&profile, text, header + (rows - 1) * row), 0);
  cr_assert_eq(profile.n_rows, rows - 1);
}

Test(profile, texts_that_would_not_read_back_are_not_written) {
  static const char *const models[] = {"a\"b", "a\nb"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    Profile profile;
    ProfileRow row = row_of(models[i], 1, PROFILE_LINEAR, 1);
    profile_init(&profile, "made", &arena);
    profile_add(&profile, &row);
    cr_expect_eq(profile_save(&profile, "/no/such/folder/file", &diag), -1);
    cr_expect_eq(diag.entries[i].kind, DIAG_INPUT);
  }
  Profile empty;
  profile_init(&empty, "made", &arena);
  cr_expect_eq(profile_save(&empty, "/no/such/folder/file", &diag), -1);
  cr_expect_eq(diag.entries[2].kind, DIAG_ENVIRONMENT);
}

Test(profile, a_last_line_that_was_cut_short_is_left_out) {
  static const char whole[] = HEADER GOOD GOOD GOOD;
  const size_t first = sizeof HEADER GOOD GOOD - 1, cells = sizeof GOOD - 2; // no newline
  for (size_t n = 0; n <= cells; n++) {
    Profile profile;
    cr_assert_eq(load_text(&profile, whole, first + n), 0, "%zu characters of it", n);
    cr_assert_eq(profile.torn, n > 0 && n < cells, "%zu characters of it", n);
    cr_assert_eq(profile.n_rows, n < cells ? 2 : 3);
  }
  /* with a newline it is wrong, not cut short */
  Profile profile;
  const char *text = arena_printf(&arena, "%.*sm,g,8\n", (int)first, whole);
  cr_assert_eq(load_text(&profile, text, strlen(text)), -1);
  cr_assert(!profile.torn);
}
