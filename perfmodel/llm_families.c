/* Families of models: what the code of an architecture says that its config.json need not. */
#include "perfmodel/llm_hugging_face.h"

/* As Llama has it: a gated MLP, RMSNorm, rotary positions. */
#define GATED .gated_mlp = true, .norm = LLM_RMS_NORM, .position_embedding_type = LLM_ROPE
/* As GPT-2: two matrices, LayerNorm, biases. */
#define PLAIN .bias = true, .norm = LLM_LAYER_NORM
#define TIED  .tie_word_embeddings = true
#define QK    .qk_norm = true
/* MiniMax: its router is computed in float32, with sigmoids; M2's "qk_norm_type" is "per_layer",
 * M3's "per_head". */
#define FP32_ROUTER .fp32_router = true, .sigmoid_router = true
#define WIDE        .wide_qk_norm = true, FP32_ROUTER
#define QKV         .attention_bias = true
#define SILU        .hidden_act = LLM_SILU
#define GELU        .hidden_act = LLM_GELU
#define RELU        .hidden_act = LLM_RELU

/* Old files leave out the longest context. */
#define FALCON                                                                                     \
  GELU, TIED, .norm = LLM_LAYER_NORM, .position_embedding_type = LLM_ROPE,                         \
              .max_position_embeddings = 2048

/* Gemma 3's files leave out what its smallest has. */
#define GEMMA3                                                                                     \
  GATED, GELU, TIED, QK, .num_attention_heads = 8, .num_key_value_heads = 4, .head_dim = 256,      \
                         .vocab_size = 262208, .max_position_embeddings = 131072

const LlmFamily llm_families[] = {
    {.model_type = "llama", .facts = {GATED, SILU}},
    {.model_type = "mistral", .facts = {GATED, SILU}},
    {.model_type = "bloom",
     .facts = {PLAIN, GELU, TIED, .position_embedding_type = LLM_ALIBI,
               .max_position_embeddings = 2048},
     .mlp_factor = 4},
    {.model_type = "opt",
     .facts = {PLAIN, RELU, TIED, .learned_positions = true,
               .position_embedding_type = LLM_LEARNED}},
    // Llama's kind
    {.model_type = "ministral", .facts = {GATED, SILU}},
    {.model_type = "ministral3", .facts = {GATED, SILU}},
    {.model_type = "qwen2", .facts = {GATED, SILU, QKV}},
    {.model_type = "qwen2_5", .facts = {GATED, SILU, QKV}},
    {.model_type = "qwen3", .facts = {GATED, SILU, QK}},
    {.model_type = "phi3", .facts = {GATED, SILU}},
    {.model_type = "granite", .facts = {GATED, SILU}},
    {.model_type = "internlm2", .facts = {GATED, SILU}},
    {.model_type = "internlm3", .facts = {GATED, SILU}},
    {.model_type = "baichuan", .facts = {GATED, SILU}},
    {.model_type = "yi", .facts = {GATED, SILU}},
    {.model_type = "aquila", .facts = {GATED, SILU}},
    {.model_type = "exaone", .facts = {GATED, SILU}},
    {.model_type = "exaone4", .facts = {GATED, SILU, QK}, .full_every = 4},
    {.model_type = "smollm3", .facts = {GATED, SILU, TIED}},
    {.model_type = "olmo", .facts = {GATED, SILU}},
    {.model_type = "olmo2", .facts = {GATED, SILU, QK}},
    {.model_type = "olmo3", .facts = {GATED, SILU, QK}, .full_every = 4},
    {.model_type = "seed_oss", .facts = {GATED, SILU, QKV}},
    {.model_type = "hunyuan_v1_dense", .facts = {GATED, SILU, QK}},
    {.model_type = "ernie4_5", .facts = {GATED, SILU, TIED}},
    {.model_type = "glm", .facts = {GATED, SILU, QKV}},
    {.model_type = "glm4", .facts = {GATED, SILU, QKV}},
    {.model_type = "minicpm", .facts = {GATED, SILU, TIED}},
    {.model_type = "apertus",
     .facts = {QK, .norm = LLM_RMS_NORM, .position_embedding_type = LLM_ROPE, GELU}},
    {.model_type = "cohere", .facts = {GATED, SILU, TIED}},
    {.model_type = "cohere2", .facts = {GATED, SILU, TIED}, .full_every = 4},
    {.model_type = "stablelm", .facts = {GATED, SILU}},
    {.model_type = "nemotron",
     .facts = {RELU, .norm = LLM_LAYER_NORM, .position_embedding_type = LLM_ROPE}},
    {.model_type = "arcee",
     .facts = {RELU, .norm = LLM_RMS_NORM, .position_embedding_type = LLM_ROPE}},
    {.model_type = "nemotron-nas", .facts = {GATED, SILU}},
    {.model_type = "starcoder2", .facts = {PLAIN, GELU, TIED, .position_embedding_type = LLM_ROPE}},
    {.model_type = "phi", .facts = {PLAIN, GELU, .position_embedding_type = LLM_ROPE}},
    {.model_type = "gpt_neox", .facts = {PLAIN, GELU, .position_embedding_type = LLM_ROPE}},
    {.model_type = "gpt2",
     .facts = {PLAIN, GELU, TIED, .learned_positions = true,
               .position_embedding_type = LLM_LEARNED},
     .mlp_factor = 4},
    {.model_type = "gpt_bigcode",
     .facts = {PLAIN, GELU, TIED, .learned_positions = true,
               .position_embedding_type = LLM_LEARNED},
     .mlp_factor = 4},
    {.model_type = "gptj",
     .facts = {PLAIN, GELU, .position_embedding_type = LLM_ROPE},
     .mlp_factor = 4},
    {.model_type = "falcon", .facts = {FALCON}, .mlp_factor = 4},
    {.model_type = "RefinedWeb", .facts = {FALCON}, .mlp_factor = 4},
    {.model_type = "RefinedWebModel", .facts = {FALCON}, .mlp_factor = 4},
    {.model_type = "mpt",
     .facts = {GELU, TIED, .norm = LLM_LAYER_NORM, .position_embedding_type = LLM_ALIBI},
     .mlp_factor = 4},
    {.model_type = "qwen", .facts = {GATED, SILU, QKV}, .mlp_halved = true},
    {.model_type = "chatglm", .facts = {GATED, SILU, QKV}},
    {.model_type = "glm4v", .facts = {GATED, SILU, QKV}},
    {.model_type = "phi4mm", .facts = {GATED, SILU, TIED}},
    {.model_type = "gemma", .facts = {GATED, GELU, TIED}},
    {.model_type = "gemma2", .facts = {GATED, GELU, TIED}, .full_every = 2},
    {.model_type = "gemma3", .facts = {GEMMA3}, .full_every = 6},
    {.model_type = "gemma4",
     .facts = {GATED, GELU, TIED, QK},
     .full_every = 6,
     .parallel_mlp = true},
    // experts
    {.model_type = "mixtral", .facts = {GATED, SILU}, .wide_experts = true},
    {.model_type = "qwen2_moe", .facts = {GATED, SILU, QKV}},
    {.model_type = "qwen3_moe", .facts = {GATED, SILU, QK}},
    {.model_type = "gpt_oss",
     .facts = {GATED, SILU, QKV, .attention_sinks = true},
     .full_every = 2,
     .wide_experts = true},
    {.model_type = "llama4",
     .facts = {GATED, SILU, QK},
     .n_shared_experts = 1,
     .full_every = 4,
     .wide_experts = true},
    {.model_type = "minimax_m2", .facts = {GATED, SILU, QK, WIDE}, .wide_experts = true},
    {.model_type = "minimax_m3", .facts = {GATED, SILU, QK, FP32_ROUTER}, .wide_experts = true},
    {.model_type = "olmoe", .facts = {GATED, SILU, QK}, .wide_experts = true},
    {.model_type = "phimoe", .facts = {GATED, SILU, QKV}, .wide_experts = true},
    {.model_type = "granitemoe", .facts = {GATED, SILU}, .wide_experts = true},
    {.model_type = "granitemoeshared", .facts = {GATED, SILU}, .wide_experts = true},
    {.model_type = "dbrx",
     .facts =
         {.gated_mlp = true, SILU, .norm = LLM_LAYER_NORM, .position_embedding_type = LLM_ROPE},
     .wide_experts = true},
    {.model_type = "grok-1", .facts = {GATED, GELU, TIED}, .wide_experts = true},
    {.model_type = "git", .facts = {GATED, GELU}, .parallel_mlp = true}, // Grok-2
    {.model_type = "exaone_moe", .facts = {GATED, SILU, QK}, .full_every = 4},
    {.model_type = "deepseek", .facts = {GATED, SILU}},
    {.model_type = "glm4_moe", .facts = {GATED, SILU, QKV}},
    {.model_type = "glm4v_moe", .facts = {GATED, SILU, QKV}},
    {.model_type = "dots1", .facts = {GATED, SILU, QK}},
    {.model_type = "ernie4_5_moe", .facts = {GATED, SILU, TIED}},
    {.model_type = "hunyuan_v1_moe", .facts = {GATED, SILU, QK}},
    {.model_type = "bailing_moe", .facts = {GATED, SILU}},
    {.model_type = "bailing_moe_v2", .facts = {GATED, SILU, QK}},
    {.model_type = "mimo", .facts = {GATED, SILU, QKV}},
    {.model_type = "mimo_v2_flash", .facts = {GATED, SILU, .attention_sinks = true}},
    {.model_type = "step3", .facts = {GATED, SILU}},
    {.model_type = "step3p5", .facts = {GATED, SILU, QK}},
    {.model_type = "step3p7", .facts = {GATED, SILU, QK}},
    {.model_type = "afmoe", .facts = {GATED, SILU, QK}},
    // latent attention
    {.model_type = "deepseek_v2", .facts = {GATED, SILU}},
    {.model_type = "deepseek_v3", .facts = {GATED, SILU}},
    {.model_type = "deepseek_v32", .facts = {GATED, SILU}},
    {.model_type = "kimi_k2", .facts = {GATED, SILU}},
    {.model_type = "kimi_k25", .facts = {GATED, SILU}},
    {.model_type = "glm_moe_dsa", .facts = {GATED, SILU}},
    {.model_type = "glm4_moe_lite", .facts = {GATED, SILU}},
    // linear attention
    {.model_type = "qwen3_next",
     .facts = {GATED, SILU, QK, .attention_gate = true},
     .linear = true},
    {.model_type = "qwen3_5", .facts = {GATED, SILU, QK}, .linear = true},
    {.model_type = "qwen3_5_moe", .facts = {GATED, SILU, QK}, .linear = true},
    {.model_type = "kimi_linear",
     .facts = {GATED, SILU, .linear_attention = LLM_KDA},
     .linear = true},
    {.model_type = "nemotron_h",
     .facts = {RELU, .norm = LLM_RMS_NORM, .position_embedding_type = LLM_ROPE,
               .linear_attention = LLM_MAMBA2},
     .linear = true},
    // attention over compressed tokens
    {.model_type = "deepseek_v4", .facts = {GATED, SILU, .values_are_keys = true}},
    {.model_type = "deepseek_ref", .facts = {GATED, SILU, .values_are_keys = true}},
    {.model_type = "minicpm3", .facts = {GATED, SILU, TIED}},
    {0},
};
