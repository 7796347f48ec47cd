/* Importing. Pinned: the rows that a few lines of each format become, by hand, with the unit and
 * the traps of each; the facts that say what was assumed; where bad input is reported. The files
 * are made up; the counts of SplitwiseSim's own are pinned where it is at hand. */
#include "perfmodel/fit_rows.h"
#include "perfmodel/import/import.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <sys/stat.h>

TestSuite(import, .init = setup_data, .fini = teardown);

/* Imports a text as a file, which is gone afterwards. */
static int import_text(const char *format, const char *text, Profile *profile) {
  const ImportInput input = {.path = temp_file(text, strlen(text), &arena), .data_dir = data_dir};
  diag.n_entries = diag.n_dropped = 0;
  profile_init(profile, input.path, &arena);
  int status = import_profile(importer_find(format), &input, profile, &diag);
  unlink(input.path);
  if (status == 0) cr_expect_str_eq(profile_fact(profile, "format"), format);
  return status;
}

static const char *first_message(void) {
  return diag.n_entries ? diag.entries[0].message : "no message";
}

static void expect_row(const Profile *profile, size_t i, ProfileOp op, int degree, BatchShape batch,
                       double median_us) {
  cr_assert_gt(profile->n_rows, i);
  const ProfileRow *row = &profile->rows[i];
  cr_expect(row->op == op && row->tensor_parallel_size == degree, "row %zu is %s, tp %d", i,
            profile_op_name(row->op), (int)row->tensor_parallel_size);
  const int64_t pairs[][2] = {{row->batch.prefill_tokens, batch.prefill_tokens},
                              {row->batch.prefill_area2, batch.prefill_area2},
                              {row->batch.decode_seqs, batch.decode_seqs},
                              {row->batch.context_tokens, batch.context_tokens},
                              {row->batch.logit_seqs, batch.logit_seqs}};
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
    cr_expect_eq(pairs[k][0], pairs[k][1], "row %zu, number %zu of its batch", i, k);
  cr_expect_float_eq(row->median_us, median_us, 1e-9 * median_us, "row %zu takes %g us", i,
                     row->median_us);
}

/* "key=value" of each fact but the names of files, a line each. */
static void expect_facts(const Profile *profile, const char *want) {
  const char *text = "";
  for (size_t i = 0; i < profile->n_facts; i++)
    if (strncmp(profile->facts[i].key, "source", 6) != 0 ||
        strcmp(profile->facts[i].key, "source_units") == 0)
      text =
          arena_printf(&arena, "%s%s=%s\n", text, profile->facts[i].key, profile->facts[i].value);
  cr_expect_str_eq(text, want, "%s", text);
}

Test(import, every_importer_has_a_name_help_and_units) {
  int n = 0;
  for (; importer_at(n); n++) {
    cr_expect_eq(importer_find(importer_at(n)->name), importer_at(n));
    cr_expect(*importer_at(n)->help && *importer_at(n)->units);
  }
  cr_expect_eq(n, 4);
  cr_expect_null(importer_find("nothing"));
}

/* ---- SplitwiseSim ---- */

#define SPLITWISE                                                                                  \
  "model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,prompt_time,"         \
  "token_time,e2e_time,tensor_parallel\n"

Test(import, splitwise_sim_has_two_iterations_in_each_line) {
  static const char text[] = SPLITWISE "bloom-176b,a100-80gb,512,4,129,0.75,0.5,90.5,40,5210,8\n"
                                       "bloom-176b,a100-80gb,512,4,129,0,0,91,41,2000,8\n"
                                       "bloom-176b,abacus,512,4,257,1,1,91,41,10000,8\n";
  Profile profile;
  const int status = import_text("splitwise-sim", text, &profile);
  cr_assert_eq(status, 0, "%s", first_message());
  cr_assert_eq(profile.n_rows, 6);
  const BatchShape prefill = {2048, 4 * 512 * 512, 0, 0, 4};
  const BatchShape decode = {0, 0, 4, 4 * 512 + 2 * 129, 4};
  const BatchShape longer = {0, 0, 4, 4 * 512 + 2 * 257, 4};
  expect_row(&profile, 0, PROFILE_ITERATION, 8, prefill, 90500);
  expect_row(&profile, 1, PROFILE_ITERATION, 8, decode, 40000);
  expect_row(&profile, 2, PROFILE_ITERATION, 8, prefill, 91000);
  expect_row(&profile, 5, PROFILE_ITERATION, 8, longer, 41000);
  cr_expect_float_eq(profile.rows[0].power_w, 300, 1e-9); // of 400 W
  cr_expect_float_eq(profile.rows[1].power_w, 200, 1e-9);
  cr_expect(isnan(profile.rows[2].power_w) && isnan(profile.rows[3].power_w));
  cr_expect(isnan(profile.rows[4].power_w)); // the TDP is not known
  cr_expect_str_eq(profile.rows[0].stop, "");
  cr_expect_str_eq(profile.rows[2].stop, "early_stop");
  cr_expect_str_eq(profile.rows[3].stop, "early_stop");
  static const int64_t configurations[] = {1, 2, 1, 2, 1, 3}; // prefill has no output length
  for (size_t i = 0; i < 6; i++)
    cr_expect_eq(profile.rows[i].configuration, configurations[i]);
  cr_expect_eq(profile.rows[3].at.line, 3);
  cr_expect_str_eq(profile_fact(&profile, "source_units"), "milliseconds");
  cr_expect_not_null(profile_fact(&profile, "assumption_power"));
  expect_facts(&profile,
               "format=splitwise-sim\n"
               "source_units=milliseconds\n"
               "engine_preset=eager-2023\n"
               "assumption_context=decode rows have the context at the middle of the output\n"
               "assumption_power=share of the TDP of one GPU; prefill has the peak, decode the "
               "average; 0 is missing\n"
               "assumption_stop=early_stop: e2e_time below 0.9 of prompt_time + "
               "token_time*(token_size - 1)\n");
}

Test(import, splitwise_sim_lines_that_cannot_be_are_located) {
#define LINE "m,g,512,1,128,0,0,90,40,5210,8\n"
  static const struct {
    const char *text, *part;
    int line, column;
  } cases[] = {
      {"model,hardware\n" LINE, "missing column 'prompt_size'", 1, 1},
      {SPLITWISE LINE "m,g,0,1,128,0,0,90,40,5210,8\n", "'prompt_size' must be a whole number", 3,
       5},
      {SPLITWISE LINE "m,g,512,1,128,0,0,nan,40,5210,8\n", "'prompt_time' must be a number above 0",
       3, 19},
      {SPLITWISE LINE "m,g,512,1,128,0,0,90,-40,5210,8\n", "'token_time' must be a number above 0",
       3, 22},
      {SPLITWISE LINE "m,g,512,9999999,128,0,0,90,40,5210,8\n", "'batch_size' must be at most", 3,
       9},
      {SPLITWISE "m,g,512,1,128,0,0,0.009,0.004,0.521,8\n"
                 "m,g,256,1,128,0,0,0.009,0.004,0.521,8\n",
       "the times are not in milliseconds", 0, 0},
      {SPLITWISE, "a profile needs at least two points, found 0", 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    cr_expect_eq(import_text("splitwise-sim", cases[i].text, &profile), -1);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].text);
  }
}

Test(import, splitwise_sims_own_file_has_twelve_groups_of_210_rows) {
  const char *path = data_path("TANDEM_DATA_DIR", "profiles/splitwise-sim-perf_model.csv", &arena);
  if (!path) cr_skip_test("TANDEM_DATA_DIR has no SplitwiseSim profile");
  const ImportInput input = {.path = path, .data_dir = data_dir};
  Profile profile;
  ProfileGroup *groups = NULL;
  profile_init(&profile, path, &arena);
  cr_assert_eq(import_profile(importer_find("splitwise-sim"), &input, &profile, &diag), 0);
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 12);
  int64_t configurations = 0;
  size_t powered = 0;
  for (size_t i = 0; i < 12; i++)
    cr_expect_eq(groups[i].n_rows, 210, "%s %s", groups[i].model, groups[i].gpu);
  for (size_t i = 0; i < profile.n_rows; i++) {
    if (profile.rows[i].configuration > configurations)
      configurations = profile.rows[i].configuration;
    bool has_power = !isnan(profile.rows[i].power_w);
    powered += has_power;
    if (has_power) cr_expect_str_eq(profile.rows[i].gpu, "a100-80gb");
  }
  cr_expect_eq(configurations, 13 + 19); // prompts and batches; those and output lengths
  cr_expect_gt(powered, 0);
}

/* ---- LLMServingSim ---- */

/* Imports a bundle of one degree, 2, with experts where `moe` is not NULL; the folder is gone
 * afterwards. */
static int import_bundle_of(const char *model, const char *meta, const char *dense,
                            const char *per_sequence, const char *attention, const char *moe,
                            Profile *profile) {
  const struct {
    const char *name, *text;
  } files[] = {{"meta.yaml", meta},
               {"tp2/dense.csv", dense},
               {"tp2/per_sequence.csv", per_sequence},
               {"tp2/attention.csv", attention},
               {"tp2/moe.csv", moe}};
  const size_t n_files = moe ? 5 : 4;
  const char *folder = temp_folder(&arena);
  const char *degree = arena_printf(&arena, "%s/tp2", folder);
  cr_assert_eq(mkdir(degree, 0700), 0);
  for (size_t i = 0; i < n_files; i++)
    write_file(arena_printf(&arena, "%s/%s", folder, files[i].name), files[i].text);
  const ImportInput input = {.path = folder, .model = model, .data_dir = data_dir};
  diag.n_entries = diag.n_dropped = 0;
  profile_init(profile, folder, &arena);
  int status = import_profile(importer_find("llmservingsim"), &input, profile, &diag);
  for (size_t i = 0; i < n_files; i++)
    unlink(arena_printf(&arena, "%s/%s", folder, files[i].name));
  rmdir(degree);
  rmdir(folder);
  return status;
}

static int import_bundle(const char *meta, const char *dense, const char *per_sequence,
                         const char *attention, Profile *profile) {
  return import_bundle_of("llama3-8b", meta, dense, per_sequence, attention, NULL, profile);
}

static const char META[] = "hardware: RTX4090\ngpu: NVIDIA GeForce RTX 4090\n"
                           "engine_effective: {hf_overrides: {num_hidden_layers: 1}}\n";
static const char DENSE[] = "layer,tokens,time_us\nembedding,16,3\nembedding,1,2\nlayernorm,1,2\n"
                            "layernorm,16,2.5\nqkv_proj,1,50\nqkv_proj,16,60\n";
static const char SEQUENCE[] = "layer,sequences,time_us\nlm_head,4,1000\nsampler,4,30\n";

Test(import, llmservingsims_layers_are_counted_by_how_often_they_run) {
  static const char attention[] = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
                                  "16,32,0,0,8\n0,0,4,100,7\n16,32,4,100,12\n";
  Profile profile;
  const int status = import_bundle(META, DENSE, SEQUENCE, attention, &profile);
  cr_assert_eq(status, 0, "%s", first_message());
  cr_assert_eq(profile.n_rows, 6);
  expect_row(&profile, 0, PROFILE_LINEAR, 2, (BatchShape){.prefill_tokens = 1},
             2 + 32 * (2 * 2 + 50.0));
  expect_row(&profile, 1, PROFILE_LINEAR, 2, (BatchShape){.prefill_tokens = 16},
             3 + 32 * (2 * 2.5 + 60));
  expect_row(&profile, 2, PROFILE_HEAD, 2, (BatchShape){.logit_seqs = 4}, 1030);
  expect_row(&profile, 3, PROFILE_PREFILL_ATTENTION, 2,
             (BatchShape){.prefill_tokens = 16, .prefill_area2 = 16 * (2 * 32 + 16)}, 32 * 8.0);
  expect_row(&profile, 4, PROFILE_DECODE_ATTENTION, 2,
             (BatchShape){.decode_seqs = 4, .context_tokens = 400}, 32 * 7.0);
  expect_row(&profile, 5, PROFILE_DECODE_ATTENTION, 2,
             (BatchShape){.prefill_tokens = 16,
                          .prefill_area2 = 16 * (2 * 32 + 16),
                          .decode_seqs = 4,
                          .context_tokens = 400},
             32 * 12.0);
  cr_expect_str_eq(profile.rows[0].gpu, "RTX4090");
  cr_expect_str_eq(profile_fact(&profile, "all_reduce"), "none");
  cr_expect_str_eq(profile_fact(&profile, "gpu_name"), "NVIDIA GeForce RTX 4090");
  expect_facts(&profile,
               "format=llmservingsim\n"
               "source_units=microseconds\n"
               "gpu_name=NVIDIA GeForce RTX 4090\n"
               "engine_preset=ideal\n"
               "grid=each point once\n"
               "engine=vllm\n"
               "weight_dtype=bf16\n"
               "kv_cache_dtype=bf16\n"
               "assumption_layers=32 layers of the model file; two norms a layer, all else once\n"
               "all_reduce=none\n"
               "assumption_head=lm_head and sampler\n"
               "rows_of_several_query_tokens_left_out=0\n");
}

Test(import, llmservingsims_newer_attention_says_how_far_tokens_look_back) {
  static const char attention[] =
      "layer,prefill_chunk,prefill_key,n_decode,kv_decode,decode_q_len,time_us\n"
      "attention,16,40.0,0,0,1,8\nattention,0,0.0,4,100,1,7\nattention,0,0.0,4,100,2,9\n";
  Profile profile;
  const int status = import_bundle(META, DENSE, SEQUENCE, attention, &profile);
  cr_assert_eq(status, 0, "%s", first_message());
  cr_assert_eq(profile.n_rows, 5);
  expect_row(&profile, 3, PROFILE_PREFILL_ATTENTION, 2,
             (BatchShape){.prefill_tokens = 16, .prefill_area2 = 16 * (2 * 32 + 16)}, 32 * 8.0);
  cr_expect_str_eq(profile_fact(&profile, "rows_of_several_query_tokens_left_out"), "1");
}

/* 48 layers of 128 experts, of which a token reaches 8. */
Test(import, llmservingsims_experts_are_those_that_tokens_reach) {
  static const char attention[] = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
                                  "16,32,0,0,8\n";
  static const char dense[] = "layer,tokens,time_us\nlayernorm,1,2\nlayernorm,2,2\n"
                              "layernorm,3,2\nlayernorm,1000,2\n";
  static const char moe[] = "tokens,activated_experts,time_us\n"
                            "1,8,50\n2,8,60\n2,16,140\n4,8,60\n4,32,240\n1000,128,900\n";
  Profile profile;
  const int status =
      import_bundle_of("qwen3-30b-a3b", META, dense, SEQUENCE, attention, moe, &profile);
  cr_assert_eq(status, 0, "%s", first_message());
  // two tokens reach 128 (1 - (15/16)²) = 15.5 experts, three 22.53
  const double two = 60 + 80 * 7.5 / 8;
  const double of_three = 128 * (1 - 0.9375 * 0.9375 * 0.9375);
  const double three = (140 + (60 + 180 * (of_three - 8) / 24)) / 2;
  const double us[] = {50, two, three, 900};
  static const int64_t tokens[] = {1, 2, 3, 1000};
  for (int i = 0; i < 4; i++)
    expect_row(&profile, i, PROFILE_LINEAR, 2, (BatchShape){.prefill_tokens = tokens[i]},
               48 * (2 * 2 + us[i]));
  cr_expect_eq(import_bundle(META, dense, SEQUENCE, attention, &profile), 0);
  cr_expect_eq(import_bundle_of("llama3-8b", META, dense, SEQUENCE, attention, moe, &profile), -1);
  cr_expect(strstr(first_message(), "has no experts"), "%s", first_message());
  // without a degree whose experts were timed nothing is left
  cr_expect_eq(import_bundle_of("qwen3-30b-a3b", META, dense, SEQUENCE, attention, NULL, &profile),
               -1);
}

Test(import, llmservingsim_bundles_that_cannot_be_are_located) {
  static const char attention[] = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  static const struct {
    const char *meta, *dense, *attention, *part;
    int line, column;
  } cases[] = {
      {"gpu: x\n", DENSE, attention, "'hardware' is missing", 0, 0},
      {META, "layer,tokens,time_ms\nembedding,1,2\n", attention, "missing column 'time_us'", 1, 1},
      {META, "layer,tokens,time_us\nmoe,1,2\n", attention, "unknown layer 'moe'", 2, 1},
      {META, "layer,tokens,time_us\nembedding,1,2\nembedding,2,2\nqkv_proj,1,50\n", attention,
       "layer 'qkv_proj' has no time for 2", 3, 1},
      {META, "layer,tokens,time_us\nqkv_proj,1,2\nqkv_proj,1,2\n", attention,
       "layer 'qkv_proj' occurs twice for 1", 3, 1},
      {META, DENSE, "prefill_chunk,n_decode,kv_decode,time_us\n0,1,16,8\n",
       "one of the columns 'kv_prefill' and 'prefill_key' is required", 2, 1},
      {META, DENSE, "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,0,0,5\n",
       "the row has neither a prefill nor a decode", 2, 1},
      {META, "layer,tokens,time_us\nqkv_proj,1,0.05\n", attention,
       "the times are not in microseconds", 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    int status =
        import_bundle(cases[i].meta, cases[i].dense, SEQUENCE, cases[i].attention, &profile);
    cr_expect_eq(status, -1, "case %zu", i);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].part);
  }
}

Test(import, llmservingsims_sizes_have_limits) {
  static const struct {
    const char *header, *row;
    bool good;
  } cases[] = {
      {"kv_prefill,n_decode", "1048576,0,0,0", true},
      {"kv_prefill,n_decode", "1048577,0,0,0", false},
      {"kv_prefill,n_decode", "1,1048576,0,0", true},
      {"kv_prefill,n_decode", "1,1048577,0,0", false},
      {"prefill_key,n_decode", "1,1048576,0,0", true},
      {"prefill_key,n_decode", "1,1048577,0,0", false},
      {"prefill_key,n_decode", "1,0,0,0", false},
      {"prefill_key,n_decode", "1,0.5,0,0", true},
      {"kv_prefill,n_decode", "0,0,65536,1", true},
      {"kv_prefill,n_decode", "0,0,65537,1", false},
      {"kv_prefill,n_decode", "0,0,1,1048576", true},
      {"kv_prefill,n_decode", "0,0,1,1048577", false},
      {"kv_prefill,n_decode", "0,0,1,0", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    const char *attention = arena_printf(&arena, "prefill_chunk,%s,kv_decode,time_us\n%s,50\n",
                                         cases[i].header, cases[i].row);
    const int status = import_bundle(META, DENSE, SEQUENCE, attention, &profile);
    cr_expect_eq(status == 0, cases[i].good, "case %zu: %s", i, status ? first_message() : "");
  }
  Profile profile;
  const char *large = "layer,tokens,time_us\nembedding,1048576,3\nqkv_proj,1048576,50\n";
  const char *none = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n1,0,0,0,50\n";
  cr_expect_eq(import_bundle(META, large, SEQUENCE, none, &profile), 0, "%s", first_message());
  large = "layer,tokens,time_us\nembedding,1048577,3\nqkv_proj,1048577,50\n";
  cr_expect_eq(import_bundle(META, large, SEQUENCE, none, &profile), -1);
}

/* 32 layers of an operator take 5 us or more, the head half of one; nothing takes minutes. */
Test(import, times_that_no_machine_takes_are_of_another_unit) {
  static const struct {
    const char *linear, *head, *prefill, *decode;
    bool good;
  } cases[] = {
      {"0.15625", "0.25", "0.15625", "0.15625", true},
      {"0.156", "0.25", "1", "1", false},
      {"1", "0.24", "1", "1", false},
      {"1", "1", "0.156", "1", false},
      {"1", "1", "1", "0.156", false},
      {"3125000", "1", "1", "1", true},
      {"3125001", "1", "1", "1", false},
      {"1", "5e7", "1", "1", true},
      {"1", "50000001", "1", "1", false},
      {"1", "1", "3125000", "1", true},
      {"1", "1", "3125001", "1", false},
      {"1", "1", "1", "3125000", true},
      {"1", "1", "1", "3125001", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    const char *dense =
        arena_printf(&arena, "layer,tokens,time_us\nqkv_proj,1,%s\n", cases[i].linear);
    const char *head = arena_printf(&arena, "layer,sequences,time_us\nlm_head,4,%s\nsampler,4,%s\n",
                                    cases[i].head, cases[i].head);
    const char *attention = arena_printf(
        &arena, "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n1,0,0,0,%s\n0,0,1,1,%s\n",
        cases[i].prefill, cases[i].decode);
    const int status = import_bundle(META, dense, head, attention, &profile);
    cr_expect_eq(status == 0, cases[i].good, "case %zu: %s", i, first_message());
  }
}

Test(import, steps_of_vllm_from_lines_of_json) {
  Profile profile;
  const char *text = "{\"model\": \"llama3-8b\", \"gpu\": \"h100-80gb\", "
                     "\"tensor_parallel_size\": 2, \"engine_version\": \"0.24.0\"}\n"
                     "{\"prefill\": [[512, 0], [100, 400]], \"decode\": [7, 1000], "
                     "\"sampled\": 3, \"us\": 20500.5}\n"
                     "{\"decode\": [8, 1001], \"us\": 9000}\n";
  cr_assert_eq(import_text("vllm-log", text, &profile), 0, "%s", first_message());
  expect_row(&profile, 0, PROFILE_ITERATION, 2, (BatchShape){0, 0, 2, 1009, 2}, 9000);
  expect_row(&profile, 1, PROFILE_ITERATION, 2,
             (BatchShape){612, 512 * 512 + 100 * (2 * 400 + 100), 2, 1007, 3}, 20500.5);
  cr_expect_str_eq(profile_fact(&profile, "engine_version"), "0.24.0");
  cr_expect_str_eq(profile.rows[0].gpu, "h100-80gb");
}

Test(import, steps_of_vllm_that_are_alike_are_a_row) {
  Profile profile;
  // Of eight steps the two fastest and the two slowest, which waited for something else, are not in
  // the means; steps of speculation and requests are none.
  const char *text =
      "{\"engine\": \"vllm\", \"model\": \"meta-llama/Llama-3.1-70B-Instruct\", "
      "\"gpu\": \"NVIDIA H100 80GB HBM3\", \"tensor_parallel_size\": 4}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6000, \"us\": 1000}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6003, \"us\": 9100}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6006, \"us\": 10000}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6009, \"us\": 10100}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6012, \"us\": 10200}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6015, \"us\": 10300}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6018, \"us\": 90000}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6021, \"us\": 99000}\n"
      "{\"prefill\": [], \"decode_seqs\": 9, \"context_tokens\": 900, \"us\": 7000}\n"
      "{\"prefill\": [], \"decode_seqs\": 3, \"context_tokens\": 6021, \"drafted\": 6, "
      "\"us\": 9999}\n"
      "{\"prompt_tokens\": 9, \"output_tokens\": 1, \"arrived_us\": 1, "
      "\"first_token_us\": 2, \"last_token_us\": 2}\n";
  cr_assert_eq(import_text("vllm-log", text, &profile), 0, "%s", first_message());
  cr_assert_eq(profile.n_rows, 2);
  expect_row(&profile, 0, PROFILE_ITERATION, 4, (BatchShape){0, 0, 3, 6011, 3}, 10150);
  expect_row(&profile, 1, PROFILE_ITERATION, 4, (BatchShape){0, 0, 9, 900, 9}, 7000);
  cr_expect_eq(profile.rows[0].samples, 8);
  cr_expect_str_eq(profile.rows[0].model, "llama3.1-70b");
  cr_expect_str_eq(profile.rows[0].gpu, "h100-80gb");
  cr_expect_str_eq(profile_fact(&profile, "steps_left_out_speculative"), "1");
}

Test(import, steps_of_sglang_are_its_own) {
  Profile profile;
  const char *text = "{\"engine\": \"sglang\", \"engine_version\": \"0.5.23\", \"model\": "
                     "\"org/llama3-8b\", \"gpu\": \"h100-80gb\", \"dtype\": \"bfloat16\", "
                     "\"quantization\": \"w8a8_fp8\", \"cache_dtype\": \"float8_e4m3fn\"}\n"
                     "{\"decode\": [7, 1000], \"us\": 9000}\n"
                     "{\"decode\": [8, 3000], \"us\": 9900}\n";
  cr_assert_eq(import_text("vllm-log", text, &profile), 0, "%s", first_message());
  cr_expect_str_eq(profile_fact(&profile, "engine"), "sglang");
  cr_expect_str_eq(profile_fact(&profile, "engine_version"), "0.5.23");
  cr_expect_str_eq(profile_fact(&profile, "weight_dtype"), "fp8");
  cr_expect_str_eq(profile_fact(&profile, "kv_cache_dtype"), "fp8");
}

Test(import, steps_of_vllm_from_its_log) {
  const char *text =
      "INFO Initializing a V1 LLM engine (v0.24.0) with config: model='org/m', "
      "dtype=torch.bfloat16, tensor_parallel_size=2, quantization=fp8, kv_cache_dtype=auto, "
      "seed=0\n"
      "INFO Chunked prefill is enabled with max_num_batched_tokens=1500.\n"
      "INFO GPU KV cache size: 100,000 tokens\n"
      "INFO Iteration(1): 2 context requests, 1000 context tokens, 0 generation requests, "
      "0 generation tokens, iteration elapsed time: 40.50 ms, GPU KV cache usage: 1.0%\n"
      "INFO Iteration(2): 1 context requests, 500 context tokens, 2 generation requests, "
      "2 generation tokens, iteration elapsed time: 30.00 ms, GPU KV cache usage: 1.5%\n"
      "INFO Iteration(3): 0 context requests, 0 context tokens, 2 generation requests, "
      "2 generation tokens, iteration elapsed time: 9.00 ms\n"
      "INFO Iteration(4): 0 context requests, 0 context tokens, 2 generation requests, "
      "6 generation tokens, iteration elapsed time: 9.00 ms, GPU KV cache usage: 1.5%\n"
      "INFO Iteration(5): 1 context requests, 1498 context tokens, 2 generation requests, "
      "2 generation tokens, iteration elapsed time: 60.00 ms, GPU KV cache usage: 2.5%\n"
      "INFO Iteration(6): 1 context requests, 700 context tokens, 2 generation requests, "
      "2 generation tokens, iteration elapsed time: 35.00 ms, GPU KV cache usage: 3.2%\n";
  const char *path = temp_file(text, strlen(text), &arena);
  const ImportInput input = {.path = path, .gpu = "g", .data_dir = data_dir};
  Profile profile;
  profile_init(&profile, path, &arena);
  cr_assert_eq(import_profile(importer_find("vllm-log"), &input, &profile, &diag), 0);
  cr_assert_eq(profile.n_rows, 3);
  expect_row(&profile, 0, PROFILE_ITERATION, 2, (BatchShape){1000, 500000, 0, 0, 2}, 40500);
  expect_row(&profile, 1, PROFILE_ITERATION, 2, (BatchShape){500, 250000, 2, 1000, 3}, 30000);
  expect_row(&profile, 2, PROFILE_ITERATION, 2, (BatchShape){1498, 1498 * 1498, 2, 1002, 3}, 60000);
  cr_expect_str_eq(profile.rows[0].model, "m");
  cr_expect_str_eq(profile_fact(&profile, "engine_version"), "0.24.0");
  cr_expect_str_eq(profile_fact(&profile, "weight_dtype"), "fp8");
  cr_expect_str_eq(profile_fact(&profile, "steps_left_out_unknown_past"), "1");
  cr_expect_str_eq(profile_fact(&profile, "steps_left_out_no_context"), "1");
  cr_expect_str_eq(profile_fact(&profile, "steps_left_out_speculative"), "1");
  unlink(path);
}

Test(import, steps_of_vllm_that_are_not) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{\"model\": \"m\", \"gpu\": \"g\", \"pipeline_parallel_size\": 2}\n",
       "the steps of a pipeline overlap: their times are not those of one batch alone"},
      {"{\"model\": \"m\", \"gpu\": \"g\"}\n{\"decode_seqs\": 3, \"context_tokens\": 2, "
       "\"us\": 9}\n",
       "'decode_seqs' must be at most 'context_tokens', not '3'"},
      {"{\"model\": \"m\", \"gpu\": \"g\"}\n{\"prompt_tokens\": 1, \"output_tokens\": 1, "
       "\"arrived_us\": 9, \"first_token_us\": 8, \"last_token_us\": 9}\n",
       "a request must have tokens and its times must ascend: arrival, first token, last token"},
      {"{\"model\": \"m\", \"gpu\": \"g\"}\n{\"decode\": [0], \"us\": 9000}\n",
       "'decode' must be a list of contexts, each at least 1, not '0'"},
      {"{\"model\": \"m\", \"gpu\": \"g\"}\n{\"prefill\": [[5]], \"us\": 9000}\n",
       "'prefill' must be a list of [new tokens, past tokens], not '[5]'"},
      {"{\"model\": \"m\", \"gpu\": \"g\"}\n{\"us\": 9000}\n", "the step has no tokens"},
      {"Iteration(1): 2 context requests, 1000 cont\n", "the line of an iteration is not complete"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    cr_expect_eq(import_text("vllm-log", cases[i].text, &profile), -1);
    cr_expect_str_eq(first_message(), cases[i].message, "%s", first_message());
  }
}
