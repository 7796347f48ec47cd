/* The shape of a language model: what its weights and its KV cache weigh. Field names are Hugging
 * Face's.
 *
 * Read from perfmodel/models/NAME.yaml or from a Hugging Face config.json (the same keys; JSON is
 * YAML). Formulas: calibration study §1.1, with parameters L·(h·(nq + 2·nkv)·d + nq·d·h + (3 if
 * gated else 2)·h·ffn [+ biases] + norms)
 *   + V·h·(1 if tied else 2) + learned positions. */
#ifndef PERFMODEL_LLM_H
#define PERFMODEL_LLM_H
#include "perfmodel/dtype.h"
#include "sim/base/option.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum LlmActivation { LLM_SILU, LLM_GELU, LLM_RELU } LlmActivation;
typedef enum LlmNorm { LLM_RMS_NORM, LLM_LAYER_NORM } LlmNorm;
typedef enum LlmPositions { LLM_ROPE, LLM_ALIBI, LLM_LEARNED } LlmPositions;

/* hidden_act, norm and position_embedding_type are those of the family that a file looks like
 * where it does not say: Llama with a gated MLP, OPT with learned positions, else BLOOM. */
typedef struct Llm {
  const char *name; // llama2-70b: key of measured profiles; the file's own name unless it says
  int64_t num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads, head_dim;
  int64_t intermediate_size, vocab_size, max_position_embeddings;
  bool gated_mlp, bias, tie_word_embeddings, learned_positions;
  int hidden_act, norm, position_embedding_type; // LlmActivation, LlmNorm, LlmPositions
  int64_t dtype_bytes;                           // of activations: 2 for bf16 and fp16
  int64_t weight_bytes;       // all weights; from the shape unless the file states it
  int64_t kv_bytes_per_token; // all layers, all heads: 2·L·nkv·d·dtype unless the file states it
  int weight_dtype;           // Dtype of the layers' matrices; embedding and head are in 16 bits
  int expert_dtype;           // Dtype of routed experts, where it differs
  int kv_cache_dtype;         // Dtype
  // mixture of experts; num_experts 0: none
  int64_t num_experts, num_experts_per_tok, moe_intermediate_size;
  int64_t shared_expert_intermediate_size; // of all shared experts together; 0: none
  int64_t num_dense_layers;                // layers with an MLP of intermediate_size instead
  // multi-head latent attention; kv_lora_rank 0: none
  int64_t q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  // sliding windows; sliding_window 0: none
  int64_t sliding_window, num_sliding_layers;
  bool qk_norm, attention_sinks;
} Llm;

/* `name` is a model of `data_dir`/models/ or the path of a .yaml file or of a Hugging Face .json,
 * whose many other keys are ignored. Unknown name: located at `at`, with near names. */
int llm_load(Llm *self, const char *name, const char *data_dir, Place at, Arena *arena, Diag *diag);
/* The most tokens that it has positions for: a prompt and its output. 0: as many as there is memory
 * for. ALiBi adds a distance to each product instead, and was made to go beyond the length that was
 * trained (Press et al. 2022), which max_position_embeddings then says. */
int64_t llm_context(const Llm *self);
/* Parameters of one layer's matrices: what a token is multiplied by. */
int64_t llm_layer_matrices(const Llm *self);
/* Parameters by the formula above. */
int64_t llm_parameters(const Llm *self);
#endif
