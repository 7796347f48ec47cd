/* The shape of a language model: what its weights and its KV cache weigh. Field names are Hugging
 * Face's.
 *
 * Read from perfmodel/models/NAME.yaml or from a Hugging Face config.json (llm_hugging_face.h).
 * Parameters are L·(h·(nq + 2·nkv)·d + nq·d·h + (3 if gated else 2)·h·ffn [+ biases] + norms) +
 * V·h·(1 if tied else 2) + learned positions; experts and latent attention as DeepSeek-V3 has them
 * (2412.19437, §2.1). Layers that predict more than one token ahead are counted where drafts come
 * from them (llm_with_mtp), towers for pictures and sound are not. */
#ifndef PERFMODEL_LLM_H
#define PERFMODEL_LLM_H
#include "base/option.h"
#include "perfmodel/dtype.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum LlmActivation { LLM_SILU, LLM_GELU, LLM_RELU } LlmActivation;
typedef enum LlmNorm { LLM_RMS_NORM, LLM_LAYER_NORM } LlmNorm;
typedef enum LlmPositions { LLM_ROPE, LLM_ALIBI, LLM_LEARNED } LlmPositions;
/* Layers that keep a state of each sequence instead of its tokens: Gated DeltaNet (2412.06464),
 * Kimi Delta Attention (2510.26692), Mamba-2 (2405.21060). */
typedef enum LlmLinear { LLM_GDN, LLM_KDA, LLM_MAMBA2 } LlmLinear;

/* Matrices of all layers, by what they do; each is kept in one number format, or nearly. */
typedef enum LlmPart {
  LLM_QKV, // of attention, with the factors of latent attention and the index of a sparse one, and
           // of linear attention, with its gates
  LLM_OUT, // of both
  LLM_MLP, // of dense layers
  LLM_SHARED_EXPERTS,
  LLM_EXPERTS, // all of them
  LLM_PARTS,
} LlmPart;

/* hidden_act, norm and position_embedding_type are those of the family that a file looks like
 * where it does not say: Llama with a gated MLP, OPT with learned positions, else BLOOM. */
typedef struct Llm {
  const char *name; // llama2-70b: key of measured profiles; the file's own name unless it says, or
                    // that of the checkpoint: qwen3-32b of Qwen--Qwen3-32B_config.json
  const char *checkpoint; // at Hugging Face, to start it with; NULL: not known
  const char *file;       // GGUF that the weights are in, as given; NULL: the shape alone is known
  const char *taken_as;   // of a type that is not known, what it was read as; else NULL
  int64_t num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads, head_dim;
  int64_t intermediate_size, vocab_size, max_position_embeddings;
  bool gated_mlp, bias, attention_bias, tie_word_embeddings, learned_positions;
  int hidden_act, norm, position_embedding_type; // LlmActivation, LlmNorm, LlmPositions
  int64_t dtype_bytes;                           // of activations: 2 for bf16 and fp16
  int64_t weight_bytes;             // all weights; from the shape unless the file states it
  int64_t kv_bytes_per_token;       // of layers that see all tokens, all heads; likewise
  int64_t kv_bytes_per_sequence;    // at most, of layers with a sliding window
  int64_t state_bytes_per_sequence; // of layers with linear attention
  int weight_dtype;                 // Dtype of dense MLPs and shared experts, and of what follows
  int attention_dtype;          // Dtype of attention's matrices; embedding and head have 16 bits
  int expert_dtype;             // Dtype of routed experts
  int kv_cache_dtype;           // Dtype
  double part_bytes[LLM_PARTS]; // of a parameter, in the mean of the layers; 0: as its Dtype
  int64_t num_nextn_predict_layers; // that propose drafts (MTP); see llm_with_mtp
  // layers that differ
  int64_t num_attention_layers; // layers that have attention
  int64_t num_mlp_layers;       // layers that have an MLP or experts
  int64_t num_dense_layers; // layers with an MLP of intermediate_size instead of experts, if any
  // mixture of experts; num_experts 0: none
  int64_t num_experts, num_experts_per_tok, moe_intermediate_size;
  int64_t shared_expert_intermediate_size; // of all shared experts together; 0: none
  // multi-head latent attention; kv_lora_rank 0: none. v_head_dim may also be of plain attention
  int64_t q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  // sliding windows; sliding_window 0: none. What is 0 is as in the other layers
  int64_t sliding_window, num_sliding_layers;
  int64_t sliding_num_attention_heads, sliding_num_key_value_heads, sliding_head_dim;
  // sparse attention that picks index_topk tokens by an index; 0: none
  int64_t index_topk, index_n_heads, index_head_dim;
  int64_t num_index_layers; // layers with an index of their own
  // linear attention and state spaces; num_linear_layers 0: none. Of Mamba-2 the values are its
  // heads, the keys its groups, and a key is as wide as its state
  int64_t num_linear_layers, linear_num_key_heads, linear_num_value_heads;
  int64_t linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim;
  int linear_attention; // LlmLinear
  // attention over compressed tokens, in layers that have a window beside; 0: all tokens are kept
  double kv_share;               // tokens that a mean layer keeps of each one that it has seen
  int64_t num_compressed_layers; // that keep any; the others have their window alone
  bool values_are_keys;          // one vector of qk_dim for both
  int64_t o_lora_rank, o_groups; // attention's output in two factors, the first in groups; 0: one
  int64_t hc_mult; // residual streams, mixed around attention and MLP (mHC, 2512.24880); 0: one
  bool qk_norm, attention_sinks;
  bool attention_gate; // attention's output is multiplied by a gate of as many numbers
  bool wide_qk_norm;   // over all heads at once, so that GPUs that share them add up their squares
  bool fp32_router;    // experts are chosen in 32 bits
  bool sigmoid_router; // their shares are sigmoids, not a softmax
  uint64_t digest;     // of the name, the file's content and the formats that it was made of
} Llm;

enum { LLM_STATE_BYTES = 4 }; // of a number of a state: mamba_ssm_dtype float32
enum { LLM_UNSAID = -1 };     // a choice that is left open

/* Number formats that stand in place of those of a file; LLM_UNSAID: as the file has them. */
typedef struct LlmFormats {
  int weight_dtype, attention_dtype, expert_dtype, kv_cache_dtype; // Dtype
} LlmFormats;

/* `name` is a model of `data_dir`/models/ or the path of a .yaml file or of a Hugging Face .json,
 * whose many other keys are ignored. Unknown name: located at `at`, with near names. */
int llm_load(Llm *self, const char *name, const char *data_dir, Place at, Arena *arena, Diag *diag);
/* The same in other formats. weight_dtype is then that of attention and experts, too, unless
 * `formats` says more. */
int llm_load_as(Llm *self, const char *name, const LlmFormats *formats, const char *data_dir,
                Place at, Arena *arena, Diag *diag);
/* The most tokens that it has positions for: a prompt and its output. 0: as many as there is memory
 * for. ALiBi adds a distance to each product instead, and was made to go beyond the length that was
 * trained (Press et al. 2022), which max_position_embeddings then says. */
int64_t llm_context(const Llm *self);

/* Attention of layers that are alike. */
typedef struct LlmAttention {
  int64_t layers, query_heads, kv_heads, qk_dim, v_dim; // qk_dim, v_dim: of one head
  int64_t window;                                       // tokens seen; 0: all
} LlmAttention;

/* Of attention over compressed tokens the window is that of the same layers. Of latent attention
 * kv_heads are those of its products, before they are absorbed. */
LlmAttention llm_full_attention(const Llm *self);
LlmAttention llm_sliding_attention(const Llm *self); // layers 0: there is none
/* Keys in an index of sparse attention for each token. */
double llm_index_share(const Llm *self);
static inline bool llm_latent(const Llm *self) {
  return self->kv_lora_rank > 0;
}
/* Heads that the KV cache can be split into: one where it is latent. */
static inline int64_t llm_cached_heads(const Llm *self) {
  return llm_latent(self) ? 1 : self->num_key_value_heads;
}
static inline int64_t llm_moe_layers(const Llm *self) {
  return self->num_experts > 0 ? self->num_mlp_layers - self->num_dense_layers : 0;
}
static inline int64_t llm_dense_layers(const Llm *self) {
  return self->num_mlp_layers - llm_moe_layers(self);
}

/* Bytes of an element of the KV cache; of one token's keys in one index of sparse attention. */
double llm_kv_element_bytes(const Llm *self);
double llm_index_kv_bytes(const Llm *self);
/* Bytes of one token's KV in one layer of full (or sliding) attention, all heads, with its
 * share of the indices. */
double llm_layer_kv_bytes(const Llm *self, bool sliding);
/* Of one layer on one of `tp` GPUs, the ranks of latent attention on each: elements of a token's
 * keys and values, parameters of q, k and v, and of the output. */
double llm_kv_elements(const Llm *self, const LlmAttention *a, int64_t tp);
double llm_qkv_parameters(const Llm *self, const LlmAttention *a, int64_t tp);
double llm_out_parameters(const Llm *self, const LlmAttention *a, int64_t tp);
/* Of linear attention in one layer on one of `tp` GPUs: numbers that go through its convolution,
 * values, parameters of what leads into it and of its output. */
double llm_linear_channels(const Llm *self, int64_t tp);
double llm_linear_values(const Llm *self, int64_t tp);
double llm_linear_in_parameters(const Llm *self, int64_t tp);
double llm_linear_out_parameters(const Llm *self, int64_t tp);
/* Numbers of its state, of all heads. */
double llm_linear_state(const Llm *self);
/* Width of what a layer makes compressed tokens of `dim` numbers of: for each a value and the
 * logarithm of its weight, of layers with an index for two overlapping tokens (DeepSeek-V4). */
static inline double llm_compressor_width(int64_t dim, bool index) {
  return (double)((index ? 4 : 2) * dim);
}
/* Parameters of the index of sparse attention in one layer: its queries from those of attention,
 * one key, and a weight for each of its heads. Of attention over compressed tokens the key is
 * compressed, and the second of the overlapping tokens counts here. */
double llm_index_parameters(const Llm *self);
/* Parameters of a part in all layers. */
int64_t llm_part_parameters(const Llm *self, LlmPart part);
Dtype llm_part_dtype(const Llm *self, LlmPart part);
/* Mean bytes of a part's parameters, with their scales. */
double llm_part_bytes(const Llm *self, LlmPart part);
/* The Dtype that most of its matrices are kept in: what it is said to be quantized to. */
Dtype llm_quantization(const Llm *self);
/* Bytes of all weights by the shape and its formats. */
int64_t llm_weight_bytes(const Llm *self);
/* The model with its MTP layers in memory: num_nextn_predict_layers more layers of full attention,
 * with experts where the model has any, and the projection before each, in its sizes and its
 * counts of layers. In 16 bits where the layers are in 4. It has no times of its own. */
Llm llm_with_mtp(const Llm *self);
/* Parameters by the formula above. */
int64_t llm_parameters(const Llm *self);
/* Tandem's name for a checkpoint, "llama3.1-70b" for "meta-llama/Llama-3.1-70B-Instruct"; NULL: it
 * has none of that shape in root/models/. */
const char *llm_name_of(const char *model, const char *root, Arena *arena);
#endif
