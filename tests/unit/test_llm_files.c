/* Hugging Face's files of today: number formats by the ways of saying them, families by small files
 * with facts worked out by hand, and each file of TANDEM_DATA_DIR/model-configs, read with its
 * published number of parameters or refused by name. */
#include "base/folder.h"
#include "base/text.h"
#include "perfmodel/llm.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <strings.h>

TestSuite(llm_files, .init = setup_folder, .fini = teardown_folder);

static int load(Llm *llm, const char *name) {
  diag_done(&diag);
  diag_init(&diag);
  return llm_load(llm, name, data_dir, place_of_file("test"), &arena, &diag);
}

static int load_text(Llm *llm, const char *text) {
  write_file(in_folder("config.json"), text);
  return load(llm, in_folder("config.json"));
}

#define SHAPE                                                                                      \
  "\"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4,"                     \
  "\"intermediate_size\": 256, \"vocab_size\": 100, \"max_position_embeddings\": 1000}"
#define LLAMA "{\"model_type\": \"llama\", \"quantization_config\": "
#define MIXTRAL                                                                                    \
  "{\"model_type\": \"mixtral\", \"num_local_experts\": 8, \"num_experts_per_tok\": 2,"

Test(llm_files, formats_are_read_as_each_library_says_them) {
  const struct {
    const char *text;
    Dtype weights, attention, experts, kv_cache;
  } cases[] = {
      {LLAMA "{\"quant_method\": \"fp8\"}," SHAPE, DTYPE_FP8, DTYPE_FP8, DTYPE_FP8, DTYPE_BF16},
      {LLAMA "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}," SHAPE,
       DTYPE_FP8_BLOCK, DTYPE_FP8_BLOCK, DTYPE_FP8_BLOCK, DTYPE_BF16},
      {LLAMA "{\"quant_method\": \"awq\", \"bits\": 4}," SHAPE, DTYPE_INT4, DTYPE_INT4, DTYPE_INT4,
       DTYPE_BF16},
      {LLAMA "{\"quant_method\": \"gptq\", \"bits\": 8}," SHAPE, DTYPE_INT8, DTYPE_INT8, DTYPE_INT8,
       DTYPE_BF16},
      {LLAMA "{\"quant_algo\": \"NVFP4\", \"kv_cache_quant_algo\": \"FP8\","
             "\"exclude_modules\": [\"lm_head\", \"model.layers.*.self_attn*\"]}," SHAPE,
       DTYPE_NVFP4, DTYPE_BF16, DTYPE_NVFP4, DTYPE_FP8},
      {LLAMA "{\"quant_method\": \"compressed-tensors\", \"ignore\": [\"re:.*self_attn.*\"],"
             "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"],"
             "\"weights\": {\"num_bits\": 4, \"type\": \"int\"}}},"
             "\"kv_cache_scheme\": {\"num_bits\": 8, \"type\": \"float\"}}," SHAPE,
       DTYPE_INT4, DTYPE_BF16, DTYPE_INT4, DTYPE_FP8},
      {LLAMA "{\"quant_method\": \"quark\","
             "\"global_quant_config\": {\"weight\": {\"dtype\": \"fp4\"}}}," SHAPE,
       DTYPE_MXFP4, DTYPE_MXFP4, DTYPE_MXFP4, DTYPE_BF16},
      {LLAMA "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true,"
             "\"llm_int8_skip_modules\": [\"self_attn\"]}," SHAPE,
       DTYPE_INT4, DTYPE_BF16, DTYPE_INT4, DTYPE_BF16},
      {LLAMA "{\"quant_method\": \"torchao\", \"quant_type\": {\"default\":"
             "{\"_type\": \"Float8DynamicActivationFloat8WeightConfig\"}}}," SHAPE,
       DTYPE_FP8, DTYPE_FP8, DTYPE_FP8, DTYPE_BF16},
      {LLAMA "{\"quant_method\": \"hqq\", \"quant_config\": {\"weight_quant_params\":"
             "{\"nbits\": 8}}}," SHAPE,
       DTYPE_INT8, DTYPE_INT8, DTYPE_INT8, DTYPE_BF16},
      // the group of all matrices counts where none names a module, wherever it stands
      {LLAMA "{\"quant_method\": \"compressed-tensors\", \"ignore\":"
             "[\"re:.*self_attn\\\\.([qk]_proj|qkv_proj)$\"], \"config_groups\": {"
             "\"a\": {\"targets\": [\"re:.*mlp.*\"], \"weights\": {\"num_bits\": 4,"
             "\"type\": \"float\", \"group_size\": 16}},"
             "\"b\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 8,"
             "\"type\": \"float\"}}}},\"num_key_value_heads\": 4, \"head_dim\": 32," SHAPE,
       DTYPE_NVFP4, DTYPE_BF16, DTYPE_NVFP4, DTYPE_BF16},
      {MIXTRAL "\"quantization_config\": {\"quant_method\": \"mxfp4\"}," SHAPE, DTYPE_BF16,
       DTYPE_BF16, DTYPE_MXFP4, DTYPE_BF16},
      {MIXTRAL "\"quantization_config\": {\"quant_algo\": \"MIXED_PRECISION\","
               "\"quantized_layers\": {"
               "\"model.layers.0.block_sparse_moe.experts\": {\"quant_algo\": \"NVFP4\"},"
               "\"model.layers.1.block_sparse_moe.experts\": {\"quant_algo\": \"NVFP4\"},"
               "\"model.layers.2.block_sparse_moe.experts\": {\"quant_algo\": \"NVFP4\"},"
               "\"model.layers.3.self_attn.o_proj\": {\"quant_algo\": \"FP8\"}}}," SHAPE,
       DTYPE_BF16, DTYPE_BF16, DTYPE_NVFP4, DTYPE_BF16},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Llm llm;
    cr_assert_eq(load_text(&llm, cases[i].text), 0, "case %zu: %s", i, diag.entries[0].message);
    cr_expect_eq(llm.weight_dtype, (int)cases[i].weights, "case %zu", i);
    cr_expect_eq(llm.attention_dtype, (int)cases[i].attention, "case %zu", i);
    cr_expect_eq(llm.expert_dtype, (int)cases[i].experts, "case %zu", i);
    cr_expect_eq(llm.kv_cache_dtype, (int)cases[i].kv_cache, "case %zu", i);
  }
}

Test(llm_files, patterns_of_modules_may_have_alternatives) {
  static const char *const patterns[] = {"re:model\\\\.layers\\\\.(1|3)\\\\..+",
                                         "re:.*layers.[0-9]+.mlp.*", "re:.*(?:q|k|v)_proj",
                                         "re:.*layers\\\\.[^.]+\\\\.[s]elf_attn"};
  static const int64_t left_out[] = {2 * (4 * 64 * 64 + 3 * 64 * 256), 4 * 3 * 64 * 256,
                                     4 * 3 * 64 * 64, 4 * 4 * 64 * 64};
  Llm plain, some;
  cr_assert_eq(load_text(&plain, "{\"model_type\": \"llama\"," SHAPE), 0);
  const int64_t matrices = 4 * (4 * 64 * 64 + 3 * 64 * 256);
  for (size_t i = 0; i < COUNT(patterns); i++) {
    const char *text =
        arena_printf(&arena,
                     LLAMA "{\"quant_method\": \"compressed-tensors\", \"ignore\": [\"%s\"],"
                           "\"config_groups\": {\"a\": {\"weights\": {\"num_bits\": 8,"
                           "\"type\": \"float\"}}}}," SHAPE,
                     patterns[i]);
    cr_assert_eq(load_text(&some, text), 0, "%s", diag.entries[0].message);
    cr_expect_eq(plain.weight_bytes - some.weight_bytes, matrices - left_out[i], "%s", patterns[i]);
  }
}

/* One of four layers is left out: attention 4·64·64, MLP 3·64·256. */
Test(llm_files, weights_of_layers_that_are_left_out_have_16_bits) {
  Llm plain, some;
  cr_assert_eq(load_text(&plain, "{\"model_type\": \"llama\"," SHAPE), 0);
  cr_assert_eq(load_text(&some, LLAMA "{\"quant_method\": \"fp8\", \"modules_to_not_convert\":"
                                      " [\"lm_head\", \"model.layers.2\"]}," SHAPE),
               0);
  cr_expect_eq(plain.weight_bytes - some.weight_bytes, 3 * (4 * 64 * 64 + 3 * 64 * 256));
  cr_expect_eq(some.weight_dtype, DTYPE_FP8);
}

Test(llm_files, formats_may_lie_beside_the_file) {
  write_file(in_folder("hf_quant_config.json"),
             "{\"quantization\": {\"quant_algo\": \"FP8\", \"kv_cache_quant_algo\": \"FP8\"}}");
  Llm llm;
  cr_assert_eq(load_text(&llm, "{\"model_type\": \"llama\"," SHAPE), 0);
  cr_expect_eq(llm.weight_dtype, DTYPE_FP8);
  cr_expect_eq(llm.kv_cache_dtype, DTYPE_FP8);
  write_file(in_folder("hf_quant_config.json"), "{\"quantization\": {\"quant_algo\": \"NVFP5\"}}");
  cr_assert_eq(load_text(&llm, "{\"model_type\": \"llama\"," SHAPE), -1);
  cr_expect_not_null(strstr(diag.entries[0].at.path, "hf_quant_config.json"));
  cr_expect_str_eq(diag.entries[0].message, "unknown quant_algo 'NVFP5'");
  cr_expect_not_null(strstr(diag.entries[0].hint, "NVFP4"));
  unlink(in_folder("hf_quant_config.json"));
}

Test(llm_files, a_checkpoint_is_called_as_its_folder_or_by_the_prefix_of_its_file) {
  Llm llm;
  write_file(in_folder("Some--Model-1.5B_config.json"), "{\"model_type\": \"llama\"," SHAPE);
  cr_assert_eq(load(&llm, in_folder("Some--Model-1.5B_config.json")), 0);
  cr_expect_str_eq(llm.name, "model-1.5b");
  unlink(in_folder("Some--Model-1.5B_config.json"));
  cr_assert_eq(load_text(&llm, "{\"model_type\": \"llama\"," SHAPE), 0);
  cr_expect_eq(strncasecmp(llm.name, strrchr(folder, '/') + 1, strlen(llm.name)), 0);
}

Test(llm_files, unknown_formats_say_what_is_known) {
  const struct {
    const char *text, *message, *hint;
  } cases[] = {
      {LLAMA "{\"quant_method\": \"fp88\"}," SHAPE, "unknown quant_method 'fp88'", "'fp8'"},
      {LLAMA "{\"quant_method\": \"fp8\", \"ignore\": [\"re:.*(?!mlp).*\"]}," SHAPE,
       "not supported", "'(a|b)'"},
      {LLAMA "{\"quant_method\": \"gptq\", \"bits\": 3}," SHAPE, "weights of 3 bits", "4 or 8"},
      {LLAMA "{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"weights\":"
             "{\"num_bits\": 2}}}}," SHAPE,
       "2 bits", "4 or 8"},
      {LLAMA "{\"quant_method\": \"fp8\", \"kv_cache_dtype\": \"fp7\"}," SHAPE,
       "unknown kv_cache_dtype 'fp7'", "FP8"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Llm llm;
    cr_assert_eq(load_text(&llm, cases[i].text), -1, "case %zu", i);
    cr_expect_not_null(strstr(diag.entries[0].message, cases[i].message), "%s",
                       diag.entries[0].message);
    cr_assert_not_null(diag.entries[0].hint, "case %zu", i);
    cr_expect_not_null(strstr(diag.entries[0].hint, cases[i].hint), "%s", diag.entries[0].hint);
  }
}

Test(llm_files, layers_with_windows_and_dense_layers_are_counted) {
  const struct {
    const char *text;
    int64_t window, sliding, dense, shared, kv_bytes_per_token, kv_bytes_per_sequence;
  } cases[] = {
      // a KV of 2·64 elements, 256 bytes, in each layer
      {"{\"model_type\": \"gemma2\", \"sliding_window\": 100," SHAPE, 100, 2, 0, 0, 512, 51200},
      {"{\"model_type\": \"gemma3_text\", \"sliding_window\": 100, \"sliding_window_pattern\": 4,"
       "\"num_key_value_heads\": 4, \"head_dim\": 16," SHAPE,
       100, 3, 0, 0, 256, 76800},
      {"{\"model_type\": \"qwen2\", \"sliding_window\": 100, \"use_sliding_window\": false," SHAPE,
       0, 0, 0, 0, 1024, 0},
      {"{\"model_type\": \"qwen2\", \"sliding_window\": 100, \"use_sliding_window\": true,"
       "\"max_window_layers\": 3," SHAPE,
       100, 1, 0, 0, 768, 25600},
      // all layers have it: none is taken to be left behind
      {"{\"model_type\": \"mistral\", \"sliding_window\": 100," SHAPE, 100, 4, 0, 0, 1024, 0},
      {"{\"model_type\": \"mistral\", \"sliding_window\": 1000," SHAPE, 0, 0, 0, 0, 1024, 0},
      {"{\"model_type\": \"cohere2\", \"sliding_window\": 100, \"layer_types\":"
       "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"full_attention\"]," SHAPE,
       100, 1, 0, 0, 768, 25600},
      {"{\"model_type\": \"glm4_moe\", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2,"
       "\"n_shared_experts\": 3, \"moe_intermediate_size\": 8, \"first_k_dense_replace\": 1," SHAPE,
       0, 0, 1, 24, 1024, 0},
      {"{\"model_type\": \"qwen2_moe\", \"num_experts\": 4, \"num_experts_per_tok\": 2,"
       "\"shared_expert_intermediate_size\": 32, \"moe_intermediate_size\": 8,"
       "\"decoder_sparse_step\": 2, \"mlp_only_layers\": [3]," SHAPE,
       0, 0, 3, 32, 1024, 0},
      {"{\"model_type\": \"llama4_text\", \"num_local_experts\": 4, \"num_experts_per_tok\": 1,"
       "\"attention_chunk_size\": 100, \"interleave_moe_layer_step\": 2,"
       "\"intermediate_size_mlp\": 512," SHAPE,
       100, 3, 2, 256, 256, 76800},
      {"{\"model_type\": \"qwen3_moe\", \"text_config\": {\"model_type\": \"qwen3_vl_moe_text\","
       "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8," SHAPE
       ", \"vision_config\": {\"hidden_size\": 7}}",
       0, 0, 0, 0, 1024, 0},
      // keys that are values, 16 elements: of a fourth and an eighth of the tokens in a layer each
      {"{\"model_type\": \"deepseek_v4\", \"num_key_value_heads\": 1, \"sliding_window\": 100,"
       "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8,"
       "\"compress_ratios\": [0, 4, 8, 0, 0]," SHAPE,
       100, 4, 0, 0, 12, 12800},
      // KV heads by a flag, in a map of their own, in the gate's and up's width together
      {"{\"model_type\": \"falcon\", \"multi_query\": true, \"num_kv_heads\": 4," SHAPE, 0, 0, 0, 0,
       256, 0},
      {"{\"model_type\": \"dbrx\", \"attn_config\": {\"kv_n_heads\": 2}," SHAPE, 0, 0, 0, 0, 512,
       0},
      {"{\"model_type\": \"afmoe\", \"sliding_window\": 100, \"global_attn_every_n_layers\": "
       "2," SHAPE,
       100, 2, 0, 0, 512, 51200},
      {"{\"model_type\": \"deepseek_v2\", \"use_mla\": false, \"kv_lora_rank\": 8," SHAPE, 0, 0, 0,
       0, 1024, 0},
      // not among the families, and like Llama by what it says
      {"{\"model_type\": \"brandnew\", \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
       "\"num_key_value_heads\": 1," SHAPE,
       0, 0, 0, 0, 256, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Llm llm;
    cr_assert_eq(load_text(&llm, cases[i].text), 0, "case %zu: %s", i, diag.entries[0].message);
    cr_expect_eq(llm.sliding_window, cases[i].window, "case %zu", i);
    cr_expect_eq(llm.num_sliding_layers, cases[i].sliding, "case %zu", i);
    cr_expect_eq(llm.num_dense_layers, cases[i].dense, "case %zu", i);
    cr_expect_eq(llm.shared_expert_intermediate_size, cases[i].shared, "case %zu", i);
    cr_expect_eq(llm.kv_bytes_per_token, cases[i].kv_bytes_per_token, "case %zu: %lld", i,
                 (long long)llm.kv_bytes_per_token);
    cr_expect_eq(llm.kv_bytes_per_sequence, cases[i].kv_bytes_per_sequence, "case %zu", i);
  }
}

/* Layers of each kind, and what a sequence and a token take: a state of 4-byte numbers, the last
 * inputs of the convolution, KV of the layers with attention. */
Test(llm_files, layers_with_linear_attention_are_counted) {
  const struct {
    const char *text;
    int64_t linear, attention, mlp, kv, state, parameters;
  } cases[] = {
      // 3 of 4 layers: 2 key heads of 8 and 4 value heads of 16: state 8·64, 2·16 + 64 channels;
      // in 64·(96 + 64 + 8), out 64·64; attention with a gate; an MLP of 3·64·256 in each
      {"{\"model_type\": \"qwen3_next\", \"linear_num_key_heads\": 2, \"linear_key_head_dim\": 8,"
       "\"linear_num_value_heads\": 4, \"linear_value_head_dim\": 16,"
       "\"linear_conv_kernel_dim\": 4," SHAPE,
       3, 1, 4, 256, 3 * (4 * 512 + 96 * 3 * 2),
       3 * (64 * 168 + 64 * 64) + 5 * 64 * 64 + 4 * 3 * 64 * 256},
      {"{\"model_type\": \"qwen3_5_text\", \"linear_num_key_heads\": 2, \"attn_output_gate\": true,"
       "\"linear_key_head_dim\": 8, \"linear_num_value_heads\": 4, \"linear_value_head_dim\": 16,"
       "\"linear_conv_kernel_dim\": 4, \"layer_types\": [\"linear_attention\", \"full_attention\","
       "\"linear_attention\", \"full_attention\"]," SHAPE,
       2, 2, 4, 512, 2 * (4 * 512 + 96 * 3 * 2),
       2 * (64 * 168 + 64 * 64) + 2 * 5 * 64 * 64 + 4 * 3 * 64 * 256},
      // 2 heads of 8 for all, gates of two factors: in 64·(48 + 8 + 8 + 2) + 2·64 + 2·64, out 16·64
      {"{\"model_type\": \"kimi_linear\", \"linear_attn_config\": {\"kda_layers\": [1, 2, 3],"
       "\"num_heads\": 2, \"head_dim\": 8, \"short_conv_kernel_size\": 4}," SHAPE,
       3, 1, 4, 256, 3 * (4 * 128 + 48 * 3 * 2),
       3 * (64 * 66 + 2 * 2 * 64 + 16 * 64) + 4 * 64 * 64 + 4 * 3 * 64 * 256},
      // a layer is one of them: 4 heads of 8, 2 groups with a state of 16; in 64·(2·32 + 32 + 32 +
      // 4), out 32·64
      {"{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"MM*-\","
       "\"mamba_num_heads\": 4, \"mamba_head_dim\": 8, \"ssm_state_size\": 16, \"n_groups\": 2,"
       "\"conv_kernel\": 4," SHAPE,
       2, 1, 1, 256, 2 * (4 * 512 + 96 * 3 * 2),
       2 * (64 * 132 + 32 * 64) + 4 * 64 * 64 + 2 * 64 * 256},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Llm llm;
    int64_t parameters = 0;
    cr_assert_eq(load_text(&llm, cases[i].text), 0, "case %zu: %s", i, diag.entries[0].message);
    cr_expect_eq(llm.num_linear_layers, cases[i].linear, "case %zu", i);
    cr_expect_eq(llm.num_attention_layers, cases[i].attention, "case %zu", i);
    cr_expect_eq(llm.num_mlp_layers, cases[i].mlp, "case %zu", i);
    cr_expect_eq(llm.kv_bytes_per_token, cases[i].kv, "case %zu", i);
    cr_expect_eq(llm.state_bytes_per_sequence, cases[i].state, "case %zu: %lld", i,
                 (long long)llm.state_bytes_per_sequence);
    for (int part = 0; part < LLM_PARTS; part++)
      parameters += llm_part_parameters(&llm, (LlmPart)part);
    cr_expect_eq(parameters, cases[i].parameters, "case %zu: %lld", i, (long long)parameters);
  }
}

#define BRAND_NEW                                                                                  \
  "{\"model_type\": \"brandnew\", \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"               \
  "\"num_key_value_heads\": 1,"

/* A shape of which a part is not read would be silently wrong. */
Test(llm_files, what_is_not_read_is_refused_by_its_key) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {BRAND_NEW "\"num_ssm_heads\": 4," SHAPE, "num_ssm_heads"},
      {BRAND_NEW "\"linear_num_key_heads\": 4," SHAPE, "linear attention"},
      {"{\"model_type\": \"qwen3_next\", \"linear_num_key_heads\": 2," SHAPE,
       "linear_num_value_heads"},
      {"{\"model_type\": \"nemotron_h\"," SHAPE, "which layers of 'nemotron_h'"},
      {"{\"model_type\": \"qwen3_5\", \"full_attention_interval\": 0,"
       "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 8,"
       "\"linear_value_head_dim\": 8, \"linear_conv_kernel_dim\": 4," SHAPE,
       "num_linear_layers 4 exceeds"},
      {BRAND_NEW "\"moe_experts_of_mine\": 4," SHAPE, "moe_experts_of_mine"},
      {"{\"model_type\": \"llama\", \"heads_each\": [1, 2, 1, 2]," SHAPE, "heads_each"},
      {"{\"model_type\": \"llama\", \"cross_attention_layers\": [1]," SHAPE, "pictures"},
      {"{\"model_type\": \"hunyuan_v1_moe\", \"use_cla\": true, \"cla_share_factor\": 2," SHAPE,
       "share the KV"},
      {"{\"model_type\": \"gemma4\", \"num_kv_shared_layers\": 2," SHAPE, "share the KV"},
  };
  Llm llm;
  for (size_t i = 0; i < COUNT(cases); i++) {
    cr_assert_eq(load_text(&llm, cases[i].text), -1, "case %zu", i);
    cr_expect_not_null(strstr(diag.entries[0].message, cases[i].message), "%s",
                       diag.entries[0].message);
  }
  cr_assert_eq(load_text(&llm, BRAND_NEW "\"attention_dropout\": 0.1, \"use_cla\": false,"
                                         "\"rope_each\": [1, 2, 1, 2]," SHAPE),
               0, "%s", diag.entries[0].message);
  cr_expect_not_null(strstr(llm.taken_as, "read as Llama's"));
  cr_assert_eq(load_text(&llm, "{\"model_type\": \"llama\"," SHAPE), 0);
  cr_expect_null(llm.taken_as);
}

/* Parameters in billions as their makers print them, of language models without towers and without
 * layers that predict further tokens; or why a file is refused. The longest name that a file begins
 * with counts. Qwen3: 2505.09388; Qwen3-VL has the same language models; MiniMax, Step, MiMo, GLM,
 * Gemma, Nemotron: model cards; DeepSeek-V3: 2412.19437; Llama: 2407.21783, and Llama 4's card less
 * its tower (0.9); Mixtral: mistral.ai; Kimi-K2: its checkpoint, 1,026 (2507.20534 prints 1.04 T);
 * gpt-oss: 2508.10925. 0: not known here. */
static const struct {
  const char *name;
  double parameters;
  const char *refused;
} PUBLISHED[] = {
    {"MiniMaxAI--MiniMax-M2.", 230, NULL},
    {"Qwen--Qwen3-0.6B", 0.6, NULL},
    {"Qwen--Qwen3-1.7B", 1.72, NULL},
    {"Qwen--Qwen3-235B", 235, NULL},
    {"Qwen--Qwen3-30B", 30.5, NULL},
    {"Qwen--Qwen3-32B", 32.8, NULL},
    {"Qwen--Qwen3-8B", 8.2, NULL},
    {"Qwen--Qwen3-VL-235B", 235, NULL},
    {"Qwen--Qwen3-VL-2B", 1.72, NULL},
    {"Qwen--Qwen3-VL-30B", 30.5, NULL},
    {"Qwen--Qwen3-VL-32B", 32.8, NULL},
    {"Qwen--Qwen3-VL-4B", 4.0, NULL},
    {"Qwen--Qwen3-VL-8B", 8.2, NULL},
    {"Qwen--Qwen3.5-27B", 27, NULL},
    {"Qwen--Qwen3.5-35B", 35, NULL},
    {"Qwen--Qwen3.5-397B", 397, NULL},
    {"XiaomiMiMo--MiMo-V2-Flash", 309, NULL},
    {"deepseek-ai--DeepSeek-R1", 671, NULL},
    {"deepseek-ai--DeepSeek-V3", 671, NULL},
    {"deepseek-ai--DeepSeek-V4-Flash", 284, NULL},
    {"deepseek-ai--DeepSeek-V4-Pro", 0, NULL},
    {"google--gemma-4-26B-A4B", 25.2, NULL},
    {"meta-llama--Llama-4-Scout", 108, NULL},
    {"meta-llama--Meta-Llama-3.1-405B", 405, NULL},
    {"meta-llama--Meta-Llama-3.1-70B", 70.6, NULL},
    {"meta-llama--Meta-Llama-3.1-8B", 8.03, NULL},
    {"mistralai--Mixtral-8x22B", 141, NULL},
    {"mistralai--Mixtral-8x7B", 46.7, NULL},
    {"moonshotai--Kimi-K2", 1026, NULL},
    {"moonshotai--Kimi-K3", 0, "experts on a narrower vector"},
    {"nvidia--DeepSeek-V3", 671, NULL},
    {"nvidia--DeepSeek-V4-Flash", 284, NULL},
    {"nvidia--GLM-5", 744, NULL},
    {"nvidia--Gemma-4-26B-A4B", 25.2, NULL},
    {"nvidia--Kimi-K2", 1026, NULL},
    {"nvidia--Llama-3.1-70B", 70.6, NULL},
    {"nvidia--Llama-3_3-Nemotron-Super-49B", 49.9, NULL},
    {"nvidia--MiniMax-M2", 230, NULL},
    {"nvidia--MiniMax-M3", 0, NULL},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B", 31.6, NULL},
    {"nvidia--NVIDIA-Nemotron-3-Super", 0, "experts on a narrower vector"},
    {"nvidia--NVIDIA-Nemotron-3-Ultra", 0, "experts on a narrower vector"},
    {"nvidia--Nemotron-H-56B", 56, NULL},
    {"nvidia--Qwen3-235B", 235, NULL},
    {"nvidia--Qwen3.5-122B", 122, NULL},
    {"nvidia--Qwen3.5-397B", 397, NULL},
    {"nvidia--Qwen3.6", 0, NULL},
    {"openai--gpt-oss-120b", 116.83, NULL},
    {"openai--gpt-oss-20b", 20.91, NULL},
    {"sgl-project--DeepSeek-V4-Flash", 284, NULL},
    {"stepfun-ai--Step-3.7-Flash", 196, NULL},
    {"zai-org--GLM-5", 744, NULL},
};

static int row_of(const char *name) {
  int best = -1;
  size_t longest = 0;
  for (size_t i = 0; i < COUNT(PUBLISHED); i++)
    if (strncmp(name, PUBLISHED[i].name, strlen(PUBLISHED[i].name)) == 0 &&
        strlen(PUBLISHED[i].name) > longest) {
      best = (int)i;
      longest = strlen(PUBLISHED[i].name);
    }
  return best;
}

static void check_file(const char *configs, const char *name) {
  Llm llm;
  const int row = row_of(name);
  const int status = load(&llm, arena_printf(&arena, "%s/%s.json", configs, name));
  if (text_ends_with(name, "hf_quant_config")) {
    cr_expect_eq(status, -1, "%s", name);
    cr_expect_not_null(strstr(diag.entries[0].hint, "number formats but no shape"));
    return;
  }
  if (row < 0) return; // a file that came later
  if (PUBLISHED[row].refused) {
    cr_expect_eq(status, -1, "%s", name);
    cr_expect_not_null(strstr(diag.entries[0].message, PUBLISHED[row].refused), "%s: %s", name,
                       diag.entries[0].message);
    return;
  }
  cr_assert_eq(status, 0, "%s: %s", name, diag.entries[0].message);
  const double parameters = (double)llm_parameters(&llm) / 1e9;
  if (PUBLISHED[row].parameters > 0)
    cr_expect(fabs(parameters / PUBLISHED[row].parameters - 1) < 0.01, "%s: %.2f", name,
              parameters);
  const double bytes = (double)llm.weight_bytes / (1e9 * parameters);
  cr_expect(llm_quantization(&llm) == DTYPE_BF16 ? llm.weight_bytes == 2 * llm_parameters(&llm)
                                                 : bytes > 0.5 && bytes < 1.25,
            "%s: %.3f bytes", name, bytes);
}

Test(llm_files, each_known_file_has_its_published_size_or_is_refused_by_name) {
  const char *first = "model-configs/openai--gpt-oss-120b_config.json";
  const char *path_of_one = data_path("TANDEM_DATA_DIR", first, &arena);
  if (!path_of_one) cr_skip_test("TANDEM_DATA_DIR has no model-configs");
  const char *configs =
      arena_printf(&arena, "%.*s", (int)(strrchr(path_of_one, '/') - path_of_one), path_of_one);
  const char *const *names = folder_names(configs, ".json", &arena);
  cr_assert_not_null(*names);
  for (; *names; names++)
    check_file(configs, *names);
}
