/* Layers over machines: what DeepEP sends, experts beside it, and collectives over NICs, against
 * the rows of the shipped tables. */
#include "perfmodel/compose/wide.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(compose_wide, .init = setup_folder, .fini = teardown_folder);

/* Of an engine's tables of H100, not loaded yet. */
static Layers layers_of(const char *model, const char *engine) {
  Layers self = {.llm = {0}, .arena = &arena, .at = place_of_file("a")};
  const LlmFormats formats = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  cr_assert_eq(llm_load_as(&self.llm, model, &formats, data_dir, self.at, &arena, &diag), 0);
  cr_assert_eq(hardware_load(&self.hardware, "dgx-h100", data_dir, self.at, &arena, &diag), 0);
  setup_parse_folder(&self.setup, engine, &arena);
  self.folder = arena_printf(&arena, "%s/tables/h100-80gb/%s", data_dir, engine);
  self.setup.weight_dtype = (int)llm_quantization(&self.llm);
  self.setup.kv_cache_dtype = self.llm.kv_cache_dtype;
  self.setup.tensor_parallel_size = self.setup.attention_data_parallel_size =
      self.setup.expert_parallel_size = 1;
  return self;
}

/* DeepEP's times that the tables have (h100, sglang 0.5.6.post2): 256 decodes of each GPU are sent
 * to experts on 8 machines in 302 us and come back in 580. */
Test(compose_wide, experts_over_machines_are_sent_by_deepep) {
  const Layers self = layers_of("deepseek-r1", "sglang-0.5.14");
  const struct {
    int64_t nodes;
    double dispatch, combine, experts; // of 256 decodes of each GPU, of 4,096 of all
  } cases[] = {
      {2, 183, 338, 644}, // 16 parts of the experts: 322 at 2,048, beyond it in proportion
      {4, 264, 500, 252},
      {8, 302, 580, 183},
      // on a line over 1 / n through 4 and 8: 302 + (1/8 - 1/9) / (1/8) * (302 - 264)
      {9, 306.2, 588.9, 183},
  };
  int n_decodes = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Layers layers = self;
    const int64_t gpus = 8 * cases[i].nodes;
    layers.setup.attention_data_parallel_size = layers.setup.expert_parallel_size = gpus;
    layers.setup.nnodes = cases[i].nodes;
    cr_assert_eq(layers_load(&layers, &diag), 0);
    const WideExperts *wide = &layers.wide[WIDE_DECODES];
    cr_expect_float_eq(layers_curve_us(&wide->dispatch, 256) / cases[i].dispatch, 1, 0.01);
    cr_expect_float_eq(layers_curve_us(&wide->combine, 256) / cases[i].combine, 1, 0.01);
    cr_expect_float_eq(layers_curve_us(&wide->experts, 4096) / cases[i].experts, 1, 0.01);
    const double skewed = layers_linear_us(&layers, 256 * gpus);
    layers.setup.balanced = true;
    cr_assert_eq(layers_load(&layers, &diag), 0);
    cr_expect_lt(layers_linear_us(&layers, 256 * gpus), skewed);
    if (layers.wide_decodes < 128) continue; // of two machines prompts' kernels are the faster
    const double sent =
        layers_exchange_us(&layers, 128 * gpus) / (double)llm_moe_layers(&layers.llm);
    const double both =
        layers_curve_us(&wide->dispatch, 128) + layers_curve_us(&wide->combine, 128);
    cr_expect_float_eq(sent / both, 1, 1e-6);
    n_decodes++;
  }
  cr_expect_geq(n_decodes, 3);
}

/* An all-reduce of 1 MiB over two machines of eight GPUs: that of one machine, two steps of 7 us,
 * and 1 MiB over all NICs of a machine, 0.8 of 400 GB/s. */
Test(compose_wide, collectives_over_machines_add_what_their_nics_carry) {
  Layers one = layers_of("llama3.1-405b", "vllm-0.24.0"), two = one;
  one.setup.tensor_parallel_size = 8;
  two.setup.tensor_parallel_size = 16;
  two.setup.nnodes = 2;
  cr_assert_eq(layers_load(&one, &diag) | layers_load(&two, &diag), 0);
  wide_cross_nodes(&two);
  const double numbers = 1 << 19;
  const double apart =
      layers_curve_us(&two.all_reduce, numbers) - layers_curve_us(&one.all_reduce, numbers);
  cr_expect_float_eq(apart, 14 + (1 << 20) / (0.8 * 400e9) * 1e6, 0.05, "%g", apart);
  const Borrowed *note = &two.borrowed[two.n_borrowed - 1];
  cr_expect_str_eq(note->what, "all-reduces over 2 machines");
}
