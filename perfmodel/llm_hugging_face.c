/* Hugging Face's config.json: keys under the names that families give them. */
#include "perfmodel/llm_reader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ALIASES = 8 };

/* Fields under the key of our own form and the names that families give it, in order. */
static const struct {
  const char *key, *aliases[N_ALIASES];
} KEYS[] = {
    {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    {"hidden_size", {"hidden_size", "n_embed", "n_embd", "d_model"}},
    {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads"}},
    {"num_key_value_heads",
     {"num_global_key_value_heads", "num_key_value_heads", "num_kv_heads", "n_head_kv",
      "multi_query_group_num", "kv_n_heads", "num_attention_groups"}},
    {"head_dim", {"global_head_dim", "head_dim", "attention_head_dim", "kv_channels"}},
    {"intermediate_size",
     {"intermediate_size_mlp", "dense_intermediate_size", "intermediate_size", "ffn_dim",
      "ffn_hidden_size", "n_inner"}},
    {"vocab_size", {"padded_vocab_size", "vocab_size"}},
    {"max_position_embeddings",
     {"max_position_embeddings", "seq_length", "n_positions", "max_position_embedding",
      "model_max_length", "max_seq_len"}},
    {"tie_word_embeddings", {"tie_word_embeddings"}},
    {"attention_bias", {"attention_bias", "qkv_bias", "use_qkv_bias"}},
    {"num_experts",
     {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
      "num_routed_experts"}},
    {"num_experts_per_tok",
     {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts",
      "moe_topk", "moe_top_k", "moe_k"}},
    {"moe_intermediate_size",
     {"moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size"}},
    {"shared_expert_intermediate_size",
     {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
      "shared_intermediate_size", "share_expert_dim", "share_expert_dims"}},
    {"num_nextn_predict_layers",
     {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}},
    {"q_lora_rank", {"q_lora_rank", "share_q_dim"}},
    {"kv_lora_rank", {"kv_lora_rank"}},
    {"qk_nope_head_dim", {"qk_nope_head_dim"}},
    {"qk_rope_head_dim", {"qk_rope_head_dim"}},
    {"v_head_dim", {"v_head_dim"}},
    {"sliding_window", {"sliding_window", "attention_chunk_size"}},
    {"sliding_num_attention_heads", {"swa_num_attention_heads"}},
    {"sliding_num_key_value_heads", {"swa_num_key_value_heads"}},
    {"sliding_head_dim", {"swa_head_dim"}},
    {"attention_gate", {"attn_output_gate"}},
    {"linear_num_key_heads", {"linear_num_key_heads"}},
    {"linear_num_value_heads", {"linear_num_value_heads"}},
    {"linear_key_head_dim", {"linear_key_head_dim"}},
    {"linear_value_head_dim", {"linear_value_head_dim"}},
    {"linear_conv_kernel_dim", {"linear_conv_kernel_dim"}},
    {"hc_mult", {"hc_mult"}},
    {"o_lora_rank", {"o_lora_rank"}},
    {"o_groups", {"o_groups"}},
    {"index_topk", {"index_topk"}},
    {"index_n_heads", {"index_n_heads"}},
    {"index_head_dim", {"index_head_dim"}},
};
enum { N_KEYS = sizeof KEYS / sizeof *KEYS };

/* What Hugging Face calls the activations: close approximations are one kernel here. */
static const char *const ACT_NAMES[] = {"silu", "swish",    "swiglu",    "swigluoai",
                                        "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh",
                                        "relu", "relu2",    "xielu",     NULL};
static const LlmActivation ACTS[] = {LLM_SILU, LLM_SILU, LLM_SILU, LLM_SILU, LLM_GELU, LLM_GELU,
                                     LLM_GELU, LLM_GELU, LLM_RELU, LLM_RELU, LLM_GELU};

static const char *const DTYPES[] = {"float32", "float16", "bfloat16", NULL};
static const int64_t DTYPE_BYTES[] = {4, 2, 2};

bool node_is_word(const Node *node, const char *word) {
  return node->kind == NODE_SCALAR && strcmp(node->text, word) == 0;
}

const Node *llm_find_set(const Node *map, const char *key) {
  const Node *node = node_find(map, key);
  return node && node_is_word(node, "null") && !node->quoted ? NULL : node;
}

const Node *reader_find(const Reader *self, const char *key) {
  static const char *const inner[] = {"attn_config", "ffn_config", NULL}; // of MPT and DBRX
  const Node *node = llm_find_set(self->text, key);
  for (const char *const *map = inner; *map && !node; map++)
    node = llm_find_set(llm_find_set(self->text, *map), key);
  return node ? node : llm_find_set(self->root, key);
}

const Node *reader_list(const Reader *self, const char *key) {
  const Node *node = reader_find(self, key);
  return node && node->kind == NODE_LIST && node->n_children > 0 ? node : NULL;
}

/* An integer where there is one in range, else the fallback. */
int64_t reader_number(const Reader *self, const char *key, int64_t fallback) {
  const Node *node = reader_find(self, key);
  char *end;
  if (!node || node->kind != NODE_SCALAR) return fallback;
  const long long value = strtoll(node->text, &end, 10);
  return *end == '\0' && end > node->text && value >= 0 && value <= 1000000 ? value : fallback;
}

/* Of a list with a value for each layer the one that all have. */
static const Node *uniform(const Reader *self, const Node *node) {
  if (node->kind != NODE_LIST || !node->first) return node;
  for (const Node *each = node->first; each; each = each->next)
    if (node->first->kind != NODE_SCALAR || !node_is_word(each, node->first->text)) {
      diag_error(self->diag, each->at, "layers that differ in '%s' are not modelled", node->key);
      return NULL;
    }
  return node->first;
}

/* ---- Keys ---- */

static const OptionSpec *spec_find(const char *key) {
  const OptionSpec *spec = llm_options;
  while (strcmp(spec->key, key) != 0)
    spec++;
  return spec;
}

/* Where a key may hold another thing, false or a list that something else reads. */
static bool is_none(const Node *node) {
  return node->kind == NODE_SCALAR && (node_is_word(node, "false") || node_is_word(node, "0"));
}

static int key_bind(const Reader *self, int i) {
  const OptionSpec *spec = spec_find(KEYS[i].key);
  for (int a = 0; a < N_ALIASES && KEYS[i].aliases[a]; a++) {
    const Node *node = reader_find(self, KEYS[i].aliases[a]);
    if (!node || (spec->type == OPTION_INT && is_none(node))) continue;
    const Node *value = uniform(self, node);
    return value ? option_bind_one(spec, value, self->llm, self->diag) : -1;
  }
  return 0;
}

static int keys_bind(const Reader *self) {
  int status = 0;
  for (int i = 0; i < N_KEYS; i++)
    status |= key_bind(self, i);
  return status;
}

/* Required counts may also have come from the family. */
static int keys_require(const Reader *self) {
  int status = 0;
  for (int i = 0; i < N_KEYS; i++) {
    const OptionSpec *spec = spec_find(KEYS[i].key);
    if (spec->required && *(const int64_t *)((const char *)self->llm + spec->offset) == 0)
      status = diag_error(self->diag, self->text->at, "missing key '%s'", spec->key);
  }
  return status;
}

bool reader_knows(const char *key) {
  for (int i = 0; i < N_KEYS; i++)
    for (int a = 0; a < N_ALIASES && KEYS[i].aliases[a]; a++)
      if (strcmp(KEYS[i].aliases[a], key) == 0) return true;
  return false;
}

static bool is_true(const Reader *self, const char *key) {
  const Node *node = reader_find(self, key);
  return node && node_is_word(node, "true");
}

/* What a flag says of attention in place of counts. */
static void attention_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *latent = reader_find(self, "use_mla");
  if (is_true(self, "multi_query") && !is_true(self, "new_decoder_architecture"))
    llm->num_key_value_heads = 1;
  if (is_true(self, "alibi")) llm->position_embedding_type = LLM_ALIBI;
  if (latent && node_is_word(latent, "false")) llm->q_lora_rank = llm->kv_lora_rank = 0;
}

static int dtype_bind(const Reader *self) {
  static const OptionSpec spec = {.key = "torch_dtype", .type = OPTION_CHOICE, .choices = DTYPES};
  const Node *node = reader_find(self, "torch_dtype");
  if (!node) node = reader_find(self, "dtype"); // its name in newer files
  int choice = 1;                               // files without one are served in 16 bits
  if (node && option_bind_one(&spec, node, &choice, self->diag)) return -1;
  self->llm->dtype_bytes = DTYPE_BYTES[choice];
  return 0;
}

static int activation_bind(const Reader *self) {
  static const OptionSpec spec = {.key = "hidden_act", .type = OPTION_CHOICE, .choices = ACT_NAMES};
  static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function",
                                     "mlp_hidden_act", NULL}; // Gemma's, OPT's, Nemotron-H's name
  const Node *node = NULL;
  for (const char *const *key = keys; *key && !node; key++)
    node = reader_find(self, *key);
  int choice;
  if (!node) return 0;
  if (option_bind_one(&spec, node, &choice, self->diag)) return -1;
  self->llm->hidden_act = ACTS[choice];
  return 0;
}

/* ---- All of it ---- */

/* The map of the language model in a file that has more. */
static const Node *text_of(const Node *root) {
  static const char *const keys[] = {"text_config",    "llm_config",        "language_config",
                                     "thinker_config", "text_model_config", NULL};
  for (const char *const *key = keys; *key; key++) {
    const Node *node = llm_find_set(root, *key);
    if (node && node->kind == NODE_MAP) return text_of(node);
  }
  return root;
}

static void family_apply(const Reader *self) {
  Llm *llm = self->llm;
  const Llm left = *llm;
  *llm = self->family->facts;
  llm->name = left.name;
  llm->taken_as = left.taken_as;
  llm->weight_dtype = left.weight_dtype;
  llm->attention_dtype = left.attention_dtype;
  llm->expert_dtype = left.expert_dtype;
  llm->kv_cache_dtype = left.kv_cache_dtype;
}

static int reader_init(Reader *self, Llm *llm, const Node *root, Arena *arena, Diag *diag) {
  *self = (Reader){.root = root, .text = text_of(root), .llm = llm, .arena = arena, .diag = diag};
  return llm_architecture_find(self);
}

int llm_hugging_face_bind(Llm *self, const Node *root, Arena *arena, Diag *diag) {
  if (root->kind != NODE_MAP) return diag_error(diag, root->at, "expected a JSON object");
  Reader reader;
  if (reader_init(&reader, self, root, arena, diag)) return -1;
  family_apply(&reader);
  const int status = dtype_bind(&reader) | activation_bind(&reader);
  if (keys_bind(&reader) || status) return -1;
  if (reader.family->mlp_factor > 0 && self->intermediate_size == 0)
    self->intermediate_size = reader.family->mlp_factor * self->hidden_size;
  if (reader.family->mlp_halved) self->intermediate_size /= 2;
  attention_bind(&reader);
  return llm_layers_bind(&reader) ? -1 : keys_require(&reader);
}

int llm_hugging_face_formats(Llm *self, const Node *root, Arena *arena, Diag *diag) {
  Reader reader;
  if (reader_init(&reader, self, root, arena, diag)) return -1;
  const Node *node = reader_find(&reader, "quantization_config");
  if (!node) node = reader_find(&reader, "compression_config"); // compressed-tensors' old name
  if (!node && llm_quantization_beside(root->at.path, &node, arena, diag)) return -1;
  if (node && llm_quantization_bind(self, node, reader.family->parallel_mlp, arena, diag))
    return -1;
  const Node *expert = reader_find(&reader, "expert_dtype"); // beside a format of the rest
  if (node && expert && node_is_word(expert, "fp4") &&
      (self->expert_dtype == DTYPE_FP8 || self->expert_dtype == DTYPE_FP8_BLOCK)) {
    self->expert_dtype = DTYPE_MXFP4;
    self->part_bytes[LLM_EXPERTS] = 0;
  }
  return 0;
}
