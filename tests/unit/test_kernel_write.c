/* Tables of kernels from profiles of `tandem calibrate`. Pinned: their bytes, which rows count,
 * what is refused, and that a model composed of them takes what was measured. */
#include "perfmodel/compose/compose.h"
#include "perfmodel/compose/kernel_write.h"
#include "tests/unit/testing.h"
#include <unistd.h>

static const char *made[16]; // files and folders, in the order in which they were made
static int n_made;

static void setup_write(void) {
  setup_folder();
  n_made = 0;
}

static void teardown_write(void) {
  while (n_made > 0)
    remove(made[--n_made]);
  teardown_folder();
}

TestSuite(kernel_write, .init = setup_write, .fini = teardown_write);

#define COLUMNS                                                                                    \
  "model,gpu,tensor_parallel_size,op,mode,cache,busy,configuration,prefill_tokens,prefill_area2,"  \
  "decode_seqs,context_tokens,logit_seqs,size,median_us,mad_us,p10_us,p90_us,samples,power_w,"     \
  "sm_clock_mhz,mem_clock_mhz,rates,roofline_fraction,stop\n"

static const char *text_of; // the rows so far

/* P, 2A, n, C, s and size of an operator, and its time. */
static void add(const char *op, const char *mode, const char *cache, const char *rates,
                const int64_t of[6], double us) {
  static int configuration;
  text_of = arena_printf(&arena,
                         "%sllama3-8b,h100-80gb,2,%s,%s,%s,,%d,%lld,%lld,%lld,%lld,%lld,%lld,%.9g,,"
                         ",,,,,,%s,,\n",
                         text_of, op, mode, cache, ++configuration, (long long)of[0],
                         (long long)of[1], (long long)of[2], (long long)of[3], (long long)of[4],
                         (long long)of[5], us, rates);
}

#define ADD(op, us, ...) add(op, "graph", "cold", "", (const int64_t[6]){__VA_ARGS__}, us)

/* Two GPUs of Llama-3-8B: 32 layers, 16 and 4 heads of 128, 7168 of the MLP, 64128 words. */
static Profile profile(const char *facts) {
  Profile profile;
  const char *text =
      arena_printf(&arena, "# date: 2026-11-26T09:15:20Z\n%s%s%s", facts, COLUMNS, text_of);
  cr_assert_eq(profile_parse(&profile, "test.csv", text, strlen(text), &arena, &diag), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  return profile;
}

static const char *table(const char *written, const char *name) {
  char *text = arena_alloc(&arena, 4096);
  const char *file = arena_printf(&arena, "%s/%s.csv", written, name);
  FILE *in = fopen(file, "r");
  if (!in) return NULL;
  text[fread(text, 1, 4095, in)] = '\0';
  fclose(in);
  made[n_made++] = file;
  while (*text == '#')
    text = strchr(text, '\n') + 1;
  return text;
}

static int write_tables(const Profile *profiles, size_t n, const char **ret_written) {
  const char *root = in_folder("tables");
  made[n_made++] = root;
  made[n_made++] = arena_printf(&arena, "%s/h100-80gb", root);
  made[n_made++] = arena_printf(&arena, "%s/h100-80gb/tandem-2026.11.26", root);
  return kernel_write(profiles, n, root, data_dir, ret_written, &arena, &diag);
}

Test(kernel_write, rows_become_curves_of_one_gpu_and_one_layer) {
  const char *written = NULL;
  text_of = "";
  ADD("linear", 3200, 1);
  ADD("linear", 6400, 64);
  ADD("linear", 9600, 64); // of three replicates the median
  ADD("linear", 3200, 64);
  add("linear", "eager", "cold", "", (const int64_t[6]){64}, 1);
  add("linear", "graph", "hot", "", (const int64_t[6]){64}, 1);
  add("linear", "graph", "cold", "sustained", (const int64_t[6]){64}, 1);
  ADD("head", 300, 0, 0, 0, 0, 8);
  ADD("prefill_attention", 320, 64, 64 * 64);
  ADD("prefill_attention", 960, 64, 64 * (64 + 2 * 512));
  ADD("prefill_attention", 640, 128, 128 * 64); // two prompts
  ADD("decode_attention", 160, 0, 0, 4, 4 * 128);
  ADD("decode_attention", 80, 0, 0, 4, 4 * 16);
  ADD("gemm_qkv", 7, 0, 0, 0, 0, 0, 16);
  ADD("gemm_down", 9, 0, 0, 0, 0, 0, 16);
  ADD("gemm_head", 90, 0, 0, 0, 0, 0, 1);
  ADD("all_reduce", 12, 0, 0, 0, 0, 0, 4096);
  ADD("all_reduce_peer", 5, 0, 0, 0, 0, 0, 4096);
  ADD("copy_h2d", 12, 0, 0, 0, 0, 0, 4096);
  const Profile rows = profile("");
  cr_assert_eq(write_tables(&rows, 1, &written), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  cr_expect_str_eq(strrchr(written, '/'), "/tandem-2026.11.26");
  cr_expect_str_eq(table(written, "linear"),
                   "gemm_dtype,hidden_size,num_heads,num_key_value_heads,head_dim,inter_size,gated,"
                   "num_tokens=1,num_tokens=64\nbfloat16,4096,16,4,128,7168,1,100,200\n");
  cr_expect_str_eq(table(written, "head"),
                   "gemm_dtype,hidden_size,vocab_size,num_tokens=8\nbfloat16,4096,64128,300\n");
#define HEADS                                                                                      \
  "kernel_source,attn_dtype,kv_cache_dtype,head_dim,num_heads,num_key_value_heads,window_size,"    \
  "batch_size"
#define OWN "tandem,bfloat16,bfloat16,128,16,4,0,"
  cr_expect_str_eq(table(written, "context_attention"),
                   HEADS ",step,isl=64\n" OWN "1,0,10\n" OWN "1,512,30\n" OWN "2,0,20\n");
  cr_expect_str_eq(table(written, "generation_attention"),
                   HEADS ",step=15,step=127\n" OWN "4,2.5,5\n");
  cr_expect_str_eq(table(written, "gemm"), "gemm_dtype,n,k,m=1,m=16\nbfloat16,3072,4096,,7\n"
                                           "bfloat16,4096,7168,,9\nbfloat16,64128,4096,90,\n");
  cr_expect_str_eq(table(written, "custom_allreduce"),
                   "backend,allreduce_dtype,num_gpus,message_size=2048\ntandem,bfloat16,2,5\n");
}

Test(kernel_write, what_is_no_kernel_of_one_gpu_is_refused) {
  const char *written = NULL;
  text_of = "";
  ADD("iteration", 300, 64, 4096, 0, 0, 1);
  ADD("iteration", 400, 128, 16384, 0, 0, 1);
  const Profile whole = profile("");
  cr_expect_eq(write_tables(&whole, 1, &written), -1);
  expect_entry(&diag, 0, 0, 0, "the profile has no operators in graphs", "iterations");
  ADD("linear", 3200, 1);
  const Profile engine = profile("# engine: vllm\n"), wide = profile("# dtype: fp32\n");
  cr_expect_eq(write_tables(&engine, 1, &written), -1);
  cr_expect_eq(write_tables(&wide, 1, &written), -1);
  cr_expect_eq(diag.n_entries, 3);
}

/* One of two GPUs of Llama-3-8B, without all-reduces: the sum is that of the rows. */
Test(kernel_write, what_is_composed_of_them_takes_what_was_measured) {
  const char *written = NULL;
  text_of = "";
  for (int64_t tokens = 1; tokens <= 8192; tokens *= 2) {
    ADD("linear", 3200 + 64 * (double)tokens, tokens);
    if (tokens <= 256) ADD("head", 300 + (double)tokens, 0, 0, 0, 0, tokens);
    if (tokens >= 16) ADD("prefill_attention", 32 + 0.32 * (double)tokens, tokens, tokens * tokens);
    for (int64_t n = 1; n <= 64; n *= 4)
      ADD("decode_attention", 64 + 0.032 * (double)(n * tokens), 0, 0, n, n * (tokens + 1));
  }
  const Profile rows = profile("");
  cr_assert_eq(write_tables(&rows, 1, &written), 0);
  for (const char *const *name = (const char *const[]){"linear", "head", "context_attention",
                                                       "generation_attention", NULL};
       *name; name++)
    cr_assert_not_null(table(written, *name), "%s", *name);
  Llm llm;
  Hardware hardware;
  PerfModel model;
  const Place at = place_of_file("a");
  cr_assert_eq(llm_load(&llm, "llama3-8b", data_dir, at, &arena, &diag), 0);
  cr_assert_eq(hardware_load(&hardware, "dgx-h100", data_dir, at, &arena, &diag), 0);
  const ComposeInput input = {.setup = {.model = "llama3-8b",
                                        .gpu = "h100-80gb",
                                        .engine = KERNELS_TANDEM,
                                        .weight_dtype = DTYPE_BF16,
                                        .kv_cache_dtype = DTYPE_BF16,
                                        .tensor_parallel_size = 2},
                              .llm = &llm,
                              .hardware = &hardware,
                              .data_dir = folder,
                              .alone = true,
                              .at = at};
  cr_assert_eq(compose_load(&model, &input, written, 64, &arena, &diag), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  cr_expect_str_eq(model.kernels, KERNELS_TANDEM);
  cr_expect_str_eq(model.taken, "");
  const struct {
    BatchShape batch;
    double us;
  } cases[] = {
      {{.prefill_tokens = 512, .prefill_area2 = 512 * 512, .logit_seqs = 1},
       3200 + 64 * 512 + 32 + 0.32 * 512 + 301},
      {{.prefill_tokens = 4096, .prefill_area2 = INT64_C(4096) * 4096, .logit_seqs = 1},
       3200 + 64. * 4096 + 32 + 0.32 * 4096 + 301},
      {{.decode_seqs = 16, .context_tokens = 16 * 513, .logit_seqs = 16},
       3200 + 64 * 16 + 64 + 0.032 * 16 * 512 + 316},
  };
  // a window that nobody measured: decodes are those of so long a context
  PerfModel windowed;
  llm.sliding_window = 64;
  llm.num_sliding_layers = llm.num_hidden_layers;
  cr_assert_eq(compose_load(&windowed, &input, written, 64, &arena, &diag), 0);
  cr_expect_lt(perfmodel_iteration(&windowed, &cases[2].batch, NULL),
               perfmodel_iteration(&model, &cases[2].batch, NULL));
  for (size_t i = 0; i < COUNT(cases); i++) {
    const double us = 1e6 * tick_seconds(perfmodel_iteration(&model, &cases[i].batch, NULL));
    cr_expect(us > 0.98 * cases[i].us && us < 1.02 * cases[i].us, "case %zu: %g, not %g us", i, us,
              cases[i].us);
  }
}
