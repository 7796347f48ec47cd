/* What follows from the shape of a model: parameters, bytes, what a token reaches. */
#include "perfmodel/llm.h"
#include <math.h>

int64_t llm_context(const Llm *self) {
  return self->position_embedding_type == LLM_ALIBI ? 0 : self->max_position_embeddings;
}

static int64_t either(int64_t own, int64_t other) {
  return own > 0 ? own : other;
}

LlmAttention llm_full_attention(const Llm *self) {
  const int64_t others = self->kv_share > 0 ? 0 : self->num_sliding_layers;
  return (LlmAttention){.layers = self->num_attention_layers - others,
                        .query_heads = self->num_attention_heads,
                        .kv_heads = self->num_key_value_heads,
                        .qk_dim = self->head_dim,
                        .v_dim = either(self->v_head_dim, self->head_dim)};
}

LlmAttention llm_sliding_attention(const Llm *self) {
  const int64_t dim = either(self->sliding_head_dim, self->head_dim);
  return (LlmAttention){
      .layers = self->num_sliding_layers,
      .query_heads = either(self->sliding_num_attention_heads, self->num_attention_heads),
      .kv_heads = either(self->sliding_num_key_value_heads, self->num_key_value_heads),
      .qk_dim = dim,
      .v_dim = self->sliding_head_dim > 0 ? dim : either(self->v_head_dim, dim),
      .window = self->sliding_window};
}

static double element_bytes(const Llm *self, int dtype) {
  return dtype == DTYPE_BF16 ? (double)self->dtype_bytes : dtype_bytes((Dtype)dtype);
}

/* Kept in FP8 with one scale (vLLM's deepseek_v32). */
double llm_index_kv_bytes(const Llm *self) {
  return self->index_topk > 0 ? llm_index_share(self) * (double)(self->index_head_dim + 4) : 0;
}

/* Layers without an index keep few of the compressed tokens. */
double llm_index_share(const Llm *self) {
  return self->kv_share > 0
             ? self->kv_share * (double)self->num_hidden_layers / (double)self->num_index_layers
             : 1;
}

double llm_kv_elements(const Llm *self, const LlmAttention *a, int64_t tp) {
  if (llm_latent(self)) return (double)(self->kv_lora_rank + self->qk_rope_head_dim);
  const int64_t heads = a->kv_heads > tp ? a->kv_heads / tp : 1;
  return (double)(heads * (a->qk_dim + (self->values_are_keys ? 0 : a->v_dim)));
}

double llm_kv_element_bytes(const Llm *self) {
  return element_bytes(self, self->kv_cache_dtype);
}

/* Of one key that is also the value: in FP8 the rotated numbers stay in 16 bits, with 8 bytes of
 * scales (fp8_ds_mla of vLLM and SGLang: 584 bytes of 512 numbers). */
static double shared_vector_bytes(const Llm *self, const LlmAttention *a) {
  const double rotated = (double)self->qk_rope_head_dim;
  if (self->kv_cache_dtype != DTYPE_FP8 || rotated == 0)
    return llm_kv_elements(self, a, 1) * llm_kv_element_bytes(self);
  return llm_kv_elements(self, a, 1) + rotated + 8;
}

double llm_layer_kv_bytes(const Llm *self, bool sliding) {
  const LlmAttention a = sliding ? llm_sliding_attention(self) : llm_full_attention(self);
  const double layers = (double)self->num_hidden_layers;
  const double index =
      sliding ? 0 : llm_index_kv_bytes(self) * (double)self->num_index_layers / layers;
  const double share = self->kv_share > 0 && !sliding ? self->kv_share : 1;
  if (self->values_are_keys) return share * shared_vector_bytes(self, &a) + index;
  return share * llm_kv_elements(self, &a, 1) * llm_kv_element_bytes(self) + index;
}

double llm_qkv_parameters(const Llm *self, const LlmAttention *a, int64_t tp) {
  const double h = (double)self->hidden_size, rank = (double)self->q_lora_rank;
  const double q =
      (double)((self->attention_gate ? 2 : 1) * a->query_heads * a->qk_dim) / (double)tp;
  const double queries = rank > 0 ? h * rank + rank * q : h * q;
  const double compressed =
      self->kv_share > 0 ? (double)self->num_compressed_layers / (double)self->num_hidden_layers
                         : 0;
  if (!llm_latent(self))
    return queries +
           h * (llm_kv_elements(self, a, tp) + compressed * llm_compressor_width(a->qk_dim, false));
  const double kv = (double)self->kv_lora_rank;
  return queries + h * (kv + (double)self->qk_rope_head_dim) +
         kv * (double)(a->query_heads * (self->qk_nope_head_dim + a->v_dim)) / (double)tp;
}

double llm_out_parameters(const Llm *self, const LlmAttention *a, int64_t tp) {
  const double h = (double)self->hidden_size, rank = (double)self->o_lora_rank;
  const double o = (double)(a->query_heads * a->v_dim) / (double)tp;
  return rank > 0 ? o * rank + (double)self->o_groups * rank / (double)tp * h : o * h;
}

double llm_linear_values(const Llm *self, int64_t tp) {
  return (double)(self->linear_num_value_heads * self->linear_value_head_dim) / (double)tp;
}

double llm_linear_channels(const Llm *self, int64_t tp) {
  const double keys = (double)(self->linear_num_key_heads * self->linear_key_head_dim);
  return 2 * keys / (double)tp + llm_linear_values(self, tp);
}

double llm_linear_state(const Llm *self) {
  return (double)self->linear_key_head_dim * llm_linear_values(self, 1);
}

/* Queries, keys and values; for the output a gate of as many numbers as values; and of each head a
 * decay and, of delta rules, a strength of writing. KDA's decay is of each number of a key: it and
 * the gate have two factors, the inner one of one head's width. */
double llm_linear_in_parameters(const Llm *self, int64_t tp) {
  const double h = (double)self->hidden_size, values = llm_linear_values(self, tp);
  const double heads = (double)self->linear_num_value_heads / (double)tp;
  const double read = h * llm_linear_channels(self, tp);
  if (self->linear_attention == LLM_MAMBA2) return read + h * (values + heads);
  if (self->linear_attention == LLM_GDN) return read + h * (values + 2 * heads);
  const double key = (double)self->linear_key_head_dim, value = (double)self->linear_value_head_dim;
  return read + h * (key + value + heads) + heads * key * key + values * value;
}

double llm_linear_out_parameters(const Llm *self, int64_t tp) {
  return llm_linear_values(self, tp) * (double)self->hidden_size;
}

/* DeepSeek-V3.2, 2512.02556, §2.1. */
double llm_index_parameters(const Llm *self) {
  const double h = (double)self->hidden_size, heads = (double)self->index_n_heads;
  const double from = (double)either(self->q_lora_rank, self->hidden_size);
  double key = (double)self->index_head_dim;
  if (self->kv_share > 0)
    key = llm_compressor_width(self->index_head_dim, true) +
          llm_compressor_width(self->head_dim, true) - llm_compressor_width(self->head_dim, false);
  return from * (heads * (double)self->index_head_dim) + h * (key + heads);
}

static int64_t mlp_parameters(const Llm *self, int64_t width) {
  return (self->gated_mlp ? 3 : 2) * self->hidden_size * width;
}

int64_t llm_part_parameters(const Llm *self, LlmPart part) {
  const LlmAttention kinds[] = {llm_full_attention(self), llm_sliding_attention(self)};
  int64_t sum = 0;
  switch (part) {
  case LLM_QKV:
  case LLM_OUT:
    for (int i = 0; i < (self->kv_share > 0 ? 1 : 2); i++)
      sum += kinds[i].layers * (int64_t)(part == LLM_QKV ? llm_qkv_parameters(self, &kinds[i], 1)
                                                         : llm_out_parameters(self, &kinds[i], 1));
    if (part == LLM_QKV && self->index_topk > 0)
      sum += self->num_index_layers * (int64_t)llm_index_parameters(self);
    return sum + self->num_linear_layers * (int64_t)(part == LLM_QKV
                                                         ? llm_linear_in_parameters(self, 1)
                                                         : llm_linear_out_parameters(self, 1));
  case LLM_MLP:
    return llm_dense_layers(self) * mlp_parameters(self, self->intermediate_size);
  case LLM_SHARED_EXPERTS:
    return llm_moe_layers(self) * mlp_parameters(self, self->shared_expert_intermediate_size);
  default:
    return llm_moe_layers(self) * self->num_experts *
           mlp_parameters(self, self->moe_intermediate_size);
  }
}

Dtype llm_part_dtype(const Llm *self, LlmPart part) {
  return (Dtype)(part == LLM_QKV || part == LLM_OUT ? self->attention_dtype
                 : part == LLM_EXPERTS              ? self->expert_dtype
                                                    : self->weight_dtype);
}

double llm_part_bytes(const Llm *self, LlmPart part) {
  return self->part_bytes[part] > 0 ? self->part_bytes[part]
                                    : element_bytes(self, llm_part_dtype(self, part));
}

Dtype llm_quantization(const Llm *self) {
  int64_t sums[DTYPE_COUNT] = {0};
  for (int part = 0; part < LLM_PARTS; part++)
    sums[llm_part_dtype(self, (LlmPart)part)] += llm_part_parameters(self, (LlmPart)part);
  int most = 0;
  for (int dtype = 1; dtype < DTYPE_COUNT; dtype++)
    if (sums[dtype] > sums[most]) most = dtype;
  return (Dtype)most;
}

static int64_t matrices(const Llm *self) {
  int64_t sum = 0;
  for (int part = 0; part < LLM_PARTS; part++)
    sum += llm_part_parameters(self, (LlmPart)part);
  return sum;
}

static int64_t norm_parameters(const Llm *self) {
  return self->norm == LLM_LAYER_NORM ? 2 * self->hidden_size : self->hidden_size;
}

/* Biases of one layer, and vectors of attention. */
static int64_t layer_vectors(const Llm *self) {
  const int64_t h = self->hidden_size, q = self->num_attention_heads * self->head_dim;
  const int64_t kv = self->num_key_value_heads * self->head_dim;
  int64_t sum = 2 * norm_parameters(self);
  if (self->bias)
    sum += q + 2 * kv + h + self->intermediate_size + h;
  else if (self->attention_bias)
    sum += q + 2 * kv;
  if (self->qk_norm) sum += self->wide_qk_norm ? q + kv : 2 * self->head_dim;
  if (self->attention_sinks) sum += self->num_attention_heads;
  if (llm_latent(self)) sum += self->q_lora_rank + self->kv_lora_rank;
  return sum;
}

/* LayerNorm has two vectors, RMSNorm one. BLOOM's extra norm of the embedding (2·h) is left out,
 * and what else some families have that is less than a thousandth of a layer. */
static int64_t vector_parameters(const Llm *self) {
  const double convolution = llm_linear_channels(self, 1) * (double)self->linear_conv_kernel_dim;
  return self->num_hidden_layers * layer_vectors(self) + norm_parameters(self) +
         self->num_linear_layers * (int64_t)convolution;
}

static int64_t table_parameters(const Llm *self) {
  return self->vocab_size * self->hidden_size;
}

/* What is kept in 16 bits: routers choose among experts by one row each. */
static int64_t plain_parameters(const Llm *self) {
  int64_t sum = table_parameters(self) * (self->tie_word_embeddings ? 1 : 2);
  if (self->learned_positions) sum += self->max_position_embeddings * self->hidden_size;
  sum += llm_moe_layers(self) * self->num_experts * self->hidden_size;
  return sum + vector_parameters(self);
}

int64_t llm_parameters(const Llm *self) {
  return matrices(self) + plain_parameters(self);
}

int64_t llm_weight_bytes(const Llm *self) {
  double sum = (double)plain_parameters(self) * (double)self->dtype_bytes;
  for (int part = 0; part < LLM_PARTS; part++)
    sum += (double)llm_part_parameters(self, (LlmPart)part) * llm_part_bytes(self, (LlmPart)part);
  return llround(sum);
}

/* ---- MTP layers ---- */

/* Checkpoints in 4 bits leave MTP layers in 16 (NVIDIA's hf_quant_config.json of DeepSeek, GLM and
 * Qwen3.5 in NVFP4). */
static double mtp_bytes(const Llm *self, LlmPart part) {
  const double bytes = llm_part_bytes(self, part);
  return bytes < 1 ? (double)self->dtype_bytes : bytes;
}

static double full_kv_bytes(const Llm *self) {
  return (double)llm_full_attention(self).layers * llm_layer_kv_bytes(self, false);
}

/* DeepSeek-V3, 2412.19437, §2.2: the joint projection of a hidden state and an embedding, the norms
 * of both, and that before the head. Embedding and head are those of the model. */
static int64_t mtp_projection(const Llm *self) {
  return 2 * self->hidden_size * self->hidden_size + 3 * norm_parameters(self);
}

Llm llm_with_mtp(const Llm *self) {
  const int64_t n = self->num_nextn_predict_layers;
  Llm all = *self;
  all.num_hidden_layers += n;
  all.num_attention_layers += n;
  all.num_mlp_layers += n;
  all.num_index_layers += n;
  double bytes =
      (double)(plain_parameters(&all) - plain_parameters(self) + n * mtp_projection(self)) *
      (double)self->dtype_bytes;
  for (LlmPart part = 0; part < LLM_PARTS; part++) {
    const double before = (double)llm_part_parameters(self, part);
    const double after = (double)llm_part_parameters(&all, part);
    const double more = (after - before) * mtp_bytes(self, part);
    if (more > 0) all.part_bytes[part] = (before * llm_part_bytes(self, part) + more) / after;
    bytes += more;
  }
  all.weight_bytes += llround(bytes);
  all.kv_bytes_per_token += llround(ceil(full_kv_bytes(&all) - full_kv_bytes(self)));
  return all;
}
