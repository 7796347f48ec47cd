/* Which architecture a config.json is of: the family by its type, and what is refused by name. */
#include "base/text.h"
#include "perfmodel/llm_reader.h"
#include <string.h>

#define STATE                                                                                      \
  " not modelled: they would need the size of a sequence's state and the times of their kernels"

/* How keys begin that only models have which the formulas do not know. */
typedef struct Refused {
  const char *begin, *why;
} Refused;

/* Of families with linear attention they are read. */
static const Refused LINEAR[] = {
    {"linear_attn_config", "layers with linear attention are" STATE},
    {"linear_num_", "layers with linear attention are" STATE},
    {"hybrid_override_pattern", "state-space layers are" STATE},
    {"mamba", "state-space layers are" STATE},
    {"ssm_", "state-space layers are" STATE},
    {NULL, NULL},
};
static const Refused REFUSED[] = {
    {"layer_group_size", "layers with linear attention are" STATE},
    {"attn_layer_period", "state-space layers are" STATE},
    {"conv_L_cache", "layers of convolutions are" STATE},
    {"lru_width", "recurrent layers are" STATE},
    {"rwkv", "recurrent layers are" STATE},
    {"attn_layer_indices", "state-space layers are" STATE},
    {"cross_attention_layers", "layers that attend to pictures are not modelled"},
    {"use_cla", "layers that share the KV of another are not modelled"},
    {"num_kv_shared_layers", "layers that share the KV of another are not modelled"},
    {"num_key_value_heads_per_layer", "layers that differ in KV heads are not modelled"},
    {"hidden_size_per_layer_input", "an embedding for each layer is not modelled"},
    {"parallel_attn_mlp_res", "an MLP beside attention and experts is not modelled"},
    {"moe_latent_size", "experts on a narrower vector are not modelled"},
    {"routed_expert_hidden_size", "experts on a narrower vector are not modelled"},
    {"dense_attention_every_n_layers", "attention over blocks is not modelled"},
    {"ngram_vocab_size", "embeddings of several tokens are not modelled"},
    {"engram", "embeddings of several tokens are not modelled"},
    {"zero_expert_num", "experts that do nothing are not modelled"},
    {"altup_num_inputs", "a residual stream of several is not modelled"},
    {"is_encoder_decoder", "encoders are not modelled"},
    {NULL, NULL},
};

/* ---- Types ---- */

/* Without what says that there are pictures, or that it is the text's part: qwen3_vl_moe_text. */
static const char *plain_type(const char *type, Arena *arena) {
  char *plain = arena_printf(arena, "%.64s", type);
  static const char *const parts[] = {"_text", "_vl", "_omni", "_thinker", "_model", "_lm", NULL};
  for (const char *const *part = parts; *part; part++) {
    char *found = strstr(plain, *part);
    const size_t n = strlen(*part);
    if (found && (found[n] == '\0' || found[n] == '_'))
      memmove(found, found + n, strlen(found + n) + 1);
  }
  return plain;
}

static const LlmFamily *family_named(const char *type) {
  for (const LlmFamily *family = llm_families; family->model_type; family++)
    if (strcmp(family->model_type, type) == 0) return family;
  return NULL;
}

static const LlmFamily *family_known(const Reader *self) {
  const Node *node = reader_find(self, "model_type");
  if (!node || node->kind != NODE_SCALAR) return NULL;
  const LlmFamily *family = family_named(node->text);
  return family ? family : family_named(plain_type(node->text, self->arena));
}

static bool is_linear(const Reader *self) {
  const LlmFamily *family = family_known(self);
  return family && family->linear;
}

/* ---- What it is ---- */

/* Whether a key holds more than null, false, 0 or an empty list. */
static bool says_something(const Node *node) {
  if (node->kind != NODE_SCALAR) return node->first != NULL;
  return !node_is_word(node, "null") && !node_is_word(node, "false") && !node_is_word(node, "0") &&
         !node_is_word(node, "");
}

static const Node *key_begins(const Node *map, const char *begin) {
  for (const Node *node = map->first; node; node = node->next)
    if (strncmp(node->key, begin, strlen(begin)) == 0 && says_something(node)) return node;
  return NULL;
}

static int refuse(const Reader *self, const Refused *each) {
  for (; each->begin; each++) {
    const Node *node = key_begins(self->text, each->begin);
    if (node) return diag_error(self->diag, node->key_at, "'%s': %s", node->key, each->why);
  }
  return 0;
}

static const char *const KINDS[] = {
    "full_attention",  "sliding_attention", "chunked_attention",         "global_attention",
    "local_attention", "attention",         "deepseek_sparse_attention", NULL};

static const char *const LINEAR_KINDS[] = {"linear_attention", "mamba", "moe", "mlp", NULL};

static bool is_any(const Node *node, const char *const *words) {
  for (; *words; words++)
    if (node_is_word(node, *words)) return true;
  return false;
}

/* The first layer that is no attention that is known. */
static int refuse_layers(const Reader *self) {
  static const char *const lists[] = {"layer_types", "layers_block_type", "block_types", NULL};
  for (const char *const *list = lists; *list; list++) {
    const Node *types = reader_list(self, *list);
    for (const Node *each = types ? types->first : NULL; each; each = each->next)
      if (!is_any(each, KINDS) && !(is_linear(self) && is_any(each, LINEAR_KINDS)))
        return diag_error(self->diag, each->at, "layers of type '%s' are not modelled",
                          node_shown(each, self->arena));
  }
  const Node *types = reader_list(self, "attn_type_list");
  for (const Node *each = types ? types->first : NULL; each; each = each->next)
    if (node_is_word(each, "0"))
      return diag_error(self->diag, each->at,
                        "linear attention ('attn_type_list') is not modelled");
  return 0;
}

/* ---- Keys that nobody reads ---- */

/* Read by llm_layers.c, or of what is left out: positions, routing, training, other layers. */
static const char *const HARMLESS[] = {
    // how they begin
    "_", "add_", "aux_loss", "batch_", "bos_", "chunk_size", "class_", "dense_list", "embd_",
    "eos_", "expert_capacity", "full_attn_idxs", "image", "im_", "init", "layer_norm_eps",
    "layernorm_eps", "logit", "max_", "mm_", "moe_aux", "moe_gate_scaling", "moe_norm",
    "moe_renorm", "moe_router", "moe_shared_expert_overlap", "moe_token", "moe_z_loss", "mtp_",
    "n_group", "norm_", "num_beam", "num_expert_group", "num_limited_group", "num_mtp", "num_nextn",
    "num_return", "original_max", "output_attentions", "output_hidden", "output_router", "pad_",
    "partial_rotary", "pooler", "pretraining", "qk_head_dim", "quantization", "query_pre_attn",
    "rms_", "rope", "rotary", "route", "score", "scoring", "seq_", "speech", "tie_", "token",
    "topk_", "torch", "transformers", "use_cache", "use_flash_attn", "use_grouped",
    "use_moe_router_bias", "use_qk_norm", "use_sliding_window", "video", "vision", "vocab", "yarn",
    "z_loss",
    // how they end
    "*_bias", "*_coef", "*_coeff", "*_dropout", "*_eps", "*_id", "*_implementation", "*_init",
    "*_loss", "*_mode", "*_multiplier", "*_prob", "*_range", "*_scale", "*_std", "*_type",
    "*_dtype", "*_limit", "*dropout", "*_pdrop",
    // themselves
    "attn_type_list=", "block_configs=", "block_types=", "compress_ratios=",
    "cross_attention_hidden_size=", "decoder_sparse_step=", "first_k_dense_replace=",
    "global_attn_every_n_layers=", "hidden_act=", "hybrid_layer_pattern=", "indexer_types=",
    "interleave_moe_layer_step=", "is_decoder=", "layer_types=", "layers_block_type=",
    "mlp_layer_types=", "mlp_only_layers=", "model_type=", "moe_layer_end_index=",
    "moe_layer_freq=", "moe_layer_interval=", "moe_layer_num_skipped=", "moe_layer_start_index=",
    "moe_layers=", "moe_layers_enum=", "moe_num_shared_experts=", "multi_query=",
    "multi_query_attention=", "n_shared_experts=", "no_rope_layer_interval=", "no_rope_layers=",
    "num_dense_layers=", "num_key_value_groups=", "num_shared_expert=", "num_shared_experts=",
    "sliding_window_pattern=", "swiglu_limits=", "swiglu_limits_shared=", "use_mla=", NULL};

static bool is_harmless(const char *key) {
  for (const char *const *each = HARMLESS; *each; each++) {
    const size_t n = strlen(*each);
    if (**each == '*'           ? text_ends_with(key, *each + 1)
        : (*each)[n - 1] == '=' ? strncmp(key, *each, n - 1) == 0 && key[n - 1] == '\0'
                                : strncmp(key, *each, n) == 0)
      return true;
  }
  return false;
}

/* Whether a value for each layer is said, and not the same for all. */
static bool differs_by_layer(const Node *node, int64_t layers) {
  if (node->kind != NODE_LIST || layers < 2 || node->n_children < layers) return false;
  for (const Node *each = node->first; each; each = each->next)
    if (each->kind != NODE_SCALAR || !node_is_word(each, node->first->text)) return true;
  return false;
}

static bool names_structure(const char *key) {
  static const char *const parts[] = {
      "expert", "moe",    "ssm",    "mamba",  "conv",  "attn",   "attention", "head",     "layer",
      "cla_",   "kv",     "window", "block",  "gate",  "latent", "lora",      "hidden",   "mlp",
      "ffn",    "linear", "share",  "recur",  "delta", "state",  "parallel",  "residual", "memory",
      "sparse", "index",  "every",  "period", "loop",  "depth",  "ratio",     "dim",      NULL};
  for (const char *const *part = parts; *part; part++)
    if (strstr(key, *part)) return true;
  return false;
}

/* A key of the shape that is not read would be a shape that is silently wrong: of each family
 * values that differ by layer, of a type that is not known whatever sounds like a part. */
static int refuse_unread(const Reader *self, bool known) {
  const int64_t layers = reader_number(self, "num_hidden_layers", 0);
  int status = 0;
  for (const Node *node = self->text->first; node; node = node->next) {
    if (reader_knows(node->key) || is_harmless(node->key) || !says_something(node)) continue;
    if (differs_by_layer(node, layers))
      status = diag_error(self->diag, node->key_at, "layers that differ in '%s' are not modelled",
                          node->key);
    else if (!known && names_structure(node->key))
      status = diag_error(self->diag, node->key_at,
                          "the model type is not known, and its key '%s' is not read", node->key);
    else
      continue;
    if (!known)
      diag_hint(self->diag,
                "describe the model in a .yaml instead, like those of perfmodel/models");
  }
  return status;
}

/* ---- Families ---- */

/* Of a type that is not known, when it says the activation and the norm of Llama's kind. */
static const LlmFamily *family_like(const Reader *self) {
  const Node *act = reader_find(self, "hidden_act");
  const bool known = act && node_is_word(act, "silu") && reader_find(self, "rms_norm_eps") &&
                     reader_find(self, "num_key_value_heads") &&
                     reader_find(self, "intermediate_size");
  return known ? family_named("llama") : NULL;
}

/* The config.json of an hf_quant_config.json. */
static const char *shape_beside(const Reader *self) {
  static const char end[] = "hf_quant_config.json";
  const char *path = self->root->at.path;
  if (!path || !text_ends_with(path, end)) return "the config.json";
  const int stem = (int)(strlen(path) - strlen(end));
  return text_shown(arena_printf(self->arena, "'%.*sconfig.json'", stem, path), self->arena);
}

static const LlmFamily *family_find(Reader *self) {
  const Node *node = reader_find(self, "model_type");
  if (!node) {
    diag_error(self->diag, self->root->at, "missing key 'model_type'");
    if (reader_find(self, "quantization"))
      diag_hint(self->diag, "the file has number formats but no shape: give %s beside it",
                shape_beside(self));
    return NULL;
  }
  const LlmFamily *family = family_known(self);
  const bool known = family != NULL;
  if (!known) family = family_like(self);
  if (family && refuse_unread(self, known)) return NULL;
  if (family && !known)
    self->llm->taken_as = arena_printf(
        self->arena, "type '%s' is not known: read as Llama's by its activation and norm",
        node_shown(node, self->arena));
  if (family) return family;
  const char *names[128] = {NULL};
  for (int i = 0; llm_families[i].model_type && i < 127; i++)
    names[i] = llm_families[i].model_type;
  const OptionSpec spec = {.key = "model_type", .type = OPTION_CHOICE, .choices = names};
  int choice;
  option_bind_one(&spec, node, &choice, self->diag);
  return NULL;
}

int llm_architecture_find(Reader *self) {
  if ((!is_linear(self) && refuse(self, LINEAR)) || refuse(self, REFUSED) || refuse_layers(self))
    return -1;
  self->family = family_find(self);
  return self->family ? 0 : -1;
}
