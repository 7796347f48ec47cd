/* Model shapes. Pinned: parameter counts and KV bytes of every shipped model, Hugging Face files of
 * the four families, and where bad files are reported. Not pinned: comments and sources in data. */
#include "perfmodel/llm.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <stdio.h>

/* Loads `text` as a file of that name. */
static int load_text(Llm *llm, const char *name, const char *text) {
  write_file(in_folder(name), text);
  return llm_load(llm, in_folder(name), data_dir, place_of_file("test"), &arena, &diag);
}

static bool reported(int line, const char *fragment) {
  for (int i = 0; i < diag.n_entries; i++)
    if (diag.entries[i].at.line == line && strstr(diag.entries[i].message, fragment)) return true;
  return false;
}

TestSuite(llm, .init = setup_folder, .fini = teardown_folder);

Test(llm, shipped_models_have_their_published_size) {
  const struct {
    const char *name;
    double parameters; // billions
    int64_t kv_bytes_per_token;
  } cases[] = {
      {"llama2-70b", 68.98, 327680},    {"bloom-176b", 176.25, 4014080},
      {"opt-13b", 12.85, 819200},       {"opt-30b", 29.97, 1376256},
      {"opt-66b", 65.72, 2359296},      {"llama-13b", 13.02, 819200},
      {"codellama-34b", 33.74, 196608}, {"llama3-8b", 8.03, 131072},
      {"llama3-15b", 15.01, 262144},    {"llama3-70b", 70.55, 327680},
      {"llama3.1-70b", 70.55, 327680},  {"llama3.1-8b", 8.03, 131072},
      {"llama3.3-70b", 70.55, 327680},  {"qwen3-8b", 8.19, 147456},
      {"qwen3-32b", 32.76, 262144},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm;
    cr_assert_eq(llm_load(&llm, cases[i].name, data_dir, place_of_file("test"), &arena, &diag), 0);
    double parameters = (double)llm_parameters(&llm) / 1e9;
    cr_assert(fabs(parameters / cases[i].parameters - 1) < 0.005, "%s: %.3f billion", llm.name,
              parameters);
    cr_assert_eq(llm.weight_bytes, 2 * llm_parameters(&llm));
    cr_assert_eq(llm.kv_bytes_per_token, cases[i].kv_bytes_per_token, "%s", llm.name);
    cr_assert_str_eq(llm.name, cases[i].name);
  }
}

/* Total, activated and checkpoint: gpt-oss's model card (2508.10925, table 1: 60.8 and 12.8 GiB),
 * DeepSeek-V3 (2412.19437), Kimi-K2 (2507.20534), Qwen3 (2505.09388), Mixtral (2401.04088),
 * MiniMax-M2.5's model card. */
/* Those that one token uses: without experts that it does not reach, and of an embedding that is
 * not the head one row, which is left out. */
static int64_t activated_parameters(const Llm *llm) {
  const int64_t looked_up = llm->tie_word_embeddings ? 0 : llm->vocab_size * llm->hidden_size;
  const int64_t idle = llm->num_experts - llm->num_experts_per_tok;
  return llm_parameters(llm) - looked_up -
         llm_part_parameters(llm, LLM_EXPERTS) / llm->num_experts * idle;
}

Test(llm, experts_and_latent_attention_have_their_published_size) {
  const struct {
    const char *name;
    double parameters, activated; // billions; without the embedding
    double gib;                   // of the checkpoint; 0: not published
    int64_t kv_bytes_per_token;
  } cases[] = {
      {"gpt-oss-120b", 116.83, 5.13, 60.8, 36864}, {"gpt-oss-20b", 20.91, 3.61, 12.8, 24576},
      {"deepseek-v3", 671, 37, 0, 61 * 576 * 2},   {"deepseek-r1", 671, 37, 0, 61 * 576 * 2},
      {"kimi-k2.5", 1026, 32, 0, 61 * 576 * 2},    {"qwen3-30b-a3b", 30.5, 3.0, 0, 98304},
      {"qwen3-235b-a22b", 235, 21.6, 0, 192512},   {"mixtral-8x7b", 46.7, 12.8, 0, 131072},
      {"minimax-m2.5", 229, 10.4, 0, 253952}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm;
    cr_assert_eq(llm_load(&llm, cases[i].name, data_dir, place_of_file("test"), &arena, &diag), 0);
    const double parameters = (double)llm_parameters(&llm) / 1e9;
    const double activated = (double)activated_parameters(&llm) / 1e9;
    cr_expect(fabs(parameters / cases[i].parameters - 1) < 0.01, "%s: %.2f", llm.name, parameters);
    cr_expect(fabs(activated / cases[i].activated - 1) < 0.015, "%s: %.2f", llm.name, activated);
    if (cases[i].gib > 0)
      cr_expect(fabs((double)llm.weight_bytes / 1073741824 / cases[i].gib - 1) < 0.005);
    cr_expect_eq(llm.kv_bytes_per_token, cases[i].kv_bytes_per_token, "%s", llm.name);
  }
}

/* As their makers print them, within the digits: DeepSeek-V4's model cards (284 B and 13 B, 1.6 T
 * and 49 B), MiniMax-M3's (428 B and 23 B, with a tower for pictures) and vLLM's recipe of it (427
 * B and 26 B). In FP8 a token that is kept takes 584 bytes, its key in an index 132: of each 4
 * tokens in 21 layers and of each 128 in 20, as vLLM and SGLang lay them out. */
Test(llm, attention_to_a_part_of_the_context_has_its_published_size) {
  const struct {
    const char *name;
    double parameters, parameters_digits, activated, activated_digits; // billions
    int64_t kv_bytes_per_token, kv_bytes_per_sequence;
  } cases[] = {
      {"deepseek-v4-flash", 284, 0.5, 13, 0.5, 3871, 43 * 128 * 584},
      {"deepseek-v4-pro", 1600, 50, 49, 0.5, 5544, 61 * 128 * 584},
      {"minimax-m3", 427, 1, 24.5, 1.5, 60 * 2 * 4 * 128 * 2 + 57 * 132, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm;
    cr_assert_eq(llm_load(&llm, cases[i].name, data_dir, place_of_file("test"), &arena, &diag), 0);
    const double parameters = (double)llm_parameters(&llm) / 1e9;
    const double activated = (double)activated_parameters(&llm) / 1e9;
    cr_expect_float_eq(parameters, cases[i].parameters, cases[i].parameters_digits, "%s: %.2f",
                       llm.name, parameters);
    cr_expect_float_eq(activated, cases[i].activated, cases[i].activated_digits, "%s: %.2f",
                       llm.name, activated);
    cr_expect_eq(llm.kv_bytes_per_token, cases[i].kv_bytes_per_token, "%s: %lld", llm.name,
                 (long long)llm.kv_bytes_per_token);
    cr_expect_eq(llm.kv_bytes_per_sequence, cases[i].kv_bytes_per_sequence, "%s: %lld", llm.name,
                 (long long)llm.kv_bytes_per_sequence);
  }
}

/* vLLM prints 9.62 GiB for the KV of DeepSeek-V4-Pro with 1 M tokens, all in 16 bits
 * (vllm.ai/blog/deepseek-v4); keys of an index have 128 bytes and 4 of a scale here. */
Test(llm, a_million_compressed_tokens_take_what_vllm_prints) {
  const LlmFormats formats = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, DTYPE_BF16};
  Llm llm;
  cr_assert_eq(llm_load_as(&llm, "deepseek-v4-pro", &formats, data_dir, place_of_file("test"),
                           &arena, &diag),
               0);
  const double index = (double)llm.num_index_layers * llm_index_kv_bytes(&llm);
  const double token = (double)llm.kv_bytes_per_token + index * (256.0 / 132 - 1);
  const double gib = (token * 1048576 + (double)llm.kv_bytes_per_sequence) / 1073741824;
  cr_expect_float_eq(gib / 9.62, 1, 0.01, "%.3f GiB", gib);
}

/* DeepSeek-R1, by its config.json, q_lora_rank 1536, kv_lora_rank 512, 128 heads of 128 + 64 and
 * 128: a 62nd layer of attention 7168·1536 + 1536·128·192 + 7168·576 + 512·128·256 + 128·128·7168,
 * 256 experts and a shared one of 3·7168·2048; the router 256·7168, norms 2·7168 + 1536 + 512, the
 * projection 2·7168·7168 and its norms 3·7168 have 16 bits. Embedding and head are shared: the
 * 11.5 billion parameters of README_WEIGHTS.md, whose 14 have both once more. */
Test(llm, mtp_layers_are_counted_with_their_projection) {
  const int64_t layer = INT64_C(187105280) + 257 * INT64_C(44040192);
  const int64_t plain = 1835008 + 16384 + 102760448 + 21504;
  const struct {
    int weight_dtype;
    double bytes;
  } cases[] = {{LLM_UNSAID, (double)layer * (1 + 4.0 / 16384) + 2.0 * (double)plain},
               {DTYPE_NVFP4, 2.0 * (double)(layer + plain)}};
  cr_assert_eq(layer + plain, INT64_C(11610067968));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const LlmFormats formats = {cases[i].weight_dtype, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
    Llm llm;
    cr_assert_eq(
        llm_load_as(&llm, "deepseek-r1", &formats, data_dir, place_of_file("test"), &arena, &diag),
        0);
    const Llm held = llm_with_mtp(&llm);
    cr_expect_eq(held.weight_bytes - llm.weight_bytes, llround(cases[i].bytes));
    cr_expect_eq(held.kv_bytes_per_token, 62 * 576 * 2);
    const double experts[] = {
        (double)llm_part_parameters(&llm, LLM_EXPERTS) * llm_part_bytes(&llm, LLM_EXPERTS),
        (double)llm_part_parameters(&held, LLM_EXPERTS) * llm_part_bytes(&held, LLM_EXPERTS)};
    const double each = i ? 2 : 1 + 4.0 / 16384;
    cr_expect_float_eq(experts[1] - experts[0], 256 * 44040192.0 * each, 1e3);
  }
}

/* Of one layer of four Qwen3.5 has full attention, with a gate as wide as its output: 4096·(2·32 +
 * 2·2)·256 + 32·256·4096; 513 experts of 3·4096·1024; 15 layers have KV, and the MTP layer. */
Test(llm, an_mtp_layer_has_full_attention) {
  Llm llm;
  cr_assert_eq(llm_load(&llm, "qwen3.5-397b-a17b", data_dir, place_of_file("test"), &arena, &diag),
               0);
  const Llm held = llm_with_mtp(&llm);
  const int64_t layer = 4096 * 68 * 256 + 32 * 256 * 4096 + 513 * INT64_C(12582912);
  const int64_t plain = 512 * 4096 + 2 * 4096 + 2 * 256 + 2 * 4096 * 4096 + 3 * 4096;
  cr_expect_eq(held.weight_bytes - llm.weight_bytes, 2 * (layer + plain));
  cr_expect_eq(llm.kv_bytes_per_token, 15 * 2 * 2 * 256 * 2);
  cr_expect_eq(held.kv_bytes_per_token, 16 * 2 * 2 * 256 * 2);
  cr_expect_eq(held.state_bytes_per_sequence, llm.state_bytes_per_sequence);
}

Test(llm, splitwise_sim_models_state_their_sizes_and_keep_the_name_of_the_measured_times) {
  const struct {
    const char *file, *name;
    int64_t weight_bytes, kv_bytes_per_token;
  } cases[] = {{"llama2-70b-splitwise-sim", "llama2-70b", 135000000000, 2621440},
               {"bloom-176b-splitwise-sim", "bloom-176b", 329000000000, 4014080}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm;
    cr_assert_eq(llm_load(&llm, cases[i].file, data_dir, place_of_file("test"), &arena, &diag), 0);
    cr_assert_str_eq(llm.name, cases[i].name);
    cr_assert_eq(llm.weight_bytes, cases[i].weight_bytes);
    cr_assert_eq(llm.kv_bytes_per_token, cases[i].kv_bytes_per_token);
  }
}

Test(llm, hugging_face_files_give_the_same_shapes_as_ours) {
  const struct {
    const char *name, *text;
  } cases[] = {
      {"llama2-70b", "{\"model_type\": \"llama\", \"hidden_size\": 8192, \"num_hidden_layers\": 80,"
                     "\"num_attention_heads\": 64, \"num_key_value_heads\": 8,"
                     "\"intermediate_size\": 28672, \"vocab_size\": 32000, \"head_dim\": null,"
                     "\"max_position_embeddings\": 4096, \"torch_dtype\": \"float16\","
                     "\"architectures\": [\"LlamaForCausalLM\"], \"rms_norm_eps\": 1e-05}"},
      {"llama-13b", "{\"model_type\": \"mistral\", \"hidden_size\": 5120,"
                    "\"num_hidden_layers\": 40, \"num_attention_heads\": 40,"
                    "\"intermediate_size\": 13824, \"vocab_size\": 32000,"
                    "\"max_position_embeddings\": 2048, \"tie_word_embeddings\": false}"},
      {"bloom-176b", "{\"model_type\": \"bloom\", \"n_embed\": 14336, \"n_layer\": 70,"
                     "\"n_head\": 112, \"vocab_size\": 250880, \"dtype\": \"bfloat16\"}"},
      {"opt-30b", "{\"model_type\": \"opt\", \"hidden_size\": 7168, \"num_hidden_layers\": 48,"
                  "\"num_attention_heads\": 56, \"ffn_dim\": 28672, \"vocab_size\": 50272,"
                  "\"max_position_embeddings\": 2048, \"torch_dtype\": \"float16\"}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm ours, theirs;
    cr_assert_eq(llm_load(&ours, cases[i].name, data_dir, place_of_file("test"), &arena, &diag), 0);
    cr_assert_eq(load_text(&theirs, "config.json", cases[i].text), 0, "%s", cases[i].name);
    cr_assert_eq(theirs.weight_bytes, ours.weight_bytes, "%s", cases[i].name);
    cr_assert_eq(theirs.kv_bytes_per_token, ours.kv_bytes_per_token, "%s", cases[i].name);
    cr_assert_eq(theirs.max_position_embeddings, ours.max_position_embeddings);
    cr_assert_eq(theirs.hidden_act, ours.hidden_act, "%s", cases[i].name);
    cr_assert_eq(theirs.norm, ours.norm, "%s", cases[i].name);
    cr_assert_eq(theirs.position_embedding_type, ours.position_embedding_type);
  }
}

Test(llm, a_float32_file_weighs_twice_as_much) {
  const char *text = "{\"model_type\": \"opt\", \"hidden_size\": 64, \"num_hidden_layers\": 2,"
                     "\"num_attention_heads\": 2, \"ffn_dim\": 256, \"vocab_size\": 100,"
                     "\"max_position_embeddings\": 10, \"torch_dtype\": \"float32\"}";
  Llm llm;
  cr_assert_eq(load_text(&llm, "config.json", text), 0);
  // Two layers of 4·64² + 2·64·256 + biases 3·64 + 64 + 256 + 64 + norms 4·64; 110 embeddings of
  // 64; a last norm of 128.
  int64_t parameters = 2 * (16384 + 32768 + 576 + 256) + 110 * 64 + 128;
  cr_assert_eq(llm_parameters(&llm), parameters);
  cr_assert_eq(llm.weight_bytes, 4 * parameters);
  cr_assert_eq(llm.kv_bytes_per_token, 2 * 2 * 64 * 4);
}

#define SHAPE                                                                                      \
  "num_hidden_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nintermediate_size: 256\n"        \
  "vocab_size: 100\nmax_position_embeddings: 10\n"
#define JSON_SHAPE                                                                                 \
  "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4,"                     \
  "\"intermediate_size\": 256, \"vocab_size\": 100, \"max_position_embeddings\": 10}"

Test(llm, kernels_are_those_of_the_family_unless_the_file_says) {
  const struct {
    const char *file, *text;
    int hidden_act, norm, positions;
    bool learned;
  } cases[] = {
      {"m.yaml", SHAPE, LLM_GELU, LLM_LAYER_NORM, LLM_ALIBI, false},
      {"m.yaml", SHAPE "gated_mlp: true\n", LLM_SILU, LLM_RMS_NORM, LLM_ROPE, false},
      {"m.yaml", SHAPE "learned_positions: true\n", LLM_RELU, LLM_LAYER_NORM, LLM_LEARNED, true},
      {"m.yaml", SHAPE "position_embedding_type: learned\nhidden_act: gelu\n", LLM_GELU,
       LLM_LAYER_NORM, LLM_LEARNED, true},
      {"m.yaml", SHAPE "gated_mlp: true\nhidden_act: gelu\nnorm: layer\n", LLM_GELU, LLM_LAYER_NORM,
       LLM_ROPE, false},
      {"m.yaml", SHAPE "position_embedding_type: rope\nnorm: rms\n", LLM_GELU, LLM_RMS_NORM,
       LLM_ROPE, false},
      {"config.json", "{\"model_type\": \"opt\", \"activation_function\": \"gelu_new\"," JSON_SHAPE,
       LLM_GELU, LLM_LAYER_NORM, LLM_LEARNED, true},
      {"config.json", "{\"model_type\": \"llama\", \"hidden_act\": \"silu\"," JSON_SHAPE, LLM_SILU,
       LLM_RMS_NORM, LLM_ROPE, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm;
    cr_assert_eq(load_text(&llm, cases[i].file, cases[i].text), 0, "case %zu", i);
    cr_assert_eq(llm.hidden_act, cases[i].hidden_act, "case %zu", i);
    cr_assert_eq(llm.norm, cases[i].norm, "case %zu", i);
    cr_assert_eq(llm.position_embedding_type, cases[i].positions, "case %zu", i);
    cr_assert_eq(llm.learned_positions, cases[i].learned, "case %zu", i);
  }
}

Test(llm, bad_files_are_reported_where_they_are_wrong) {
  const struct {
    const char *file, *text;
    int line;
    const char *fragment;
  } cases[] = {
      {"m.yaml", SHAPE "num_kv_heads: 2\n", 7, "num_kv_heads"},
      {"m.yaml", SHAPE "weight_bytes: 5\n", 7, "weight_bytes"},
      {"m.yaml", SHAPE "num_key_value_heads: 3\n", 1, "does not divide num_attention_heads 4"},
      {"m.yaml", "num_hidden_layers: 2\n", 1, "vocab_size"},
      {"m.yaml", SHAPE "hidden_act: gelo\n", 7, "gelo"},
      {"m.yaml", SHAPE "learned_positions: true\nposition_embedding_type: rope\n", 7,
       "contradicts position_embedding_type 'rope'"},
      {"config.json", "{\"model_type\": \"llama\",\n\"hidden_act\": \"mish\"," JSON_SHAPE, 2,
       "mish"},
      {"config.json", "{\"hidden_size\": 64}\n", 1, "model_type"},
      {"config.json", "{\n\"model_type\": \"lama\"}\n", 2, "lama"},
      {"config.json", "{\"model_type\": \"llama\", \"hidden_size\": 64}\n", 1,
       "missing key 'num_hidden_layers'"},
      {"config.json", "{\"model_type\": \"llama\", \"hidden_size\": 64}\n", 1,
       "missing key 'vocab_size'"},
      {"config.json", "{\"model_type\": \"jamba\",\n\"attn_layer_period\": 8}\n", 2,
       "'attn_layer_period': state-space layers are not modelled"},
      {"config.json", "{\"model_type\": \"a\",\n\"layer_types\": [\"full_attention\",\n\"conv\"]}",
       3, "layers of type 'conv'"},
      {"config.json", "{\"quantization\": {}}\n", 1, "model_type"},
      {"config.json",
       "{\"model_type\": \"llama\", \"quantization_config\": {\n\"quant_method\": "
       "\"fp9\"}," JSON_SHAPE,
       2, "unknown quant_method 'fp9'"},
      {"config.json", "{\"model_type\": \"mixtral\", \"num_local_experts\": 8," JSON_SHAPE, 1,
       "missing key 'num_experts_per_tok', which a model with 'num_experts' needs"},
      {"config.json", "{\"model_type\": \"deepseek_v3\", \"kv_lora_rank\": 512," JSON_SHAPE, 1,
       "missing key 'qk_nope_head_dim'"},
      {"m.yaml", SHAPE "num_experts: 4\nnum_experts_per_tok: 5\nmoe_intermediate_size: 8\n", 1,
       "num_experts_per_tok 5 exceeds num_experts 4"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm;
    diag_done(&diag);
    diag_init(&diag);
    cr_assert_eq(load_text(&llm, cases[i].file, cases[i].text), -1, "case %zu", i);
    cr_assert(reported(cases[i].line, cases[i].fragment), "case %zu: %s", i,
              diag.entries[0].message);
    cr_assert_eq(diag_exit_code(&diag), 3);
  }
}

Test(llm, each_number_that_a_shape_needs_is_asked_for) {
  static const char *const keys[] = {"num_hidden_layers", "hidden_size", "num_attention_heads",
                                     "intermediate_size", "vocab_size",  "max_position_embeddings"};
  Llm llm;
  cr_assert_eq(load_text(&llm, "m.yaml", "bias: false\n"), -1);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    cr_expect(reported(1, arena_printf(&arena, "'%s'", keys[i])), "%s", keys[i]);
}

Test(llm, an_unknown_name_is_reported_at_its_place_with_a_near_one) {
  Llm llm;
  Place at = {.path = "a.yaml", .line = 3, .column = 8, .width = 9};
  cr_assert_eq(llm_load(&llm, "bloom-167b", data_dir, at, &arena, &diag), -1);
  cr_assert(reported(3, "unknown model 'bloom-167b'"));
  cr_assert_not_null(strstr(diag.entries[0].hint, "bloom-176b"));
  cr_assert_eq(llm_load(&llm, "meta-llama/Llama-3.1-70B-Instruct", data_dir, at, &arena, &diag),
               -1);
  cr_assert_str_eq(diag.entries[1].hint, "did you mean 'llama3.1-70b'?");
}
