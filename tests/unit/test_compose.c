/* Models composed of tables of kernels. Pinned: tables of curves give what tables of single times
 * do; whose tables are taken; what is borrowed is named, with its share and error; the parts of a
 * hybrid of dense, latent, linear, sparse and expert layers, added up by hand from the shipped
 * tables. */
#include "perfmodel/compose/compose.h"
#include "perfmodel/compose/other_gpu.h"
#include "perfmodel/finder.h"
#include "tests/unit/small_model.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <sys/stat.h>

#define PRODUCTS                                                                                   \
  "# products\ngemm_dtype,n,k,m=1,m=8,m=64\nbfloat16,32,32,10,20,80\nbfloat16,32,128,20,40,160\n"  \
  "bfloat16,256,32,40,,320\nbfloat16,256,128,80,160,640\n"
#define HEADS                                                                                      \
  "kernel_source,attn_dtype,kv_cache_dtype,head_dim,num_heads,num_key_value_heads,window_size,"    \
  "batch_size"
static const char CONTEXT[] = HEADS ",step,isl=8,isl=64\n"
                                    "fa3,bfloat16,bfloat16,16,4,2,0,1,0,10,100\n"
                                    "fa3,bfloat16,bfloat16,16,4,2,0,4,0,40,400\n";
static const char GENERATION[] = HEADS ",step=1,step=63\n"
                                       "fa3,bfloat16,bfloat16,16,4,2,0,1,10,70\n"
                                       "fa3,bfloat16,bfloat16,16,4,2,0,64,20,640\n";

static Llm llm;
static Hardware hardware;
static const char *made[64]; // files and folders below `folder`, in the order in which they were
static int n_made;

static void note_made(const char *path) {
  cr_assert_lt(n_made, 64);
  made[n_made++] = path;
}

static void make_folder(const char *name) {
  if (mkdir(in_folder(name), 0777) == 0) note_made(in_folder(name));
}

/* FOLDER/tables/slow/ENGINE-VERSION/NAME.csv */
static void write_table(const char *engine, const char *name, const char *text) {
  const char *own = arena_printf(&arena, "tables/slow/%s", engine);
  const char *file = in_folder(arena_printf(&arena, "%s/%s.csv", own, name));
  make_folder("tables");
  make_folder("tables/slow");
  make_folder(own);
  note_made(file);
  write_file(file, text);
}

static void write_engine(const char *engine) {
  write_table(engine, "gemm", PRODUCTS);
  write_table(engine, "context_attention", CONTEXT);
  write_table(engine, "generation_attention", GENERATION);
}

static void setup_compose(void) {
  setup_folder();
  write_file(in_folder("slow.yaml"), MACHINE);
  write_file(in_folder("small.yaml"), MODEL);
  cr_assert_eq(llm_load(&llm, in_folder("small.yaml"), data_dir, place_of_file("a"), &arena, &diag),
               0);
  cr_assert_eq(
      hardware_load(&hardware, in_folder("slow.yaml"), data_dir, place_of_file("a"), &arena, &diag),
      0);
}

static void teardown_compose(void) {
  while (n_made > 0)
    remove(made[--n_made]);
  teardown_folder();
}

TestSuite(compose, .init = setup_compose, .fini = teardown_compose);

static ComposeInput asked(const char *engine, const char *version) {
  return (ComposeInput){.setup = {.model = "small",
                                  .gpu = "slow",
                                  .engine = engine,
                                  .engine_version = version,
                                  .weight_dtype = DTYPE_BF16,
                                  .kv_cache_dtype = DTYPE_BF16,
                                  .tensor_parallel_size = 1},
                        .llm = &llm,
                        .hardware = &hardware,
                        .data_dir = folder,
                        .at = place_of_file("a")};
}

static PerfModel composed(const ComposeInput *input) {
  PerfModel model;
  diag.n_entries = diag.n_dropped = 0;
  const int status = perfmodel_load_nearest(&model, input, false, 8, &arena, &diag);
  cr_assert_eq(status, 0, "%s", diag.n_entries ? diag.entries[0].message : "no message");
  return model;
}

/* Times between the points of a curve are on its line, those of a point that was left out as well:
 * 8 tokens of [256][32] are 40 + 7/63 · 280. */
Test(compose, a_table_of_curves_is_read_between_its_points) {
  write_engine("vllm-1.0");
  KernelFound found;
  const KernelQuery query = {
      .name = "gemm", .filters = {{"gemm_dtype", {"bfloat16"}}}, .keys = {"n", "k", "m"}};
  const char *tables = in_folder("tables/slow/vllm-1.0");
  cr_assert_eq(kernel_read(&found, &query, tables, NULL, &arena, &diag), 0);
  cr_expect_eq(found.table.n_points, 11);
  const KernelSlice all = kernel_table_all(&found.table);
  cr_expect_float_eq(kernel_slice_eval(all, (double[]){32, 32, 8}), 20, 1e-12);
  cr_expect_float_eq(kernel_slice_eval(all, (double[]){256, 32, 8}), 40 + 7. / 63 * 280, 1e-12);
  cr_expect_float_eq(kernel_slice_eval(all, (double[]){144, 32, 1}), 25, 1e-12);
}

/* Rows for 2 heads do not pass where those of 4 are asked for; the file may be gone by then. */
Test(compose, rows_are_read_once_for_queries_of_the_same_columns) {
  write_engine("vllm-1.0");
  KernelQuery query = {.name = "generation_attention",
                       .filters = {{"kv_cache_dtype", {"bfloat16"}}, {"num_heads", .number = 4}},
                       .keys = {"batch_size", "step"}};
  const char *tables = in_folder("tables/slow/vllm-1.0");
  KernelFound found;
  Cache *cache = cache_new(&arena);
  cr_assert_eq(kernel_read(&found, &query, tables, cache, &arena, &diag), 0);
  write_table("vllm-1.0", "generation_attention", HEADS ",step=1\n");
  query.filters[1].number = 2;
  cr_assert_eq(kernel_read(&found, &query, tables, cache, &arena, &diag), -1);
  cr_expect_str_eq(diag.entries[0].message, "no row has 'num_heads' 2");
  cr_expect_str_eq(diag.entries[0].hint, "the nearest values that were measured: 4");
  query.filters[1].number = 4;
  cr_assert_eq(kernel_read(&found, &query, tables, cache, &arena, &diag), 0);
  cr_expect_eq(found.table.n_points, 4);
  cr_expect_eq(found.table.points[3].us, 640);
  query.keys[0] = "num_heads"; // other columns are read anew
  cr_expect_eq(kernel_read(&found, &query, tables, cache, &arena, &diag), -1);
}

Test(compose, the_nearest_version_of_the_engine_is_taken) {
  write_engine("vllm-1.0");
  write_engine("vllm-3.0");
  write_engine("sglang-9.0");
  const struct {
    const char *engine, *version, *taken;
  } cases[] = {{"vllm", "1.2", "vllm-1.0/small_slow_tp1_bf16, version 1.0 for 1.2"},
               {"vllm", NULL, "vllm-3.0/small_slow_tp1_bf16"},
               {"sglang", "9.0", "sglang-9.0/small_slow_tp1_bf16"},
               {"trtllm", NULL,
                "sglang-9.0/small_slow_tp1_bf16, tables for trtllm of sglang-9.0 (100% of the "
                "time)"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const ComposeInput input = asked(cases[i].engine, cases[i].version);
    cr_expect_str_eq(composed(&input).taken, cases[i].taken);
  }
}

/* What the engine's own tables lack is another's: named, with its share, and the error of its term,
 * all of which it is, wider by 0.15. */
Test(compose, what_is_borrowed_is_named_and_widens_the_error) {
  write_engine("vllm-1.0");
  write_engine("sglang-9.0");
  const ComposeInput input = asked("sglang", "9.0");
  const PerfModel own = composed(&input);
  write_table("sglang-9.0", "generation_attention",
              HEADS ",step=1,step=63\nfa3,bfloat16,bfloat16,16,8,2,0,1,10,70\n");
  const PerfModel model = composed(&input);
  const char *named = strstr(model.taken, ", attention of decodes of vllm-1.0 (");
  cr_assert_not_null(named, "%s", model.taken);
  const double share = atof(strchr(named, '(') + 1) / 100;
  cr_expect(share > 0 && share < 1);
  for (int t = 0; t < PERF_TERMS; t++)
    cr_expect_float_eq(model.errors.of[t] - own.errors.of[t], t == PERF_DECODE_ATTENTION ? 0.15 : 0,
                       1e-12, "%s", perf_term_names[t]);
  cr_expect_geq(model.held_out_error, own.held_out_error);
  cr_expect_eq(model.digest, own.digest, "the same times are there");
}

Test(compose, another_format_of_the_kv_cache_is_said) {
  write_engine("vllm-1.0");
  ComposeInput input = asked("vllm", "1.0");
  input.setup.kv_cache_dtype = DTYPE_FP8;
  const PerfModel model = composed(&input);
  cr_expect_not_null(strstr(model.taken, "attention of decodes with a KV cache in bf16"), "%s",
                     model.taken);
}

Test(compose, what_nobody_measured_is_an_error) {
  write_engine("vllm-1.0");
  ComposeInput input = asked("vllm", "1.0");
  PerfModel model;
  cr_expect(compose_can(&input));
  input.setup.tensor_parallel_size = 2; // 2 heads
  cr_expect(!compose_can(&input));
  cr_expect_eq(perfmodel_load_nearest(&model, &input, false, 8, &arena, &diag), -1);
  cr_assert_geq(diag.n_entries, 2);
  cr_expect_not_null(strstr(diag.entries[0].message, "no iteration times of small_slow_tp2_bf16"));
  cr_expect_not_null(strstr(diag.entries[1].message, "no row has 'num_heads' 2"));
}

/* ---- Shipped tables ---- */

static double product_us(const Layers *layers, int dtype, double m, double n, double k) {
  return layers_product_us(layers, dtype, m, n, k);
}

/* Attention of `groups`, tensor parallel `tp`, and as many parts of the experts as GPUs, or one. */
static Layers shipped_in(const char *model, const char *machine, const char *engine, int64_t tp,
                         int64_t groups) {
  Layers layers = {.llm = {0}, .arena = &arena, .at = place_of_file("a")};
  const LlmFormats formats = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  cr_assert_eq(llm_load_as(&layers.llm, model, &formats, data_dir, layers.at, &arena, &diag), 0);
  cr_assert_eq(hardware_load(&layers.hardware, machine, data_dir, layers.at, &arena, &diag), 0);
  setup_parse_folder(&layers.setup, engine, &arena);
  layers.folder = arena_printf(&arena, "%s/tables/%s/%s", data_dir, layers.hardware.gpu, engine);
  layers.setup.weight_dtype = (int)llm_quantization(&layers.llm);
  layers.setup.kv_cache_dtype = layers.llm.kv_cache_dtype;
  layers.setup.tensor_parallel_size = tp;
  layers.setup.attention_data_parallel_size = groups;
  layers.setup.expert_parallel_size = groups > 1 ? tp * groups : 1;
  cr_assert_eq(layers_load(&layers, &diag), 0, "%s", diag.n_entries ? diag.entries[0].message : "");
  return layers;
}

static Layers shipped(const char *model, const char *machine, const char *engine, int64_t tp) {
  return shipped_in(model, machine, engine, tp, 1);
}

/* ---- Of another GPU ---- */

static Hardware type_of(const char *machine) {
  Hardware type;
  cr_assert_eq(hardware_load(&type, machine, data_dir, place_of_file("a"), &arena, &diag), 0);
  return type;
}

/* The same architecture first, then the nearest peaks; of another vendor none. */
Test(compose, the_most_similar_gpu_is_found) {
  static const char *const cases[][2] = {
      {"hgx-h20", "h100-80gb"},           {"hgx-h20-141gb", "h200-141gb"},
      {"gh200-96gb", "h100-80gb"},        {"gh200-144gb", "h200-141gb"},
      {"h100-80gb-pcie-x8", "h100-80gb"}, {"a100-40gb-x8", "a100-80gb"},
      {"a100-40gb-pcie-x8", "a100-80gb"}, {"l4-x8", "l40s-48gb"},
      {"rtx-4090", "l40s-48gb"},          {"a10-x8", "a100-80gb"},
      {"v100-32gb-x8", "a100-80gb"},
  };
  const char *const *gpus = compose_gpus(data_dir, &arena);
  Hardware found;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Hardware asked = type_of(cases[i][0]);
    cr_assert(other_gpu_find(&found, &asked, gpus, data_dir, &arena), "%s", cases[i][0]);
    cr_expect_str_eq(found.gpu, cases[i][1], "%s", cases[i][0]);
  }
  static const char *const none[] = {"mi300x-x8", "mi325x-x8", "mi355x-x8", "cpu"};
  for (size_t i = 0; i < 4; i++) {
    const Hardware asked = type_of(none[i]);
    cr_expect(!other_gpu_find(&found, &asked, gpus, data_dir, &arena), "%s", none[i]);
  }
  const Hardware h100 = type_of("dgx-h100"), h200 = type_of("dgx-h200"), h20 = type_of("hgx-h20");
  cr_expect_lt(other_gpu_error(&h200, &h100), other_gpu_error(&h20, &h100));
}

/* A product that is bound by compute takes as many times longer as the peaks differ, but for what
 * is no product; one that is bound by memory as the bandwidths; a GPU of the same rates as long. */
Test(compose, times_are_scaled_by_the_rates_of_the_bottleneck) {
  Layers self = shipped("llama3.1-8b", "dgx-h100", "vllm-0.24.0", 2);
  const Hardware h100 = self.hardware;
  const double large = layers_product_us(&self, DTYPE_BF16, 8192, 8192, 8192);
  const double small = layers_product_us(&self, DTYPE_BF16, 1, 8192, 8192);
  const double reduce = layers_curve_us(&self.all_reduce, 4 << 20);
  const double decode = layers_decode_us(&self, 64, 4096);
  other_gpu_scale(&self, &h100);
  cr_expect_float_eq(layers_product_us(&self, DTYPE_BF16, 8192, 8192, 8192) / large, 1, 1e-9);
  cr_expect_float_eq(layers_decode_us(&self, 64, 4096) / decode, 1, 1e-9);
  self.hardware.dense_bf16_flops /= 4;
  self.hardware.hbm_bandwidth /= 2;
  self.hardware.nvlink_bandwidth /= 3;
  other_gpu_scale(&self, &h100);
  const double bound = 1e6 * 2 * 8192. * 8192 * 8192 / hardware_product_rate(&h100, DTYPE_BF16);
  cr_expect_float_eq(layers_product_us(&self, DTYPE_BF16, 8192, 8192, 8192),
                     large + 3 * fmin(bound, large), 1e-3 * large);
  const double read = 1e6 * 2 * 8192. * 8192 / hardware_memory_rate(&h100);
  cr_expect_float_eq(layers_product_us(&self, DTYPE_BF16, 1, 8192, 8192), small + fmin(read, small),
                     5e-3 * small);
  const double after = layers_curve_us(&self.all_reduce, 4 << 20);
  cr_expect(after > 2 * reduce && after < 3 * reduce, "%g, %g", after, reduce);
  cr_expect(layers_decode_us(&self, 64, 4096) > 1.3 * decode, "of decodes");
  cr_assert_eq(self.n_borrowed, 2);
  cr_expect_str_eq(self.borrowed[0].from, "h100-80gb");
}

/* One measured GPU from another, against its own tables: the median error over sizes that README.md
 * gives as 3 to 5%. */
Test(compose, an_h200_from_an_h100_is_near_its_own_tables) {
  static const int64_t sizes[] = {1, 16, 64, 256, 1024, 4096};
  const Hardware h100 = type_of("dgx-h100"), h200 = type_of("dgx-h200");
  for (int64_t tp = 1; tp <= 4; tp *= 4) {
    const Layers own = shipped("qwen3-32b", "dgx-h200", "vllm-0.24.0", tp);
    Layers scaled = shipped("qwen3-32b", "dgx-h100", "vllm-0.24.0", tp);
    scaled.hardware = h200;
    other_gpu_scale(&scaled, &h100);
    for (int i = 0; i < 6; i++)
      cr_expect_float_eq(layers_linear_us(&scaled, sizes[i]) / layers_linear_us(&own, sizes[i]), 1,
                         0.15, "%lld tokens", (long long)sizes[i]);
    cr_expect_float_eq(layers_decode_us(&scaled, 64, 2048) / layers_decode_us(&own, 64, 2048), 1,
                       0.15);
  }
}

static double bytes_us(const Layers *layers, double bytes) {
  return 1e6 * bytes / (0.8 * (double)layers->hardware.hbm_bandwidth);
}

static const Borrowed *borrowed_as(const Layers *self, const char *what) {
  for (size_t i = 0; i < self->n_borrowed; i++)
    if (strstr(self->borrowed[i].what, what)) return &self->borrowed[i];
  return NULL;
}

/* NCCL was timed on up to 16 GPUs of GB200. On 32 the least message takes 16 steps more, each an
 * eighth of what 8 more took from 8 to 16 GPUs, and large ones 31/32 over 15/16 of the bytes. */
Test(compose, collectives_of_more_gpus_are_scaled_and_said_to_be) {
  const Layers on8 = shipped_in("deepseek-r1", "gb200-nvl72", "vllm-0.24.0", 1, 8);
  const Layers on16 = shipped_in("deepseek-r1", "gb200-nvl72", "vllm-0.24.0", 1, 16);
  const Layers on32 = shipped_in("deepseek-r1", "gb200-nvl72", "vllm-0.24.0", 1, 32);
  const double least = layers_curve_us(&on16.gather, 256), large = 1 << 26;
  const double step = (least - layers_curve_us(&on8.gather, 256)) / 8;
  cr_assert_gt(step, 0);
  cr_expect_float_eq(layers_curve_us(&on32.gather, 256), least + 16 * step, 1e-9);
  cr_expect_float_eq(layers_curve_us(&on32.gather, large),
                     least + 16 * step +
                         (layers_curve_us(&on16.gather, large) - least) * (31. / 32) / (15. / 16),
                     1e-6);
  cr_expect_null(borrowed_as(&on16, "all_gather"));
  const Borrowed *said = borrowed_as(&on32, "all_gather on 16 GPUs");
  cr_assert_not_null(said);
  cr_expect_float_eq(said->error, 0.15, 1e-12);
}

/* Where a GPU has tokens of its own and there are more GPUs than a token has experts, TensorRT-LLM
 * sends each to those alone; on as many as a token has experts it gathers all. */
Test(compose, tokens_go_to_the_gpus_of_their_experts_alone) {
  const Layers few = shipped_in("deepseek-r1", "gb200-nvl72", "trtllm-1.3.0rc20", 1, 8);
  const Layers many = shipped_in("deepseek-r1", "gb200-nvl72", "trtllm-1.3.0rc20", 1, 32);
  cr_expect(few.gather.path && !few.dispatch.path);
  cr_expect(!many.gather.path && many.prepare.path && many.dispatch.path && many.combine.path);
  cr_expect_null(borrowed_as(&many, "alltoall"));
  const Layers other = shipped_in("deepseek-r1", "gb200-nvl72", "sglang-0.5.14", 1, 32);
  cr_expect_not_null(borrowed_as(&other, "alltoall_dispatch"));
}

/* 256 experts on 48 GPUs, 6 on the one that has most: half way from 8 of 32 to 4 of 64. */
Test(compose, parts_that_do_not_divide_the_experts_are_between_those_that_do) {
  const Layers on32 = shipped_in("deepseek-r1", "gb200-nvl72", "sglang-0.5.14", 1, 32);
  const Layers on48 = shipped_in("deepseek-r1", "gb200-nvl72", "sglang-0.5.14", 1, 48);
  const Layers on64 = shipped_in("deepseek-r1", "gb200-nvl72", "sglang-0.5.14", 1, 64);
  cr_assert_not_null(borrowed_as(&on48, "experts in 32 and 64 parts"));
  cr_expect_null(borrowed_as(&on64, "experts in"));
  const KernelPoint *point = &on32.experts.table.points[on32.experts.table.n_points / 2];
  const double tokens = (double)point->key[0];
  const double half = (point->us + layers_curve_us(&on64.experts, tokens)) / 2;
  cr_expect_float_eq(layers_curve_us(&on48.experts, tokens), half, 1e-9 * half);
}

/* Llama 3.1 70B, bf16, on 4 H100: 80 layers, h 8192, 16 query heads and 2 of keys and values of 128
 * on a GPU, an MLP of 7168. Six kernels of 3 us beside: two norms of 8h, RoPE of 4q + 8kv, the
 * cache of 8kv, the activation of 6 widths. Two all-reduces. */
Test(compose, a_dense_layer_by_hand) {
  const Layers self = shipped("llama3.1-70b", "dgx-h100", "vllm-0.24.0", 4);
  const double m = 64, h = 8192, q = 16 * 128, kv = 2 * 128, width = 28672 / 4.;
  const double reduce = layers_curve_us(&self.all_reduce, m * h);
  const double products =
      product_us(&self, DTYPE_BF16, m, q + 2 * kv, h) + product_us(&self, DTYPE_BF16, m, h, q) +
      product_us(&self, DTYPE_BF16, m, 2 * width, h) + product_us(&self, DTYPE_BF16, m, h, width);
  const double beside =
      5 * 3 + bytes_us(&self, m * (16 * h + (4 * q + 8 * kv) + 8 * kv + 6 * width));
  const double us = 80 * (products + beside + 2 * reduce) + 3 + bytes_us(&self, 2 * m * 2 * h);
  cr_expect_float_eq(layers_linear_us(&self, 64) / us, 1, 1e-3, "%g, by hand %g",
                     layers_linear_us(&self, 64), us);
  Layers again = self;
  cr_expect_float_eq(layers_exchange_us(&again, 64) / (80 * 2 * reduce), 1, 1e-9);
  cr_expect_eq(layers_linear_us(&again, 64), layers_linear_us(&self, 64), "tables are as before");
}

/* Qwen3-235B-A22B on 8 H100: 94 layers of experts, h 4096, 8 query heads and 1 of keys and values
 * of 128 on a GPU, 128 experts, 8 a token; a norm of queries and keys beside. */
Test(compose, an_expert_layer_by_hand) {
  const Layers self = shipped("qwen3-235b-a22b", "dgx-h200", "vllm-0.24.0", 8);
  const int dtype = self.llm.attention_dtype;
  const bool narrow = dtype != DTYPE_BF16; // a norm then writes 8 bits, and queries are converted
  const double m = 64, h = 4096, q = 8 * 128, kv = 128;
  const double attention = product_us(&self, dtype, m, q + 2 * kv, h) +
                           product_us(&self, dtype, m, h, q) + (narrow ? 5 : 4) * 3 +
                           bytes_us(&self, m * ((narrow ? 7 : 8) * h + (4 * q + 8 * kv) +
                                                (4 * q + 8 * kv) + 8 * kv + (narrow ? 3 * q : 0)));
  const double experts = layers_curve_us(&self.experts, m) +
                         product_us(&self, DTYPE_BF16, m, 128, h) + 2 * 3 +
                         bytes_us(&self, m * ((narrow ? 7 : 8) * h + 4 * 128));
  const double reduce = layers_curve_us(&self.all_reduce, m * h);
  const double us = 94 * (attention + experts + 2 * reduce) + 3 + bytes_us(&self, 2 * m * 2 * h);
  cr_expect_float_eq(layers_linear_us(&self, 64) / us, 1, 1e-3, "%g, by hand %g",
                     layers_linear_us(&self, 64), us);
}

/* DeepSeek-V3's attention, of a table of whole modules: what is left of it without its products,
 * which count in linear. 16 heads on each of 8 GPUs. */
Test(compose, latent_attention_by_hand) {
  const Layers self = shipped("deepseek-v3", "dgx-h200", "vllm-0.24.0", 8);
  cr_assert(self.modules);
  const int dtype = self.llm.attention_dtype;
  const double m = 64, h = 7168, heads = 16;
  const double products = product_us(&self, dtype, m, 1536 + 576, h) +
                          product_us(&self, dtype, m, heads * 192, 1536) +
                          product_us(&self, dtype, m, h, heads * 128);
  cr_expect_float_eq(layers_latent_products_us(&self, m), products, 1e-9 * products);
  const double module =
      kernel_slice_eval(kernel_table_all(&self.decode.table), (double[]){m, 1024});
  cr_expect_float_eq(layers_decode_us(&self, 64, 1024) / (61 * fmax(3, module - products)), 1,
                     1e-3);
}

/* Qwen3.5-397B-A17B on 8 H200: h 4096; 45 layers of Gated DeltaNet with 2 key and 8 value heads of
 * 128 on a GPU; 15 layers of attention with 4 query heads and 1 of keys and values of 256 and a
 * gate of as many numbers as queries; 60 layers of 512 experts and a shared one of 128 of its 1024.
 * Beside: a norm of 8h in each part; of linear attention, the split of 8 values and the norm of 6;
 * of attention, norms and RoPE of 4q + 8kv, the cache of 8kv, the gate of 6q; a router. */
Test(compose, a_hybrid_layer_by_hand) {
  const Layers self = shipped("qwen3.5-397b-a17b", "dgx-h200", "vllm-0.24.0", 8);
  const double m = 64, h = 4096, q = 4 * 256, kv = 256, v = 8 * 128, channels = 2 * 2 * 128 + v;
  const double linear = product_us(&self, DTYPE_BF16, m, channels + v, h) +
                        product_us(&self, DTYPE_BF16, m, 2 * 8, h) +
                        product_us(&self, DTYPE_BF16, m, h, v) + 3 * 3 +
                        bytes_us(&self, m * (8 * h + 8 * v + 6 * v));
  const double attention = product_us(&self, DTYPE_BF16, m, 2 * q + 2 * kv, h) +
                           product_us(&self, DTYPE_BF16, m, h, q) + 5 * 3 +
                           bytes_us(&self, m * (8 * h + 2 * (4 * q + 8 * kv) + 8 * kv + 6 * q));
  const double experts =
      layers_curve_us(&self.experts, m) + product_us(&self, DTYPE_BF16, m, 512, h) + 2 * 3 +
      bytes_us(&self, m * (8 * h + 4 * 512)) + product_us(&self, DTYPE_BF16, m, 2 * 128, h) +
      product_us(&self, DTYPE_BF16, m, h, 128) + 3 + bytes_us(&self, 3 * m * 128 * 2);
  const double reduce = layers_curve_us(&self.all_reduce, m * h);
  const double us = 45 * linear + 15 * attention + 60 * (experts + 2 * reduce) + 3 +
                    bytes_us(&self, 2 * m * 2 * h);
  cr_expect_float_eq(layers_linear_us(&self, 64) / us, 1, 1e-3, "%g, by hand %g",
                     layers_linear_us(&self, 64), us);
  const double scan = kernel_slice_eval(kernel_table_all(&self.linear_decode.scan.table),
                                        (double[]){m, 1}),
               convolution = kernel_slice_eval(
                   kernel_table_all(&self.linear_decode.convolution.table), (double[]){m, 1}),
               heads = kernel_slice_eval(kernel_table_all(&self.decode.table), (double[]){m, 1023});
  cr_expect_float_eq(layers_decode_us(&self, 64, 1024) / (45 * (scan + convolution) + 15 * heads),
                     1, 1e-3);
  cr_expect_eq(self.n_borrowed, 0);
}

/* Linear attention of prompts goes by their tokens, that of decodes by their number. */
Test(compose, states_do_not_grow_with_contexts) {
  const Layers self = shipped("qwen3.5-27b", "dgx-b200", "vllm-0.24.0", 2);
  const double some = layers_linear_prefill_us(&self, 1, 8192);
  cr_expect_float_eq(layers_linear_prefill_us(&self, 1, 16384) / some, 2, 0.2);
  const double heads[] = {64, 16383};
  const double full = 16 * kernel_slice_eval(kernel_table_all(&self.decode.table), heads);
  cr_expect_float_eq(layers_decode_us(&self, 64, 16384), layers_linear_decode_us(&self, 64) + full,
                     1e-6 * full);
  cr_expect_gt(layers_linear_decode_us(&self, 64), layers_linear_decode_us(&self, 8));
}

/* GLM-5.2 on 8 H200: 21 of its 78 layers have an index, with products of 32 heads of 128 and of one
 * key with its weights; the others take that of a layer before. */
Test(compose, sparse_attention_by_hand) {
  const Layers self = shipped("glm-5.2", "dgx-h200", "vllm-0.24.0", 8);
  const int dtype = self.llm.attention_dtype;
  const double m = 64, h = 6144;
  const double index =
      product_us(&self, dtype, m, 32 * 128, 2048) + product_us(&self, dtype, m, 128 + 32, h);
  const double products = product_us(&self, dtype, m, 2048 + 576, h) +
                          product_us(&self, dtype, m, 8 * 256, 2048) +
                          product_us(&self, dtype, m, h, 8 * 256);
  const double keys[] = {m, 8192};
  const double own = kernel_slice_eval(kernel_table_all(&self.decode.table), keys);
  const double shared = kernel_slice_eval(kernel_table_all(&self.shared_decode.table), keys);
  cr_expect_gt(own, shared);
  const double us = 21 * (own - products - index) + 57 * (shared - products);
  cr_expect_float_eq(layers_decode_us(&self, 64, 8192) / us, 1, 1e-3);
}

/* DeepSeek-V3.2 on 4 H200: SGLang's module waits 0.85 ms for launches whether its 8,192 tokens are
 * 32 prompts or 64, less than their products take: the rest takes what is moved twice, of 32 heads
 * of 192 and 576 cached numbers, and scores and sums with 128 tokens in the mean. */
Test(compose, what_is_left_of_a_module_takes_its_bytes_and_operations) {
  const Layers self = shipped("deepseek-v3.2", "dgx-h200", "sglang-0.5.14", 4);
  const double m = 8192, moved = 2 * (3 + bytes_us(&self, 2 * 2 * m * (32 * 192 + 576)));
  const double scores = 1e6 * 2 * m * 128 * 32 * (192 + 128) / self.hardware.dense_bf16_flops;
  const double module =
      kernel_slice_eval(kernel_table_all(&self.prefill.table), (double[]){32, 0, 256});
  const double products = layers_latent_products_us(&self, m) + layers_index_products_us(&self, m);
  cr_expect_lt(module, products, "%g, products %g", module, products);
  cr_expect_float_eq(layers_prefill_us(&self, 32, 256, 0) / (61 * (moved + scores)), 1, 1e-3);
}

/* Nobody measured the scan of prompts on A100, nor heads of 256: both are said. */
Test(compose, a_roofline_stands_in_for_a_scan) {
  const Layers self = shipped("qwen3.5-397b-a17b", "dgx-a100", "sglang-0.5.10", 8);
  bool scan = false, heads = false;
  for (size_t i = 0; i < self.n_borrowed; i++) {
    const Borrowed *each = &self.borrowed[i];
    scan |= strcmp(each->what, "linear attention of prompts") == 0 &&
            strcmp(each->from, "a roofline") == 0 && each->error == LAYERS_ROOFLINE_ERROR;
    heads |= strstr(each->what, "heads of 128") != NULL;
  }
  cr_expect(scan && heads);
  const double tokens = 8192, v = 8 * 128,
               moved = 2 * tokens * (2 * 2 * 128 + 3 * v) + 4 * 2 * (tokens / 64) * 128 * v +
                       2 * 4 * 128 * v;
  const double us =
      kernel_slice_eval(kernel_table_all(&self.linear_prefill.scan.table), (double[]){1, tokens});
  cr_expect_float_eq(us, 3 * 3 + bytes_us(&self, moved / 0.5), 0.001 * us, "%g", us);
}

/* A model is of the layers: its rows follow the tables to 2.5%, knots of linear to 0.3%. */
Test(compose, a_model_has_the_times_of_its_layers) {
  static const double TOLERANCE = 0.03;
  const Layers self = shipped("llama3.1-70b", "dgx-h100", "vllm-0.24.0", 4);
  ComposeInput input = asked("vllm", "0.24.0");
  input.setup = self.setup;
  input.setup.model = self.llm.name;
  input.setup.gpu = self.hardware.gpu;
  input.llm = &self.llm;
  input.hardware = &self.hardware;
  input.data_dir = data_dir;
  PerfModel model;
  cr_assert_eq(perfmodel_load_nearest(&model, &input, false, 64, &arena, &diag), 0);
  cr_expect_str_eq(model.taken, "vllm-0.24.0/llama3.1-70b_h100-80gb_tp4_bf16");
  for (int64_t tokens = 128; tokens <= 16384; tokens *= 2) {
    const double us = layers_linear_us(&self, tokens) + layers_prefill_us(&self, 1, tokens, 0) +
                      layers_head_us(&self, 1);
    const double made = (double)perfmodel_prefill(&model, tokens) / TICKS_PER_SECOND * 1e6;
    cr_expect_float_eq(made / us, 1, TOLERANCE, "%lld tokens: %g, of the layers %g",
                       (long long)tokens, made, us);
  }
  for (int64_t seqs = 1; seqs <= 64; seqs *= 4) {
    const double us = layers_linear_us(&self, seqs) + layers_decode_us(&self, seqs, 1024) +
                      layers_head_us(&self, seqs);
    const double made =
        (double)perfmodel_decode_step(&model, seqs, 1024 * seqs) / TICKS_PER_SECOND * 1e6;
    cr_expect_float_eq(made / us, 1, TOLERANCE, "%lld decodes: %g, of the layers %g",
                       (long long)seqs, made, us);
  }
}

/* gpt-oss has 18 layers with a window of 128, which the tables have, and 18 without. */
Test(compose, windows_are_of_their_own_rows) {
  const Layers self = shipped("gpt-oss-120b", "dgx-h100", "vllm-0.24.0", 1);
  const double full = kernel_slice_eval(kernel_table_all(&self.decode.table), (double[]){64, 4095});
  const double window =
      kernel_slice_eval(kernel_table_all(&self.window_decode.table), (double[]){64, 4095});
  cr_expect_lt(window, 0.5 * full);
  cr_expect_float_eq(layers_decode_us(&self, 64, 4096), 18 * (full + window), 1e-6 * full);
  cr_assert_not_null(self.window_prefill.path);
}
