/* Layers whose attention reads a part of the context, added up by hand from the shipped tables:
 * DeepSeek-V4's, over compressed tokens with an index (CSA) or without (HCA), and MiniMax-M3's,
 * over blocks (MSA); and what is said where a table of them is lacking. */
#include "perfmodel/compose/layers.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <string.h>

TestSuite(compose_sparse, .init = setup_folder, .fini = teardown_folder);

static const double TOLERANCE = 1e-3;

static Layers shipped(const char *model, const char *machine, const char *engine) {
  Layers self = {.llm = {0}, .arena = &arena, .at = place_of_file("a")};
  const LlmFormats formats = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  cr_assert_eq(llm_load_as(&self.llm, model, &formats, data_dir, self.at, &arena, &diag), 0);
  cr_assert_eq(hardware_load(&self.hardware, machine, data_dir, self.at, &arena, &diag), 0);
  setup_parse_folder(&self.setup, engine, &arena);
  self.folder = arena_printf(&arena, "%s/tables/%s/%s", data_dir, self.hardware.gpu, engine);
  self.setup.weight_dtype = (int)llm_quantization(&self.llm);
  self.setup.kv_cache_dtype = self.llm.kv_cache_dtype;
  self.setup.tensor_parallel_size = 4;
  self.setup.attention_data_parallel_size = self.setup.expert_parallel_size = 1;
  cr_assert_eq(layers_load(&self, &diag), 0, "%s", diag.n_entries ? diag.entries[0].message : "");
  return self;
}

static double narrow_us(const Layers *self, double m, double n, double k) {
  return layers_product_us(self, DTYPE_FP8_BLOCK, m, n, k);
}

static double wide_us(const Layers *self, double m, double n, double k) {
  return layers_product_us(self, DTYPE_BF16, m, n, k);
}

static double bytes_us(const Layers *self, double bytes) {
  return 1e6 * bytes / (0.8 * (double)self->hardware.hbm_bandwidth);
}

static double at(const KernelFound *found, const double *keys) {
  return kernel_slice_eval(kernel_table_all(&found->table), keys);
}

/* Of DeepSeek-V4-Flash on 4 GPUs, each with 16 of 64 heads of 512 and 2 of 8 groups: factors of
 * 1,024 for queries and for each group's output, one key of 512. */
static double flash_products_us(const Layers *self, double m) {
  return narrow_us(self, m, 1024 + 512, 4096) + narrow_us(self, m, 16 * 512, 1024) +
         narrow_us(self, m, 2 * 1024, 8 * 512) + narrow_us(self, m, 4096, 2 * 1024);
}

/* Values and weights of two overlapping tokens of 512, and of 128 of the index; its 64 queries of
 * 128, and their weights. */
static double csa_us(const Layers *self, double m) {
  return wide_us(self, m, 2 * 2 * 512, 4096) + narrow_us(self, m, 64 * 128, 1024) +
         wide_us(self, m, 64 + 2 * 2 * 128, 4096);
}

static double hca_us(const Layers *self, double m) {
  return wide_us(self, m, 2 * 512, 4096);
}

/* 64 decodes with 1,024 tokens before the new one: 96 us for CSA, half way between 58 and 58.5 for
 * HCA (b200, vllm 0.24.0), less the products; 21 layers of the one and 22 of the other, of which
 * two have a window alone. A prompt of 1,024 tokens takes 234 us. */
Test(compose_sparse, layers_of_compressed_attention_by_hand) {
  const Layers self = shipped("deepseek-v4-flash", "dgx-b200", "vllm-0.24.0");
  const double step[] = {64, 1024}, prompt[] = {1, 0, 1024};
  cr_expect_float_eq(at(&self.decode, step), 96, 1e-9);
  cr_expect_float_eq(at(&self.shared_decode, step), 58.25, 1e-9);
  cr_expect_float_eq(at(&self.prefill, prompt), 234, 1e-9);
  const double decodes = 21 * (96 - flash_products_us(&self, 64) - csa_us(&self, 64)) +
                         22 * (58.25 - flash_products_us(&self, 64) - hca_us(&self, 64));
  cr_expect_float_eq(layers_decode_us(&self, 64, 1025) / decodes, 1, TOLERANCE, "%g, by hand %g",
                     layers_decode_us(&self, 64, 1025), decodes);
  const double prompts = 21 * (234 - flash_products_us(&self, 1024) - csa_us(&self, 1024)) +
                         22 * (at(&self.shared_prefill, prompt) - flash_products_us(&self, 1024) -
                               hca_us(&self, 1024));
  cr_expect_float_eq(layers_prefill_us(&self, 1, 1024, 0) / prompts, 1, TOLERANCE, "%g, by hand %g",
                     layers_prefill_us(&self, 1, 1024, 0), prompts);
}

/* What goes by the tokens alone: the products above; streams before and after, 19.2 and 8.4 us of
 * 64 tokens; norms of 7h bytes before products of 8 bits and 8h before experts of 4; the router,
 * 256 experts and a shared one, of whose width of 2,048 a GPU has 512; two all-reduces; the
 * embedding. */
Test(compose_sparse, the_rest_of_a_layer_of_deepseek_v4_by_hand) {
  const Layers self = shipped("deepseek-v4-flash", "dgx-b200", "vllm-0.24.0");
  const double m = 64, h = 4096;
  cr_expect_float_eq(layers_curve_us(&self.streams[0], m), 19.2, 1e-9);
  cr_expect_float_eq(layers_curve_us(&self.streams[1], m), 8.4, 1e-9);
  cr_assert_str_eq(self.experts.texts[0], "w4a8_mxfp4_mxfp8");
  const double experts = layers_curve_us(&self.experts, m) + wide_us(&self, m, 256, h) +
                         narrow_us(&self, m, 2 * 512, h) + narrow_us(&self, m, h, 512) + 3 +
                         bytes_us(&self, 3 * m * 512 * 2);
  const double layer = 19.2 + 8.4 + 2 * 3 + bytes_us(&self, m * (7 + 8) * h) + experts +
                       flash_products_us(&self, m) + 2 * layers_curve_us(&self.all_reduce, m * h);
  const double us = 43 * layer + 21 * csa_us(&self, m) + 22 * hca_us(&self, m) + 3 +
                    bytes_us(&self, 2 * m * 2 * h);
  cr_expect_float_eq(layers_linear_us(&self, 64) / us, 1, TOLERANCE, "%g, by hand %g",
                     layers_linear_us(&self, 64), us);
}

/* MiniMax-M3 on 4 GPUs, each with 16 query heads of 128, one key-value head and one head of the
 * index, whose key all have: 64 decodes with 1,023 tokens before the new one take 52 us in each of
 * 57 layers (b200, vllm 0.24.0); three see all. */
Test(compose_sparse, layers_of_blocks_by_hand) {
  const Layers self = shipped("minimax-m3", "dgx-b200", "vllm-0.24.0");
  const double step[] = {64, 1023};
  const double with = wide_us(&self, 64, 16 * 128 + 2 * 128 + 2 * 128, 6144),
               without = wide_us(&self, 64, 16 * 128 + 2 * 128, 6144),
               out = wide_us(&self, 64, 6144, 16 * 128);
  cr_expect_float_eq(at(&self.decode, step), 52, 1e-9);
  const double us = 57 * (52 - with - out) + 3 * at(&self.shared_decode, step);
  cr_expect_float_eq(layers_decode_us(&self, 64, 1024) / us, 1, TOLERANCE, "%g, by hand %g",
                     layers_decode_us(&self, 64, 1024), us);
  cr_expect_float_eq(layers_sparse_products_us(&self, 64, true), with + out, 1e-9);
  cr_expect_float_eq(layers_sparse_products_us(&self, 64, false), without + out, 1e-9);
  cr_expect_eq(self.n_borrowed, 0);
}

static const Borrowed *borrowed_as(const Layers *self, const char *what) {
  for (size_t i = 0; i < self->n_borrowed; i++)
    if (strcmp(self->borrowed[i].what, what) == 0) return &self->borrowed[i];
  return NULL;
}

/* What nobody measured is named, with its error: two layers without compressed tokens, of 22; and
 * on H200, which has no tensor cores for them, experts in MXFP4. */
Test(compose_sparse, what_stands_for_other_kernels_is_named) {
  const Layers self = shipped("deepseek-v4-flash", "dgx-h200", "sglang-0.5.14");
  const Borrowed *windows =
      borrowed_as(&self, "attention of decodes in 2 layers with a window alone");
  const Borrowed *experts = borrowed_as(&self, "experts in fp8_block for mxfp4");
  cr_assert_not_null(windows);
  cr_assert_not_null(experts);
  cr_expect_float_eq(windows->error, 0.15 * 2 / 22, 1e-9);
  cr_expect_float_eq(experts->error, 0.5, 1e-9);
  cr_expect_str_eq(experts->from, "sglang-0.5.14");
  const Layers pro = shipped("deepseek-v4-pro", "dgx-b200", "vllm-0.24.0");
  cr_expect_eq(pro.n_borrowed, 0);
}

/* An index reads no more than it picks: with four times the context 64 decodes take less than twice
 * the time, with all tokens nearly four times. */
Test(compose_sparse, decodes_hardly_grow_with_contexts) {
  static const char *const models[] = {"deepseek-v4-pro", "minimax-m3"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const Layers self = shipped(models[i], "dgx-b200", "vllm-0.24.0");
    const double near = layers_decode_us(&self, 64, 4096), far = layers_decode_us(&self, 64, 16384);
    cr_expect_geq(far, near, "%s", models[i]);
    cr_expect_lt(far, 2 * near, "%s: %g, %g", models[i], near, far);
  }
}

/* A model of another shape has no tables, and that is said. */
Test(compose_sparse, other_shapes_are_refused) {
  Layers self = shipped("deepseek-v4-flash", "dgx-b200", "vllm-0.24.0");
  self.llm.index_topk = 1024;
  cr_expect_eq(layers_load(&self, &diag), -1);
  cr_expect_not_null(strstr(diag.entries[0].message, "no table has sparse attention of the shape"));
}
