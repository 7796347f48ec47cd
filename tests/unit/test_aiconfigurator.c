/* Layers composed of AIConfigurator's tables. Pinned: the rows of a model of two layers, added up
 * by hand from a few lines of each table; which lines are taken; where what is lacking is
 * reported. */
#include "perfmodel/compose/kernel_table.h"
#include "perfmodel/import/import.h"
#include "tests/unit/small_model.h"
#include "tests/unit/testing.h"

#define GEMM "gemm_dtype,kernel_source,m,n,k,latency_us\n"
static const char PRODUCTS[] = GEMM "bfloat16,torch,1,64,64,10\nbfloat16,torch,3,64,64,14\n"
                                    "bfloat16,torch,1,64,32,5\nbfloat16,torch,3,64,32,6\n"
                                    "bfloat16,torch,1,128,64,20\nbfloat16,torch,5,128,64,40\n"
                                    "bfloat16,torch,1,32,64,4\nbfloat16,torch,3,32,64,4\n"
                                    "fp8,cutlass,7,64,64,1\n";
#define ATTENTION                                                                                  \
  "kernel_source,attn_dtype,kv_cache_dtype,head_dim,num_heads,num_key_value_heads,batch_size,isl," \
  "step,latency_us\n"
static const char CONTEXT[] = ATTENTION "fa3,bfloat16,bfloat16,16,2,1,2,8,0,11\n"
                                        "fa3,bfloat16,bfloat16,16,4,2,2,8,0,99\n"
                                        "fa3,bfloat16,fp8,16,2,1,2,8,0,99\n"
                                        "fa3,bfloat16,bfloat16,16,2,1,2,8,4,13\n"
                                        "fa3,bfloat16,bfloat16,16,2,1,1000000,1000,4,13\n";
static const char GENERATION[] = ATTENTION "fa3,bfloat16,bfloat16,16,2,1,3,1,7,6\n"
                                           "fa3,bfloat16,bfloat16,32,2,1,3,1,7,99\n"
                                           "fa3,bfloat16,bfloat16,16,2,1,3,1,1,5\n";
static const char ALL_REDUCE[] = "op_name,dtype,variant,num_gpus,message_size,bytes,latency_us\n"
                                 "all_reduce,bfloat16,vllm_graph,2,64,128,7\n"
                                 "all_reduce,bfloat16,vllm_graph,2,192,384,9\n"
                                 "all_reduce,bfloat16,vllm_eager,2,64,128,99\n"
                                 "all_reduce,bfloat16,vllm_graph,4,64,128,99\n";

static ImportInput input;

static void setup_tables(void) {
  setup_folder();
  write_file(in_folder("slow.yaml"), MACHINE);
  write_file(in_folder("small.yaml"), MODEL);
  write_file(in_folder("gemm.csv"), PRODUCTS);
  write_file(in_folder("context_attention.csv"), CONTEXT);
  write_file(in_folder("generation_attention.csv"), GENERATION);
  write_file(in_folder("custom_allreduce.csv"), ALL_REDUCE);
  input = (ImportInput){.path = folder,
                        .model = in_folder("small.yaml"),
                        .data_dir = data_dir,
                        .machine = in_folder("slow.yaml"),
                        .engine = "vllm-9.9",
                        .tensor_parallel_size = 2};
}

TestSuite(aiconfigurator, .init = setup_tables, .fini = teardown_folder);

static int import_tables(Profile *profile) {
  diag.n_entries = diag.n_dropped = 0;
  profile_init(profile, folder, &arena);
  return import_profile(importer_find("aiconfigurator"), &input, profile, &diag);
}

static Profile imported(void) {
  Profile profile;
  const int status = import_tables(&profile);
  cr_assert_eq(status, 0, "%s", diag.n_entries ? diag.entries[0].message : "no message");
  return profile;
}

/* The time of the row of a batch; there must be one. */
static double time_of(const Profile *profile, ProfileOp op, BatchShape batch) {
  for (size_t i = 0; i < profile->n_rows; i++)
    if (profile->rows[i].op == op && batch_compare(&profile->rows[i].batch, &batch) == 0)
      return profile->rows[i].median_us;
  cr_assert_fail("no row of %s", profile_op_name(op));
  return 0;
}

static void expect_time(const Profile *profile, ProfileOp op, BatchShape batch, double us) {
  cr_expect_float_eq(time_of(profile, op, batch), us, 1e-9 * us, "%s takes %.9g us, not %.9g",
                     profile_op_name(op), time_of(profile, op, batch), us);
}

/* Each kernel beside the products launches in 3 us. A norm moves 4·64·2 bytes a token, 64 us; RoPE
 * 2·(32 + 2·16)·2, 32 us; K and V into the cache 2·2·16·2, 16 us; the activation 3·64·2, 48 us; the
 * embedding 2·64·2, 32 us. 50 logits are moved at 6 bytes, and all 100 reduced. */
Test(aiconfigurator, a_layer_is_the_sum_of_what_one_gpu_runs) {
  const Profile profile = imported();
  const double one = 67 + 35 + 19 + 10 + 5 + 7 + 67 + 51 + 20 + 10 + 7;
  const double three = 195 + 99 + 51 + 14 + 6 + 9 + 195 + 147 + 30 + 14 + 9;
  const double five =
      (323 + 163 + 83 + 14 * 5 / 3. + 6 * 5 / 3. + 15) + (323 + 243 + 40 + 14 * 5 / 3. + 15);
  expect_time(&profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = 1}, 2 * one + 35);
  expect_time(&profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = 3}, 2 * three + 99);
  expect_time(&profile, PROFILE_LINEAR, (BatchShape){.prefill_tokens = 5}, 2 * five + 163);
  expect_time(&profile, PROFILE_HEAD, (BatchShape){.logit_seqs = 1}, // 50 columns of 32 and 64
              67 + (4 + 0.5625 * 6) + 40.5 + 7.5625);
  expect_time(&profile, PROFILE_HEAD, (BatchShape){.logit_seqs = 3},
              195 + (4 + 0.5625 * 10) + 115.5 + 9 * 300 / 192.);
  expect_time(&profile, PROFILE_PREFILL_ATTENTION,
              (BatchShape){.prefill_tokens = 16, .prefill_area2 = 128}, 22);
  expect_time(&profile, PROFILE_PREFILL_ATTENTION,
              (BatchShape){.prefill_tokens = 16, .prefill_area2 = 256}, 26);
  expect_time(&profile, PROFILE_DECODE_ATTENTION,
              (BatchShape){.decode_seqs = 3, .context_tokens = 24}, 12);
  cr_expect_eq(profile.n_rows, 2 * 3 + 2 + 2);
  cr_expect_str_eq(profile_fact(&profile, "engine"), "vllm");
  cr_expect_str_eq(profile_fact(&profile, "engine_version"), "9.9");
  cr_expect_str_eq(profile_fact(&profile, "weight_dtype"), "bf16");
  cr_expect_str_eq(profile_fact(&profile, "rows_beyond_memory_left_out"), "2"); // 8 and 1000 tokens
}

Test(aiconfigurator, a_head_wider_than_the_table_is_several_products) {
  input.tensor_parallel_size = 1;
  write_file(in_folder("gemm.csv"), GEMM "bfloat16,torch,1,32,64,4\nbfloat16,torch,1,64,64,10\n");
  write_file(in_folder("context_attention.csv"),
             ATTENTION "fa3,bfloat16,bfloat16,16,4,2,2,8,0,11\n");
  write_file(in_folder("generation_attention.csv"),
             ATTENTION "fa3,bfloat16,bfloat16,16,4,2,2,1,8,11\n");
  const Profile profile = imported();
  expect_time(&profile, PROFILE_HEAD, (BatchShape){.logit_seqs = 1},
              67 + 2 * (4 + 0.5625 * 6) + 78);
}

Test(aiconfigurator, the_wheels_own_columns_are_milliseconds) {
  write_file(in_folder("generation_attention.csv"),
             "framework,version,device,op_name,kernel_source,attn_dtype,kv_cache_dtype,head_dim,"
             "num_heads,num_key_value_heads,batch_size,isl,step,beam_width,window_size,latency\n"
             "VLLM,1,H100,gen,fa3,bfloat16,bfloat16,16,2,1,3,1,7,1,0,0.006\n"
             "VLLM,1,H100,gen,fa3,bfloat16,bfloat16,16,2,1,3,1,7,1,128,0.002\n");
  const Profile profile = imported();
  expect_time(&profile, PROFILE_DECODE_ATTENTION,
              (BatchShape){.decode_seqs = 3, .context_tokens = 24}, 12);
}

Test(aiconfigurator, what_is_lacking_is_located_and_the_nearest_named) {
  static const struct {
    const char *file, *text; // in place of the sound one
    const char *quantization, *engine;
    int64_t degree;
    const char *part, *hint;
    int line, column;
  } cases[] = {
      {NULL, NULL, "nvfp4", NULL, 2, "GPU 'slow' has no tensor cores for 'nvfp4'", "choose bf16", 0,
       0},
      {NULL, NULL, "fp7", NULL, 2, "unknown format 'fp7'", "did you mean 'fp8'", 0, 0},
      {NULL, NULL, "int8", NULL, 2, "no row has 'gemm_dtype' int8_wo", "bfloat16, fp8", 1, 1},
      {NULL, NULL, NULL, "vlm", 2, "unknown engine 'vlm'", "did you mean 'vllm'", 0, 0},
      {NULL, NULL, NULL, NULL, 3, "tensor_parallel_size 3 does not divide the heads", NULL, 0, 0},
      {NULL, NULL, NULL, NULL, 4, "no row has 'num_heads' 1",
       "nearest values that were measured: 2", 1, 50},
      {"gemm.csv", GEMM "bfloat16,torch,1,64,64,-10\n", NULL, NULL, 2,
       "'latency_us' must be a number above 0", NULL, 2, 24},
      {"gemm.csv", GEMM, NULL, NULL, 2, "the table has no rows", NULL, 0, 0},
      {"gemm.csv", "gemm_dtype,m,n,k,latency_us,colour\n", NULL, NULL, 2, "unknown column 'colour'",
       NULL, 1, 29},
      {"gemm.csv", "gemm_dtype,m,n,k\n", NULL, NULL, 2,
       "one of the columns 'latency_us' and 'latency' (milliseconds) is required", NULL, 1, 1},
      {"custom_allreduce.csv", "num_gpus,variant,message_size,latency_us\n8,vllm_graph,64,1\n",
       NULL, NULL, 2, "no row has 'num_gpus' 2", "8", 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Profile profile;
    teardown_folder();
    setup_tables();
    if (cases[i].file) write_file(in_folder(cases[i].file), cases[i].text);
    if (cases[i].engine) input.engine = cases[i].engine;
    input.quantization = cases[i].quantization;
    input.tensor_parallel_size = cases[i].degree;
    cr_expect_eq(import_tables(&profile), -1, "case %zu", i);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].part);
    const char *hint = diag.entries[0].hint;
    if (cases[i].hint)
      cr_expect(hint && strstr(hint, cases[i].hint), "case %zu: %s", i, hint ? hint : "no hint");
  }
}

Test(aiconfigurator, parquet_is_told_how_to_become_csv) {
  Profile profile;
  unlink(in_folder("gemm.csv"));
  write_file(in_folder("gemm_perf.parquet"), "PAR1");
  cr_expect_eq(import_tables(&profile), -1);
  cr_expect_str_eq(diag.entries[0].message, "Parquet is not supported, CSV is");
  cr_expect(strstr(diag.entries[0].hint, "duckdb -c \"COPY (SELECT * FROM '"));
}

Test(aiconfigurator, tables_need_not_be_full) {
  static const KernelPoint points[] = {
      {{1, 10}, 8}, {{1, 20}, 12}, {{3, 10}, 20}, {{1, 10}, 9}, // there twice: the least stays
  };
  KernelTable table = {.n_keys = 2};
  for (size_t i = 0; i < COUNT(points); i++)
    kernel_table_add(&table, &points[i], &arena);
  kernel_table_sort(&table);
  cr_expect_eq(table.n_points, 3);
  static const struct {
    double keys[2], us;
  } cases[] = {
      {{1, 10}, 8},  {{1, 15}, 10}, {{2, 10}, 14}, {{0, 1}, 8},
      {{1, 40}, 24}, {{6, 5}, 40},  {{3, 20}, 40}, {{2, 20}, (12 + 40) / 2.},
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    cr_expect_float_eq(kernel_slice_eval(kernel_table_all(&table), cases[i].keys), cases[i].us,
                       1e-12, "case %zu", i);
}
