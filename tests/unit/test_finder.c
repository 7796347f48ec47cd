/* Setups and their files. Pinned: that names read back, what a name is not, which file is taken of
 * those there are and what is said of it, what is said where there is none, that a file is what its
 * name says, and that every shipped file is. Not pinned: the times in them. */
#include "base/folder.h"
#include "perfmodel/finder.h"
#include "tests/unit/testing.h"
#include <sys/stat.h>

TestSuite(finder, .init = setup_folder, .fini = teardown_folder);

static const PerfSetup asked = {.model = "llama3.1-70b",
                                .gpu = "h100-80gb",
                                .engine = "vllm",
                                .weight_dtype = DTYPE_FP8,
                                .kv_cache_dtype = DTYPE_BF16,
                                .tensor_parallel_size = 4};

/* Writes the file of a setup into the folder that stands for perfmodel/. */
static void add_file(PerfSetup of, const char *version, const char *said_model) {
  of.engine_version = version;
  const char *root = in_folder("fitted");
  const char *of_engine = arena_printf(&arena, "%s/%s", root, setup_engine_name(&of, &arena));
  mkdir(root, 0777);
  mkdir(of_engine, 0777);
  write_file(
      arena_printf(&arena, "%s/%s.yaml", of_engine, setup_name(&of, &arena)),
      arena_printf(&arena,
                   "form: composed\nmodel: %s\ngpu: %s\ntensor_parallel_size: %d\n"
                   "engine: %s\nengine_version: %s\nweight_dtype: %s\nkv_cache_dtype: %s\n"
                   "attention_data_parallel_size: %d\noverhead: 0 s\n"
                   "linear: {knots: [[1, 0.001], [8, 0.002]]}\nprefill_attention: none\n"
                   "decode_attention: none\nhead: none\n",
                   said_model, of.gpu, (int)of.tensor_parallel_size, of.engine, version,
                   dtype_names[of.weight_dtype], dtype_names[of.kv_cache_dtype],
                   of.attention_data_parallel_size > 0 ? (int)of.attention_data_parallel_size : 1));
}

static void remove_files(void) {
  const char *root = in_folder("fitted");
  for (const char *const *of = folder_names(root, "*", &arena); *of; of++) {
    const char *engine = arena_printf(&arena, "%s/%s", root, *of);
    for (const char *const *name = folder_names(engine, "*", &arena); *name; name++)
      unlink(arena_printf(&arena, "%s/%s", engine, *name));
    rmdir(engine);
  }
  rmdir(root);
}

Test(finder, names_read_back) {
  PerfSetup setups[] = {asked, asked, asked, asked};
  setups[1].kv_cache_dtype = DTYPE_FP8;
  setups[2].weight_dtype = DTYPE_FP8_BLOCK;
  setups[2].attention_data_parallel_size = 8;
  setups[2].expert_parallel_size = 16;
  setups[3].engine = NULL;
  setups[3].weight_dtype = DTYPE_BF16;
  setups[3].model = "my_model_tp";
  static const char *const names[] = {
      "llama3.1-70b_h100-80gb_tp4_fp8", "llama3.1-70b_h100-80gb_tp4_fp8_kvfp8",
      "llama3.1-70b_h100-80gb_tp4_dp8_ep16_fp8_block", "my_model_tp_h100-80gb_tp4"};
  for (size_t i = 0; i < COUNT(setups); i++) {
    PerfSetup back = {.engine = setups[i].engine};
    cr_expect_str_eq(setup_name(&setups[i], &arena), names[i]);
    cr_assert(setup_parse_name(&back, names[i], &arena), "%s", names[i]);
    cr_expect_str_eq(setup_name(&back, &arena), names[i]);
    cr_expect(setup_serves(&back, &setups[i]), "%s", names[i]);
  }
}

Test(finder, what_is_no_name_is_not_taken_for_one) {
  static const char *const names[] = {"",
                                      "a_b",
                                      "a_b_tp",
                                      "b_tp4",
                                      "_b_tp4",
                                      "a__tp4",
                                      "a_b_tp4_fp7",
                                      "a_b_tp4_fp8_kv",
                                      "a_b_tp0",
                                      "a_b_tp4x",
                                      "a_b_tp99999999999999999999",
                                      "a_b_tp4_dp_fp8"};
  PerfSetup setup = {0};
  for (size_t i = 0; i < COUNT(names); i++)
    cr_expect(!setup_parse_name(&setup, names[i], &arena), "%s", names[i]);
  static const char *const folders[] = {"", "vllm", "splitwise-2023", "splitwise-sim", "-0.1"};
  for (size_t i = 0; i < COUNT(folders); i++)
    cr_expect(!setup_parse_folder(&setup, folders[i], &arena), "%s", folders[i]);
  cr_assert(setup_parse_folder(&setup, "trtllm-1.3.0rc20", &arena));
  cr_expect_str_eq(setup.engine, "trtllm");
  cr_expect_str_eq(setup.engine_version, "1.3.0rc20");
}

/* The folder has no tables, so nothing is composed. */
static ComposeInput input_of(const PerfSetup *setup, Place at) {
  return (ComposeInput){.setup = *setup, .data_dir = folder, .at = at};
}

Test(finder, the_nearest_version_is_taken_and_said) {
  static const char *const versions[] = {"0.9.2", "0.14.0", "0.24.0"};
  for (size_t i = 0; i < COUNT(versions); i++)
    add_file(asked, versions[i], asked.model);
  const struct {
    const char *version, *taken;
    Dtype kv;
  } cases[] = {
      {NULL, "vllm-0.24.0/llama3.1-70b_h100-80gb_tp4_fp8", DTYPE_BF16},
      {"0.24", "vllm-0.24.0/llama3.1-70b_h100-80gb_tp4_fp8", DTYPE_BF16},
      {"0.33", "vllm-0.24.0/llama3.1-70b_h100-80gb_tp4_fp8, version 0.24.0 for 0.33", DTYPE_BF16},
      {"0.12", "vllm-0.14.0/llama3.1-70b_h100-80gb_tp4_fp8, version 0.14.0 for 0.12", DTYPE_BF16},
      {"0.9.2", "vllm-0.9.2/llama3.1-70b_h100-80gb_tp4_fp8, KV cache in bf16 for fp8", DTYPE_FP8}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    PerfSetup wanted = asked;
    PerfModel model;
    wanted.engine_version = cases[i].version;
    wanted.kv_cache_dtype = cases[i].kv;
    const ComposeInput input = input_of(&wanted, place_of_file("a"));
    cr_assert_eq(perfmodel_load_nearest(&model, &input, false, 4, &arena, &diag), 0, "case %zu", i);
    cr_expect_str_eq(model.taken, cases[i].taken);
  }
  remove_files();
}

Test(finder, what_does_not_serve_is_named_nearest_first) {
  add_file(asked, "0.24.0", asked.model);
  PerfSetup other = asked;
  other.gpu = "a100-80gb";
  add_file(other, "0.24.0", asked.model);
  PerfSetup wanted[] = {asked, asked, asked};
  wanted[0].weight_dtype = DTYPE_BF16;
  wanted[1].attention_data_parallel_size = 2;
  wanted[2].engine = "sglang";
  for (size_t i = 0; i < COUNT(wanted); i++) {
    PerfModel model;
    diag_done(&diag);
    diag_init(&diag);
    const Place at = {.path = "a.yaml", .line = 3, .column = 2, .width = 1};
    const ComposeInput input = input_of(&wanted[i], at);
    cr_assert_eq(perfmodel_load_nearest(&model, &input, true, 4, &arena, &diag), -1);
    expect_entry(&diag, 0, 3, 2, "there are no iteration times of llama3.1-70b_h100-80gb_tp4",
                 "case");
    cr_expect_not_null(strstr(diag.entries[0].hint,
                              "are vllm-0.24.0/llama3.1-70b_h100-80gb_tp4_fp8, vllm-0.24.0/"
                              "llama3.1-70b_a100-80gb_tp4_fp8"),
                       "%s", diag.entries[0].hint);
  }
  remove_files();
}

Test(finder, a_file_of_another_name_is_refused) {
  PerfModel model;
  add_file(asked, "0.24.0", "llama3.1-8b");
  const ComposeInput input = input_of(&asked, place_of_file("a"));
  cr_assert_eq(perfmodel_load_nearest(&model, &input, false, 4, &arena, &diag), -1);
  cr_expect_not_null(strstr(diag.entries[0].message,
                            "belongs in 'vllm-0.24.0/llama3.1-8b_h100-80gb_tp4_fp8.yaml'"));
  remove_files();
}

Test(finder, every_shipped_file_is_what_its_name_says) {
  size_t n = 0;
  const PerfFile *files = finder_files(&asked, data_dir, &n, &arena);
  cr_assert_geq(n, 24, "%zu", n);
  for (size_t i = 0; i < n; i++) {
    PerfModel model;
    cr_assert_eq(perfmodel_load(&model, files[i].path, 4, &arena, &diag), 0, "%s", files[i].path);
    cr_expect_str_eq(model.name, files[i].name);
    if (!files[i].setup.engine) continue;
    cr_expect_str_eq(setup_engine_name(&model.setup, &arena), files[i].folder);
  }
}
