/* From GGUF's names to Hugging Face's. */
#include "perfmodel/llm_gguf.h"
#include "perfmodel/gguf.h"
#include <stddef.h>
#include <string.h>

typedef struct Making {
  Llm *llm;
  const Gguf *gguf;
  const char *architecture;
  Place at;
  Arena *arena;
  Diag *diag;
} Making;

typedef struct Fact {
  const char *key; // after the architecture's name
  size_t offset;
  int64_t limit; // that of llm_options
  bool required;
} Fact;

#define FACT(key, field, limit, required)                                                          \
  { key, offsetof(Llm, field), limit, required }

static const Fact FACTS[] = {
    FACT("block_count", num_hidden_layers, 1000, true),
    FACT("embedding_length", hidden_size, 1000000, true),
    FACT("attention.head_count", num_attention_heads, 10000, true),
    FACT("attention.head_count_kv", num_key_value_heads, 10000, false),
    FACT("attention.key_length", head_dim, 10000, false),
    FACT("feed_forward_length", intermediate_size, 10000000, false),
    FACT("vocab_size", vocab_size, 100000000, false),
    FACT("context_length", max_position_embeddings, 1000000000, true),
    FACT("expert_count", num_experts, 10000, false),
    FACT("expert_used_count", num_experts_per_tok, 10000, false),
    FACT("expert_feed_forward_length", moe_intermediate_size, 1000000, false),
    FACT("expert_shared_feed_forward_length", shared_expert_intermediate_size, 1000000, false),
    FACT("leading_dense_block_count", num_dense_layers, 1000, false),
};

static const GgufPair *find(const Making *self, const char *key) {
  return gguf_find(self->gguf, arena_printf(self->arena, "%s.%s", self->architecture, key));
}

static int read_fact(const Making *self, const Fact *fact) {
  const GgufPair *pair = find(self, fact->key);
  if (!pair && !fact->required) return 0;
  if (!pair)
    return diag_error(self->diag, self->at, "the metadata have no '%s.%s'", self->architecture,
                      fact->key);
  const bool is_number =
      pair->kind == GGUF_INTEGER || (pair->kind == GGUF_ARRAY && pair->length > 0);
  const int64_t least = fact->required;
  if (!is_number || pair->integer < least || pair->integer > fact->limit)
    return diag_error(self->diag, self->at, "'%s' must be a number from %lld to %lld", pair->key,
                      (long long)least, (long long)fact->limit);
  if (pair->differs)
    return diag_error(self->diag, self->at, "'%s' differs between layers, which is not modelled",
                      pair->key);
  memcpy((char *)self->llm + fact->offset, &pair->integer, sizeof pair->integer);
  return 0;
}

/* What the sizes are of. */
static int read_sizes(const Making *self) {
  int status = 0;
  for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++)
    status |= read_fact(self, &FACTS[i]);
  if (status) return status;
  Llm *llm = self->llm;
  const GgufTensor *embedding = gguf_find_tensor(self->gguf, "token_embd.weight");
  if (embedding && embedding->n_dimensions == 2 && embedding->dimensions[1] <= 100000000)
    llm->vocab_size = (int64_t)embedding->dimensions[1];
  if (llm->num_experts > 0 && llm->moe_intermediate_size == 0)
    llm->moe_intermediate_size = llm->intermediate_size;
  if (llm->intermediate_size == 0) llm->intermediate_size = llm->moe_intermediate_size;
  if (llm->vocab_size < 1)
    return diag_error(self->diag, self->at,
                      "the file has neither 'vocab_size' nor a tensor 'token_embd.weight'");
  if (llm->intermediate_size < 1)
    return diag_error(self->diag, self->at, "the metadata have no '%s.feed_forward_length'",
                      self->architecture);
  return 0;
}

static int refuse_what_is_not_modelled(const Making *self) {
  const GgufPair *parts = gguf_find(self->gguf, "split.count");
  if (parts && parts->integer > 1) {
    diag_error(self->diag, self->at, "the file is one of %lld parts of a model",
               (long long)parts->integer);
    diag_hint(self->diag, "'llama-gguf-split --merge' joins them");
    return -1;
  }
  const GgufPair *latent = find(self, "attention.kv_lora_rank");
  if (!latent || latent->integer == 0) return 0;
  return diag_error(self->diag, self->at, "latent attention of a GGUF file is not modelled");
}

static bool has(const Making *self, const char *tensor) {
  return gguf_find_tensor(self->gguf, tensor) != NULL;
}

/* By ggml's number of the type; the k-quants of five and six bits are nearest to int8. */
static int dtype_of(const Making *self) {
  static const int by_type[] = {
      [0] = DTYPE_FP32,  [1] = DTYPE_BF16,  [2] = DTYPE_INT4,  [3] = DTYPE_INT4,  [6] = DTYPE_INT4,
      [7] = DTYPE_INT4,  [8] = DTYPE_INT8,  [9] = DTYPE_INT8,  [10] = DTYPE_INT4, [11] = DTYPE_INT4,
      [12] = DTYPE_INT4, [13] = DTYPE_INT8, [14] = DTYPE_INT8, [15] = DTYPE_INT8};
  const GgufTensor *tensor = gguf_find_tensor(self->gguf, "blk.0.attn_q.weight");
  if (!tensor) tensor = gguf_find_tensor(self->gguf, "blk.0.attn_qkv.weight");
  const size_t known = sizeof by_type / sizeof *by_type;
  return tensor && tensor->type < known ? by_type[tensor->type] : DTYPE_BF16;
}

/* What only tensors say. */
static void read_tensors(const Making *self) {
  Llm *llm = self->llm;
  const GgufPair *alibi = find(self, "attention.max_alibi_bias");
  llm->gated_mlp = has(self, "blk.0.ffn_gate.weight") || has(self, "blk.0.ffn_gate_exps.weight");
  llm->attention_bias = has(self, "blk.0.attn_q.bias") || has(self, "blk.0.attn_qkv.bias");
  llm->bias = has(self, "blk.0.ffn_down.bias");
  llm->tie_word_embeddings = !has(self, "output.weight");
  llm->qk_norm = has(self, "blk.0.attn_q_norm.weight");
  llm->norm = has(self, "output_norm.bias") ? LLM_LAYER_NORM : LLM_RMS_NORM;
  llm->learned_positions = has(self, "position_embd.weight");
  llm->position_embedding_type = llm->learned_positions ? LLM_LEARNED
                                 : alibi                ? LLM_ALIBI
                                                        : LLM_ROPE;
  llm->weight_dtype = dtype_of(self);
  llm->dtype_bytes = 2; // of its KV: fp16
  llm->weight_bytes = self->gguf->data_bytes;
}

int llm_gguf_read(Llm *self, const char *path, Arena *arena, Diag *diag) {
  Gguf gguf;
  const Place at = place_of_file(path);
  if (gguf_load(&gguf, path, arena, diag)) return -1;
  const GgufPair *architecture = gguf_find(&gguf, "general.architecture");
  if (!architecture || architecture->kind != GGUF_STRING)
    return diag_error(diag, at, "the metadata have no 'general.architecture'");
  const Making making = {self, &gguf, architecture->text, at, arena, diag};
  if (refuse_what_is_not_modelled(&making) || read_sizes(&making)) return -1;
  read_tensors(&making);
  self->file = path;
  self->digest = gguf.digest;
  return 0;
}
